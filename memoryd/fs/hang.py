"""Disks that may hang: which path a thread waits for, and looks that are given up.

A thread that waits for a disk can't be stopped. So others are told of it, and go on without.
"""

import asyncio
import errno
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from memoryd.text.display import shown_path
from memoryd_client.shared.humanize import moment
from memoryd_client.shared.paths import StrPath

T = TypeVar("T")

HUNG_S = 5.0
"""A disk that has not answered for so long hangs, as far as anybody can tell."""
LOOK_S = 2.0
"""For looks that are given up."""
MAX_GIVEN_UP = 32
"""Looks that nobody waits for any longer, each with a thread of its own."""
_TURNS = 10
SILENT = "its disk does not answer"
_LATER = "what changes there is found when it does; what is indexed can be searched"


class DiskWaits:
    """Which path each of some threads waits for, and for how long. Any thread may ask."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._waiting: dict[int, tuple[StrPath, float]] = {}

    def adopt(self) -> None:
        """Take note of the calling thread, from now on: what an executor's threads begin with."""
        _thread.waits = self

    def overdue(self, seconds: float = HUNG_S) -> dict[str, float]:
        """Return the paths that threads have waited for at least so long, and how long by now."""
        now = self._clock()
        found: dict[str, float] = {}
        for path, since_s in list(self._waiting.values()):
            if (waited_s := now - since_s) >= seconds:
                shown = shown_path(path)
                found[shown] = max(waited_s, found.get(shown, 0.0))
        return found

    def count_overdue(self) -> int:
        """Return how many threads have waited for so long that the disk seems to hang."""
        now = self._clock()
        return sum(now - since_s >= HUNG_S for _, since_s in list(self._waiting.values()))

    def warnings(self, later: str = _LATER, *, seconds: float = HUNG_S) -> list[str]:
        """Return which paths have not answered for so long, and what comes of it, a line each."""
        return [
            f"the disk of {path} has not answered since {moment(self._wall_clock() - waited_s)}"
            f" ({waited_s:.0f} s): {later}"
            for path, waited_s in self.overdue(seconds).items()
        ]

    def _begin(self, path: StrPath) -> StrPath | None:
        thread = threading.get_ident()
        around = self._waiting.get(thread)
        self._waiting[thread] = path, self._clock()
        return None if around is None else around[0]

    def _end(self, around: StrPath | None) -> None:
        thread = threading.get_ident()
        if around is None:
            self._waiting.pop(thread, None)
        else:  # something has come back just now
            self._waiting[thread] = around, self._clock()


class _Thread(threading.local):
    waits: DiskWaits | None = None


_thread = _Thread()


@contextmanager
def waiting_for(path: StrPath) -> Iterator[None]:
    """Let it be known which path the thread waits for, if somebody wants to know."""
    waits = _thread.waits
    if waits is None:
        yield
        return
    around = waits._begin(path)
    try:
        yield
    finally:
        waits._end(around)


_given_up = threading.BoundedSemaphore(MAX_GIVEN_UP)


def within(seconds: float, look: Callable[[], T]) -> T:
    """Look at a disk, but not for longer. Raises what the look does, or `TimeoutError`."""
    outcome = Future[T]()

    def run() -> None:
        try:
            outcome.set_result(look())
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            _given_up.release()

    if not _given_up.acquire(blocking=False):
        raise TimeoutError(errno.ETIMEDOUT, SILENT)
    thread = threading.Thread(target=run, name="a look at the disk", daemon=True)
    thread.start()
    for _ in range(_TURNS):  # a machine that stood still has used up one of them at the most
        thread.join(seconds / _TURNS)
    if not outcome.done():
        raise TimeoutError(errno.ETIMEDOUT, SILENT)
    return outcome.result()


def retrieve_error(work: asyncio.Future[Any]) -> None:
    """Retrieve the error of abandoned work, which asyncio would log. Usable as a done callback."""
    if not work.cancelled():
        work.exception()
