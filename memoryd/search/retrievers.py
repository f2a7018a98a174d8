"""Keyword retriever (BM25) and vector retriever (cosine).

A retriever that can't run leaves a warning, and the other one answers.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from memoryd.index.driver import Connection, Error
from memoryd.index.quantize import Vector
from memoryd.index.queries import read_untrusted
from memoryd.index.store import Store
from memoryd.index.vector_matrix import Nearest, VectorMatrix
from memoryd.search import lexical
from memoryd.search.evidence import Question
from memoryd.search.fuse import usual_scale
from memoryd.search.index_answers import one_state
from memoryd.search.lexical import Corpus, read_corpus, words_in_memory
from memoryd.search.phrase_scores import PhraseScores
from memoryd.search.postings import KnownWords, Postings
from memoryd.search.query import Query

T = TypeVar("T")
FileIds = frozenset[int] | None
"""Files whose chunks may be candidates; None: all."""
_BESIDE_FROM = 16_000
"""Vectors from which they are searched beside the keywords: fewer take less than a millisecond, and
another thread takes 0.2 ms."""
_beside = ThreadPoolExecutor(2, thread_name_prefix="vectors")


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
    """The best chunks of some files: SQLite's bm25() and cosines by row, best first.

    `other_cosines` are those of chunks that only the keyword retriever found, and `windows` those
    of the windows of chunks of both. `words` is what is kept of words in memory.
    """

    bm25: dict[int, float]
    cosines: dict[int, float]
    other_cosines: dict[int, float]
    windows: dict[int, list[float]]
    encoded: EncodedQuery
    warnings: list[str]
    words: KnownWords | PhraseScores | None = None


def _on_one_state(
    search: Callable[[Connection, "Retrievers"], T],
    retrievers: "Retrievers",
    connection: Connection,
) -> T:
    with one_state(connection):
        return search(connection, retrievers)


@dataclass(frozen=True, slots=True)
class Retrievers:
    """The retrievers of one search; `keyword` and `vector` say which of them the mode asks for.

    `trusted`: no untrusted chunk may be a candidate. `off` is the reason why there is no keyword
    search, None if there is. `postings` keeps the words of a large index.
    """

    store: Store
    vector_retriever: VectorRetriever | None
    query: Query
    question: Question
    keyword: bool
    vector: bool
    trusted: bool = False
    off: str | None = None
    postings: Postings | None = None

    async def embed(self) -> tuple[EncodedQuery, list[str]]:
        """Return the query with its vector if vectors are searched, else the reason why not."""
        retriever, matrix = self.vector_retriever, self.store.matrix
        reason: str | None = None
        if not self.vector:
            return EncodedQuery(), []
        if retriever is None:
            reason = None if self.keyword else "no provider is configured"
        elif (reason := retriever.problem()) is not None:
            pass
        elif matrix is None or len(matrix) == 0:
            loaded = self.store.matrix_ready.is_set()
            reason = None if loaded else "the vectors are still loading"
        else:
            try:
                vector = await retriever.embed(self.query.text)
            except RetrieverError as error:
                reason = str(error)
            else:
                if self._matrix_for(vector) is not None:
                    return EncodedQuery(vector=vector), []
                reason = "the index has just been rebuilt"
        return EncodedQuery(), [] if reason is None else [f"vector search is off: {reason}"]

    async def read(self, search: Callable[[Connection, "Retrievers"], T]) -> T:
        """Run a whole search on a reader's thread, again without keywords if these fail there."""
        reason = self.store.fts_error
        if reason is None:
            try:
                return await self.store.readers.read(partial(_on_one_state, search, self))
            except Error as error:
                off = f"keyword search failed: {error}"
        else:
            off = f"keyword search is off: {reason}"
        others = replace(self, off=off)
        return await self.store.readers.read(partial(_on_one_state, search, others))

    def retrieve(
        self, connection: Connection, k: int, file_ids: FileIds, encoded: EncodedQuery
    ) -> Retrieved:
        """Return the best k chunks of each retriever; blocks. `encoded` has the query's vector.

        Keywords are also searched if only vectors were asked for and can't be. The terms are
        counted once in a search, however many parts it has.
        """
        corpus, vector = encoded.corpus, encoded.vector
        matrix = self._matrix_for(vector)
        beside: Future[Nearest] | None = None
        if vector is not None and matrix is not None:
            without = read_untrusted(connection) if self.trusted else ()
            find = partial(matrix.search, vector, k, file_ids=file_ids, without=without)
            if len(matrix) > _BESIDE_FROM:
                beside = _beside.submit(find)
        bm25, warnings = dict[int, float](), list[str]()
        words: KnownWords | PhraseScores | None = None
        if self.keyword or vector is None:
            if self.off is None:
                if self.postings is not None:
                    words = words_in_memory(connection, self.postings, self.store.generation)
                corpus = corpus or read_corpus(
                    connection, self.question.terms, self.question.language, words
                )
                trusted = self.trusted
                bm25 = dict(
                    lexical.search(
                        connection, corpus, k, file_ids=file_ids, trusted=trusted, words=words
                    )
                )
            else:
                warnings.append(self.off)
        near = Nearest({}, {}, {})
        if beside is not None:
            near = beside.result()
            near = near._replace(others=self.cosines(vector, bm25.keys() - near.cosines))
        elif vector is not None and matrix is not None:
            near = find(also=bm25)
        return Retrieved(bm25, *near, EncodedQuery(corpus, vector), warnings, words)

    def cosines(self, vector: Vector | None, rows: Collection[int]) -> dict[int, float]:
        """Return the cosines of rows that only the keyword retriever found; blocks."""
        matrix = self._matrix_for(vector)
        if vector is None or matrix is None:
            return {}
        return matrix.cosines(vector, rows)

    def usual(self, cosines: Mapping[int, float]) -> Mapping[int, float]:
        """Return cosines on the scale of the bundled model."""
        if self.vector_retriever is None:
            return cosines
        calibrate = self.vector_retriever.calibrate
        return {row: usual_scale(calibrate(cosine)) for row, cosine in cosines.items()}

    def line_cosines(
        self,
        vector: Vector | None,
        known: Mapping[int, list[float]],
        texts: Mapping[int, str],
    ) -> dict[int, list[float]]:
        """Return the cosine of each line of chunks with the query; nothing without vectors.

        `known` are the cosines of the windows of some of them.
        """
        matrix, retriever = self._matrix_for(vector), self.vector_retriever
        if vector is None or matrix is None or retriever is None:
            return {}
        of_windows = {row: known[row] for row in texts if row in known}
        if unknown := texts.keys() - of_windows:
            of_windows |= matrix.window_cosines(vector, unknown)
        found: dict[int, list[float]] = {}
        for row, windows in of_windows.items():
            text, last = texts[row], len(windows) - 1
            if last:
                of_lines = retriever.window_of_each_line(text)
                if of_lines[-1] > last:  # the last windows are missing
                    of_lines = [min(at, last) for at in of_lines]
                found[row] = [windows[at] for at in of_lines]
            else:
                found[row] = windows * (text.count("\n") + 1)
        return found

    def _matrix_for(self, vector: Vector | None) -> VectorMatrix | None:
        """Return the vectors; None if there are none, or if new ones have other dimensions."""
        matrix = self.store.matrix
        if matrix is None or vector is None or len(vector) != matrix.dims:
            return None
        return matrix
