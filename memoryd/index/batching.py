"""Work on a connection's thread that is too long for one go."""

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import chain
from typing import Generic, TypeVar

from memoryd.fs.hang import retrieve_error
from memoryd.index.driver import Connection, Database

T = TypeVar("T")

_BLOCKS_ROWS = (64, 8, 1)
"""More in one statement gains nothing."""


def last_id(connection: Connection, table: str, *, of: str = "main") -> int:
    """Return the largest row id that an AUTOINCREMENT table has ever had; 0 if none yet.

    Whoever inserts many rows numbers them from here on: the statement doesn't tell their ids. `of`
    is the database, which may be an attached one.
    """
    rows = connection.execute(f"SELECT seq FROM {of}.sqlite_sequence WHERE name = ?", (table,))
    row = rows.fetchone()
    return 0 if row is None else int(row[0])


def insert_rows(connection: Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, all of one width, `into` a table: its name and columns, as SQL has them."""
    start = 0
    for block in _BLOCKS_ROWS:
        while len(rows) - start >= block:
            values = chain.from_iterable(rows[start : start + block])
            connection.execute(_statement(into, len(rows[0]), block), tuple(values))
            start += block
            time.sleep(0)  # the event loop's turn, if it waits: this thread has had its own


@cache
def _statement(into: str, width: int, rows: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * rows)}"


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
