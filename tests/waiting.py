"""Waiting for a condition, an event of a thread, or an idle loop, without fixed delays.

Only a failing test reaches a time limit. The module also has a clock that stands still.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import pytest

PATIENCE_S = 120.0
"""Seconds until a test stops waiting and fails."""
PAUSES_S = (*(0.005,) * 10, 0.02)
"""Seconds between two checks of a condition, the last value permanently.

The pauses leave the processor to the awaited work: a check may be a request that takes 3 ms of it.
"""
MAX_TURNS = 10_000
NEVER = "the condition never held"


def eventually(condition: Callable[[], bool]) -> None:
    """Block until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    pauses_s = chain(PAUSES_S, repeat(PAUSES_S[-1]))
    while not condition():
        assert time.monotonic() < deadline, NEVER
        time.sleep(next(pauses_s))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until a condition on threads, processes or sockets holds."""
    deadline = time.monotonic() + PATIENCE_S
    pauses_s = chain(PAUSES_S, repeat(PAUSES_S[-1]))
    while not condition():
        assert time.monotonic() < deadline, NEVER
        await asyncio.sleep(next(pauses_s))


async def settle() -> None:
    """Let the loop run until it is idle: every task waits for time, a thread or a socket."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(MAX_TURNS):
        await asyncio.sleep(0)
        if not loop._ready:
            return
    raise AssertionError("a task never blocks")


async def happened(event: threading.Event) -> None:
    """Let the loop run until a thread has set an event."""
    assert await asyncio.to_thread(event.wait, PATIENCE_S), NEVER


async def cancelled_while(start: Callable[[], Awaitable[object]], event: threading.Event) -> None:
    """Cancel a task once a thread has set an event; wait until it has been cancelled."""
    task = asyncio.ensure_future(start())
    await happened(event)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Standing:
    """A clock for calls that advances only when a test advances it."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def monotonic(self) -> float:
        return self.now_s
