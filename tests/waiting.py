"""Waiting without measuring: for a condition, an event of a thread, or a loop that is idle.

A limit is only ever reached by a test that fails. Time that stands still is here too.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

PATIENCE_S = 120.0
"""Seconds until a test gives up waiting for something that never happens."""
PAUSE_S = 0.005
"""Seconds between two looks at a condition, so that the waiting takes no time from the awaited."""
MAX_TURNS = 10_000
NEVER = "it never came to pass"


def eventually(condition: Callable[[], bool]) -> None:
    """Block until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, NEVER
        time.sleep(PAUSE_S)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds: for work of threads, processes and sockets."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, NEVER
        await asyncio.sleep(PAUSE_S)


async def settle() -> None:
    """Let the loop run until it is idle: every task waits for time, a thread or a socket."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(MAX_TURNS):
        await asyncio.sleep(0)
        if not loop._ready:
            return
    raise AssertionError("a task never waits for anything")


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
    """What calls take for the time: it passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def monotonic(self) -> float:
        return self.now_s
