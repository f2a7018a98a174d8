"""Search syntax and file filters. Pure.

`"…"`, `-word`, `path:GLOB`, `source:NAME`, `since:DATE` and `until:DATE` are operators. Anything
else is plain text, and so is an operator with an invalid value.
"""

import datetime
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from memoryd.messages import NO_FACTS, FileFacts, FileKey, FileStat

SOURCES = ("memory", "sessions")
_FIELDS = {"source": "sources", "path": "path_glob", "since": "since", "until": "until"}
"""Operators, and the fields of `Filters` that they set."""
MAX_GLOB_CHARS = 500
MAX_GLOB_STARS = 10
"""Limits on a glob, because matching takes time for each star."""

_QUOTED = re.compile(r'"([^"]{2,200})"')
# Quoted text is skipped, because it contains no operators.
_OR_QUOTED = r'"[^"]{2,200}"|(?:^|(?<=\s))'
_NAMED = re.compile(_OR_QUOTED + r'(?:(path|source|since|until):("[^"]+"|\S+))')
_WITHOUT = re.compile(_OR_QUOTED + r"(?:-([^\W\d_][^\W_]{2,})(?=\s|$))")
_DATED_NAME = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})[^/]*\.md$")
_SPANS = re.compile(r"((?:(?<=/)|\A)\*\*/|\*{2,})")


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on files; None means any. Dates are inclusive."""

    sources: frozenset[str] | None = None
    path_glob: str | None = None
    since: datetime.date | None = None
    until: datetime.date | None = None

    def both(self, other: "Filters") -> "Filters":
        """Return the conditions of both; where both have one, that of `self`."""
        return Filters(
            self.sources or other.sources,
            self.path_glob or other.path_glob,
            self.since or other.since,
            self.until or other.until,
        )

    @property
    def empty(self) -> bool:
        """Return whether every file passes."""
        return self == Filters()

    def accept(self, key: FileKey, stat: FileStat, facts: FileFacts = NO_FACTS) -> bool:
        """Return whether a file's chunks may be candidates."""
        if self.sources is not None and key.source not in self.sources:
            return False
        if self.path_glob is not None and not glob_pattern(self.path_glob).fullmatch(key.path):
            return False
        if self.since is None and self.until is None:
            return True
        date = date_of(key, stat)
        return (self.since or date) <= date <= (self.until or date)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: its text, excluded words (`without`), `required` strings, and file filters.

    Quoted strings are only required in a query of nothing else; in a longer one they may be in
    another chunk than the answer.
    """

    text: str
    without: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)


def parse(typed: str) -> Query:
    """Parse a query; never fails."""
    fields: dict[str, Any] = {}

    def take(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name, value = match[1], match[2].strip('"')
        meaning = _meaning(name, value)
        if meaning is None or _FIELDS[name] in fields:
            return match[0]
        fields[_FIELDS[name]] = meaning
        return ""

    text = _NAMED.sub(take, typed)
    without = [word for word in _WITHOUT.findall(text) if word]
    question = " ".join(_WITHOUT.sub(lambda m: " " if m[1] else m[0], text).split())
    if without and not question:  # nothing that the words could be excluded from
        without, question = [], " ".join(text.split())
    quoted = _QUOTED.findall(question)
    only_quoted = bool(quoted) and not _QUOTED.sub("", question).strip()
    required = tuple(quoted) if only_quoted else ()
    return Query(question, tuple(without), required, Filters(**fields))


def _meaning(name: str, value: str) -> object | None:
    """Return the value of an operator, or None if it is invalid."""
    if name == "source":
        return frozenset({value}) if value in SOURCES else None
    if name == "path":
        usable = 0 < len(value) <= MAX_GLOB_CHARS and value.count("*") <= MAX_GLOB_STARS
        if not usable:
            return None
        # A plain name matches all paths that contain it.
        return value if any(char in value for char in "*?") else f"**{value}**"
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def date_of(key: FileKey, stat: FileStat) -> datetime.date:
    """Return the date that filters compare: the one in a note's name, else that of its change."""
    return date_in_name(key.path) or modified_on(stat)


def date_in_name(path: str) -> datetime.date | None:
    """Return the date that a note's name begins with."""
    if match := _DATED_NAME.search(path):
        try:
            return datetime.date.fromisoformat(match[1])
        except ValueError:
            return None  # 2026-13-45 is no date
    return None


def modified_on(stat: FileStat) -> datetime.date:
    """Return the local date of a file's last change."""
    return datetime.datetime.fromtimestamp(stat.mtime_ns / 1e9).date()


@lru_cache(maxsize=64)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a path glob: `*` and `?` stay within a folder, `**/` spans folders, `**` anything.

    The part between two stars matches at its first occurrence, because no later one could do
    better. So no glob takes longer than the square of the path's length.
    """
    first, *rest = _SPANS.split(glob)
    pattern = _within_folders(first, last=not rest)
    for position in range(0, len(rest), 2):
        lead = "(?:[^/]*/)*?" if rest[position] == "**/" else ".*?"
        last = position == len(rest) - 2
        part = lead + _within_folders(rest[position + 1], last=last)
        pattern += part if last else f"(?>{part})"
    return re.compile(pattern, re.DOTALL)


def _within_folders(glob: str, *, last: bool) -> str:
    """Return the pattern of a part without `**`; the `last` part must reach the path's end."""
    first, *rest = ("[^/]".join(map(re.escape, part.split("?"))) for part in glob.split("*"))
    stars = [f"(?>[^/]*?{part})" for part in rest]
    if last and rest:
        stars[-1] = f"[^/]*{rest[-1]}"
    return "".join((first, *stars))
