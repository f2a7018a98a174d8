"""The writer: waiting messages are committed together, and a bad file affects no other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from waiting import PATIENCE_S
from writing import Bench, file, key, opened, texts

from memoryd.index import queries
from memoryd.index.driver import Connection, one_value
from memoryd.index.schema import AUTOMERGE
from memoryd.index.statements import GROUP_BYTES, GROUP_FILES, STEP_CHUNKS
from memoryd.index.store import Store
from memoryd.index.writer import MERGE_AFTER_FILES, MERGE_ALL_AFTER_FILES
from memoryd.messages import FileGone, SyncMarker, ToFeeder

UNSTORABLE = "\ud800"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path / "main.sqlite") as bench:
        yield bench


def segments(connection: Connection) -> int:
    """Return the number of FTS5's segments."""
    return int(one_value(connection, "SELECT count(DISTINCT segid) FROM chunks_fts_idx"))


async def test_files_that_wait_together_are_committed_together(bench: Bench) -> None:
    await bench.write(file("a.md", "boiler"), file("b.md", "valve"), FileGone(key("c.md")))
    assert bench.commits() == 1
    assert bench.written == [key("a.md"), key("b.md"), key("c.md")]
    assert await bench.store.readers.read(texts) == ["boiler", "valve"]
    assert set(bench.store.catalog.rows) == {key("a.md"), key("b.md")}
    stats = bench.writer.stats()
    assert (stats.messages, stats.in_hand) == (3, 0)


async def test_a_commit_waits_a_moment_for_files_that_are_coming(bench: Bench) -> None:
    bench.coming = 2
    writing = asyncio.create_task(bench.write(file("a.md", "boiler")))
    while bench.writer.stats().in_hand != 1:
        await asyncio.sleep(0)
    bench.inbox.put_nowait(file("b.md", "valve"))
    await writing
    assert bench.commits() == 1
    assert bench.written == [key("a.md"), key("b.md")]


async def test_no_more_than_a_moment_of_them(bench: Bench) -> None:
    """Otherwise a search or a save would wait for all of them."""
    many = [file(f"{n}.md", f"number{n}") for n in range(GROUP_FILES + 1)]
    await bench.write(*many)
    assert bench.commits() == 2
    large = [file(f"large{n}.md", f"large{n}", size=GROUP_BYTES) for n in range(2)]
    await bench.write(*large)
    assert bench.commits() == 4
    assert bench.store.catalog.chunks == GROUP_FILES + 3


async def test_a_marker_is_answered_when_all_before_it_is_committed(bench: Bench) -> None:
    marker = SyncMarker()
    seen: list[int] = []
    marker.text.add_done_callback(lambda _: seen.append(len(bench.written)))
    await bench.write(file("a.md", "boiler"), file("b.md", "valve"), marker, file("c.md", "shed"))
    assert bench.commits() == 2
    assert seen == [2]
    assert [m for m in iter_now(bench.feeder) if m is not None] == [marker]


def iter_now(queue: asyncio.Queue[ToFeeder]) -> list[ToFeeder]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


async def test_a_file_that_comes_twice_is_what_it_was_last(bench: Bench) -> None:
    await bench.write(
        file("a.md", "boiler"),
        file("b.md", "valve"),
        file("a.md", "garden"),
        FileGone(key("b.md")),
        file("b.md", "shed"),
        FileGone(key("a.md")),
    )
    assert await bench.store.readers.read(texts) == ["shed"]
    assert set(bench.store.catalog.rows) == {key("b.md")}


async def test_a_file_that_cannot_be_stored_sinks_no_other(bench: Bench) -> None:
    await bench.write(file("bad.md", "valve"))
    await bench.write(
        file("a.md", "boiler"), file("bad.md", "shed", UNSTORABLE), file("b.md", "garden")
    )
    assert [(bad.key, "stored" in bad.reason) for bad in bench.unreadable] == [
        (key("bad.md"), True)
    ]
    assert await bench.store.readers.read(texts) == ["boiler", "garden", "valve"]
    assert bench.store.catalog.rows[key("bad.md")].hash == "('valve',)", "the old rows remain"
    assert bench.written[1:] == [key("a.md"), key("b.md")]
    assert bench.writer.stats().messages == 4


