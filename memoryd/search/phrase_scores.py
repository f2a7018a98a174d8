"""BM25 of the chunks that have each phrase of a question, kept in memory for a small index.

SQLite's bm25() of several phrases is the sum of that of each, in their order. So the scores that it
returns for one phrase serve every question with that phrase. Adding them up takes a quarter of the
time of a statement that ranks, and gives the same scores to the last bit.
"""

import threading
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from memoryd.index.driver import Connection
from memoryd.search.keyword_sql import RANKED
from memoryd.search.vocabulary import Vocabulary
from memoryd.text.stem import is_plain, stem

MOST_CHUNKS = 1_000
"""Chunks up to which phrases are scored alone. In more, SQLite need not rank all with a phrase."""
_CHUNKS_PER_QUESTION = 200
"""Chunks of plain words whose scores are read for each question that was asked since words changed.
As long as it takes to read more, SQLite ranks a whole question. Other words have to be counted in
nearly the time in which their scores are read."""
_MOST_BYTES = 2**20
_BYTES_PER_PHRASE, _BYTES_PER_CHUNK = 320, 16


class _Scored(NamedTuple):
    """The chunks that have a phrase, and SQLite's bm25() of each."""

    rows: "array[int]"
    scores: "array[float]"

    @property
    def size_bytes(self) -> int:
        return _BYTES_PER_PHRASE + _BYTES_PER_CHUNK * len(self.rows)


class PhraseScores:
    """The scores of phrases in one state of an index; all connections that read it share them.

    They take at most 1 MiB. The phrases that were read first are forgotten first.
    """

    def __init__(self, state: object, chunks: int) -> None:
        """`state` is another one if any chunk was added or deleted, or got other words."""
        self.state = state
        self.vocabulary = Vocabulary(chunks)
        self._may_read = 0
        self._known: dict[str, _Scored] = {}
        self._size_bytes = 0
        self._lock = threading.Lock()

    def missing(self, phrases: Iterable[str]) -> list[str]:
        """Return those of the phrases whose scores were not read yet."""
        return [phrase for phrase in phrases if phrase not in self._known]

    def read(self, connection: Connection, missing: Iterable[str], chunks: int) -> bool:
        """Read the scores of a question's missing phrases; so many chunks have the plain words.

        Return False if there were too few questions yet for as many: SQLite ranks this one.
        """
        self._may_read += _CHUNKS_PER_QUESTION
        if chunks > self._may_read:
            return False
        self._may_read -= chunks
        for each in missing:
            self._scored(connection, each)
        return True

    def count(self, connection: Connection, word: str) -> int | None:
        """Return how many chunks have a plain word, None if that is not in memory."""
        if (scored := self._known.get(f'"{word}"')) is not None:
            return len(scored.rows)
        return self.vocabulary.count(stem(word))

    def having(self, connection: Connection, phrases: Sequence[str]) -> int:
        """Return the number of chunks that have any of the phrases."""
        if len(phrases) == 1:
            return len(self._scored(connection, phrases[0]).rows)
        return len(set().union(*(self._scored(connection, each).rows for each in phrases)))

    def best(
        self,
        connection: Connection,
        phrases: Iterable[str],
        k: int,
        among: Collection[int] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the k best (row_id, bm25) with any of the phrases, best (most negative) first.

        `among` are the rows to choose from, None for all.
        """
        scored = [(phrase, self._scored(connection, phrase)) for phrase in phrases]
        scored.sort(key=lambda each: (len(each[1].rows), each[0]))  # sums depend on the order
        totals: dict[int, float] = {}
        for _, (rows, scores) in scored:
            for row, score in zip(rows, scores, strict=True):
                totals[row] = totals.get(row, 0.0) + score
        if among is not None:
            totals = {row: totals[row] for row in among if row in totals}
        least = sorted(totals.values())[k - 1] if len(totals) > k else 0.0
        best = [(score, row) for row, score in totals.items() if score <= least]
        best.sort()
        return [(row, score) for score, row in best[:k]]

    def rule_out(self, connection: Connection, words: Iterable[str]) -> bool:
        """Return whether certainly no chunk has all of the words."""
        plain = [f'"{word.lower()}"' for word in words if is_plain(word)]
        rows = [set(self._scored(connection, each).rows) for each in plain if each in self._known]
        return bool(rows) and not set.intersection(*rows)

    def _scored(self, connection: Connection, phrase: str) -> _Scored:
        if (scored := self._known.get(phrase)) is None:
            found = connection.execute(RANKED, (phrase,)).fetchall()
            rows, scores = [row for row, _ in found], [score for _, score in found]
            scored = _Scored(array("q", rows), array("d", scores))
            with self._lock:
                if phrase not in self._known:
                    self._known[phrase] = scored
                    self._size_bytes += scored.size_bytes
                while self._size_bytes > _MOST_BYTES:
                    self._size_bytes -= self._known.pop(next(iter(self._known))).size_bytes
        return scored
