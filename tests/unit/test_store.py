"""One open index: its life cycle, the exchange of its file, and its vectors in memory."""

import asyncio
import dataclasses
import os
import sqlite3
import stat
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from identities import identity
from waiting import settle

from memoryd.errors import IndexRefusedError
from memoryd.identity import Identity
from memoryd.index import queries, statements
from memoryd.index.driver import Connection, Error, bundled_extension
from memoryd.index.readers import POOL_SIZE
from memoryd.index.store import Store, StoreOptions
from memoryd.index.writer import Writer
from memoryd.messages import (
    Chunk,
    FileKey,
    FileStat,
    KeepEmbeddings,
    ParsedFile,
    ToFeeder,
    ToWriter,
)

IDENTITY = identity(dims=2)
OTHER = msgspec.structs.replace(IDENTITY, model="other", dims=4)
UNKNOWN = msgspec.structs.replace(IDENTITY, dims=None)
STAT = FileStat(1, 2, 3)
HANGS_S = 60.0
"""Seconds after which a blocked close fails the test."""


@pytest.fixture
def options(tmp_path: Path) -> StoreOptions:
    return StoreOptions(
        path=tmp_path / "state/main.sqlite",
        workspace=Path("/home/ann/work"),
        extension=bundled_extension(),
        extension_error=None,
        cache_max_entries=None,
    )


@asynccontextmanager
async def opened(options: StoreOptions, identity: Identity = IDENTITY) -> AsyncIterator[Store]:
    store = Store(options, identity)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, path: str, *texts: str, vectors: bool = True) -> None:
    """Write a file, with a vector for each text."""
    chunks = [Chunk(n, n, text, "") for n, text in enumerate(texts, start=1)]
    parsed = ParsedFile(FileKey("memory", path), STAT, str(texts), chunks)
    dims = store.identity.dims or 0
    made = [
        (statements.text_hash(t), struct.pack(f"<{dims}f", 1, *[0] * (dims - 1))) for t in texts
    ]
    await store.database.run_steps(lambda c: statements.write_files(c, store.tables, [parsed]))
    if dims and vectors:
        await store.database.run(lambda c: statements.put_vectors(c, store.tables, made))


async def build(options: StoreOptions, identity: Identity, *texts: str) -> Path:
    """Build another index file, close it and return its path."""
    path = options.path.with_name("other.sqlite")
    async with opened(dataclasses.replace(options, path=path), identity) as other:
        await put(other, "new.md", *texts)
    return path


