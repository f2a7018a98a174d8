"""Which files a search may look into. Pure."""

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache

from memoryd.messages import FileKey, FileStat

_DATED_NAME = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})(?:[^/]*)\.md$")


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on files; None means any. Dates are inclusive."""

    sources: frozenset[str] | None = None
    path_glob: str | None = None
    since: datetime.date | None = None
    until: datetime.date | None = None

    def both(self, other: "Filters") -> "Filters":
        """Return the conditions of both; of two that can't be met together, these."""
        return Filters(
            self.sources or other.sources,
            self.path_glob or other.path_glob,
            self.since or other.since,
            self.until or other.until,
        )

    @property
    def empty(self) -> bool:
        """Whether every file passes."""
        return self == Filters()

    def accept(self, key: FileKey, stat: FileStat) -> bool:
        """Say whether a file's chunks may be candidates."""
        if self.sources is not None and key.source not in self.sources:
            return False
        if self.path_glob is not None and not glob_pattern(self.path_glob).fullmatch(key.path):
            return False
        if self.since is None and self.until is None:
            return True
        date = date_of(key, stat)
        return (self.since is None or date >= self.since) and (
            self.until is None or date <= self.until
        )


def date_of(key: FileKey, stat: FileStat) -> datetime.date:
    """Return a note's date: the one its name begins with, else its modification time's (local)."""
    if match := _DATED_NAME.search(key.path):
        try:
            return datetime.date.fromisoformat(match[1])
        except ValueError:
            pass  # 2026-13-45 is no date
    return datetime.datetime.fromtimestamp(stat.mtime_ns / 1e9).date()


@lru_cache(maxsize=64)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a path glob: `*` and `?` stay within a folder, `**/` spans folders, `**` anything.

    What follows a star is taken where it comes first: with a star behind it, no later place could
    do better. So no glob takes longer than the square of the path's length.
    """
    first, *rest = _SPANS.split(glob)
    pattern = _within_folders(first, last=not rest)
    for position in range(0, len(rest), 2):
        lead = "(?:[^/]*/)*?" if rest[position] == "**/" else ".*?"
        last = position == len(rest) - 2
        part = lead + _within_folders(rest[position + 1], last=last)
        pattern += part if last else f"(?>{part})"
    return re.compile(pattern, re.DOTALL)


_SPANS = re.compile(r"((?:(?<=/)|\A)\*\*/|\*{2,})")


def _within_folders(glob: str, *, last: bool) -> str:
    """Return the pattern of a part without `**`; the `last` one has to reach the path's end."""
    first, *rest = ("[^/]".join(map(re.escape, part.split("?"))) for part in glob.split("*"))
    stars = [f"(?>[^/]*?{part})" for part in rest]
    if last and rest:
        stars[-1] = f"[^/]*{rest[-1]}"
    return "".join((first, *stars))
