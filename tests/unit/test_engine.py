"""The search engine on a real index, with a retriever missing or failing."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from identities import identity
from numpy.typing import NDArray

from memoryd.config.settings import Hybrid, QuerySettings
from memoryd.index import statements
from memoryd.index.catalog import FileRow
from memoryd.index.driver import Connection, run_at_once
from memoryd.index.store import Store, StoreOptions
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile
from memoryd.search.engine import SearchEngine
from memoryd.search.request import BadQueryError
from memoryd.search.retrievers import RetrieverError, VectorRetriever
from memoryd_client.schema.search import SearchBody

DIMS = 8
IDENTITY = identity("p", "m", dims=DIMS, provider_key="")


def vector(text: str) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    made = np.random.default_rng(seed).standard_normal(DIMS).astype(np.float32)
    unit: NDArray[np.float32] = made / np.linalg.norm(made)
    return unit


class Index:
    """A store that the test fills directly, like the writer."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[str] = []
        self.trouble: str | None = None
        self.failure: Exception | None = None

    async def add(self, path: str, text: str) -> None:
        lines = text.count("\n") + 1
        parsed = ParsedFile(FileKey("memory", path), FileStat(1, 1, 1), path, [])
        parsed.chunks.append(Chunk(1, lines, text, ""))
        store = self.store

        def write(connection: Connection) -> statements.RowChanges:
            delta = run_at_once(statements.write_files(connection, store.tables, [parsed]))[0]
            digest = statements.text_hash(text)
            vectors = [(digest, vector(text).tobytes())]
            delta.added += statements.put_vectors(connection, store.tables, vectors).added
            return delta

        delta = await store.database.run(write)
        assert store.matrix is not None
        store.matrix.apply(delta.removed, delta.added)
        store.catalog.put(parsed.key, FileRow(delta.file_id, path, parsed.stat, 1))

    def engine(self, *, hybrid: bool = True) -> SearchEngine:
        async def embed(query: str) -> NDArray[np.float32]:
            self.asked.append(query)
            if self.failure is not None:
                raise self.failure
            return vector(query)

        retriever = VectorRetriever(embed, lambda cosine: max(0.0, cosine), lambda: self.trouble)
        return SearchEngine(self.store, QuerySettings(hybrid=Hybrid(enabled=hybrid)), retriever)


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    options = StoreOptions(tmp_path / "i.sqlite", tmp_path, None, "not wanted here", None)
    store = Store(options, IDENTITY)
    await store.open()
    await store.load_matrix()
    yield Index(store)
    await store.close()


