"""Look-ups of the words of an index by their beginning."""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from itertools import count

from memoryd.index.driver import Connection

WordsWith = Callable[[str], list[str]]
"""Returns words of the index that begin with a text, in their order, `MOST_FOUND` at most."""
MOST_FOUND = 400
_LOOK_UPS_PER_CHUNK = 0.25
"""Look-ups, for each chunk, after which all words are read: that takes as long as these."""
_MOST_WORDS = 16_000
"""Words that are kept, about 60 bytes each."""


def words_with(connection: Connection, begin: str) -> list[str]:
    """Return words of the index that begin with a text, in their order."""
    found = connection.execute(
        "SELECT term FROM chunks_fts_terms WHERE term >= ? AND term < ? LIMIT ?",
        (begin, _end_of(begin), MOST_FOUND),
    )
    return [str(word) for (word,) in found]


def _end_of(begin: str) -> str:
    """Return the first text behind all that begin with this one."""
    return begin[:-1] + chr(ord(begin[-1]) + 1)


class Vocabulary:
    """The words of a small index in one state, in memory after some look-ups.

    They and the numbers of their chunks take at most 1 MiB; more words are not kept.
    """

    def __init__(self, chunks: int) -> None:
        self._words: list[str] | None = None
        self._counts = array("I")
        self._look_ups = count(1)
        self._reads_at = 1 + int(_LOOK_UPS_PER_CHUNK * chunks)

    def words_with(self, connection: Connection, begin: str) -> list[str]:
        """Return the same as the function `words_with`."""
        words = self._words
        if words is None:
            if next(self._look_ups) == self._reads_at:
                self._read_all(connection)
            return words_with(connection, begin)
        first = bisect_left(words, begin)
        return words[first : min(bisect_left(words, _end_of(begin), first), first + MOST_FOUND)]

    def count(self, word: str) -> int | None:
        """Return how many chunks have a word of the index, None if words are not in memory."""
        if (words := self._words) is None:
            return None
        at = bisect_left(words, word)
        return self._counts[at] if at < len(words) and words[at] == word else 0

    def _read_all(self, connection: Connection) -> None:
        """Read all words, unless there are too many."""
        found, counts = connection.execute(
            "SELECT group_concat(term, char(10)), group_concat(doc, char(10))"
            " FROM (SELECT term, doc FROM chunks_fts_terms LIMIT ?)",
            (_MOST_WORDS + 1,),
        ).fetchone()
        words = (found or "").split("\n")
        if found and len(words) <= _MOST_WORDS:
            self._counts = array("I", map(int, counts.split("\n")))
            self._words = words
