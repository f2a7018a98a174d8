"""What the index as a whole says about words: how many chunks have each, and how long chunks are.

Lengths are read from FTS5's own tables, which count tokens: `chunks_fts_docsize` holds a varint for
each column of a row, the first record of `chunks_fts_data` the number of rows and the sums
(https://sqlite.org/fts5.html#the_fts5_rowid_docsize_table, fts5_index.c).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryd.index.driver import Connection
from memoryd.text.tokenize import Term, match_expression

_AVERAGES = 1
"""The row of `chunks_fts_data` that holds them."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """`chunks` and their mean length in tokens; for each term of a question, who has it."""

    chunks: int
    mean_tokens: float
    frequency: dict[Term, int]

    def idf(self, count: int) -> float:
        """Return the weight of a term that so many chunks have: ln(1 + (N - n + ½) / (n + ½)).

        Unlike SQLite's it is never 0: the name of who speaks in every other line says something.
        One that nobody has weighs as one that a single chunk has; in small memories it would weigh
        more than all others.
        """
        count = max(1, count)
        return math.log(1 + (max(0, self.chunks - count) + 0.5) / (count + 0.5))

    def weight(self, term: Term) -> float:
        """Return the weight of a term of the question; where nothing is known, all weigh one."""
        return self.idf(self.frequency.get(term, 0))


UNKNOWN = Corpus(0, 1.0, {})


def read_corpus(connection: Connection, terms: Sequence[Term]) -> Corpus:
    """Read what a question needs to know."""
    row = connection.execute(
        "SELECT block FROM chunks_fts_data WHERE id = ?", (_AVERAGES,)
    ).fetchone()
    numbers = _varints(row[0]) if row is not None and row[0] else [0]
    chunks = numbers[0]
    mean = sum(numbers[1:]) / chunks if chunks else 1.0
    return Corpus(chunks, max(1.0, mean), {term: frequency(connection, term) for term in terms})


def frequency(connection: Connection, term: Term) -> int:
    """Return how many chunks have a term."""
    found = connection.execute(
        "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", (match_expression([term]),)
    )
    return int(found.fetchone()[0])


def read_lengths(connection: Connection, rows: Iterable[int]) -> dict[int, int]:
    """Return the length in tokens of chunks, heading and path included."""
    found: dict[int, int] = {}
    for row in rows:
        sized = connection.execute(
            "SELECT sz FROM chunks_fts_docsize WHERE id = ?", (row,)
        ).fetchone()
        if sized is not None:
            found[row] = sum(_varints(sized[0]))
    return found


def _varints(blob: bytes) -> list[int]:
    """Decode SQLite's varints: 7 bits a byte, most significant first; a ninth byte has 8."""
    numbers: list[int] = []
    value = used = 0
    for byte in blob:
        used += 1
        value = (value << 8 | byte) if used == 9 else (value << 7 | byte & 0x7F)
        if used == 9 or byte < 0x80:
            numbers.append(value)
            value = used = 0
    return numbers
