"""Keyword retriever (BM25) and vector retriever (cosine).

A retriever that can't run leaves a warning, and the other one answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from memoryd.index.driver import Connection, Error
from memoryd.index.quantize import Vector
from memoryd.index.queries import read_untrusted
from memoryd.index.store import Store
from memoryd.index.vector_matrix import VectorMatrix
from memoryd.search import lexical
from memoryd.search.evidence import Question
from memoryd.search.lexical import Corpus, read_corpus
from memoryd.search.query import Query

FileIds = frozenset[int] | None
"""Files whose chunks may be candidates; None: all."""


class RetrieverError(Exception):
    """The query can't be embedded now; the message is the reason."""


def in_one_window(text: str) -> list[int]:
    """Return the window of each line of a text that is embedded as a whole."""
    return [0] * (text.count("\n") + 1)


@dataclass(frozen=True, slots=True)
class VectorRetriever:
    """Embedding of queries and scale of cosines. `problem` returns why it can't run, or None.

    `embed` returns a unit vector of shape (dims,) or raises `RetrieverError`; `calibrate` maps a
    cosine to 0 for unrelated and 1 for equal texts; `window_of_each_line` maps each line of a text
    to the vector of the window that contains it.
    """

    embed: Callable[[str], Awaitable[Vector]]
    calibrate: Callable[[float], float]
    problem: Callable[[], str | None]
    window_of_each_line: Callable[[str], Sequence[int]] = in_one_window


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """The query as the retrievers read it: its terms' counts, its vector; None: has not run."""

    corpus: Corpus | None = None
    vector: Vector | None = None

    @property
    def mode(self) -> str:
        """Return which retrievers ran."""
        if self.corpus is not None and self.vector is not None:
            return "hybrid"
        if self.corpus is not None:
            return "keyword"
        return "none" if self.vector is None else "vector"


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The best chunks of some files: SQLite's bm25() and cosines by row, best first."""

    bm25: dict[int, float]
    cosines: dict[int, float]
    encoded: EncodedQuery
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Retrievers:
    """The retrievers of one search; `keyword` and `vector` say which of them the mode asks for.

    `trusted`: no untrusted chunk may be a candidate.
    """

    store: Store
    vector_retriever: VectorRetriever | None
    query: Query
    question: Question
    keyword: bool
    vector: bool
    trusted: bool = False

    async def retrieve(self, k: int, file_ids: FileIds, encoded: EncodedQuery) -> Retrieved:
        """Return the best k chunks of each retriever; `encoded` is reused as far as it goes.

        Keywords are also searched if only vectors were asked for and can't be.
        """
        if self.keyword and self.vector:
            (bm25, corpus, warnings), (cosines, vector, more) = await asyncio.gather(
                self._by_keyword(k, file_ids, encoded.corpus),
                self._by_vector(k, file_ids, encoded.vector),
            )
            return Retrieved(bm25, cosines, EncodedQuery(corpus, vector), warnings + more)
        bm25, cosines, warnings = {}, {}, []
        corpus, vector = encoded.corpus, encoded.vector
        if self.vector:
            cosines, vector, warnings = await self._by_vector(k, file_ids, vector)
        if self.keyword or vector is None:
            bm25, corpus, more = await self._by_keyword(k, file_ids, corpus)
            warnings += more
        return Retrieved(bm25, cosines, EncodedQuery(corpus, vector), warnings)

    def cosines(self, vector: Vector | None, rows: list[int]) -> dict[int, float]:
        """Return the cosines of rows that only the keyword retriever found; blocks."""
        matrix = self._matrix_for(vector)
        if vector is None or matrix is None:
            return {}
        return matrix.cosines(vector, rows)

    def line_cosines(self, vector: Vector | None, row: int, text: str) -> list[float]:
        """Return the cosine of each line of a chunk with the query; nothing without vectors."""
        matrix, retriever = self._matrix_for(vector), self.vector_retriever
        if vector is None or matrix is None or retriever is None:
            return []
        windows = matrix.window_cosines(vector, row)
        if len(windows) <= 1:
            return windows * (text.count("\n") + 1)
        last = len(windows) - 1
        return [windows[min(at, last)] for at in retriever.window_of_each_line(text)]

    def _matrix_for(self, vector: Vector | None) -> VectorMatrix | None:
        """Return the vectors; None if there are none, or if new ones have other dimensions."""
        matrix = self.store.matrix
        if matrix is None or vector is None or len(vector) != matrix.dims:
            return None
        return matrix

    async def _by_keyword(
        self, k: int, file_ids: FileIds, corpus: Corpus | None
    ) -> tuple[dict[int, float], Corpus | None, list[str]]:
        if self.store.fts_error is not None:
            return {}, corpus, [f"keyword search is off: {self.store.fts_error}"]
        find = partial(
            _rank,
            question=self.question,
            k=k,
            file_ids=file_ids,
            trusted=self.trusted,
            corpus=corpus,
        )
        try:
            corpus, found = await self.store.readers.read(find)
        except Error as error:
            return {}, corpus, [f"keyword search failed: {error}"]
        return dict(found), corpus, []

    async def _by_vector(
        self, k: int, file_ids: FileIds, vector: Vector | None
    ) -> tuple[dict[int, float], Vector | None, list[str]]:
        def off(problem: str) -> tuple[dict[int, float], Vector | None, list[str]]:
            return {}, vector, [f"vector search is off: {problem}"]

        retriever, matrix = self.vector_retriever, self.store.matrix
        if retriever is None:
            return ({}, vector, []) if self.keyword else off("no provider is configured")
        if (problem := retriever.problem()) is not None:
            return off(problem)
        if matrix is None or len(matrix) == 0:
            loaded = self.store.matrix_ready.is_set()
            return ({}, vector, []) if loaded else off("the vectors are still loading")
        try:
            embedded = await retriever.embed(self.query.text) if vector is None else vector
        except RetrieverError as error:
            return off(str(error))
        if (matrix := self._matrix_for(embedded)) is None:
            return off("the index has just been rebuilt")
        without = await self.store.readers.read(read_untrusted) if self.trusted else ()
        search = partial(matrix.search, embedded, k, file_ids=file_ids, without=without)
        return dict(await asyncio.to_thread(search)), embedded, []


def _rank(
    connection: Connection,
    question: Question,
    k: int,
    file_ids: FileIds,
    corpus: Corpus | None,
    *,
    trusted: bool,
) -> tuple[Corpus, list[tuple[int, float]]]:
    """Rank by BM25; the terms are counted once in a search, however many parts it has."""
    corpus = corpus or read_corpus(connection, question.terms, question.language)
    found = lexical.search(connection, corpus, k, file_ids=file_ids, trusted=trusted)
    return corpus, found
