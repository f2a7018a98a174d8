"""Lock that is a folder beside a file, as the npm package proper-lockfile 4.1 makes it.

The lock of FILE is the folder `FILE.lock`. Its holder refreshes the time of the folder, and tells
by it that the lock is still its own; a lock of an older time belongs to a dead process.
"""

import os
import secrets
import threading
import time
from contextlib import suppress
from types import TracebackType

from memoryd_client.errors import MemorydError

SUFFIX = ".lock"
STALE_S = 10.0
"""Age from which a lock belongs to nobody."""
UPDATE_S = 5.0
"""Seconds between two updates of the time of a held lock."""
TRIES = 10
"""Further tries for a lock that somebody holds."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
"""Pauses between them: each twice as long as the one before."""


class FileLockedError(MemorydError):
    """Another process holds the lock of a file."""

    code = "locked"
    retryable = True


class LockLostError(MemorydError):
    """Another process took the lock over, because this one did not refresh it in time."""

    code = "lock_lost"
    retryable = True


class FolderLock:
    """The lock of a file, which need not exist; a context manager, held once at a time. Blocking.

    Raises `FileLockedError` on entering, or `OSError`.
    """

    def __init__(self, path: str) -> None:
        self._path = path + SUFFIX
        self._mtime_ns = 0
        self._turn = threading.Lock()
        self._end = threading.Event()
        self._refresher: threading.Thread | None = None

    def __enter__(self) -> "FolderLock":
        pause_s = FIRST_PAUSE_S
        for last in range(TRIES + 1):
            if self._try():
                break
            if last == TRIES:
                raise FileLockedError(
                    f"{self._path} is held by another process",
                    hint="try again; a lock that nobody refreshes is free after"
                    f" {STALE_S:.0f} seconds",
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._end.clear()
        self._refresher = threading.Thread(target=self._refresh, daemon=True)
        self._refresher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        if self._refresher is not None:
            self._refresher.join()
        if self.is_ours():
            with suppress(OSError):
                os.rmdir(self._path)

    def check(self) -> None:
        """Raise `LockLostError` if another process has the lock now."""
        if not self.is_ours():
            raise LockLostError(f"{self._path} was taken over by another process", hint="try again")

    def is_ours(self) -> bool:
        """Return whether the folder is the one that this lock has made."""
        with self._turn, suppress(OSError):
            return os.stat(self._path).st_mtime_ns == self._mtime_ns
        return False

    def _try(self) -> bool:
        """Make the folder, after a stale one is removed; return False if the lock is held."""
        for _ in range(2):
            try:
                os.mkdir(self._path)
            except FileExistsError:
                if not self._is_stale(self._path):
                    return False
                self._remove_stale()
            else:
                try:
                    self._touch()
                except OSError:
                    os.rmdir(self._path)
                    raise
                return True
        return False

    def _remove_stale(self) -> None:
        """Remove the lock of a dead process, and none that another one makes meanwhile."""
        aside = f"{self._path}.{secrets.token_hex(4)}"
        with suppress(OSError):
            os.rename(self._path, aside)
            if self._is_stale(aside):
                os.rmdir(aside)
            else:  # somebody was faster, and has a lock of its own: give it back
                os.rename(aside, self._path)

    def _is_stale(self, path: str) -> bool:
        try:
            return os.stat(path).st_mtime < time.time() - STALE_S
        except FileNotFoundError:
            return False

    def _touch(self) -> None:
        # Whole milliseconds, because Node.js reads no finer ones.
        now_ns = time.time_ns() // 1_000_000 * 1_000_000
        with self._turn:
            os.utime(self._path, ns=(now_ns, now_ns))
            self._mtime_ns = os.stat(self._path).st_mtime_ns

    def _refresh(self) -> None:
        while not self._end.wait(UPDATE_S):
            if not self.is_ours():
                return
            with suppress(OSError):
                self._touch()
