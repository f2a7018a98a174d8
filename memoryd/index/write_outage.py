"""State of an index that can't be written: the cause, the start, and the time of the next try."""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from memoryd.index.driver import Fault, fault_of
from memoryd.retry import Backoff
from memoryd_client.shared.humanize import moment

FIRST_S = 1.0
MAX_S = 60.0
_ROOM_BYTES = 64 * 1024
"""Minimum free space; the index of a write-ahead log alone takes half of it."""

_MOST_DIMS = 3_072
"""Maximum of the usual models, assumed while the model's own is unknown."""

_FULL = "free some space on its disk"
_CLOSED = "make it and its folder readable and writable for memoryd's user"
_LOCKED = "stop the program that keeps it locked"
_ADVICE = {3: _CLOSED, 5: _LOCKED, 6: _LOCKED, 8: _CLOSED, 13: _FULL, 14: _CLOSED}
"""By SQLite's primary result code."""
_ADVICE_OF_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _CLOSED,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
}


class Outage:
    """State of an index that may be unwritable: then `error` is set; retry pauses double."""

    def __init__(
        self,
        path: Path,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.error: Exception | None = None
        self._is_full = False
        self._path = path
        self._wall_clock = wall_clock
        self._began_at = 0.0
        self._backoff = Backoff(FIRST_S, MAX_S, sleep=sleep, clock=clock)
        self._failed = asyncio.Event()
        self.retry_now = self._backoff.wake
        self.until_retry = self._backoff.wait

    @property
    def warning(self) -> str | None:
        """The outage in one line, for people; None while the index can be written."""
        if self.error is None:
            return None
        since = moment(self._began_at)
        return f"the index can't be written since {since}: {self.reason}; changes wait"

    @property
    def reason(self) -> str:
        """The cause, without any advice."""
        if self.error is None:
            return ""
        if self._is_full:
            return "the disk is full"  # SQLite reports it for some of its files only
        return reason(self.error)

    @property
    def advice(self) -> str:
        """The fix, for people."""
        fix = _FULL if self._is_full or self.error is None else advice(self.error)
        return f"{fix}: {self._path}; memoryd retries by itself"

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until the next try."""
        return self._backoff.retry_in_s

    def fail(self, error: Exception, *, is_full: bool) -> bool:
        """Note a failed try, on a disk that is full or not. Returns whether the outage begins."""
        begins = self.error is None
        if begins:
            self._began_at = self._wall_clock()
        self.error, self._is_full = error, is_full
        self._backoff.fail()
        self._failed.set()
        self._failed.clear()  # tasks that wait now have been woken by then
        return begins

    def end(self) -> bool:
        """Note a try that succeeded. Returns whether there was an outage."""
        was = self.error is not None
        self.error = None
        self._backoff.reset()
        return was

    async def until_failure(self) -> None:
        """Wait until a try fails."""
        await self._failed.wait()


def check_room(path: Path, vectors: int, dims: int | None) -> None:
    """Raise `OSError` if a disk has no room for `vectors` more vectors. Blocking.

    Each is written to the log and to the file, and also to the table of sqlite-vec.
    """
    needed = vectors * 4 * (dims or _MOST_DIMS) * 4 + _ROOM_BYTES
    if free_bytes(path.parent) < needed:
        raise OSError(f"embedding has stopped: the disk has no room for {vectors} vectors; {_FULL}")


def free_bytes(folder: Path) -> int:
    """Return the bytes that memoryd may still write to a disk. Blocking; raises `OSError`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def is_full(folder: Path) -> bool:
    """Return whether a disk is full. Blocking."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    no_names = found.f_files > 0 and found.f_favail == 0
    return no_names or found.f_bavail * found.f_frsize < _ROOM_BYTES


def advice(error: Exception) -> str:
    """Return the fix for a failure of an index's disk or permissions, for people."""
    code = getattr(error, "sqlite_errorcode", None)
    number = error.errno if isinstance(error, OSError) else None
    fix = _ADVICE_OF_SYSTEM.get(number or 0) if code is None else _ADVICE.get(code & 0xFF)
    return fix or "check its disk"


def reason_and_advice(error: BaseException, path: Path) -> str:
    """Return the message of an error, with a fix if the message contains none."""
    if not isinstance(error, Exception) or fault_of(error) is not Fault.SURROUNDINGS:
        return str(error)
    if isinstance(error, OSError) and error.errno is None:
        return str(error)  # an error of memoryd, with its fix
    return f"{reason(error)}; {advice(error)}: {path}"


def reason(error: Exception) -> str:
    """Return the message of an error, with SQLite's error code for I/O errors."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    name = getattr(error, "sqlite_errorname", "")
    return f"{error} ({name})" if name.startswith("SQLITE_IOERR") else str(error)
