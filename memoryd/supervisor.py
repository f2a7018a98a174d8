"""Supervisor of actors: ends all when one ends, and stops them in data-path order.

An actor handles expected errors itself, for one item at a time. Any other error ends the daemon
with a non-zero exit code; the service manager restarts it, and it resumes from SQLite.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

GRACE_S = 5.0
"""Seconds for running work, such as paid embeddings, to reach the index."""
HARD_S = 2.0
"""Seconds for a cancelled actor to end. `TimeoutStopSec` of the service exceeds the sum."""


class ActorFailedError(Exception):
    """An actor ended without being stopped."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A long-running task: its name and its coroutine function, which runs until cancelled.

    A stop first awaits `drain`, for at most `GRACE_S` and only if no actor has failed. Then the
    task has `stop_s` to end (None: `HARD_S`).
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    drain: Callable[[], Awaitable[None]] | None = None
    stop_s: float | None = None


async def done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run work until `stop` is set, which cancels it. Return whether it finished."""
    working = asyncio.create_task(work, name="start")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
            return True
        log.info("stopping before startup was complete")
        return False
    finally:
        working.cancel()
        stopping.cancel()


async def supervise(
    actors: list[Actor],
    stop: asyncio.Event,
    *,
    on_stopping: Callable[[], None],
    explained: tuple[type[BaseException], ...] = (OSError,),
) -> None:
    """Run all actors until `stop` is set, then cancel them in their order.

    Raises `ActorFailedError` when an actor ends earlier. Errors in `explained` are logged without a
    traceback.
    """
    tasks = {actor.name: asyncio.create_task(actor.run(), name=actor.name) for actor in actors}
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({stopping, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in tasks.values() if task.done()]
        on_stopping()
        for actor in actors:
            if actor.drain is not None and not failed:
                await _drain(actor.drain)
            stop_s = HARD_S if actor.stop_s is None else actor.stop_s
            await _cancel(tasks[actor.name], stop_s, explained)
    finally:
        stopping.cancel()
        for task in tasks.values():
            task.cancel()
    if failed:
        cause = None if failed[0].cancelled() else innermost(failed[0].exception())
        if isinstance(cause, ActorFailedError):
            raise cause
        raise ActorFailedError(f"{failed[0].get_name()} ended") from cause


async def _drain(drain: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(GRACE_S):
            await drain()
    except TimeoutError:
        log.warning("stopping with unfinished work, which the next start resumes")


def innermost(error: BaseException | None) -> BaseException | None:
    """Return the first error inside nested task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _cancel(
    task: asyncio.Task[None], stop_s: float, explained: tuple[type[BaseException], ...]
) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=stop_s)
    if not task.done():
        log.error("%s did not stop within %g s", task.get_name(), stop_s)
    elif not task.cancelled() and (error := innermost(task.exception())) is not None:
        if isinstance(error, ActorFailedError):
            return  # logged where it occurred
        traceback = None if isinstance(error, explained) else error
        log.error("%s failed: %s", task.get_name(), error, exc_info=traceback)
