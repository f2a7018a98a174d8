"""Waiting, in asyncio, for what a script does in its thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from fake_daemon import STUCK_TIMEOUT_S


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, STUCK_TIMEOUT_S)


async def cancelled_while(start: Callable[[], Awaitable[object]], event: threading.Event) -> None:
    task = asyncio.ensure_future(start())
    await happened(event)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
