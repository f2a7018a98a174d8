"""memoryd returns free memory of the C allocator's heaps to the system every minute."""

import asyncio
import ctypes
import sys
from pathlib import Path

import pytest

from memoryd.daemon.malloc import GIVE_BACK_EVERY_S, give_back, trim_heaps

BLOCKS, BLOCK_BYTES = 4_000, 8_000


def anonymous_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


async def test_it_gives_back_every_minute_until_it_is_cancelled() -> None:
    pauses: list[float] = []
    released: list[int] = []
    given: list[tuple[int, int]] = []

    async def release() -> None:
        released.append(len(pauses))

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await trim_heaps(
            release, give_back=lambda: given.append((len(pauses), len(released))), sleep=sleep
        )
    assert pauses == [GIVE_BACK_EVERY_S] * 4
    assert given == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc's allocator and /proc")
def test_what_is_free_between_blocks_in_use_is_given_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    blocks = [libc.malloc(BLOCK_BYTES) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK_BYTES)
    # One block in ten stays, so that the heap can't be trimmed at its end.
    for number, block in enumerate(blocks):
        if number % 10:
            libc.free(block)
    before = anonymous_mib()
    give_back()
    after = anonymous_mib()
    for block in blocks[::10]:
        libc.free(block)
    assert before - after > BLOCKS * BLOCK_BYTES / 2**20 / 2
