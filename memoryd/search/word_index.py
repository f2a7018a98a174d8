"""The chunks that have the words of a question, and the best of them by BM25, in memory.

SQLite's bm25() takes 0.6 µs for each chunk that it ranks and counts the chunks of all words again
in each statement. Here, the chunks that have a word are added up in a few vector operations. Words
that many chunks have are kept, and are read in the background once somebody searches. Those of
other words are read for each question, in about 0.2 µs a chunk.

A chunk never gets another row, and its row keeps its words unless its file gets other ones
(`words.REPLACED`). So what is kept stays right while chunks are added and deleted: the caller ranks
those that are newer than `last_row`, and leaves out those that are gone.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.index.driver import Connection, Error, one_value
from memoryd.search.fts_sizes import LEAST_NUMBER, parse_numbers, read_all_lengths
from memoryd.search.keyword_bound import SATURATION, idf_of
from memoryd.text.stem import stem

K1, B = 1.2, 0.75
"""SQLite's parameters of BM25."""
_KEPT_SHARE, _STOP_SHARE = 0.05, 0.5
"""Share of the chunks from which a word is kept, and from which it says nothing."""
_MOST_RECENT = 32
"""Rare words whose chunks are kept until there are more."""
_MOST_VERIFIED = 4_000
"""Words in other letters than ASCII of which it is known how FTS5 has them."""
_READ_SHARE = 0.07
"""Share of the chunks up to which a word that is not kept is read for a question."""
_BYTES_PER_CHUNK = 96
"""Memory of the kept words, for each chunk of the index."""
_STEP_S, _STEP_WORDS = 0.01, 100
"""Duration of a step of reading in the background, and words of which it reads the counts."""
_LOOKED_AT = 4
"""Chunks that are looked at for each one that is wanted, and factor if these were too few."""
_ROUNDING = 1e-9
HALVES = 2
"""A word in the path or the headings counts half as much as one in the text."""
_FAR = 255
"""A gap of that size in `_Packed` has no chunk at its end."""
_TABLE = "temp.chunks_fts_places"
_READ = (
    f"SELECT CAST(group_concat({LEAST_NUMBER} + {HALVES} * doc + (col <> 'body'), '') AS BLOB)"
    f" FROM {_TABLE} WHERE term = ?"
)

Places = NDArray[np.int32]
NOWHERE: Places = np.empty(0, np.int32)
Counts = NDArray[np.uint8] | NDArray[np.int64]
Ranked = list[tuple[int, float]]
"""(row, bm25) of chunks, best (most negative) first."""


class Posting(NamedTuple):
    """The places of the chunks that have a word, in order, and how often, in halves."""

    places: Places
    halves: Counts

    def unpacked(self) -> "Posting":
        """Return itself: it is not packed."""
        return self


class _Packed(NamedTuple):
    """A `Posting` in two bytes a chunk: `gaps` are the distances of its places."""

    gaps: NDArray[np.uint8]
    halves: Counts

    @classmethod
    def of(cls, posting: Posting) -> "_Packed":
        distances = np.diff(posting.places, prepend=np.int32(-1))
        far, rest = np.divmod(distances, _FAR)
        gaps = np.full(len(distances) + int(far.sum()), _FAR, np.uint8)
        gaps[np.cumsum(far) + np.arange(len(far))] = rest
        return cls(gaps, posting.halves)

    def unpacked(self) -> Posting:
        places = np.cumsum(self.gaps, dtype=np.int32) - np.int32(1)
        if len(places) > len(self.halves):
            places = places[self.gaps != _FAR]
        return Posting(places, self.halves)

    @property
    def size_bytes(self) -> int:
        return self.gaps.nbytes + self.halves.nbytes


