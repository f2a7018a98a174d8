"""Runs the actors, ends all when one ends, and stops them in the order of the data path.

An expected fault is handled inside an actor, around one item. Whatever escapes is unexpected: the
daemon ends with a non-zero code, its service manager starts it again, and it resumes from SQLite.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

GRACE_S = 5.0
"""For work under way, such as embeddings that have been paid for, to reach the index."""
HARD_S = 2.0
"""For one cancelled actor to end. `TimeoutStopSec` of the service is above the sum for all."""


class ActorFailedError(Exception):
    """An actor ended by itself, which none may."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A long-running part: its name and what it runs, until cancelled.

    `drain` is awaited first, for `GRACE_S` at most, when it is stopped and nothing has failed;
    `stop_s` is what it then has to end (None: `HARD_S`).
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    drain: Callable[[], Awaitable[None]] | None = None
    stop_s: float | None = None


async def done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work, which is cancelled once `stop` is set. Returns whether it was done."""
    working = asyncio.create_task(work, name="start")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
            return True
        log.info("stopping before all was started")
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

    Raises `ActorFailedError` when an actor ends before. Errors that are `explained` by their own
    message are logged without a traceback.
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
        log.warning("stopping with work under way; it is resumed at the next start")


def innermost(error: BaseException | None) -> BaseException | None:
    """Return the error that a task group wraps: what people can do something about."""
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
            return  # told where it happened
        traceback = None if isinstance(error, explained) else error
        log.error("%s failed: %s", task.get_name(), error, exc_info=traceback)
