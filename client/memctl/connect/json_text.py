"""Edits of JSON text that leave all other bytes as they are. Pure.

Reads JSON5 (https://spec.json5.org), and so also JSON with comments and trailing commas, because
the settings of agents are written by people.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Path = tuple[str | int, ...]
"""Keys of objects and indexes of arrays, from the outside in."""
_Piece = tuple[int, int, str]
"""(start, end, text): `text` replaces the characters from `start` to `end`."""

_SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*[\s\S]*?\*/)*")
_COMMENT = re.compile(r"//[^\n\r\u2028\u2029]*|/\*[\s\S]*?\*/")
_STRING = re.compile(r'"(?:[^"\\\n\r]|\\(?:\r\n|[\s\S]))*"' r"|'(?:[^'\\\n\r]|\\(?:\r\n|[\s\S]))*'")
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_ATOM = re.compile(
    r"(?:true|false|null|[+-]?(?:Infinity|NaN|0[xX][0-9a-fA-F]+"
    r"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))(?![\w$.])"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|[\s\S])")
_ESCAPED = dict(zip("bfnrtv0", "\b\f\n\r\t\v\0", strict=True))
_BREAKS = ("\n", "\r", "\u2028", "\u2029", "\r\n")
_WORDS = {"true": True, "false": False, "null": None}


class JsonTextError(ValueError):
    """The text is not JSON, or not of the expected shape."""


class JsonItem(Struct):
    """One member of an object or element of an array. `comma` is the place of the comma after it.

    `start` is the start of its key, if it has one.
    """

    key: str | int
    start: int
    node: "JsonNode"
    comma: int | None = None


class JsonNode(Struct):
    """One value: the characters from `start` to `end`. Only objects and arrays have items."""

    kind: Literal["object", "array", "string", "atom"]
    start: int
    end: int
    items: list[JsonItem] = []

    def get(self, key: str | int) -> "JsonNode | None":
        """Return a member or an element. Of two members with one name, the last one counts."""
        return next((item.node for item in reversed(self.items) if item.key == key), None)


@lru_cache(maxsize=4)
def parse(text: str) -> JsonNode:
    """Return the tree of a text, not to be changed; of an empty one, that of an empty object.

    Raises `JsonTextError`.
    """
    start = _skip(text, 0)
    if start == len(text):
        return JsonNode("object", start, start)
    try:
        node = _value(text, start)
    except RecursionError:
        raise JsonTextError("nested too deeply") from None
    if (end := _skip(text, node.end)) != len(text):
        raise _error(text, end)
    return node


def find(root: JsonNode, path: Path) -> JsonNode | None:
    """Return the node at a path, None if there is none."""
    node: JsonNode | None = root
    for key in path:
        node = None if node is None else node.get(key)
    return node


def value(text: str, node: JsonNode) -> object:
    """Return the Python value of a node."""
    match node.kind:
        case "object":
            return {item.key: value(text, item.node) for item in node.items}
        case "array":
            return [value(text, item.node) for item in node.items]
        case "string":
            return _unquoted(text[node.start : node.end])
    word = text[node.start : node.end]
    if word in _WORDS:
        return _WORDS[word]
    for convert in (int, lambda digits: int(digits, 16)):
        with suppress(ValueError):
            return convert(word)
    return float(word)


def is_bare(text: str, node: JsonNode) -> bool:
    """Return whether an object or array has neither items nor comments."""
    return node.kind in ("object", "array") and not text[node.start + 1 : node.end - 1].strip()


def put(text: str, path: Path, new: object) -> str:
    """Return the text with a member set, replaced in place or added last. Raises `JsonTextError`.

    Missing objects on the way are added.
    """
    root = parse(text)
    if (old := find(root, path)) is not None:
        margin = _margin(text, old.start)
        return _replaced(text, [(old.start, old.end, _rendered(text, root, new, margin))])
    return _add(text, root, path[:-1], path[-1], new)


def put_back(text: str, path: Path, other: str) -> str:
    """Return the text with the value at a path, which it has, as it is written in another text."""
    new, old = find(parse(text), path), find(parse(other), path)
    if new is None or old is None:
        return text
    return _replaced(text, [(new.start, new.end, other[old.start : old.end])])


def append(text: str, path: Path, new: object) -> str:
    """Return the text with an element added to an array, which may be missing.

    Raises `JsonTextError`.
    """
    return _add(text, parse(text), path, None, new)


def remove(text: str, path: Path) -> str:
    """Return the text without a member or an element that it has, and without its comma."""
    root = parse(text)
    if (around := find(root, path[:-1])) is None:
        return text
    index = max(i for i, item in enumerate(around.items) if item.key == path[-1])
    item = around.items[index]
    before = around.items[index - 1] if index else None
    begin = around.start + 1 if before is None or before.comma is None else before.comma + 1
    gap = text[begin : item.start].rstrip()
    start, end = begin + len(gap), item.node.end if item.comma is None else item.comma + 1
    if len(around.items) == 1 and not (gap + text[end : around.end - 1]).strip():
        return _replaced(text, [(around.start + 1, around.end - 1, "")])
    # A comment of one line must stay on its line.
    kept = "\n" if _ends_in_comment(gap) and text[end : end + 1] not in _BREAKS else ""
    pieces = [(start, end, kept)]
    if item.comma is None and before is not None and before.comma is not None:
        pieces.insert(0, (before.comma, before.comma + 1, ""))
    return _replaced(text, pieces)


def _add(text: str, root: JsonNode, path: Path, key: str | int | None, new: object) -> str:
    """Add a member, or for the key None an element, to the node at a path."""
    node, reached = root, 0
    while reached < len(path) and (below := node.get(path[reached])) is not None:
        node, reached = below, reached + 1
    wanted = "object" if reached < len(path) or key is not None else "array"
    if node.kind != wanted:
        name = ".".join(map(str, path[:reached])) or "the document"
        raise JsonTextError(f"{name} is not an {wanted}")
    for outer in reversed(path[reached:]):
        key, new = outer, [new] if key is None else {key: new}
    return _insert(text, root, node, key, new)


def _insert(text: str, root: JsonNode, node: JsonNode, key: str | int | None, new: object) -> str:
    newline = _newline(text)
    if node.start == node.end:  # the text is empty
        lead = newline if _ends_in_comment(text) else ""
        return f"{text}{lead}{json.dumps({key: new}, indent=2, ensure_ascii=False)}\n"
    lined = _is_lined(text, root, node)
    margin = _margin(text, node.start)
    inner = margin + _unit(text, root)
    if node.items and lined:
        inner = _margin(text, node.items[0].start)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}:{_blank(text)}"
    own = name + _rendered(text, root, new, inner)
    if not node.items:
        gap = text[node.start + 1 : node.end - 1].rstrip()
        place = node.start + 1 + len(gap)
        if not lined and not _ends_in_comment(gap):
            return _replaced(text, [(place, node.end - 1, own)])
        return _replaced(text, [(place, node.end - 1, newline + inner + own + newline + margin)])
    last = node.items[-1]
    after = last.node.end if last.comma is None else last.comma + 1
    gap = text[after : node.end - 1].rstrip()
    place = after + len(gap)
    lead = newline + inner if lined or _ends_in_comment(gap) else _blank(text)
    if last.comma is not None:
        return _replaced(text, [(place, place, f"{lead}{own},")])
    return _replaced(text, [(after, after, ","), (place, place, lead + own)])


def _rendered(text: str, root: JsonNode, new: object, margin: str) -> str:
    """Return a value in the style of the text, whose further lines begin with the margin."""
    if not _is_lined(text, root, root):
        blank = _blank(text)
        return json.dumps(new, ensure_ascii=False, separators=(f",{blank}", f":{blank}"))
    lines = json.dumps(new, ensure_ascii=False, indent=_unit(text, root)).split("\n")
    return (_newline(text) + margin).join(lines)


def _is_lined(text: str, root: JsonNode, node: JsonNode) -> bool:
    """Return whether the items of a node stand on lines of their own, or new ones should."""
    if node.items:
        return "\n" in text[node.start : node.items[0].start]
    return not root.items or _is_lined(text, root, root)


def _unit(text: str, root: JsonNode) -> str:
    if root.items and (margin := _margin(text, root.items[0].start)):
        return margin
    return "  "


def _margin(text: str, place: int) -> str:
    """Return the white space with which the line of a place begins."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _blank(text: str) -> str:
    """Return the space after a colon or comma: none in a text without any."""
    return "" if re.search(r'":\S', text) and not re.search(r'":\s', text) else " "