async def test_both_retrievers_find_the_same_chunk(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    await index.add("memory/b.md", "something else")
    result = await index.engine().search(SearchBody("the exact words"))
    best = result.results[0]
    assert (result.mode, best.path, result.warnings) == ("hybrid", "memory/a.md", [])
    assert best.vector_score == pytest.approx(1.0)
    assert best.text_score is not None
    assert 0 < best.text_score < 1


async def test_the_best_are_read_among_more_than_are_read(index: Index) -> None:
    for number in range(40):
        await index.add(f"memory/{number}.md", f"{'alpha ' * (number % 7 + 1)}{number}")
    engine = index.engine()
    few = await engine.search(SearchBody("alpha", max_results=6))
    many = await engine.search(SearchBody("alpha", max_results=40))
    assert len(many.results) > 24
    assert [hit.path for hit in few.results] == [hit.path for hit in many.results[:6]]


async def test_without_fts5_vectors_answer_and_it_is_said(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    index.store.fts_error = "this SQLite was built without FTS5"
    result = await index.engine().search(SearchBody("the exact words"))
    assert (result.mode, result.results[0].path) == ("vector", "memory/a.md")
    assert result.results[0].vector_score == pytest.approx(1.0)
    assert result.results[0].score > 0.35
    assert result.warnings == ["keyword search is off: this SQLite was built without FTS5"]


@pytest.mark.parametrize("way", ["trouble", "failure", "loading"])
async def test_without_vectors_words_answer_and_it_is_said(index: Index, way: str) -> None:
    await index.add("memory/a.md", "the exact words")
    if way == "trouble":
        index.trouble = "another model built it"
    elif way == "failure":
        index.failure = RetrieverError("the provider is away")
    else:
        index.store.matrix = None
        index.store.matrix_ready.clear()
    result = await index.engine().search(SearchBody("exact"))
    assert (result.mode, result.results[0].path) == ("keyword", "memory/a.md")
    (warning,) = result.warnings
    assert warning.startswith("vector search is off: ")


async def test_with_neither_retriever_it_says_none(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    index.store.fts_error = "gone"
    index.failure = RetrieverError("away")
    result = await index.engine().search(SearchBody("exact"))
    assert (result.mode, result.results, len(result.warnings)) == ("none", [], 2)


async def test_a_bug_in_the_vector_retriever_is_not_taken_for_an_outage(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    index.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await index.engine().search(SearchBody("exact"))


async def test_a_blank_query_asks_nobody(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    result = await index.engine().search(SearchBody(" \n "))
    assert (result.results, result.mode, index.asked) == ([], "none", [])


async def test_vectors_alone(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    result = await index.engine(hybrid=False).search(SearchBody("exact"))
    assert result.mode == "vector"
    index.trouble = "away"
    result = await index.engine(hybrid=False).search(SearchBody("exact"))
    assert (result.mode, len(result.results)) == ("keyword", 1)


async def test_a_search_across_a_swap_is_made_again(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    engine = index.engine()
    store = index.store
    times = 0
    read = store.readers.read

    async def read_and_swap(function: object) -> object:
        nonlocal times
        times += 1
        if times == 1:
            store.generation += 1
        return await read(function)  # type: ignore[arg-type]

    store.readers.read = read_and_swap  # type: ignore[method-assign, assignment]
    result = await engine.search(SearchBody("exact"))
    assert [hit.path for hit in result.results] == ["memory/a.md"]
    assert times == 2


@pytest.mark.parametrize("glob", ["*" * 11, "x" * 501])
async def test_a_glob_that_would_take_for_ever_is_refused(index: Index, glob: str) -> None:
    with pytest.raises(BadQueryError, match="path_glob"):
        await index.engine().search(SearchBody("x", path_glob=glob))


async def test_a_cancelled_search_leaves_the_readers_usable(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    engine = index.engine()
    for _ in range(20):
        search = asyncio.create_task(engine.search(SearchBody("exact")))
        await asyncio.sleep(0)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
    result = await engine.search(SearchBody("exact"))
    assert len(result.results) == 1


async def test_vectors_answer_where_keywords_fail(index: Index) -> None:
    await index.add("memory/a.md", "the exact words")
    whole = await index.engine().search(SearchBody("exact"))
    assert (whole.mode, whole.warnings) == ("hybrid", [])
    await index.store.database.run(
        lambda connection: connection.execute("DROP TABLE chunks_fts").fetchall()
    )
    result = await index.engine().search(SearchBody("exact"))
    assert (result.mode, [hit.path for hit in result.results]) == ("vector", ["memory/a.md"])
    (warning,) = result.warnings
    assert warning.startswith("keyword search failed: no such table")


async def test_results_of_lost_files_give_way(index: Index) -> None:
    for number in range(12):
        await index.add(f"memory/{number}.md", f"the exact words of day {number}")
    asked: list[set[str]] = []

    async def gone(keys: set[FileKey]) -> set[FileKey]:
        asked.append({key.path for key in keys})
        return {key for key in keys if int(key.path[7:-3]) < 6}

    result = await index.engine().search(SearchBody("the exact words of day"), gone=gone)
    assert len(result.results) == 6
    assert all(int(hit.path[7:-3]) >= 6 for hit in result.results)
    assert len(asked) > 1
    assert not set.intersection(*asked)
