"""Search in one process with a given query vector, compared with SQLite alone.

Three ways search the same index file: the vectors in memory, the reference's join scan
(`vec_distance_cosine … ORDER BY … LIMIT`) and vec0's own KNN.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench import read_path
from bench.corpus import (
    SECTIONS_PER_NOTE,
    Prose,
    build_index,
    open_store,
    unit_vectors,
    write_notes,
)
from bench.daemon import anonymous_bytes, place
from bench.figures import Report, at_least, at_most, percentile
from memoryd.config.settings import QuerySettings
from memoryd.embed.local import CALIBRATION
from memoryd.embed.worker import DIMS
from memoryd.index.driver import Connection
from memoryd.index.store import Store
from memoryd.index.vector_matrix import VectorMatrix
from memoryd.search import lexical
from memoryd.search.engine import SearchEngine
from memoryd.search.lexical import read_corpus
from memoryd.search.retrievers import VectorRetriever
from memoryd.text.tokenize import query_terms
from memoryd_client.schema.search import SearchBody

K = 24
"""Candidates of one search: 6 results × 4."""
JOIN_SCAN_SQL = (
    "SELECT c.row_id, vec_distance_cosine(v.embedding, ?) AS distance FROM chunks_vec v"
    " JOIN chunks c ON c.vector_id = v.rowid WHERE c.model = ? ORDER BY distance LIMIT ?"
)
KNN_SQL = (
    "WITH near AS MATERIALIZED"
    " (SELECT rowid, distance FROM chunks_vec WHERE embedding MATCH ? AND k = ?)"
    " SELECT c.row_id, distance FROM near JOIN chunks c ON c.vector_id = near.rowid"
    " ORDER BY distance"
)
QUERIES = 100
ONE_FOLDER = "memory/000/**"
Vector = NDArray[np.float32]
Ranking = list[tuple[int, float]]
Question = TypeVar("Question")
Answer = TypeVar("Answer")


def run(report: Report, *, quick: bool) -> None:
    """Measure with 10,000 chunks, with 100,000 unless `quick`, and with LoCoMo's conversations."""
    read_path.measure(report, quick=quick)
    for chunks in (10_000,) if quick else (10_000, 100_000):
        asyncio.run(_measure(report, chunks, searches=200 if quick else 500))