def _ends_in_comment(gap: str) -> bool:
    """Return whether the text after white space and comments would be part of a comment."""
    return any(c[0][1] == "/" and c.end() == len(gap) for c in _COMMENT.finditer(gap))


def _replaced(text: str, pieces: Iterable[_Piece]) -> str:
    parts, done = [], 0
    for start, end, new in pieces:
        parts += [text[done:start], new]
        done = end
    return "".join(parts) + text[done:]


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _value(text: str, start: int) -> JsonNode:
    match text[start : start + 1]:
        case "{":
            return _container(text, start, "object", "}")
        case "[":
            return _container(text, start, "array", "]")
    if found := _STRING.match(text, start):
        return JsonNode("string", start, found.end())
    if found := _ATOM.match(text, start):
        return JsonNode("atom", start, found.end())
    raise _error(text, start)


def _container(text: str, start: int, kind: Literal["object", "array"], close: str) -> JsonNode:
    node = JsonNode(kind, start, start)
    place = _skip(text, start + 1)
    while text[place : place + 1] != close:
        if node.items and node.items[-1].comma is None:
            raise _error(text, place)
        item, key = place, len(node.items)
        name: str | int = key
        if kind == "object":
            name, place = _key(text, place)
        below = _value(text, place)
        node.items.append(JsonItem(name, item, below))
        place = _skip(text, below.end)
        if text[place : place + 1] == ",":
            node.items[-1].comma = place
            place = _skip(text, place + 1)
    node.end = place + 1
    return node


def _key(text: str, place: int) -> tuple[str, int]:
    """Return a key and the place of its value."""
    if found := _STRING.match(text, place):
        key = _unquoted(found[0])
    elif found := _NAME.match(text, place):
        key = found[0]
    else:
        raise _error(text, place)
    colon = _skip(text, found.end())
    if text[colon : colon + 1] != ":":
        raise _error(text, colon)
    return key, _skip(text, colon + 1)


def _unquoted(quoted: str) -> str:
    def one(found: re.Match[str]) -> str:
        escape = found[1]
        if escape in _BREAKS:
            return ""
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    plain = _ESCAPE.sub(one, quoted[1:-1])
    # Joins the two halves of a character outside the basic plane.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _error(text: str, place: int) -> JsonTextError:
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    return JsonTextError(f"not valid JSON at line {line}, column {column}")
