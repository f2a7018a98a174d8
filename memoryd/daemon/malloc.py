"""What the C allocator keeps of memory that is free: little, for a daemon that runs for a year.

This is about glibc's. Other allocators have no such settings, and are left alone.
"""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable, Coroutine
from typing import Any

HEAPS = 2
LARGE_BYTES = 1024 * 1024
"""Of a block that is mapped by itself. Smaller ones, a search makes of 100,000 vectors."""
SPARE_BYTES = 4 * 1024 * 1024
"""Free at the end of a heap, that are not given back: they will be wanted for the next search."""
GIVE_BACK_EVERY_S = 60.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Of glibc's malloc.h."""


def keep_heaps_few() -> None:
    """Have glibc allocate from two heaps, and large blocks apart from them. Before any thread.

    By itself it makes a heap for each thread, up to eight a core, and puts ever larger blocks into
    them, between small ones that stay: so a daemon that has no more in use than before grows for
    hours.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, HEAPS)
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, SPARE_BYTES)


def give_back() -> None:
    """Give pages of the heaps with nothing in them back to the system. Takes 1 ms for 10 MiB."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(SPARE_BYTES)


class HeapTrimmer:
    """Gives back now and then what was needed at once only: by many searches, or by a rebuild."""

    def __init__(
        self,
        *,
        give_back: Callable[[], None] = give_back,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._give_back = give_back
        self._sleep = sleep

    async def run(self) -> None:
        """Give back until cancelled."""
        while True:
            await self._sleep(GIVE_BACK_EVERY_S)
            await asyncio.to_thread(self._give_back)
