"""The keyword leg: BM25 over the FTS5 table.

Matching costs little, ranking much: 0.5 µs a chunk that has any of the terms. A common word is in
half of the chunks and says next to nothing, so where it can be proved that chunks with nothing but
common words can't be among the best, they are not ranked. The answer is the same.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

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


BODY_WEIGHT = 1.0
CONTEXT_WEIGHT = 0.5
"""A word in the path or the headings counts half of one in the text."""
SATURATION = 2.2
"""However often a term occurs, SQLite's BM25 gives it less than k1 + 1 = 2.2 times its IDF."""
HOPE = 1.4
"""The k-th best chunk usually scores this much more than the IDF of its rarest term: where less
would do as proof, it is tried."""

# Constants only: what users type is bound.
_SCORE = f"bm25(chunks_fts, {BODY_WEIGHT}, {CONTEXT_WEIGHT})"
_RANKED = (
    "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ?"
    f" AND rank MATCH 'bm25({BODY_WEIGHT}, {CONTEXT_WEIGHT})'"
)

# The plus sign keeps SQLite from running the match once per row of the inner SELECT; only rows that
# pass it are ranked.
_RANKED_IN_FILES = (
    f"SELECT rowid, {_SCORE} AS score FROM chunks_fts WHERE chunks_fts MATCH ?"
    " AND +rowid IN (SELECT row_id FROM chunks WHERE file_id IN (SELECT value FROM json_each(?)))"
    " ORDER BY score LIMIT ?"
)
_RANKED_WITH_RARE = (
    f"SELECT rowid, {_SCORE} AS score FROM chunks_fts WHERE chunks_fts MATCH ?"
    " AND +rowid IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?)"
    " ORDER BY score LIMIT ?"
)


def search(
    connection: Connection,
    frequency: Mapping[Term, int],
    k: int,
    *,
    file_ids: Collection[int] | None = None,
) -> list[tuple[int, float]]:
    """Return the k best (row_id, bm25) with any of the terms, best (most negative) first.

    `frequency` says of each term how many chunks have it, as `Corpus` does. With `file_ids` only
    chunks of those files are candidates, so that a large neighbour can't starve them. No terms:
    nothing.
    """
    if not frequency:
        return []
    expression = match_expression(list(frequency))
    if file_ids is not None:
        found = connection.execute(
            _RANKED_IN_FILES, (expression, msgspec.json.encode(list(file_ids)).decode(), k)
        ).fetchall()
    elif (best := _with_rare_terms(connection, frequency, k)) is not None:
        found = best
    else:
        found = connection.execute(f"{_RANKED} ORDER BY rank LIMIT ?", (expression, k)).fetchall()
    return [(int(row), float(rank)) for row, rank in found]


def _with_rare_terms(
    connection: Connection, frequency: Mapping[Term, int], k: int
) -> list[tuple[int, float]] | None:
    """Rank the chunks with any of the rarer terms; None when others could be better.

    A chunk that has only the other, common terms scores less than the sum of their IDFs times
    `SATURATION`. The IDF is that of SQLite's fts5_aux.c.
    """
    # Row ids are never fewer than rows: the bound may be too high, never too low.
    rows = connection.execute("SELECT max(id) FROM chunks_fts_docsize").fetchone()[0] or 0
    seen = sorted((count, term) for term, count in frequency.items() if count)
    idfs = [max(1e-6, math.log((rows - n + 0.5) / (n + 0.5))) for n, _ in seen]
    total = sum(count for count, _ in seen)
    ranked = 0
    hoped = 0.0
    for last, (count, _) in enumerate(seen[:-1]):
        ranked += count
        if ranked < k:
            continue
        hoped = hoped or HOPE * idfs[last]
        bound = SATURATION * sum(idfs[last + 1 :])
        if 2 * ranked > total:
            return None
        if bound <= hoped:
            rare = match_expression([term for _, term in seen[: last + 1]])
            found = connection.execute(
                _RANKED_WITH_RARE, (match_expression(list(frequency)), rare, k)
            ).fetchall()
            return found if len(found) == k and -found[-1][1] >= bound else None
    return None