class WordIndex:
    """The chunks of an index up to `last_row`, and the words that are kept."""

    def __init__(self, connection: Connection, replaced: str) -> None:
        self.replaced = replaced
        self._rows, self._lengths = read_all_lengths(connection)
        self._crowd: tuple[float, NDArray[np.float64]] = 0.0, np.empty(0)
        self._words: dict[str, _Packed] = {}
        self._size_bytes = 0
        self._asked: list[str] = []
        self._after: str | None = ""
        self._everywhere: set[str] = set()
        self._knows_common = False
        self._recent: dict[str, Posting] = {}
        self._verified: set[str] = set()
        self.read_at_s = time.monotonic()
        self.last_row = int(self._rows[-1]) if len(self._rows) else 0

    @property
    def chunks(self) -> int:
        """The number of chunks when they were read."""
        return len(self._rows)

    @property
    def is_loaded(self) -> bool:
        """True if there is nothing left that `load_some` would read."""
        return self._after is None and not self._asked

    def load_some(self, connection: Connection) -> bool:
        """Read words that questions have asked for, or common ones. Return whether to go on."""
        end_s = time.monotonic() + _STEP_S
        while self._asked and time.monotonic() < end_s:
            self._keep(connection, self._asked.pop())
        most_bytes = _BYTES_PER_CHUNK * len(self._rows)
        while self._after is not None and time.monotonic() < end_s:
            counted = connection.execute(
                "SELECT term, doc FROM chunks_fts_terms WHERE term > ? ORDER BY term LIMIT ?",
                (self._after, _STEP_WORDS),
            ).fetchall()
            self._after = counted[-1][0] if counted and self._size_bytes < most_bytes else None
            self._knows_common = not counted
            for word, count in counted:
                if count > _STOP_SHARE * len(self._rows):
                    self._everywhere.add(word)
                elif count >= _KEPT_SHARE * len(self._rows):
                    self._asked.append(word)
            if self._asked:
                break
        return not self.is_loaded

    def _keep(self, connection: Connection, word: str) -> None:
        if word in self._words:
            return
        packed = _Packed.of(self._read(connection, word))
        self._words[word] = packed
        self._size_bytes += packed.size_bytes
        while self._size_bytes > _BYTES_PER_CHUNK * len(self._rows) and len(self._words) > 1:
            self._size_bytes -= self._words.pop(next(iter(self._words))).size_bytes
            self._knows_common = False

    def posting(self, connection: Connection, word: str) -> Posting | None:
        """Return the chunks of a word, None if it is not kept and may have many."""
        if (packed := self._words.get(word)) is not None:
            return packed.unpacked()
        if not self._knows_common or word in self._everywhere:
            return None
        return self._recent_or_read(connection, word)

    def rules_out(self, words: Sequence[str]) -> bool:
        """Return whether no chunk has all of those words that are in memory."""
        found: list[_Packed | Posting] = []
        for word in words:
            if (each := self._words.get(word) or self._recent.get(word)) is not None:
                found.append(each)
        if len(found) < 2:
            return False
        found.sort(key=lambda each: len(each.halves))
        left = found[0].unpacked().places
        for each in found[1:]:
            places = each.unpacked().places
            left = left[find(left, places)[1]]
            if not len(left):
                return True
        return False

    def words(
        self,
        connection: Connection,
        counted: Iterable[tuple[str, int]],
        chunks: int,
        count_of: Callable[[Posting, str], int],
    ) -> list[tuple[Posting, float]] | None:
        """Return the chunks of phrases with their IDF, the rarest first.

        `counted` has the number of chunks, of `chunks`, that have each phrase. None if a phrase is
        no word of the index, or a common word that is not kept yet. `count_of` counts the chunks of
        a phrase by those that are kept.
        """
        # FTS5's word for one in other letters is verified by its count.
        stems: list[tuple[str, str, int]] = []
        for phrase, count in sorted(counted, key=lambda each: (each[1], each[0])):
            word = phrase[1:-1]
            if phrase[-1] != '"' or not word.isalnum():
                return None
            if count:
                stems.append((phrase, stem(word), count))
        most = _READ_SHARE * len(self._rows)
        if missing := [
            each for _, each, count in stems if count > most and each not in self._words
        ]:
            self._asked += missing
            return None
        found: list[tuple[Posting, float]] = []
        for phrase, each, count in stems:
            packed = self._words.get(each)
            if packed is None:
                posting = self._recent_or_read(connection, each)
            else:
                posting = packed.unpacked()
            if not phrase.isascii() and phrase not in self._verified:
                if count_of(posting, phrase) != count:
                    return None  # FTS5 has another word for it
                if len(self._verified) >= _MOST_VERIFIED:
                    self._verified.clear()
                self._verified.add(phrase)
            found.append((posting, idf_of(count, chunks)))
        return found

    def _recent_or_read(self, connection: Connection, word: str) -> Posting:
        """Return the chunks of a word that is not kept, which a search asks for several times."""
        if (posting := self._recent.get(word)) is None:
            posting = self._read(connection, word)
            if len(self._recent) >= _MOST_RECENT:
                self._recent = {}
            self._recent[word] = posting
        return posting

    def _read(self, connection: Connection, word: str) -> Posting:
        try:
            digits = one_value(connection, _READ, word)
        except Error as error:
            if _TABLE not in str(error):
                raise
            _make_table(connection)  # the first time on this connection
            digits = one_value(connection, _READ, word)
        numbers = parse_numbers(digits or b"")
        rows = numbers >> 1
        is_first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
        first = np.flatnonzero(is_first)
        halves = np.add.reduceat(HALVES - (numbers & 1), first) if len(first) else numbers
        places, is_kept = self.places_of(rows[first])
        return Posting(places, _smallest(halves[is_kept]))

    def places_of(self, rows: NDArray[np.int64]) -> tuple[Places, NDArray[np.bool_]]:
        """Return the places of those of the rows that there are, and which ones these are."""
        at, is_kept = find(rows, self._rows)
        return at[is_kept].astype(np.int32), is_kept

    def missing(self, rows: NDArray[np.int64]) -> Places:
        """Return the places of the chunks that are not among these rows."""
        is_missing = np.ones(len(self._rows), np.bool_)
        is_missing[self.places_of(rows)[0]] = False
        return np.flatnonzero(is_missing).astype(np.int32)

    def best(
        self,
        words: Sequence[tuple[Posting, float]],
        mean_tokens: float,
        k: int,
        among: Places | None = None,
        gone: Places = NOWHERE,
    ) -> Ranked:
        """Return the k best chunks with any word, with the scores that SQLite computes.

        `words` have their IDF, the rarest word first. `among` are the places of chunks to choose
        from, None for all without those `gone`.
        """
        crowd = self._crowd_of(mean_tokens)
        scores = np.zeros(len(self._rows))
        left, least = sum(SATURATION * idf for _, idf in words), 0.0
        for (places, halves), idf in words:
            at = places
            if among is not None and 2 * len(among) < len(places):
                where, has_it = find(among, places)
                at, halves = among[has_it], halves[where[has_it]]
            counts = halves * (1 / HALVES)
            scores[at] += idf * (counts * (K1 + 1.0) / (counts + crowd[at]))
            scores[gone] = 0.0
            left -= SATURATION * idf
            # Once the words that are left are worth less than the k-th best has, chunks without any
            # word so far are out, and so are others that can't reach it.
            of_all = scores if among is None else scores[among]
            high = of_all[of_all > least]
            if len(high) > k:
                least = float(np.partition(high, -k)[-k]) - _ROUNDING
                if left < least:
                    near = np.flatnonzero(of_all >= least - left)
                    among = near.astype(np.int32) if among is None else among[near]
        of_all = scores if among is None else scores[among]
        best = np.flatnonzero(of_all > max(0.0, least))
        best = best if among is None else among[best].astype(np.int64)
        found = scores[best]
        order = np.lexsort((best, -found))[:k]
        rows = self._rows[best[order]].tolist()
        return list(zip(rows, (-found[order]).tolist(), strict=True))

    def _crowd_of(self, mean_tokens: float) -> NDArray[np.float64]:
        """Return what the length of each chunk adds to the counts of its words."""
        mean, crowd = self._crowd
        if mean != mean_tokens:
            crowd = np.asarray(K1 * (1 - B + B * self._lengths / mean_tokens), np.float64)
            self._crowd = mean_tokens, crowd
        return crowd


