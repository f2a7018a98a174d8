"""Keeps what is known about the words of an index in memory, as long as it is not too old.

That are the words of a large index, and the scores of phrases in a small one.
"""

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from memoryd.index.driver import Connection, Error, one_value
from memoryd.index.readers import ReaderPool
from memoryd.index.words import REPLACED
from memoryd.search.fts_sizes import LEAST_NUMBER, MOST_NUMBER, parse_numbers
from memoryd.search.phrase_scores import MOST_CHUNKS, PhraseScores
from memoryd.search.word_index import HALVES, NOWHERE, Places, Posting, WordIndex, find
from memoryd.text.stem import is_plain, stem

LEAST_CHUNKS = 4_000
"""Chunks from which words are kept. Fewer are ranked by SQLite in less than half a millisecond."""
_GIVEN_UP_S = 30.0
"""Seconds that reading in the background waits for a connection."""
_NEW_SHARE, _FEW_NEW = 0.05, 1_000
"""New rows, for each chunk and in all, from which everything is read again."""
_MOST_NEW = 1_000
"""Phrases whose new chunks are remembered."""
_PAUSE_S_PER_CHUNK = 0.005
"""Seconds between two readings of everything, which takes 0.03 ms of CPU for each chunk."""


class WordState(NamedTuple):
    """The words of an index as they are now: its last row, and how often words were replaced."""

    last_row: int
    replaced: str


def read_state(connection: Connection) -> WordState:
    """Return the state of the words."""
    row = one_value(connection, "SELECT max(id) FROM chunks_fts_docsize")
    replaced = one_value(connection, "SELECT value FROM meta WHERE key = ?", REPLACED)
    return WordState(row or 0, replaced or "")


@dataclass(frozen=True, slots=True)
class KnownWords:
    """The words in memory, and what has changed in the index since they were read.

    `gone` are the places of deleted chunks; there are new ones up to `last_row`, `chunks` in all.
    """

    index: WordIndex
    gone: Places
    last_row: int
    chunks: int
    _new: dict[str, frozenset[int]] = field(default_factory=dict)

    def new_rows(self, connection: Connection, phrase: str) -> frozenset[int]:
        """Return the rows of new chunks that have a phrase."""
        if self.last_row <= self.index.last_row:
            return frozenset()
        if (found := self._new.get(phrase)) is None:
            rows = connection.execute(
                "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? AND rowid > ?",
                (phrase, self.index.last_row),
            ).fetchall()
            if len(self._new) >= _MOST_NEW:
                self._new.clear()
            found = self._new[phrase] = frozenset(row for (row,) in rows)
        return found

    def words(
        self, connection: Connection, counted: Iterable[tuple[str, int]]
    ) -> list[tuple[Posting, float]] | None:
        """Return the chunks of counted phrases with their IDF, as `WordIndex.words` does."""
        count_of = partial(self._count_of, connection)
        return self.index.words(connection, counted, self.chunks, count_of)

    def count(self, connection: Connection, word: str) -> int | None:
        """Return how many chunks have a word, None if that is not known without reading many."""
        posting = self.index.posting(connection, stem(word))
        return None if posting is None else self._count_of(connection, posting, f'"{word}"')

    def _count_of(self, connection: Connection, posting: Posting, phrase: str) -> int:
        count = len(posting.places)
        if len(self.gone):
            count -= int(np.count_nonzero(find(self.gone, posting.places)[1]))
        return count + len(self.new_rows(connection, phrase))

    def rule_out(self, connection: Connection, words: Iterable[str]) -> bool:
        """Return whether certainly no chunk has all of the words."""
        plain = [word.lower() for word in words if is_plain(word)]
        if not self.index.rules_out([stem(word) for word in plain]):
            return False
        return not frozenset.intersection(
            *(self.new_rows(connection, f'"{word}"') for word in plain)
        )


