"""Bounds what large files cost that go on changing: the larger one is, the more rarely it is read.

Pure: the caller brings the time.
"""

from memoryd.messages import FileChanged, FileKey

READ_BYTES_PER_S = 1_000_000
"""Of one file. Reading and indexing is some ten times as fast, so that a file of any size that
never rests takes a tenth of a processor."""
FREE_BYTES = 1_000_000
"""Smaller files are read at every change."""


class Pace:
    """Which large files were taken lately, and which changes of theirs wait."""

    def __init__(self) -> None:
        self._rests_until: dict[FileKey, float] = {}
        self._waiting: dict[FileKey, FileChanged] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, change: FileChanged, now: float, *, at_once: bool = False) -> bool:
        """Say whether a change is to be passed on now; if not, it waits here.

        `at_once`: somebody waits for it.
        """
        if change.size < FREE_BYTES:
            return True
        if not at_once and now < self._rests_until.get(change.key, now):
            self._waiting[change.key] = change
            return False
        self._waiting.pop(change.key, None)
        self._rests_until[change.key] = now + change.size / READ_BYTES_PER_S
        return True

    def due(self, now: float) -> list[FileChanged]:
        """Remove and return the changes whose time has come."""
        self._rests_until = {key: until for key, until in self._rests_until.items() if until > now}
        due = [c for key, c in self._waiting.items() if key not in self._rests_until]
        for change in due:
            del self._waiting[change.key]
        return due

    def next_due(self) -> float | None:
        """Return when the next change that waits is due."""
        return min((self._rests_until[key] for key in self._waiting), default=None)

    def forget(self, key: FileKey) -> None:
        """Let go of a file that is no longer there."""
        self._rests_until.pop(key, None)
        self._waiting.pop(key, None)
