"""The background check of an index: pages, texts, locations, words, vectors, and its schedule."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from identities import identity
from waiting import until

from memoryd.index import statements
from memoryd.index.driver import bundled_extension, run_at_once, sqlite
from memoryd.index.repair import checks
from memoryd.index.repair.checker import AGAIN_S, DAY_S, Checker
from memoryd.index.repair.checks import Problem
from memoryd.index.store import Store, StoreOptions
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile

IDENTITY = identity(dims=4)
TEXTS = [f"boiler number{n}" for n in range(2 * checks.PORTION_ROWS + 10)]
UNIT = struct.pack("<4f", 1, 0, 0, 0)
OTHER = struct.pack("<4f", 0, 1, 0, 0)
REMOVE = "INSERT INTO chunks_fts (chunks_fts, rowid, body, context)"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An index with three portions of chunks, each with a vector, the last one with windows."""
    options = StoreOptions(
        path=tmp_path / "main.sqlite",
        workspace=Path("/home/ann/work"),
        extension=bundled_extension(),
        extension_error=None,
        cache_max_entries=None,
    )
    made = Store(options, IDENTITY)
    await made.open()
    chunks = [Chunk(n, n, text, "House") for n, text in enumerate(TEXTS, start=1)]
    parsed = ParsedFile(FileKey("memory", "a.md"), FileStat(1, 1, 1), "h", chunks)
    await made.database.run(
        lambda c: run_at_once(statements.write_files(c, made.tables, [parsed]))[0]
    )
    vectors = [(statements.text_hash(text), UNIT) for text in TEXTS[:-1]]
    vectors.append((statements.text_hash(TEXTS[-1]), UNIT + OTHER))
    await made.database.run(lambda c: statements.put_vectors(c, made.tables, vectors))
    await made.load_matrix()
    try:
        yield made
    finally:
        await made.close()


async def found(store: Store) -> Problem | None:
    return await Checker(store, found=lambda problem: None, sleep=at_once).check()


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


async def change(store: Store, statement: str, *values: object) -> None:
    def run(connection: object) -> None:
        connection.execute("PRAGMA foreign_keys = OFF")  # type: ignore[attr-defined]
        connection.execute(statement, values)  # type: ignore[attr-defined]

    await store.database.run(run)


async def test_a_sound_index_has_no_problem(store: Store) -> None:
    assert await found(store) is None


@pytest.mark.parametrize("row", [1, checks.PORTION_ROWS, checks.PORTION_ROWS + 1, len(TEXTS)])
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("text", "boiler numbeR", "has a changed text"),
        ("hash", "0" * 64, "has a changed text"),
        ("start_line", 9_999, "has an id of another place"),
        ("end_line", 9_999, "has an id of another place"),
        ("model", "usf", "has an id of another place"),
        ("id", "0" * 64, "has an id of another place"),
        ("heading", "Horse", "has a changed heading"),
        ("file_id", 77, "has no file"),
        ("vector_id", 2, "has the vector of another text"),
    ],
)
async def test_a_chunk_that_is_not_as_it_was_written(
    store: Store, row: int, column: str, value: object, said: str
) -> None:
    await change(store, f"UPDATE chunks SET {column} = ? WHERE row_id = ?", value, row)
    problem = await found(store)
    if column == "vector_id" and row == 2:
        return
    assert problem is not None
    assert said in problem.message
    assert (problem.word, problem.table) == ("content", None)


async def test_a_path_that_is_not_as_it_was_written(store: Store) -> None:
    await change(store, "UPDATE files SET path = 'b.md'")
    problem = await found(store)
    assert problem is not None
    assert "has an id of another place" in problem.message


async def test_a_text_that_is_no_utf_8_is_damage(store: Store) -> None:
    await change(store, "UPDATE chunks SET text = CAST(x'ff' AS TEXT) WHERE row_id = 300")
    with pytest.raises(sqlite.OperationalError) as raised:
        await found(store)
    assert checks.problem_of(raised.value).word == "content"


@pytest.mark.parametrize(
    "embedding",
    [
        b"",
        UNIT[:-1],
        UNIT[:-4],
        struct.pack("<4f", 1, 1, 0, 0),
        struct.pack("<4f", float("nan"), 0, 0, 0),
        OTHER,
    ],
    ids=["empty", "cut", "a number less", "longer than 1", "no number", "another"],
)
async def test_a_vector_that_is_not_as_it_was_written(store: Store, embedding: bytes) -> None:
    await change(store, "UPDATE embedding_cache SET embedding = ? WHERE vector_id = 300", embedding)
    problem = await found(store)
    assert problem is not None
    assert "vector 300" in problem.message
    assert problem.table is None