class Postings:
    """Keeps the `WordIndex` of a store with enough chunks; reads it in the background.

    Keeps the `PhraseScores` of a store with few.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scores: PhraseScores | None = None
        self._known: KnownWords | None = None
        self._generation = 0
        self._wanted: tuple[int, str] | None = None
        self._loading: asyncio.Task[None] | None = None

    def index(
        self, connection: Connection, state: WordState, chunks: int, generation: int
    ) -> KnownWords | None:
        """Return the words of an index, None if SQLite ranks its chunks.

        It does until `load` has read them, if there are few chunks, if rows have large numbers, and
        for some time if many chunks were added or got other words. `generation` changes when rows
        get other numbers.
        """
        if chunks < LEAST_CHUNKS or HALVES * state.last_row >= MOST_NUMBER - LEAST_NUMBER:
            self._known = self._wanted = None
            return None
        with self._lock:
            known = self._known
            if known is None or self._generation != generation:
                self._wanted = generation, state.replaced
                return None
            index, most_new = known.index, max(_FEW_NEW, _NEW_SHARE * chunks)
            if index.replaced != state.replaced or state.last_row - index.last_row > most_new:
                if time.monotonic() >= index.read_at_s + _PAUSE_S_PER_CHUNK * index.chunks:
                    self._wanted = generation, state.replaced
                return None
            if (known.last_row, known.chunks) != (state.last_row, chunks):
                gone = _gone(connection, known, state.last_row, chunks)
                known = self._known = KnownWords(index, gone, state.last_row, chunks)
            return known

    def scores(
        self, state: WordState, chunks: int, mean_tokens: float, generation: int
    ) -> PhraseScores | None:
        """Return the scores of phrases in this state of an index, None if it has many chunks."""
        if not 0 < chunks <= MOST_CHUNKS:
            self._scores = None
            return None
        self._known = self._wanted = None
        now = state, chunks, mean_tokens, generation
        with self._lock:
            if self._scores is None or self._scores.state != now:
                self._scores = PhraseScores(now, chunks)
            return self._scores

    def load(self, readers: ReaderPool) -> None:
        """Begin to read words in the background, unless that is under way or done."""
        known = self._known
        is_done = self._wanted is None and (known is None or known.index.is_loaded)
        if self._loading is None and not is_done:
            self._loading = asyncio.create_task(self._load(readers), name="read words")

    async def loaded(self) -> None:
        """Wait until reading in the background is done."""
        if self._loading is not None:
            await asyncio.wait({self._loading})

    async def _load(self, readers: ReaderPool) -> None:
        """Read words as long as the pool is open; a later search goes on."""
        try:
            with suppress(Error, TimeoutError):
                if self._wanted is not None and readers.is_open:
                    generation, replaced = self._wanted
                    read = readers.read(partial(WordIndex, replaced=replaced))
                    index = await asyncio.wait_for(read, _GIVEN_UP_S)
                    with self._lock:
                        self._known = KnownWords(index, NOWHERE, index.last_row, index.chunks)
                        self._generation, self._wanted = generation, None
                known = self._known
                while (
                    known is not None
                    and readers.is_open
                    and await asyncio.wait_for(readers.read(known.index.load_some), _GIVEN_UP_S)
                ):
                    pass
        finally:
            self._loading = None


def _gone(connection: Connection, known: KnownWords, last_row: int, chunks: int) -> Places:
    """Return the places of all chunks that were deleted since the words were read."""
    index, new = known.index, 0
    if last_row > index.last_row:
        new = one_value(
            connection, "SELECT count(*) FROM chunks_fts_docsize WHERE id > ?", index.last_row
        )
    # A chunk that is gone stays so. Reading all rows takes 9 ms for 100,000.
    if index.chunks + new - chunks == len(known.gone):
        return known.gone
    digits = one_value(
        connection,
        f"SELECT CAST(group_concat({LEAST_NUMBER} + id, '') AS BLOB) FROM chunks_fts_docsize"
        " WHERE id <= ?",
        index.last_row,
    )
    return index.missing(parse_numbers(digits or b""))
