"""Writes on a failing disk: nothing is half written, nothing is lost, no endless retries."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from keywords import IDENTITY
from writing import Bench, file, key, opened, texts

from memoryd.errors import IndexRefusedError
from memoryd.index import store as stores
from memoryd.index.driver import Connection, Database, Error, sqlite
from memoryd.index.schema import VERSION
from memoryd.index.statements import STEP_CHUNKS, text_hash
from memoryd.index.transactions import Transactions
from memoryd.index.write_outage import Outage
from memoryd.messages import Embedded, FileGone, SyncMarker

TOO_MANY = 10
"""Number of consecutive tries that no test reaches."""


class Disk:
    """A disk that is full or not for every new write connection; it counts the connections."""

    def __init__(self) -> None:
        self.full = False
        self.closed = False
        self.opened = 0
        self.tries_left = 0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Free space after the remaining tries."""
        self.slept.append(seconds)
        assert len(self.slept) < TOO_MANY
        self.tries_left -= 1
        if self.tries_left <= 0:
            self.full = self.closed = False

    async def fill(self, bench: Bench, *, tries: int) -> None:
        """Fill the disk, for the current connection too, until this many tries have failed."""
        self.full, self.tries_left = True, tries
        await bench.store.database.run(_limit)


def _limit(connection: Connection) -> None:
    connection.execute("PRAGMA max_page_count = 1").fetchall()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()

    class Limited(Database):
        def _connect(self) -> Connection:
            if disk.closed and not self._readonly:
                error = sqlite.OperationalError("attempt to write a readonly database")
                error.sqlite_errorcode = 8
                raise error
            connection = super()._connect()
            disk.opened += 1
            if disk.full:
                _limit(connection)
            return connection

    monkeypatch.setattr(stores, "Database", Limited)
    return disk


@asynccontextmanager
async def benched(path: Path, disk: Disk) -> AsyncIterator[Bench]:
    async with opened(path) as bench:
        bench.store.outage = Outage(path, sleep=disk.sleep)
        yield bench


@pytest.fixture
async def bench(tmp_path: Path, disk: Disk) -> AsyncIterator[Bench]:
    async with benched(tmp_path / "main.sqlite", disk) as bench:
        await bench.write(file("a.md", "boiler"))
        yield bench


LARGE = "word " * 5_000


async def test_a_short_fault_is_one_reopen_and_one_retry(bench: Bench, disk: Disk) -> None:
    await disk.fill(bench, tries=0)
    disk.full = False
    before = disk.opened
    await bench.write(file("b.md", LARGE))
    assert disk.opened == before + 1
    assert disk.slept == []
    assert bench.store.outage.warning is None
    assert await bench.store.readers.read(texts) == ["boiler", LARGE]


