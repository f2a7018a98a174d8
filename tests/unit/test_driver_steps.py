"""Long work on a connection's thread, in steps."""

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from memoryd.index.driver import Connection, Database, run_at_once, transaction


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "main.sqlite") as database:
        await database.run(lambda c: c.execute("CREATE TABLE t (n INTEGER)"))
        yield database


class Work:
    """Work that inserts a row per step, in one transaction; `in_step` shows its progress."""

    def __init__(self, steps: int, *, fails: bool = False) -> None:
        self.step = 0
        self.ended = False
        self._steps = steps
        self._fails = fails

    def __call__(self, connection: Connection) -> Generator[None, None, int]:
        try:
            with transaction(connection):
                while self.step < self._steps:
                    self.step += 1
                    connection.execute("INSERT INTO t VALUES (?)", (self.step,))
                    yield
                if self._fails:
                    raise ValueError("at last")
            return self._steps
        finally:
            self.ended = True


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def is_clean(connection: Connection) -> bool:
    return not connection.in_transaction


async def test_what_the_generator_returns_is_returned(database: Database) -> None:
    assert await database.run_steps(Work(3)) == 3
    assert await database.run(count) == 3
    assert await database.run(is_clean)


def test_at_once_is_the_same_on_this_thread(tmp_path: Path) -> None:
    connection = Database(tmp_path / "main.sqlite")._connect()
    connection.execute("CREATE TABLE t (n INTEGER)")
    assert run_at_once(Work(3)(connection)) == 3
    assert count(connection) == 3
    connection.close()


async def test_others_have_their_turn_between_two_steps(database: Database) -> None:
    work = Work(1000)
    running = asyncio.create_task(database.run_steps(work))
    while not work.step:
        await database.run(is_clean)
    assert not await database.run(is_clean), "the work is in progress"
    assert not running.done()
    assert await running == 1000


async def test_an_error_leaves_nothing_behind(database: Database) -> None:
    work = Work(3, fails=True)
    with pytest.raises(ValueError, match="at last"):
        await database.run_steps(work)
    assert work.ended
    assert await database.run(is_clean)
    assert await database.run(count) == 0


async def test_cancelled_it_is_rolled_back_before_anybody_else_writes(database: Database) -> None:
    work = Work(10**9)
    running = asyncio.create_task(database.run_steps(work))
    while not work.step:
        await database.run(is_clean)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await database.run(is_clean)
    assert work.ended
    assert await database.run(count) == 0


async def test_cancelled_in_the_middle_of_a_step_that_step_ends_first(database: Database) -> None:
    loop = asyncio.get_running_loop()
    entered, let_go = asyncio.Event(), threading.Event()

    def work(connection: Connection) -> Generator[None, None, None]:
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
            loop.call_soon_threadsafe(entered.set)
            let_go.wait()
            yield

    running = asyncio.create_task(database.run_steps(work))
    await entered.wait()
    running.cancel()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await database.run(is_clean)
    assert await database.run(count) == 0
