"""Limits on the free memory that glibc's allocator keeps. Other allocators are left alone."""

import asyncio
import contextlib
import ctypes
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

HEAPS = 2
LARGE_BYTES = 1024 * 1024
"""Size from which a block is mapped by itself. A search of 100,000 vectors makes smaller ones."""
SPARE_BYTES = 4 * 1024 * 1024
"""Free bytes kept at the end of a heap until `give_back`, because the next search needs them."""
GIVE_BACK_EVERY_S = 60.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""


def keep_heaps_few() -> None:
    """Limit glibc to two heaps, with large blocks outside of them. Call it before any thread.

    By default, glibc makes a heap for each thread, up to eight a core, and places ever larger
    blocks between small ones that stay, so the daemon would grow for hours.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, HEAPS)
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, SPARE_BYTES)


def give_back() -> None:
    """Return all empty pages of the heaps to the system. Takes 1 ms for 10 MiB."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def trim_heaps(
    release: Callable[[], Awaitable[None]],
    *,
    give_back: Callable[[], None] = give_back,
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
) -> None:
    """Regularly return memory that a rebuild or many searches needed, until cancelled.

    `release` frees what is kept for the next use.
    """
    while True:
        await sleep(GIVE_BACK_EVERY_S)
        await release()
        await asyncio.to_thread(give_back)
