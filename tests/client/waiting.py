"""Waiting, in asyncio, for what a script does in its thread; and time that stands still."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from fake_daemon import STUCK_TIMEOUT_S


class Standing:
    """What calls take for the time: it passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def monotonic(self) -> float:
        return self.now_s


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, STUCK_TIMEOUT_S)


async def cancelled_while(start: Callable[[], Awaitable[object]], event: threading.Event) -> None:
    task = asyncio.ensure_future(start())
    await happened(event)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
