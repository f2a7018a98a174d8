"""Provenance of written notes, which stands in a comment at the end of each entry. Pure.

    - Ana moved <!-- memoryd: id=3f2a; origin=agent; observed=2026-11-29T21:00+13:00 -->

Anybody may write such a comment, so it can lower the trust in its entry, but never raise it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memoryd.chunk.fences import Fences
from memoryd.text.voice import least_trusted
from memoryd_client.schema.search import Origin

_OPEN, _CLOSE = "<!-- memoryd:", "-->"
_FIELD = re.compile(r"\s*(\w+)=(.*)", re.DOTALL)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f%;<>\u2028\u2029]|--")


class WrittenEntries(NamedTuple):
    """Lines of written entries by their index (0-based): without comments, and their origins."""

    shown: dict[int, str]
    origins: dict[int, Origin]


def provenance(fields: Mapping[str, str]) -> str:
    """Return the comment with these fields, without the empty ones."""
    shown = [f"{key}={_UNSAFE.sub(_quoted, value)}" for key, value in fields.items() if value]
    return f"{_OPEN} {'; '.join(shown)} {_CLOSE}"


def written_entries(lines: Sequence[str]) -> WrittenEntries:
    """Return the lines that belong to written entries of a note, apart from code.

    An entry is a list item at the beginning of a line, up to the line of its comment. Without an
    item, it is this line.
    """
    found = WrittenEntries({}, {})
    if not any(_OPEN in line for line in lines):
        return found
    fences = Fences()
    first: int | None = None
    last, origins, after_blank = -1, list[Origin](), True

    def close() -> None:
        if origins:
            begin = last if first is None else first
            found.origins.update(dict.fromkeys(range(begin, last + 1), least_trusted(origins)))
            origins.clear()

    for number, line in enumerate(lines):
        is_code = fences.read(line) > 0
        if not is_code and (line[:2] in ("- ", "* ", "+ ") or line.startswith("#")):
            close()
            first = None if line.startswith("#") else number
        elif after_blank and line.strip() and line[:1] not in " \t":
            close()
            first = None
        after_blank = not line.strip()
        if is_code or _OPEN not in line:
            continue
        shown, comments = _cut(line)
        if comments:
            if first is None:
                close()
            found.shown[number] = shown
            origins.extend(map(_origin, comments))
            last = number
    close()
    return found


def written_ids(lines: Sequence[str]) -> set[str]:
    """Return the ids of the written entries in a note."""
    comments = (comment for line in lines if _OPEN in line for comment in _cut(line)[1])
    return {fields["id"] for fields in map(_fields, comments) if "id" in fields}


def observed_days(lines: Sequence[str]) -> dict[int, str]:
    """Return the days on which written entries were observed, by the index of their last line."""
    found: dict[int, str] = {}
    for number, line in enumerate(lines):
        if _OPEN in line:
            for comment in _cut(line)[1]:
                if (day := _DAY.match(_fields(comment).get("observed", ""))) is not None:
                    found[number] = max(day[0], found.get(number, ""))
    return found


def without_provenance(lines: Sequence[str]) -> list[str]:
    """Return the lines of an entry without its comment, and without a line that has only this."""
    shown = [_cut(line)[0] if _OPEN in line else line for line in lines]
    return shown[:-1] if shown and not shown[-1] else shown


def _cut(line: str) -> tuple[str, list[str]]:
    """Return a line without its comments of written entries, and their texts."""
    shown, comments, at = "", list[str](), 0
    while (begin := line.find(_OPEN, at)) >= 0:
        end = line.find(_CLOSE, begin)
        if end < 0:
            break
        shown += line[at:begin].rstrip(" \t")
        comments.append(line[begin + len(_OPEN) : end])
        at = end + len(_CLOSE)
    return shown + line[at:], comments


def _fields(comment: str) -> dict[str, str]:
    named = (_FIELD.match(part) for part in comment.split(";"))
    return {found[1]: found[2].strip() for found in named if found is not None}


def _origin(comment: str) -> Origin:
    try:
        return Origin(_fields(comment).get("origin", Origin.OWNER))
    except ValueError:
        return Origin.UNTRUSTED  # of a later version, or made up


def _quoted(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
