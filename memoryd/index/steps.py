"""Work on a connection's thread that is too long for one go."""

import asyncio
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from memoryd.abandoned import retrieve_error
from memoryd.index.driver import Connection, Database

T = TypeVar("T")
Steps = Generator[None, None, T]


def run_at_once(steps: Steps[T]) -> T:
    """Run a generator to its end on this thread; return what it returns."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_steps(database: Database, start: Callable[[Connection], Steps[T]]) -> T:
    """Run a generator to its end, a step at a time; return what it returns.

    Between two steps the thread is free for whoever waits for it. When the caller is cancelled or a
    step fails, the generator is closed, on the thread too: a transaction that it holds open is
    rolled back.
    """
    runner = _Runner(start)
    try:
        while not await database.run(runner.advance):
            pass
    except BaseException:
        # Queued behind the step under way, and ahead of all that comes later.
        closing = asyncio.ensure_future(database.run(runner.close))
        closing.add_done_callback(retrieve_error)
        await asyncio.shield(closing)
        raise
    return runner.result


async def free(items: list[T], at_once: int) -> None:
    """Free a list a few at a time: all of a long one's take a while, which the loop must not."""
    while len(items) > at_once:
        del items[-at_once:]
        await asyncio.sleep(0)


class _Runner(Generic[T]):
    """The thread remembers the last method it called, so nothing is kept here when all is done."""

    result: T

    def __init__(self, start: Callable[[Connection], Steps[T]]) -> None:
        self._start: Callable[[Connection], Steps[T]] | None = start
        self._steps: Steps[T] | None = None

    def advance(self, connection: Connection) -> bool:
        """Do one step. Returns whether it was the last one."""
        if self._start is not None:
            self._steps, self._start = self._start(connection), None
        assert self._steps is not None  # noqa: S101 - started above, and not done
        try:
            next(self._steps)
        except StopIteration as end:
            self.result, self._steps = end.value, None
            return True
        return False

    def close(self, connection: Connection) -> None:
        """Give up what is not done."""
        self._start = None
        if self._steps is not None:
            self._steps.close()
            self._steps = None
