"""Keeps the words of a large index in memory, as long as these are not too old."""

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.index.driver import Connection, Error, one_value
from memoryd.index.readers import ReaderPool
from memoryd.index.words import REPLACED
from memoryd.search.fts_sizes import LEAST_NUMBER, MOST_NUMBER
from memoryd.search.word_index import HALVES, WordIndex
from memoryd.text.stem import stem

LEAST_CHUNKS = 4_000
"""Chunks from which words are kept. Fewer are ranked by SQLite in less than half a millisecond."""
_GIVEN_UP_S = 30.0
"""How long reading in the background waits for a connection."""
_NEW_SHARE, _FEW_NEW = 0.05, 1_000
"""New rows, for each chunk and in all, from which everything is read again."""
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
    """The words in memory, beside the state of the index and whether it is still theirs."""

    index: WordIndex
    state: WordState
    is_current: bool

    def count(self, connection: Connection, word: str) -> int | None:
        """Return how many chunks have a word as FTS5 has it, None if that is not known."""
        return self.index.count(connection, word) if self.is_current else None

    def rule_out(self, words: Sequence[str]) -> bool:
        """Return whether certainly no chunk has all of the words."""
        return self.is_current and self.index.rules_out(
            [stem(word.lower()) for word in words if word.isascii() and word.isalnum()]
        )


class Postings:
    """Keeps the `WordIndex` of a store that has enough chunks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[int, WordIndex] | None = None
        self._loading: asyncio.Task[None] | None = None

    def index(
        self, connection: Connection, state: WordState, chunks: int, generation: int
    ) -> KnownWords | None:
        """Return the words of an index, None if SQLite ranks its chunks.

        It does if there are few, if rows have large numbers, and for some time if many chunks were
        added or got other words. `generation` changes when rows get other numbers.
        """
        if chunks < LEAST_CHUNKS or HALVES * state.last_row >= MOST_NUMBER - LEAST_NUMBER:
            self._kept = None
            return None
        with self._lock:
            if self._kept is None or self._kept[0] != generation:
                self._kept = generation, WordIndex(connection, state.replaced)
            index = self._kept[1]
            most_new = max(_FEW_NEW, _NEW_SHARE * chunks)
            if index.replaced != state.replaced or state.last_row - index.last_row > most_new:
                if time.monotonic() < index.read_at_s + _PAUSE_S_PER_CHUNK * index.chunks:
                    return None
                index = WordIndex(connection, state.replaced)
                self._kept = generation, index
        # No number is used again.
        is_current = index.last_row == state.last_row and index.chunks == chunks
        return KnownWords(index, state, is_current)

    def load(self, readers: ReaderPool) -> None:
        """Begin to read words in the background, unless that is under way or done."""
        kept = self._kept
        if self._loading is None and kept is not None and not kept[1].is_loaded:
            self._loading = asyncio.create_task(self._load(kept[1], readers), name="read words")

    async def loaded(self) -> None:
        """Wait until reading in the background is done."""
        if self._loading is not None:
            await asyncio.wait({self._loading})

    async def _load(self, index: WordIndex, readers: ReaderPool) -> None:
        try:
            with suppress(Error, TimeoutError):
                # A later search goes on if the pool is closed meanwhile.
                while readers.is_open and await asyncio.wait_for(
                    readers.read(index.load_some), _GIVEN_UP_S
                ):
                    pass
        finally:
            self._loading = None
