"""Threads for disks that may hang, and a record of the paths that they wait for.

A thread that waits for a disk can't be stopped. memoryd therefore reports the path, refuses more
work for that place, and continues without it.
"""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from memoryd.errors import RequestFailedError
from memoryd.fs.directories import shown_path
from memoryd_client.shared.humanize import moment
from memoryd_client.shared.paths import StrPath
from memoryd_client.wire.protocol import ErrorCode

T = TypeVar("T")

HUNG_S = 5.0
"""Seconds without progress after which a disk counts as hung."""
DISK_LIMIT_S = 2.0
"""Seconds after which `within` abandons a check."""
MAX_ABANDONED = 32
"""Maximum abandoned checks, because each keeps its thread."""
THREADS = 2
"""Threads for each place."""
MAX_WAITING = 128
"""Maximum jobs of one place that run or wait for a thread."""
MAX_PLACES = 16
"""Maximum places with their own threads; later ones share threads."""
SILENT = "its disk does not answer"
_LATER = "changes there are indexed when it answers; indexed text stays searchable"
_OTHERS = "other places"
_TURNS = 10


class DiskWaits:
    """The path that each busy thread has reached, and the time. Any thread may ask."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._reached: dict[int, tuple[StrPath, float]] = {}

    def tick(self, path: StrPath | None = None) -> None:
        """Note progress of the calling thread. `path` is the next path, None the same one."""
        thread = threading.get_ident()
        if path is None and (reached := self._reached.get(thread)):
            path, _ = reached
        if path is not None:
            self._reached[thread] = path, self._clock()

    def idle(self) -> None:
        """Note that the calling thread waits for no disk until it ticks with a path."""
        self._reached.pop(threading.get_ident(), None)

    def overdue(self, seconds: float = HUNG_S) -> dict[str, float]:
        """Return the paths without progress for at least `seconds`, and for how long."""
        now = self._clock()
        found: dict[str, float] = {}
        for path, since_s in list(self._reached.values()):
            if (waited_s := now - since_s) >= seconds:
                shown = shown_path(path)
                found[shown] = max(waited_s, found.get(shown, 0.0))
        return found

    def count_overdue(self) -> int:
        """Return the number of threads that wait for a hung disk."""
        now = self._clock()
        return sum(now - since_s >= HUNG_S for _, since_s in list(self._reached.values()))

    def warnings(self, later: str = _LATER, *, seconds: float = HUNG_S) -> list[str]:
        """Return a line for each overdue path: since when, and the consequence `later`."""
        return [
            f"the disk of {path} has not answered since {moment(self._wall_clock() - waited_s)}"
            f" ({waited_s:.0f} s): {later}"
            for path, waited_s in self.overdue(seconds).items()
        ]


class _Thread(threading.local):
    waits: DiskWaits | None = None


_thread = _Thread()


def tick(path: StrPath | None = None) -> None:
    """Note progress of the thread's job. `path` is the next path, None the same one.

    A job that ticks at least every `HUNG_S` seconds is not reported as hung.
    """
    if _thread.waits is not None:
        _thread.waits.tick(path)


def idle() -> None:
    """Note that the thread's job waits for no disk until its next tick with a path."""
    if _thread.waits is not None:
        _thread.waits.idle()


class DiskThreads(ThreadPoolExecutor):
    """Threads whose jobs are noted in `waits`, at `place` until they tick.

    None: a job counts as idle until then.
    """

    def __init__(
        self, threads: int, name: str, waits: DiskWaits, place: StrPath | None = None
    ) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self.waits = waits
        self.place = place

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a job in a thread and note it meanwhile."""
        return super().submit(self._run, fn, *args, **kwargs)

    def _run(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        _thread.waits = self.waits
        self.waits.tick(self.place)
        try:
            return fn(*args, **kwargs)
        finally:
            self.waits.idle()


class _Place(DiskThreads):
    def __init__(self, agent: str, place: str) -> None:
        path = place if os.path.isabs(place) else None
        super().__init__(THREADS, f"lookups of {agent}", DiskWaits(), path)
        self.free = threading.BoundedSemaphore(MAX_WAITING)


class PlaceThreads:
    """Threads of one agent for each place that requests use: a hung disk blocks no other place."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._places: dict[str, _Place] = {}

    async def run(self, place: str, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread of a place. Raises the function's errors.

        Raises `RequestFailedError` if all threads of the place hang or too many jobs wait.
        A cancelled caller leaves the job running, because a thread can't be stopped.
        """
        threads = self._of(place)
        hung = threads.waits.warnings()
        if hung and threads.waits.count_overdue() >= THREADS:
            raise RequestFailedError(
                ErrorCode.UNAVAILABLE,
                hung[0],
                hint="check that disk; try again when it answers",
                retryable=True,
            )
        if not threads.free.acquire(blocking=False):
            raise RequestFailedError(
                ErrorCode.BUSY,
                f"{MAX_WAITING} requests already wait for the disk of agent {self._agent}",
                hint="the disk is slow or does not answer; check it, then try again",
                retryable=True,
            )
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def pass_on(job: Future[T]) -> None:
            threads.free.release()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_copy_outcome, job, result)

        threads.submit(function, *arguments).add_done_callback(pass_on)
        return await result

    def warnings(self) -> list[str]:
        """Return a line for each path that does not answer."""
        return [line for place in self._places.values() for line in place.waits.warnings()]

    def close(self) -> None:
        """Start no more jobs; wait for none."""
        for place in self._places.values():
            place.shutdown(wait=False, cancel_futures=True)

    def _of(self, place: str) -> _Place:
        if place not in self._places and len(self._places) >= MAX_PLACES:
            place = _OTHERS
        if place not in self._places:
            self._places[place] = _Place(self._agent, place)
        return self._places[place]


def _copy_outcome(job: Future[T], result: asyncio.Future[T]) -> None:
    """Settle a result that is still awaited, in fewer turns of the loop than `wrap_future`."""
    if result.done():
        return
    if job.cancelled():
        result.cancel()
    elif (error := job.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(job.result())


_abandoned = threading.BoundedSemaphore(MAX_ABANDONED)


def within(seconds: float, check: Callable[[], T]) -> T:
    """Run a check for at most `seconds`. Raises its errors, or `TimeoutError`."""
    outcome = Future[T]()

    def run() -> None:
        try:
            outcome.set_result(check())
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            _abandoned.release()

    if not _abandoned.acquire(blocking=False):
        raise TimeoutError(errno.ETIMEDOUT, SILENT)
    thread = threading.Thread(target=run, name="disk check", daemon=True)
    thread.start()
    for _ in range(_TURNS):  # a suspended machine uses up at most one turn
        thread.join(seconds / _TURNS)
    if not outcome.done():
        raise TimeoutError(errno.ETIMEDOUT, SILENT)
    return outcome.result()


def retrieve_error(work: asyncio.Future[Any]) -> None:
    """Retrieve the error of abandoned work, which asyncio would log. Usable as a done callback."""
    if not work.cancelled():
        work.exception()
