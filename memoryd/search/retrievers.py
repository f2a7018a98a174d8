"""The two legs: one finds candidates by words, one by meaning; one that can't run says why."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from memoryd.index.driver import Connection, Error
from memoryd.index.store import Store
from memoryd.index.vector_matrix import Vector, VectorMatrix
from memoryd.search import lexical
from memoryd.search.evidence import Question
from memoryd.search.lexical import Corpus, read_corpus
from memoryd.search.query import Query
from memoryd.text.tokenize import Term

FileIds = frozenset[int] | None
"""Files that candidates may be of; None: any."""


class LegError(Exception):
    """The query can't be embedded now; the message is the reason."""


def _in_one(text: str) -> list[int]:
    return [0] * (text.count("\n") + 1)


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """How to embed a query and how to read its cosines. `problem` says why not, or None.

    `embed` returns shape (dims,), of length 1, or raises `LegError`; `calibrate` maps a cosine to 0
    for what is unrelated and 1 for what is the same; `window_of_each_line` says in which of its
    vectors each line of a text is.
    """

    embed: Callable[[str], Awaitable[Vector]]
    calibrate: Callable[[float], float]
    problem: Callable[[], str | None]
    window_of_each_line: Callable[[str], list[int]] = _in_one


@dataclass(slots=True)
class Retrieval:
    """One search's legs: what they are asked, which of them ran, and what they found.

    `corpus` is what the keyword leg has read of the question's terms, None if it did not run.
    """

    store: Store
    leg: VectorLeg | None
    query: Query
    question: Question
    words: bool
    meaning: bool
    corpus: Corpus | None = None
    meaning_ran: bool = False
    vector: Vector | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def words_ran(self) -> bool:
        """Whether the keyword leg has answered."""
        return self.corpus is not None

    @property
    def mode(self) -> str:
        """What really ran."""
        if self.words_ran and self.meaning_ran:
            return "hybrid"
        return "keyword" if self.words_ran else "vector" if self.meaning_ran else "none"

    async def find(self, k: int, file_ids: FileIds) -> tuple[dict[int, float], dict[int, float]]:
        """Return the best k by BM25 (as SQLite has it) and by cosine, best first, by row."""
        if self.words and self.meaning:
            text, meaning = await asyncio.gather(
                self._by_words(k, file_ids), self._by_meaning(k, file_ids)
            )
            return text, meaning
        meaning = await self._by_meaning(k, file_ids) if self.meaning else {}
        if self.words or not self.meaning_ran:
            return await self._by_words(k, file_ids), meaning
        return {}, meaning

    async def cosines(self, rows: list[int]) -> dict[int, float]:
        """Return the cosines of rows that were found by words alone."""
        matrix = self._matrix
        if self.vector is None or matrix is None:
            return {}
        return await asyncio.to_thread(matrix.cosines, self.vector, rows)

    def line_cosines(self, row: int, text: str) -> list[float]:
        """Return the cosine of each line of a chunk with the question; nothing without vectors."""
        matrix = self._matrix
        if self.vector is None or matrix is None or self.leg is None:
            return []
        windows = matrix.window_cosines(self.vector, row)
        if not windows:
            return []
        last = len(windows) - 1
        return [windows[min(at, last)] for at in self.leg.window_of_each_line(text)]

    @property
    def _matrix(self) -> VectorMatrix | None:
        """The vectors; None while there are none, or they were replaced by some of other dims."""
        matrix = self.store.matrix
        if matrix is None or self.vector is None or len(self.vector) == matrix.dims:
            return matrix
        return None

    async def _by_words(self, k: int, file_ids: FileIds) -> dict[int, float]:
        if self.store.fts_error is not None:
            self.warnings.append(f"keyword search is off: {self.store.fts_error}")
            return {}
        find = partial(
            _by_bm25, terms=self.question.terms, k=k, file_ids=file_ids, corpus=self.corpus
        )
        try:
            self.corpus, found = await self.store.readers.read(find)
        except Error as error:
            self.warnings.append(f"keyword search failed: {error}")
            return {}
        return dict(found)

    async def _by_meaning(self, k: int, file_ids: FileIds) -> dict[int, float]:
        if self.leg is None:
            if not self.words:
                self.warnings.append("vector search is off: there is no provider")
            return {}
        if (problem := self.leg.problem()) is not None:
            self.warnings.append(f"vector search is off: {problem}")
            return {}
        matrix = self.store.matrix
        if matrix is None or len(matrix) == 0:
            if not self.store.matrix_ready.is_set():
                self.warnings.append("vector search is off: vectors are still being read")
            return {}
        if self.vector is None:
            try:
                self.vector = await self.leg.embed(self.query.text)
            except LegError as error:
                self.warnings.append(f"vector search is off: {error}")
                return {}
        if (matrix := self._matrix) is None:
            self.warnings.append("vector search is off: the index has just been built anew")
            return {}
        self.meaning_ran = True
        search = partial(matrix.search, self.vector, k, file_ids=file_ids)
        return dict(await asyncio.to_thread(search))


def _by_bm25(
    connection: Connection,
    terms: Sequence[Term],
    k: int,
    file_ids: FileIds,
    corpus: Corpus | None,
) -> tuple[Corpus, list[tuple[int, float]]]:
    """Rank by BM25; terms are counted once in a search, however many parts it has."""
    corpus = corpus or read_corpus(connection, terms)
    return corpus, lexical.search(connection, corpus.frequency, k, file_ids=file_ids)