async def test_what_fails_is_tried_ever_more_rarely_until_it_works(
    bench: Bench, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    await disk.fill(bench, tries=3)
    before = disk.opened
    with caplog.at_level("INFO"):
        await bench.write(
            *(file(f"{n}.md", f"{LARGE}{n}") for n in range(5)), FileGone(key("a.md"))
        )
    assert len(disk.slept) == 3
    assert disk.opened == before + 4, "each try opens one connection"
    assert bench.store.outage.warning is None
    assert len(await bench.store.readers.read(texts)) == 5
    assert set(bench.store.catalog.rows) == {key(f"{n}.md") for n in range(5)}
    assert bench.writer.stats().in_hand == 0
    levels = [r.levelname for r in caplog.records if r.name == "memoryd.index.transactions"]
    assert levels == ["WARNING", "INFO"], "logged at the start and at the end"


async def test_what_waits_for_vectors_is_looked_for_once_it_can_be_written(
    bench: Bench, disk: Disk
) -> None:
    recovered: list[None] = []
    transactions = Transactions(
        bench.store, restart=lambda: None, on_recovered=lambda: recovered.append(None)
    )
    await transactions.run(lambda connection: None)
    assert recovered == []
    await disk.fill(bench, tries=2)
    await transactions.run(lambda c: c.execute("INSERT INTO meta VALUES ('x', ?)", (LARGE,)))
    assert recovered == [None]


async def test_meanwhile_nothing_is_half_done_and_reads_go_on(bench: Bench, disk: Disk) -> None:
    await disk.fill(bench, tries=TOO_MANY)
    failed = asyncio.create_task(bench.store.outage.until_failure())
    bench.store.outage._backoff.sleep = lambda seconds: asyncio.sleep(3_600)
    bench.inbox.put_nowait(file("a.md", *(f"number{n}" for n in range(20 * STEP_CHUNKS))))
    marker = SyncMarker()
    bench.inbox.put_nowait(marker)
    running = asyncio.create_task(bench.writer.run())
    await failed
    assert await bench.store.readers.read(texts) == ["boiler"]
    assert bench.store.catalog.chunks == 1
    assert bench.store.outage.warning is not None
    assert bench.writer.stats().in_hand == 2, "the file and the marker after it"
    assert not marker.text.done()
    disk.full = False
    bench.store.outage.retry_now()
    await marker.text
    assert bench.store.catalog.chunks == 20 * STEP_CHUNKS
    running.cancel()
    await asyncio.wait({running})


async def test_vectors_are_kept_and_are_in_memory_once(bench: Bench, disk: Disk) -> None:
    await disk.fill(bench, tries=2)
    vector = b"\0\0\x80?"
    many = [(text_hash("boiler"), vector), *((f"{n:064}", vector) for n in range(2_000))]
    embedded = Embedded(IDENTITY, many, [], dims=1)
    await bench.write(embedded)
    assert embedded.committed.done()
    assert len(disk.slept) == 2
    assert bench.store.matrix is not None
    assert len(bench.store.matrix) == 1
    count = "SELECT count(*) FROM embedding_cache"
    assert await bench.store.readers.read(lambda c: c.execute(count).fetchone()) == (2_001,)


async def test_damage_is_not_waited_for(bench: Bench, disk: Disk) -> None:
    def damaged(connection: Connection) -> None:
        error = sqlite.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = 11
        raise error

    transactions = Transactions(bench.store, restart=print, on_recovered=print)
    before = disk.opened
    with pytest.raises(Error, match="malformed"):
        await transactions.run(damaged)
    assert disk.opened == before


async def test_tidying_up_holds_up_nothing(bench: Bench, disk: Disk) -> None:
    transactions = Transactions(bench.store, restart=print, on_recovered=print)
    await disk.fill(bench, tries=TOO_MANY)

    def grow(connection: Connection) -> bool:
        connection.execute("CREATE TABLE large AS SELECT zeroblob(100000)")
        return True

    assert not await transactions.run_if_possible(grow, lambda error: "full" not in str(error))
    assert bench.store.outage.warning is None


async def test_a_reader_that_fails_is_opened_anew_and_asked_once_more(bench: Bench) -> None:
    asked: list[Connection] = []

    def read(connection: Connection) -> list[str]:
        asked.append(connection)
        if len(asked) == 1:
            raise _io_error()
        return texts(connection)

    assert await bench.store.readers.read(read) == ["boiler"]
    assert len(asked) == 2
    assert asked[0] is not asked[1]


async def test_a_reader_that_fails_again_says_so_and_is_given_back(bench: Bench) -> None:
    asked: list[Connection] = []

    def read(connection: Connection) -> None:
        asked.append(connection)
        raise _io_error()

    for _ in range(5):
        with pytest.raises(Error, match="disk I/O error"):
            await bench.store.readers.read(read)
    assert len(asked) == 10, "two tries for each file"
    assert await bench.store.readers.read(texts) == ["boiler"]


def _io_error() -> Exception:
    error: Exception = sqlite.OperationalError("disk I/O error")
    error.sqlite_errorcode = 10  # type: ignore[attr-defined]
    return error


async def test_an_index_in_another_place_is_written_back(bench: Bench) -> None:
    path = bench.store.path
    path.unlink()
    await bench.write(file("b.md", "valve"))
    assert path.exists()
    assert await bench.store.readers.read(texts) == ["boiler", "valve"]
    assert bench.restarts == []


async def test_a_lock_that_is_gone_is_for_a_new_start_to_make(bench: Bench) -> None:
    bench.store.path.with_name("unlocked").touch()
    await bench.write(file("b.md", "valve"))
    await bench.write(file("c.md", "shed"))
    assert bench.restarts == [None], "one restart"
    assert await bench.store.readers.read(texts) == ["boiler", "shed", "valve"]


async def test_a_folder_that_is_gone_takes_the_lock_with_it(bench: Bench) -> None:
    bench.store.path.unlink()
    bench.store.path.with_name("unlocked").touch()
    await bench.write(file("b.md", "valve"))
    assert bench.restarts == [None]


async def test_another_file_in_its_place_is_for_a_new_start_to_look_at(bench: Bench) -> None:
    path = bench.store.path
    foreign = path.with_name("foreign")
    foreign.write_bytes(b"theirs")
    foreign.rename(path)
    await bench.write(file("b.md", "valve"))
    await bench.write(file("c.md", "shed"))
    assert bench.restarts == [None], "one restart"
    await bench.store.close()
    assert path.read_bytes() == b"theirs"
    (kept,) = path.parent.glob("*.rebuild-*")
    async with opened(kept) as copy:
        assert await copy.store.readers.read(texts) == ["boiler", "shed", "valve"]


async def test_an_index_that_can_only_be_read_is_read_and_opened_anew_when_it_can_be_written(
    bench: Bench, disk: Disk
) -> None:
    path = bench.store.path
    await bench.store.close()
    disk.closed = True
    async with opened(path) as again:
        store = again.store
        assert not store.writable
        assert set(store.catalog.rows) == {key("a.md")}
        assert await store.readers.read(texts) == ["boiler"]
        assert "readonly" in (store.outage.warning or "")
        store.outage._backoff.sleep = disk.sleep
        disk.tries_left = 3
        again.inbox.put_nowait(file("b.md", "valve"))
        running = asyncio.create_task(again.writer.run())
        while not again.restarts:
            await asyncio.sleep(0)
        assert len(disk.slept) == 3
        assert again.inbox.qsize() == 1, "the restarted agent finds the file again"
        running.cancel()
        await asyncio.wait({running})


async def test_no_index_at_all_is_no_index_to_read(tmp_path: Path, disk: Disk) -> None:
    disk.closed = True
    with pytest.raises(Error, match="readonly"):
        async with opened(tmp_path / "main.sqlite"):
            pass
    foreign = tmp_path / "foreign"
    with sqlite.connect(foreign) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(IndexRefusedError):
        async with opened(foreign):
            pass
