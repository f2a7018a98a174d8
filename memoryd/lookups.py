"""What requests want of the disk: in threads of its own, so that a disk that hangs stops no other.

Who no longer waits for an answer leaves the work behind; so only so much of it is taken.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from memoryd.serve.connection import RequestFailedError
from memoryd_client.protocol import ErrorCode

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 128
"""Looks at the disk that are under way or wait for a thread."""


class Lookups:
    """The threads of one agent. `close` waits for none of them."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"lookups of {agent}")
        self._free = threading.BoundedSemaphore(MAX_WAITING)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread. Raises what it does, or `RequestFailedError`: too many wait.

        Cancelling leaves it to end by itself: a thread can't be stopped.
        """
        if not self._free.acquire(blocking=False):
            raise RequestFailedError(
                ErrorCode.BUSY,
                f"{MAX_WAITING} requests wait for the disk of agent {self._agent} already",
                hint="the disk does not answer, or is slow: look at it, then ask again",
                retryable=True,
            )
        future = self._threads.submit(function, *arguments)
        future.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(asyncio.wrap_future(future))

    def close(self) -> None:
        """Begin nothing more; what runs is left to itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
