"""Front matter: the properties at the head of a note, as editors of notes write them. Pure.

    ---                          +++                    title:: Paleys Watch
    title: Paley's Watch         title = "…"            alias:: the watch, Paley
    aliases: [the watch]         +++
    tags:
      - essay/nature
    ---

The left form is a subset of YAML that is read line by line: names with a value, a list or a text of
several lines. Values are texts, whatever YAML makes of `yes` or `12:30`. A YAML library would
refuse what editors accept: tabs, colons and wikilinks without quotes. The other forms are TOML
(Hugo, Zola) and the page properties of Logseq, which stay part of the text.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memoryd.text.token_estimate import well_formed

Properties = dict[str, tuple[str, ...]]
"""Values by name. Names are in lower case."""

TITLE, ALIASES, TAGS = ("title",), ("aliases", "alias"), ("tags", "tag")
"""Names of the properties with a meaning."""
MOST_LINES = 500
MOST_PROPERTIES = 100
MOST_VALUES = 100
MOST_NAME_CHARS = 100
MOST_VALUE_CHARS = 500
MOST_NAMED_CHARS = 600
"""Maximum characters of all values that are searched with each chunk of a note."""
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?(?:\s+#.*)?")
_PAGE_PROPERTY = re.compile(r"\s{0,3}([^\W\d_][\w /-]{0,60})::(?:[ \t]+(.*)|)")
_SEPARATED = re.compile(r"[,\s]+")
_EMPTY = frozenset({"", "~", "null"})
_SAYS_NOTHING = frozenset({"true", "false", "yes", "no"})


class FrontMatter(NamedTuple):
    """Properties of a note, and the number of lines at its head that are not text.

    `remark` says why front matter is read as text.
    """

    properties: Properties
    lines: int = 0
    remark: str | None = None


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return the front matter of a note; never fails."""
    first = lines[0].removeprefix("\ufeff").rstrip() if lines else ""
    if first not in ("---", "+++"):
        return FrontMatter(_merged(_page_properties(lines)))
    ends = ("+++",) if first == "+++" else ("---", "...")
    block = lines[1 : MOST_LINES + 1]
    end = next((at for at, line in enumerate(block) if line.rstrip() in ends), None)
    if end is None:
        return FrontMatter({})
    block = block[:end]
    found = _toml(block) if first == "+++" else _yaml(block)
    if isinstance(found, FrontMatter):
        return found
    return FrontMatter(_merged(found), end + 2)