def texts(connection: Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM chunks ORDER BY row_id")]


class Gate:
    """A read that stays on its thread until it is released."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._let_go = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, connection: Connection) -> list[str]:
        found = texts(connection)
        self._loop.call_soon_threadsafe(self.entered.set)
        self._let_go.wait()
        return found

    def open(self) -> None:
        self._let_go.set()


# --- opening and closing


async def test_a_new_index_is_private(options: StoreOptions) -> None:
    async with opened(options) as store:
        assert stat.S_IMODE(options.path.parent.stat().st_mode) == 0o700
        for file in options.path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert store.identity == IDENTITY
        assert (store.fts_error, store.vec_error) == (None, None)
    assert [file.name for file in options.path.parent.iterdir()] == ["main.sqlite"]


async def test_what_was_written_is_there_at_the_next_opening(options: StoreOptions) -> None:
    async with opened(options) as store:
        await put(store, "a.md", "boiler", "valve")
    async with opened(options) as store:
        assert store.catalog.rows[FileKey("memory", "a.md")].chunks == 2
        assert store.catalog.stats() == {FileKey("memory", "a.md"): STAT}
        assert store.catalog.chunks == 2
        assert await store.readers.read(texts) == ["boiler", "valve"]


async def test_closing_twice_is_closing_once(options: StoreOptions) -> None:
    store = Store(options, IDENTITY)
    await store.close()
    await store.open()
    await store.close()
    await store.close()


async def test_an_old_index_keeps_its_identity(options: StoreOptions) -> None:
    async with opened(options):
        pass
    async with opened(options, OTHER) as store:
        assert (store.identity, store.wanted) == (IDENTITY, OTHER)
        assert store.tables.identity == IDENTITY, "rows follow the identity of the index"


async def test_a_read_that_takes_long_gives_way_and_begins_anew(options: StoreOptions) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def count(connection: Connection) -> int:
        loop.call_soon_threadsafe(begun.set)
        query = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT ?)"
        found = connection.execute(f"{query} SELECT count(*) FROM n", (limit,)).fetchone()
        return int(found[0])

    async with opened(options) as store:
        limit = 2**60
        work = asyncio.create_task(store.readers.read_patiently(count))
        await begun.wait()
        async with asyncio.timeout(HANGS_S), store.readers.emptied():
            limit = 3
        assert await work == 3


async def test_releasing_pages_waits_for_no_read(options: StoreOptions) -> None:
    goes_on = threading.Event()

    def wait(connection: Connection) -> list[str]:
        goes_on.wait(HANGS_S)
        return texts(connection)

    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        work = asyncio.create_task(store.readers.read(wait))
        await settle()
        async with asyncio.timeout(HANGS_S):
            await store.release_pages()
        goes_on.set()
        assert await work == ["boiler"]
        read = [store.readers.read(texts) for _ in range(POOL_SIZE + 1)]
        assert await asyncio.gather(*read) == [["boiler"]] * (POOL_SIZE + 1)
    await store.release_pages()


async def test_embeddings_of_an_index_that_is_still_to_be_filled_are_kept(
    options: StoreOptions,
) -> None:
    """After a salvage no chunk uses the embeddings yet, but they have been paid for."""
    unbounded = dataclasses.replace(options, cache_max_entries=0)
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        await store.database.run(lambda c: c.execute("DELETE FROM chunks") and None)
        await store.database.run(lambda c: c.execute("DELETE FROM files") and None)
    for files in (0, 1):
        async with opened(unbounded) as store:
            cached = await store.readers.read(
                lambda c: c.execute("SELECT count(*) FROM embedding_cache").fetchone()
            )
            assert cached == (1,)
            if not files:
                await put(store, "a.md", "boiler", vectors=False)


async def test_readers_cannot_write(options: StoreOptions) -> None:
    async with opened(options) as store:
        with pytest.raises(Error, match="readonly"):
            await store.readers.read(lambda c: c.execute("DELETE FROM chunks"))


@pytest.mark.parametrize("kind", ["another workspace", "foreign", "damaged"])
async def test_a_file_that_is_refused_is_left_and_nothing_stays_open(
    options: StoreOptions, kind: str
) -> None:
    refusal: type[Exception] = IndexRefusedError
    match kind:
        case "another workspace":
            async with opened(options):
                pass
            options = dataclasses.replace(options, workspace=Path("/home/ann/elsewhere"))
        case "foreign":
            make_foreign(options.path)
        case _:
            options.path.parent.mkdir()
            options.path.write_bytes(b"no database" * 1000)
            refusal = Error
    before, threads = options.path.read_bytes(), set(threading.enumerate())
    with pytest.raises(refusal):
        await Store(options, IDENTITY).open()
    assert options.path.read_bytes() == before
    assert [file.name for file in options.path.parent.iterdir()] == ["main.sqlite"]
    for thread in set(threading.enumerate()) - threads:
        if not thread.name.startswith("asyncio"):
            thread.join(HANGS_S)
            assert not thread.is_alive()


def make_foreign(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.commit()
    connection.close()


async def test_without_the_extension_the_reason_is_kept(options: StoreOptions) -> None:
    options = dataclasses.replace(options, extension=None, extension_error="switched off")
    async with opened(options) as store:
        assert store.vec_error == "switched off"
        assert (store.tables.fts, store.tables.vec) == (True, False)
        await put(store, "a.md", "boiler")
        await store.load_matrix()
        assert store.matrix is not None
        assert len(store.matrix) == 1, "exact search needs no extension"


async def test_an_extension_that_cannot_be_loaded_is_a_reason(options: StoreOptions) -> None:
    async with opened(dataclasses.replace(options, extension="/nowhere/vec0")) as store:
        assert "/nowhere/vec0" in str(store.vec_error)
        assert not store.tables.vec


async def test_the_cache_is_pruned_at_the_opening(options: StoreOptions) -> None:
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        await put(store, "a.md", "valve")
    async with opened(dataclasses.replace(options, cache_max_entries=0)) as store:
        count = "SELECT hash FROM embedding_cache"
        left = await store.readers.read(lambda c: c.execute(count).fetchall())
    assert left == [(statements.text_hash("valve"),)]


# --- vectors in memory


async def test_all_vectors_are_read_into_memory(options: StoreOptions) -> None:
    async with opened(options) as store:
        await put(store, "a.md", "boiler", "valve")
        assert not store.matrix_ready.is_set()
        await store.load_matrix()
        assert store.matrix_ready.is_set()
        assert store.matrix is not None
        found = store.matrix.search(np.array([1, 0], dtype=np.float32), 10)
        assert list(found.cosines.values()) == [1.0, 1.0]


async def test_without_dims_there_is_no_matrix_and_nothing_to_wait_for(
    options: StoreOptions,
) -> None:
    async with opened(options, UNKNOWN) as store:
        await store.load_matrix()
        assert store.matrix is None
        assert store.matrix_ready.is_set()
        assert not store.tables.vec


async def test_dims_are_learned_and_kept(options: StoreOptions) -> None:
    async with opened(options, UNKNOWN) as store:
        await store.database.run(lambda c: store.learn_dims(c, 2))
        assert store.identity == IDENTITY
        assert store.tables.vec
        assert store.matrix is not None
        assert store.matrix.dims == 2
        await put(store, "a.md", "boiler")
        count = "SELECT count(*) FROM chunks_vec"
        assert await store.readers.read(lambda c: c.execute(count).fetchone()) == (1,)
    async with opened(options, UNKNOWN) as store:
        assert store.identity == IDENTITY


async def test_a_vector_taken_over_from_an_unfinished_rebuild_is_not_paid_for_again(
    options: StoreOptions,
) -> None:
    """The waiting chunk gets the vector, on disk and in memory."""
    unfinished = await build(options, IDENTITY, "boiler")
    async with opened(options) as store:
        await put(store, "a.md", "boiler", vectors=False)
        inbox, feeder = asyncio.Queue[ToWriter](), asyncio.Queue[ToFeeder]()
        writer = Writer(
            inbox,
            feeder,
            store,
            coming=lambda: 0,
            on_unreadable=print,
            on_written=print,
            on_wanted=print,
            restart=print,
        )
        writing = asyncio.create_task(writer.run())
        message = KeepEmbeddings(unfinished, [], asyncio.get_running_loop().create_future())
        inbox.put_nowait(message)
        await message.done
        writing.cancel()
        assert await store.readers.read(lambda c: queries.read_pending(c, 0, 10)) == []
        assert store.matrix is not None
        assert len(store.matrix) == 1


# --- exchange of the file


async def test_another_file_takes_its_place(options: StoreOptions) -> None:
    other = await build(options, OTHER, "garden", "shed", "fence")
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        await store.load_matrix()
        await store.replace_with(other, OTHER)
        assert (store.identity, store.wanted) == (OTHER, OTHER)
        assert set(store.catalog.rows) == {FileKey("memory", "new.md")}
        assert store.matrix is not None
        assert (store.matrix.dims, len(store.matrix)) == (4, 3)
        assert await store.readers.read(texts) == ["garden", "shed", "fence"]
        assert await store.database.run(texts) == ["garden", "shed", "fence"]
        await put(store, "b.md", "tree")
        assert "tree" in await store.readers.read(texts)
        assert not other.exists()
    async with opened(options, OTHER) as store:
        assert await store.readers.read(texts) == ["garden", "shed", "fence", "tree"]


async def test_a_read_under_way_ends_with_the_old_file_and_later_ones_see_the_new(
    options: StoreOptions,
) -> None:
    other = await build(options, OTHER, "garden")
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        gate = Gate()
        reading = asyncio.create_task(store.readers.read(gate))
        await gate.entered.wait()
        replacing = asyncio.create_task(store.replace_with(other, OTHER))
        await settle()
        later = [asyncio.create_task(store.readers.read(texts)) for _ in range(5)]
        await settle()
        assert not replacing.done()
        assert not any(read.done() for read in later)
        gate.open()
        assert await reading == ["boiler"]
        await replacing
        assert await asyncio.gather(*later) == [["garden"]] * 5


async def test_a_read_that_comes_while_the_exchange_waits_does_not_get_ahead_of_it(
    options: StoreOptions,
) -> None:
    """Otherwise a steady stream of searches would delay the exchange forever."""
    other = await build(options, OTHER, "garden")
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        gate = Gate()

        async def read_twice() -> list[list[str]]:
            return [await store.readers.read(gate), await store.readers.read(texts)]

        reading = asyncio.create_task(read_twice())
        await gate.entered.wait()
        replacing = asyncio.create_task(store.replace_with(other, OTHER))
        await settle()
        gate.open()
        seen = await reading
        await replacing
        assert seen == [["boiler"], ["garden"]]


async def test_reads_all_the_while_see_one_file_or_the_other(options: StoreOptions) -> None:
    other = await build(options, OTHER, "garden", "shed")
    async with opened(options) as store:
        await put(store, "a.md", "boiler", "valve")
        seen: list[list[str]] = []
        first = asyncio.Event()

        async def read() -> None:
            for _ in range(200):
                seen.append(await store.readers.read(texts))
                first.set()

        reading = [asyncio.create_task(read()) for _ in range(5)]
        await first.wait()
        await store.replace_with(other, OTHER)
        await asyncio.gather(*reading)
        assert seen[-1] == ["garden", "shed"]
        assert all(each in (["boiler", "valve"], ["garden", "shed"]) for each in seen)


async def test_if_the_other_file_is_not_there_the_old_one_answers(options: StoreOptions) -> None:
    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        await store.load_matrix()
        with pytest.raises(FileNotFoundError):
            await store.replace_with(options.path.with_name("nowhere"), OTHER)
        assert (store.identity, store.wanted) == (IDENTITY, IDENTITY)
        assert await store.readers.read(texts) == ["boiler"]
        await put(store, "b.md", "valve")
        assert await store.readers.read(texts) == ["boiler", "valve"]


async def test_no_log_of_the_old_file_is_left_beside_the_new_one(
    options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would take the old log for that of the new file."""
    other = await build(options, OTHER, "garden")
    beside: list[str] = []
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        beside.extend(sorted(file.name for file in target.parent.iterdir()))
        real(source, target)

    async with opened(options) as store:
        await put(store, "a.md", "boiler")
        monkeypatch.setattr(os, "replace", replace)
        await store.replace_with(other, OTHER)
    assert beside == ["main.sqlite", "other.sqlite"]


async def test_an_exchange_that_is_cancelled_while_it_waits_costs_no_reader(
    options: StoreOptions,
) -> None:
    """A stop during a rebuild has this effect; close would wait for the lost reader."""
    other = await build(options, OTHER, "garden")
    store = Store(options, IDENTITY)
    await store.open()
    await put(store, "a.md", "boiler")
    gate = Gate()
    reading = asyncio.create_task(store.readers.read(gate))
    await gate.entered.wait()
    replacing = asyncio.create_task(store.replace_with(other, OTHER))
    await settle()
    replacing.cancel()
    await asyncio.wait({replacing}, timeout=HANGS_S)
    gate.open()
    assert await reading == ["boiler"]
    assert replacing.cancelled()
    assert await store.readers.read(texts) == ["boiler"]
    assert other.exists()
    try:
        async with asyncio.timeout(HANGS_S):
            await store.close()
    except TimeoutError:
        for reader in store.readers._readers:
            await reader.database.__aexit__()
        await store._close_database()
        raise


async def test_a_cancelled_read_gives_its_connection_back(options: StoreOptions) -> None:
    endless = (
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )
    loop = asyncio.get_running_loop()
    entered = asyncio.Event()

    def read(connection: Connection) -> object:
        loop.call_soon_threadsafe(entered.set)
        return connection.execute(endless).fetchone()

    async with opened(options) as store:
        for _ in range(POOL_SIZE + 1):
            entered.clear()
            reading = asyncio.create_task(store.readers.read(read))
            await entered.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert await store.readers.read(texts) == []


async def test_as_many_reads_at_once_as_there_are_readers(options: StoreOptions) -> None:
    async with opened(options) as store:
        gates = [Gate() for _ in range(POOL_SIZE + 1)]
        reads = [asyncio.create_task(store.readers.read(gate)) for gate in gates]
        await asyncio.gather(*(gate.entered.wait() for gate in gates[:POOL_SIZE]))
        assert not gates[POOL_SIZE].entered.is_set()
        for gate in gates:
            gate.open()
        assert await asyncio.gather(*reads) == [[]] * (POOL_SIZE + 1)