async def test_a_large_file_that_is_given_up_leaves_the_old_one(bench: Bench) -> None:
    await bench.write(file("a.md", "boiler"))
    running = asyncio.create_task(bench.writer.run())
    bench.inbox.put_nowait(file("a.md", *(f"number{n}" for n in range(20 * STEP_CHUNKS))))
    database = bench.store.database
    while not await database.run(lambda c: c.in_transaction):
        await asyncio.sleep(0)
    assert await bench.store.readers.read(texts) == ["boiler"], "readers see the old file meanwhile"
    assert bench.writer.stats().in_hand == 1
    running.cancel()
    await asyncio.wait({running})
    assert not await database.run(lambda c: c.in_transaction)
    assert await bench.store.readers.read(texts) == ["boiler"]
    assert bench.store.catalog.chunks == 1


async def test_a_large_file_is_there_as_a_whole(bench: Bench) -> None:
    words = [f"number{n:05}" for n in range(3 * STEP_CHUNKS + 5)]
    await bench.write(file("a.md", *words))
    assert await bench.store.readers.read(texts) == words
    assert bench.store.catalog.rows[key("a.md")].chunks == len(words)
    assert await bench.store.readers.read(queries.count_pending) == len(words)


async def test_a_touched_file_is_not_written_anew(bench: Bench) -> None:
    await bench.write(file("a.md", "boiler"), file("b.md", "valve"))
    await bench.write(file("a.md", "boiler", size=7))
    assert bench.store.catalog.rows[key("a.md")].stat.size == 7
    assert not any("INSERT INTO chunks (" in sql for sql in bench.statements[-3:])


async def test_remarks_come_back_without_reading_the_file_again(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    async with opened(path) as bench:
        await bench.write(
            file("a.md", "boiler", remarks=("not UTF-8", "1 NUL byte")),
            file("b.md", "valve", remarks=("private",)),
            file("c.md", "shed", remarks=("gone soon",)),
        )
        await bench.write(file("b.md", "valve", size=2), FileGone(key("c.md")))
        assert remarks(bench.store) == {"a.md": ("not UTF-8", "1 NUL byte"), "b.md": ()}
    async with opened(path) as bench:
        assert remarks(bench.store) == {"a.md": ("not UTF-8", "1 NUL byte"), "b.md": ()}


def remarks(store: Store) -> dict[str, tuple[str, ...]]:
    return {key.path: row.remarks for key, row in store.catalog.rows.items()}


async def test_the_feeder_is_woken_when_chunks_wait_for_a_vector(bench: Bench) -> None:
    await bench.write(FileGone(key("a.md")))
    assert iter_now(bench.feeder) == [None], "at the start"
    await bench.write(file("a.md", "boiler"), file("b.md", "valve"))
    assert iter_now(bench.feeder) == [None]


async def test_when_nothing_waits_the_words_are_tidied_up(bench: Bench) -> None:
    """Each commit adds a segment, and FTS5 gets slower with every segment."""

    def merges() -> int:
        return sum("'merge'" in sql for sql in bench.statements)

    running = asyncio.create_task(bench.writer.run())
    for number in range(MERGE_AFTER_FILES):
        bench.inbox.put_nowait(file(f"{number}.md", f"number{number}"))
        await bench.inbox.join()
    before = merges()
    bench.inbox.put_nowait(file("last.md", "boiler"))
    while merges() == before:
        await bench.store.database.run(lambda c: None)
    running.cancel()
    await asyncio.wait({running})
    assert await bench.store.readers.read(segments) < AUTOMERGE
    assert "boiler" in await bench.store.readers.read(texts)


async def test_after_many_files_all_words_become_one_segment(bench: Bench) -> None:
    """Searches of a large index get faster, and merging takes less than writing it."""
    for number in range(MERGE_ALL_AFTER_FILES):
        bench.inbox.put_nowait(file(f"{number}.md", f"number{number}"))
    running = asyncio.create_task(bench.writer.run())
    await bench.inbox.join()
    assert bench.commits() > 1
    async with asyncio.timeout(PATIENCE_S):
        while await bench.store.readers.read(segments) > 1:
            await bench.store.database.run(lambda c: None)
    running.cancel()
    await asyncio.wait({running})