def best_of(best: Callable[[int], Ranked], k: int, keep: Callable[[Ranked], Ranked]) -> Ranked:
    """Return the k best of those that `keep` returns of chunks; `best` returns the n best ones."""
    most = _LOOKED_AT * k
    while True:
        ranked = best(most)
        found = keep(ranked)
        if len(found) >= k or len(ranked) < most:
            return found[:k]
        most *= _LOOKED_AT


def find(
    numbers: NDArray[np.integer[Any]], ordered: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the index of each number in an ordered array, and which numbers it has at all."""
    at = np.searchsorted(ordered, numbers)
    if not len(ordered):
        return at, np.zeros(len(numbers), np.bool_)
    return at, ordered.take(at, mode="clip") == numbers


def _smallest(halves: NDArray[np.int64]) -> Counts:
    return halves.astype(np.uint8) if halves.max(initial=0) < 256 else halves


def _make_table(connection: Connection) -> None:
    """Make the table of the places of words, in memory; it has no data of its own."""
    only_reads = one_value(connection, "PRAGMA query_only")
    connection.execute("PRAGMA query_only = OFF")
    try:
        connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {_TABLE}"
            " USING fts5vocab(main, chunks_fts, instance)"
        )
    finally:
        connection.execute(f"PRAGMA query_only = {only_reads}")
