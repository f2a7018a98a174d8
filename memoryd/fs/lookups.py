"""What requests want of the disk: in threads of its own, so that a disk that hangs stops no other.

Each place has threads of its own too: a disk that hangs keeps those of others free. Who no longer
waits for an answer leaves the work behind; so only so much of it is taken.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from memoryd.errors import RequestFailedError
from memoryd.fs.hang import DiskWaits, retrieve_error
from memoryd_client.wire.protocol import ErrorCode

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 128
"""Looks at one place that are under way or wait for a thread."""
MAX_PLACES = 16
"""Those that come later share threads."""
OTHERS = "other places"


class _Place:
    """The threads for one place, and what they wait for."""

    def __init__(self, name: str) -> None:
        self.waits = DiskWaits()
        self.free = threading.BoundedSemaphore(MAX_WAITING)
        self.threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix=name, initializer=self.waits.adopt
        )

    def hung(self) -> str | None:
        """Say what is waited for, if no thread is left that might do anything."""
        told = self.waits.warnings()
        return told[0] if told and self.waits.count_overdue() >= THREADS else None


class Lookups:
    """The threads of one agent. `close` waits for none of them."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._places: dict[str, _Place] = {}

    async def run(self, place: str, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread of a place, which says which disk may hang.

        Raises what the function does, or `RequestFailedError`: too many wait, or the disk hangs.
        Cancelling leaves it to end by itself: a thread can't be stopped.
        """
        threads = self._of(place)
        if (hung := threads.hung()) is not None:
            raise RequestFailedError(
                ErrorCode.UNAVAILABLE,
                hung,
                hint="look at that disk; ask again when it answers",
                retryable=True,
            )
        if not threads.free.acquire(blocking=False):
            raise RequestFailedError(
                ErrorCode.BUSY,
                f"{MAX_WAITING} requests wait for the disk of agent {self._agent} already",
                hint="the disk does not answer, or is slow: look at it, then ask again",
                retryable=True,
            )
        future = threads.threads.submit(function, *arguments)
        future.add_done_callback(lambda _: threads.free.release())
        work = asyncio.wrap_future(future)
        work.add_done_callback(retrieve_error)  # a cancelled caller never sees the error
        return await asyncio.shield(work)

    def warnings(self) -> list[str]:
        """Return which paths do not answer, and since when, a line each."""
        return [line for place in self._places.values() for line in place.waits.warnings()]

    def close(self) -> None:
        """Begin nothing more; what runs is left to itself."""
        for place in self._places.values():
            place.threads.shutdown(wait=False, cancel_futures=True)

    def _of(self, place: str) -> _Place:
        if place not in self._places and len(self._places) >= MAX_PLACES:
            place = OTHERS
        if place not in self._places:
            self._places[place] = _Place(f"lookups of {self._agent}")
        return self._places[place]