async def _measure(report: Report, chunks: int, *, searches: int) -> None:
    with place() as where:
        config = where.configure('provider = "local"')
        prose = Prose()
        report.note(f"building an index of {chunks:,} chunks ...")
        write_notes(where.workspace, chunks // SECTIONS_PER_NOTE, prose)
        built = await build_index(config)
        store = open_store(config)
        await store.open()
        try:
            await _measure_index(report, store, prose, chunks=built, searches=searches)
        finally:
            await store.close()


async def _measure_index(
    report: Report, store: Store, prose: Prose, *, chunks: int, searches: int
) -> None:
    size = f"{round(chunks, -4):,} chunks"
    before = anonymous_bytes(os.getpid())
    started = time.perf_counter()
    await store.load_matrix()
    report.add(f"vectors read into memory, {size}", time.perf_counter() - started, "s")
    matrix = store.matrix
    assert matrix is not None
    grown = (anonymous_bytes(os.getpid()) - before) / 2**20
    large = size.startswith("100,")
    report.add(f"memory of the vectors, {size}", grown, "MiB", at_most(80.0) if large else None)
    queries = _near(await store.database.run(_some_vectors))
    join_scan_s, knn_s = await _vector_search(report, store, matrix, queries, size)
    search_s = await _whole_search(report, store, prose, queries, size, searches=searches)
    # Before and after the searches, because the machine's speed drifts.
    again_s = await _alternatives(store, queries)
    scan, knn = (percentile(s + a, 50) for s, a in zip((join_scan_s, knn_s), again_s, strict=True))
    join_target, knn_target = (100.0, 9.0) if large else (30.0, None)
    report.add(f"join scan ÷ whole search, {size}", scan / search_s, "×", at_least(join_target))
    target = None if knn_target is None else at_least(knn_target)
    report.add(f"vec0 KNN ÷ whole search, {size}", knn / search_s, "×", target)


async def _alternatives(store: Store, queries: list[Vector]) -> tuple[list[float], list[float]]:
    """Return the seconds of join scans and of vec0's searches for a few queries."""
    model = store.identity.model

    async def join_scan(query: Vector) -> Ranking:
        return await store.readers.read(partial(_fetch, JOIN_SCAN_SQL, (query.tobytes(), model, K)))

    async def knn(query: Vector) -> Ranking:
        return await store.readers.read(partial(_fetch, KNN_SQL, (query.tobytes(), K)))

    few = queries[:7]
    _, exact_s = await _timed(join_scan, few)
    _, near_s = await _timed(knn, few)
    return exact_s, near_s


async def _vector_search(
    report: Report, store: Store, matrix: VectorMatrix, queries: list[Vector], size: str
) -> tuple[list[float], list[float]]:
    """Report vector search and its alternatives; return the latter's seconds."""

    async def in_memory(query: Vector) -> Ranking:
        return list((await asyncio.to_thread(matrix.search, query, K)).cosines.items())

    ours, ours_s = await _timed(in_memory, queries)
    # Interleaved, so that a change of the machine's load affects all alike.
    exact_s, near_s = await _alternatives(store, queries)
    _, again_s = await _timed(in_memory, queries)
    large = size.startswith("100,")
    ours_s = ours_s + again_s
    report.add_times(f"vector leg, {size}", ours_s, k=K)
    join_ratio = percentile(exact_s, 50) / percentile(ours_s, 50)
    knn_ratio = percentile(near_s, 50) / percentile(ours_s, 50)
    report.add(
        f"join scan, {size}, p50", percentile(exact_s, 50) * 1000, "ms", samples=len(exact_s)
    )
    report.add(f"vec0 KNN, {size}, p50", percentile(near_s, 50) * 1000, "ms", samples=len(exact_s))
    report.add(
        f"join scan ÷ vector leg, {size}", join_ratio, "×", at_least(100.0 if large else 30.0)
    )
    report.add(f"vec0 KNN ÷ vector leg, {size}", knn_ratio, "×", at_least(5.0) if large else None)
    report.add(
        f"recall@{K} of the vector leg against the exact scan, {size}",
        _recall(ours, await store.database.run(partial(_exact, queries=queries))),
        "of 1",
        at_least(0.995),
    )
    return exact_s, near_s


async def _whole_search(
    report: Report,
    store: Store,
    prose: Prose,
    queries: list[Vector],
    size: str,
    *,
    searches: int,
) -> float:
    """Report whole searches and keyword search; return the median seconds of a whole search."""
    texts = [prose.question() for _ in range(searches)]
    vector_of = {text: queries[i % len(queries)] for i, text in enumerate(texts)}

    async def embed(text: str) -> Vector:
        return vector_of[text]

    retriever = VectorRetriever(embed, CALIBRATION.apply, lambda: None)
    engine = SearchEngine(store, QuerySettings(), retriever)
    await engine.search(SearchBody(query=texts[0]))
    started = time.perf_counter()
    await engine.postings.loaded()
    report.add(f"words read into memory, {size}", time.perf_counter() - started, "s")
    found, search_s = await _timed(lambda text: engine.search(SearchBody(query=text)), texts)
    assert all(result.mode == "hybrid" and result.results for result in found)
    large = size.startswith("100,")
    report.add_times(
        f"whole search, {size}",
        search_s,
        at_most(15.0 if large else 3.0, checked=False),
        at_most(50.0 if large else 15.0, checked=False),
    )
    _, keyword_s = await _timed(
        lambda text: store.readers.read(partial(_keyword_leg, engine, text=text)),
        texts,
    )
    report.add_times(f"keyword leg alone, {size}", keyword_s)
    _, filtered_s = await _timed(
        lambda text: engine.search(SearchBody(query=text, path_glob=ONE_FOLDER)), texts[:100]
    )
    report.add_times(f"whole search in one folder of 100 notes, {size}", filtered_s)
    return percentile(search_s, 50)


async def _timed(
    work: Callable[[Question], Awaitable[Answer]], questions: list[Question]
) -> tuple[list[Answer], list[float]]:
    """Ask all questions in turn, the first one twice. Return answers and seconds."""
    await work(questions[0])
    answers: list[Answer] = []
    times_s: list[float] = []
    for question in questions:
        started = time.perf_counter()
        answers.append(await work(question))
        times_s.append(time.perf_counter() - started)
    return answers, times_s


def _keyword_leg(engine: SearchEngine, connection: Connection, text: str) -> Ranking:
    words = lexical.words_in_memory(connection, engine.postings, 0)
    corpus = read_corpus(connection, query_terms(text), words=words)
    return lexical.search(connection, corpus, K, words=words)


def _fetch(sql: str, values: tuple[object, ...], connection: Connection) -> Ranking:
    return connection.execute(sql, values).fetchall()


def _exact(connection: Connection, queries: list[Vector]) -> list[Ranking]:
    """Return the best rows of each query by the products of all stored vectors as float32."""
    cursor = connection.execute(
        "SELECT c.row_id, v.embedding FROM chunks_vec v JOIN chunks c ON c.vector_id = v.rowid"
    )
    ids: list[int] = []
    parts: list[Vector] = []
    while rows := cursor.fetchmany(2_000):
        ids += [row_id for row_id, _ in rows]
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4").reshape(-1, DIMS)
        parts.append(vectors @ np.stack(queries).T)
    scores = np.concatenate(parts).T
    return [[(ids[at], float(row[at])) for at in np.argsort(-row)[:K]] for row in scores]


def _some_vectors(connection: Connection) -> list[bytes]:
    found = connection.execute(
        "SELECT embedding FROM chunks_vec ORDER BY rowid LIMIT ?", (QUERIES,)
    )
    return [embedding for (embedding,) in found]


def _near(embeddings: list[bytes]) -> list[Vector]:
    """Return a query vector near each of the vectors, with a cosine of about 0.6."""
    vectors = np.frombuffer(b"".join(embeddings), "<f4").reshape(len(embeddings), DIMS)
    queries = 0.6 * vectors + 0.8 * unit_vectors(len(embeddings), seed=13)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return list(queries.astype(np.float32))


def _recall(found: list[Ranking], exact: list[Ranking]) -> float:
    shared = sum(
        len({row for row, _ in ours} & {row for row, _ in truth})
        for ours, truth in zip(found, exact, strict=True)
    )
    return shared / sum(map(len, exact))