def names(properties: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the names that a note gives itself: its title and its aliases."""
    for key in (*TITLE, *ALIASES):
        yield from properties.get(key, ())


def tags(properties: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the tags of front matter."""
    for key in TAGS:
        yield from properties.get(key, ())


def searched(properties: Mapping[str, Sequence[str]]) -> str:
    """Return the values that are searched with the path of a note, one a line, names first."""
    keys = dict.fromkeys((*TITLE, *ALIASES, *TAGS, *properties))
    values = (value for key in keys for value in properties.get(key, ()))
    kept: list[str] = []
    room = MOST_NAMED_CHARS
    for value in dict.fromkeys(values):
        room -= len(value) + 1
        if room >= 0 and value.lower() not in _SAYS_NOTHING:
            kept.append(value)
    return "\n".join(kept)


def _merged(found: Iterable[tuple[str, list[str]]]) -> Properties:
    """Return properties within the limits; values of a repeated name are added."""
    properties: Properties = {}
    for name, values in found:
        key = well_formed(name.strip().lower())
        if not key or (key not in properties and len(properties) >= MOST_PROPERTIES):
            continue
        kept = [well_formed(value)[:MOST_VALUE_CHARS].strip() for value in values]
        if key in TAGS:
            kept = [value.lstrip("#") for value in kept]
        before = properties.get(key, ())
        properties[key] = (*before, *(value for value in kept if value))[:MOST_VALUES]
    return properties


def _yaml(lines: Sequence[str]) -> list[tuple[str, list[str]]] | FrontMatter:
    """Return the properties of a block, or that it is text: it has lines that are no property."""
    found: list[tuple[str, str, list[str]]] = []
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            if found:
                found[-1][2].append("")
        elif found and (line[0] in " \t]}" or f"{line} "[:2] == "- "):
            found[-1][2].append(line.rstrip())
        elif line[0] == "#":
            continue
        elif (pair := _pair(line)) is not None:
            found.append((*pair, []))
        elif not found:  # text between two rules
            return FrontMatter({})
        else:
            why = f"its front matter is read as text, because line {number} is no `name: value`"
            return FrontMatter({}, 0, why)
    return [(name, _values(name, value, more)) for name, value, more in found]


def _pair(line: str) -> tuple[str, str] | None:
    """Return a name and the text behind its colon."""
    quote = line[0] if line[0] in "\"'" else ""
    start = line.find(quote, 1) + 1 if quote else 0
    if quote and not start:
        return None
    at = line.find(":", start)
    while 0 <= at < len(line) - 1 and line[at + 1] not in " \t":
        at = line.find(":", at + 1)
    name = line[1 : start - 1] if quote else line[:at]
    if at < 0 or not 0 < len(name) <= MOST_NAME_CHARS or name[0] in "-[{":
        return None
    return name, line[at + 1 :].strip()


def _values(name: str, value: str, more: Sequence[str]) -> list[str]:
    """Return the values behind a name: `value` in its line, and the lines below it."""
    below = [line.strip() for line in more if line.strip()]
    if _BLOCK.fullmatch(value):
        return [" ".join(below)]
    if value.startswith("[") and not value.startswith("[["):
        return [_scalar(item) for item in _items(" ".join([value, *below]))]
    if not value or (value.startswith("#") and name.lower() not in TAGS):
        return [_scalar(item) for item in _listed(below)]
    whole = " ".join([value, *below])
    if whole[0] in "\"'[":
        return [_scalar(whole)]
    if name.lower() in TAGS:
        return _SEPARATED.split(_scalar(whole))
    if name.lower() in ALIASES:
        return [_scalar(item) for item in whole.split(",")]
    return [_scalar(whole)]


def _listed(lines: Sequence[str]) -> list[str]:
    """Return the items of a list, one a line or more; lines that are none are items too."""
    items: list[str] = []
    in_item = False
    for line in lines:
        if line.startswith("- ") or line == "-":
            items.append(line[2:].strip())
            in_item = True
        elif in_item:
            items[-1] = f"{items[-1]} {line}".strip()
        elif not line.startswith("#"):
            items.append(line)
    return items


def _items(text: str) -> list[str]:
    """Return the items of `[a, "b, c", [[d]]]`."""
    items: list[str] = []
    start, depth, quote = 1, 0, ""
    for at in range(1, len(text)):
        char = text[at]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and not text[start:at].strip():
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}" and depth:
            depth -= 1
        elif not depth and char in ",]":
            items.append(text[start:at])
            start = at + 1
            if char == "]":
                return items
    return [*items, text[start:]]


def _scalar(text: str) -> str:
    """Return the text of a value without quotes, comment and the brackets of a wikilink."""
    text = text.strip()
    if text[:1] == '"':
        end = text.rfind('"')
        try:
            text = str(json.loads(text[: end + 1]))
        except ValueError:
            text = text[1 : end or None]
    elif text[:1] == "'":
        text = text[1 : text.rfind("'") or None].replace("''", "'")
    elif (comment := text.find(" # ")) >= 0:
        text = text[:comment]
    text = text.strip()
    if text.startswith("[[") and text.find("]]") == len(text) - 2:
        text = text[2:-2]
    return "" if text in _EMPTY else text


def _toml(lines: Sequence[str]) -> list[tuple[str, list[str]]] | FrontMatter:
    try:
        return list(_flat(tomllib.loads("\n".join(lines))))
    except (tomllib.TOMLDecodeError, RecursionError):
        return FrontMatter({}, 0, "its front matter is read as text, because it is no TOML")


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the values of a table, and of the tables in it."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((key, _texts(inner)) for key, inner in value.items())
        else:
            yield name, _texts(value)


def _texts(value: object) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if not isinstance(item, list | dict)]


def _page_properties(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the properties in the first lines of a page of Logseq."""
    for line in lines[:MOST_PROPERTIES]:
        if (found := _PAGE_PROPERTY.fullmatch(line)) is None:
            return
        name, value = found[1], (found[2] or "").strip()
        if name.lower() in (*ALIASES, *TAGS):
            yield name, [_scalar(item) for item in value.split(",")]
        else:
            yield name, [_scalar(value)]
