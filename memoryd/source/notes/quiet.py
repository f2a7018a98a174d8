"""The quiet period: a change is taken once its path has been still for a while.

Pure: the caller brings the time. watchfiles' own `debounce` is a ceiling, not a quiet period.
"""

from pathlib import Path

CEILING_PERIODS = 8
"""A path that never falls still is taken after this many periods all the same."""


class QuietPeriod:
    """Paths that changed lately, each with the times of its first and its last change."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self._changed: dict[Path, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._changed)

    def __contains__(self, path: Path) -> bool:
        return path in self._changed

    def note(self, path: Path, now: float) -> None:
        """Note a change."""
        first, _ = self._changed.get(path, (now, now))
        self._changed[path] = first, now

    def take(self, now: float) -> frozenset[Path]:
        """Remove and return the paths whose time has come."""
        due = frozenset(path for path, seen in self._changed.items() if self._due(seen) <= now)
        for path in due:
            del self._changed[path]
        return due

    def take_all(self) -> frozenset[Path]:
        """Remove and return every path at once."""
        taken = frozenset(self._changed)
        self._changed.clear()
        return taken

    def next_due(self) -> float | None:
        """Return when the next path is due, or None when all is still."""
        return min(map(self._due, self._changed.values()), default=None)

    def _due(self, seen: tuple[float, float]) -> float:
        first, last = seen
        return min(last + self.period_s, first + CEILING_PERIODS * self.period_s)