async def test_windows_that_are_not_as_they_were_written(store: Store) -> None:
    last = len(TEXTS)
    await change(
        store, "UPDATE embedding_cache SET embedding = ? WHERE vector_id = ?", UNIT + UNIT, last
    )
    problem = await found(store)
    assert problem is not None
    assert f"vector {last}" in problem.message


async def test_words_that_are_lost_are_a_problem_of_theirs_alone(store: Store) -> None:
    await change(store, f"{REMOVE} VALUES ('delete', 300, 'boiler', 'a house')")
    problem = await found(store)
    assert problem is not None
    assert problem.table == "chunks_fts"


async def test_words_of_a_chunk_that_is_gone_are_a_problem_of_theirs_alone(store: Store) -> None:
    await change(store, "INSERT INTO chunks_fts (rowid, body) VALUES (9999, 'boiler')")
    problem = await found(store)
    assert problem is not None
    assert problem.table == "chunks_fts"


async def test_a_chunk_that_has_no_words(store: Store) -> None:
    await change(store, f"{REMOVE} VALUES ('delete', 300, 'boiler number299', 'a House')")
    problem = await found(store)
    assert problem is not None
    assert (problem.table, problem.kind) == ("chunks_fts", checks.NO_KEYWORDS)


async def test_words_of_another_memoryd_are_no_problem(store: Store) -> None:
    """The next opening replaces them; until then the index can't be written."""
    await change(store, "UPDATE chunks SET words_crc = 0")
    await change(store, "DELETE FROM meta WHERE key = 'words'")
    assert await found(store) is None


async def test_a_vector_of_sqlite_vec_alone(store: Store) -> None:
    def spoil(connection: object) -> None:
        connection.execute("DELETE FROM chunks_vec WHERE rowid = 7")  # type: ignore[attr-defined]
        connection.execute(  # type: ignore[attr-defined]
            "INSERT INTO chunks_vec (rowid, embedding) VALUES (7, ?)", (bytes(16),)
        )

    await store.database.run(spoil)
    problem = await found(store)
    assert problem is not None
    assert problem.table == "chunks_vec"


async def test_what_is_damaged_beside_the_words_comes_first(store: Store) -> None:
    """Words rebuilt from corrupt rows would hide the corruption."""
    await change(store, f"{REMOVE} VALUES ('delete', 1, 'boiler', '')")
    await change(store, "UPDATE chunks SET text = 'other' WHERE row_id = ?", len(TEXTS))
    problem = await found(store)
    assert problem is not None
    assert (problem.word, problem.table) == ("content", None)


async def test_keywords_that_do_not_lead_to_their_chunks(store: Store) -> None:
    await change(
        store,
        "UPDATE chunks_fts_data SET block = zeroblob(length(block))"
        " WHERE id = (SELECT max(id) FROM chunks_fts_data)",
    )
    problem = await found(store)
    assert problem is not None
    assert problem.table == "chunks_fts"
    by_writer = await store.database.run(checks.check_words)
    assert by_writer is not None
    assert by_writer.table == "chunks_fts"
    assert await store.database.run(lambda c: c.in_transaction) is False


# --- schedule


class Sleeps:
    """A sleep that lasts until the test ends it and records its durations."""

    def __init__(self) -> None:
        self.long: list[float] = []
        self.woken = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        if seconds < AGAIN_S:
            return
        self.long.append(seconds)
        await self.woken.wait()
        self.woken.clear()


async def test_it_is_checked_after_the_start_and_once_a_day(store: Store) -> None:
    sleeps, told = Sleeps(), list[Problem]()
    checker = Checker(store, found=told.append, sleep=sleeps)
    running = asyncio.create_task(checker.run())
    await until(lambda: sleeps.long == [DAY_S])
    assert told == []
    await change(store, "UPDATE chunks SET text = 'other' WHERE row_id = 300")
    sleeps.woken.set()
    await until(lambda: bool(told))
    running.cancel()


async def test_a_check_that_cannot_be_made_now_is_made_later(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = Sleeps()
    checker = Checker(store, found=lambda problem: None, sleep=sleeps)

    async def failing() -> None:
        error = sqlite.OperationalError("disk I/O error")
        error.sqlite_errorcode = 10
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checker, "check", failing)
        running = asyncio.create_task(checker.run())
        await until(lambda: sleeps.long == [AGAIN_S])
    sleeps.woken.set()
    await until(lambda: sleeps.long == [AGAIN_S, DAY_S])
    running.cancel()


async def test_an_index_that_took_its_place_meanwhile_is_checked_from_its_beginning(
    store: Store,
) -> None:
    portions = 0

    async def swapped(seconds: float) -> None:
        nonlocal portions
        portions += 1
        if portions == 1:
            store.generation += 1

    checker = Checker(store, found=lambda problem: None, sleep=swapped)
    assert await checker.check() is None
    assert portions >= 1 + 2 * 3
