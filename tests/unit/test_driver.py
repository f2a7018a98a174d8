"""Connections: cancelled SQL stops, and errors name their cause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from memoryd.index import driver
from memoryd.index.driver import Connection, Database, Error, ExtensionError, Fault, fault_of

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database(tmp_path / "index.sqlite") as opened:
        yield opened


async def test_a_cancelled_read_stops_its_sql(database: Database) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        connection.execute(ENDLESS).fetchall()

    read = asyncio.create_task(database.read(endless))
    await begun.wait()
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
    # If the statement were still running, this would block forever.
    assert await database.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)


async def test_a_read_that_is_cancelled_twice_gives_the_connection_back_free(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        with suppress(Error):
            connection.execute(ENDLESS).fetchall()
        connection.execute(ENDLESS).fetchall()

    read = asyncio.create_task(database.read(endless))
    await begun.wait()
    read.cancel()
    await asyncio.sleep(0)
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
    assert await database.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
    assert not caplog.records


async def test_a_cancelled_transaction_is_finished(database: Database) -> None:
    await database.run(lambda c: c.execute("CREATE TABLE t (x)"))
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def change(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        connection.execute("BEGIN IMMEDIATE")
        for number in range(1_000):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.execute("COMMIT")

    write = asyncio.create_task(database.run(change))
    await begun.wait()
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    count = await database.run(lambda c: c.execute("SELECT count(*) FROM t").fetchone())
    assert count == (1_000,)
    assert not await database.run(lambda c: c.in_transaction)


async def test_readers_can_not_write(database: Database, tmp_path: Path) -> None:
    await database.run(lambda c: c.execute("CREATE TABLE t (x)"))
    async with Database(tmp_path / "index.sqlite", readonly=True) as reader:
        with pytest.raises(Error):
            await reader.run(lambda c: c.execute("INSERT INTO t VALUES (1)"))


async def test_a_file_that_is_no_database_fails_and_leaves_no_thread(tmp_path: Path) -> None:
    file = tmp_path / "index.sqlite"
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(Error):
        async with Database(file):
            pass


async def test_an_extension_that_registers_nothing_is_found_out(tmp_path: Path) -> None:
    async with Database(tmp_path / "a.sqlite", extension=str(tmp_path / "none")) as opened:
        assert opened.extension_error is not None
        assert "none" in opened.extension_error
        assert await opened.run(lambda c: c.execute("SELECT 1").fetchone()) == (1,)


async def test_what_can_not_be_decoded_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "index"
    async with Database(path) as database:
        await database.run(lambda c: c.execute("CREATE TABLE walrus (word TEXT)"))
        await database.run(lambda c: c.execute("INSERT INTO walrus VALUES (CAST(x'a9' AS TEXT))"))
        with pytest.raises(Error) as of_a_row:
            await database.run(lambda c: c.execute("SELECT word FROM walrus").fetchall())
    path.write_bytes(path.read_bytes().replace(b"tablewalrus", b"table\xa9\xa9\xa9\xa9\xa9\xa9"))
    async with Database(path, readonly=True) as database:
        with pytest.raises(Error) as of_the_schema:
            await database.run(lambda c: c.execute("SELECT 1 FROM sqlite_schema").fetchall())
    assert fault_of(of_a_row.value) is fault_of(of_the_schema.value) is Fault.CORRUPT


def test_a_python_without_extensions_says_so() -> None:
    with pytest.raises(ExtensionError, match="can't load extensions"):
        driver.load_extension(object(), "vec0")  # type: ignore[arg-type]
