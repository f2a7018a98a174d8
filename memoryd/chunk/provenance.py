"""Provenance of written notes, which stands in a comment at the end of each entry. Pure.

    - Ana moved <!-- memoryd: id=3f2a; origin=agent; observed=2026-11-29T21:00+13:00 -->

Anybody may write such a comment, so it can lower the trust in its entry, but never raise it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote

from memoryd.chunk.fences import Fences
from memoryd.text.voice import NOTE, EntrySource, Voice, least_trusted
from memoryd_client.schema.search import Origin, Role

MAX_FIELD_CHARS = 500
"""Maximum length of a field of a comment; a longer one does not count."""
_WRITTEN = {origin: Voice(Role.NOTE, origin) for origin in Origin} | {Origin.OWNER: NOTE}
"""Voices of entries of an unknown source, one object for each origin."""
_NO_SOURCE = EntrySource()
_OPEN, _CLOSE = "<!-- memoryd:", "-->"
_FIELD = re.compile(r"\s*(\w+)=(.*)", re.DOTALL)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f%;<>\u2028\u2029]|--")


class WrittenEntries(NamedTuple):
    """Lines of written entries by their index (0-based): without comments, and their voices."""

    shown: dict[int, str]
    voices: dict[int, Voice]


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
    last, comments, after_blank = -1, list[str](), True

    def close() -> None:
        if comments:
            begin = last if first is None else first
            found.voices.update(dict.fromkeys(range(begin, last + 1), _voice(comments)))
            comments.clear()

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
        shown, of_line = _cut(line)
        if of_line:
            if first is None:
                close()
            found.shown[number] = shown
            comments.extend(of_line)
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


def _voice(comments: Sequence[str]) -> Voice:
    """Return the voice of an entry: its least trusted origin, and what is stated first."""
    read = [_fields(comment) for comment in comments]
    origin = least_trusted(_origin(fields.get("origin")) for fields in read)
    stated = (
        next((value for fields in read if (value := check(fields.get(name, "")))), "")
        for name, check in _CHECKS.items()
    )
    source = EntrySource(*stated)
    return _WRITTEN[origin] if source == _NO_SOURCE else _WRITTEN[origin]._replace(source=source)


def _origin(stated: str | None) -> Origin:
    try:
        return Origin.OWNER if stated is None else Origin(stated)
    except ValueError:
        return Origin.UNTRUSTED  # of a later version, or made up


def _citation(stated: str) -> str:
    """Return a citation as it was given, "" for one that is too long or no text on a line."""
    text = unquote(stated) if len(stated) <= 12 * MAX_FIELD_CHARS else ""
    return text if len(text) <= MAX_FIELD_CHARS and text.isprintable() else ""


def _time(stated: str) -> str:
    """Return a time with its offset from UTC, "" for anything else."""
    try:
        is_time = datetime.fromisoformat(stated).tzinfo is not None
    except ValueError:
        return ""
    return stated if is_time else ""


_CHECKS = {"conversation": _citation, "observed": _time, "supersedes": _citation}
"""Checks of the fields of `EntrySource`, in their order."""


def _quoted(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
