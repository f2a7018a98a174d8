"""The keyword leg: BM25 over the FTS5 table."""

from collections.abc import Collection

import msgspec

from memoryd.index.driver import Connection
from memoryd.terms import Term, match_expression

BODY_WEIGHT = 1.0
CONTEXT_WEIGHT = 0.5
"""A word in the path or the headings counts half of one in the text."""

# Constants only: what users type is bound.
_RANKED = (
    "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ?"
    f" AND rank MATCH 'bm25({BODY_WEIGHT}, {CONTEXT_WEIGHT})'"
)


def search(
    connection: Connection, terms: list[Term], k: int, *, file_ids: Collection[int] | None = None
) -> list[tuple[int, float]]:
    """Return the k best (row_id, bm25) with any of the terms, best (most negative) first.

    With `file_ids` only chunks of those files are candidates, so that a large neighbour can't
    starve them. No terms: nothing.
    """
    if not terms:
        return []
    expression = match_expression(terms)
    if file_ids is None:
        found = connection.execute(f"{_RANKED} ORDER BY rank LIMIT ?", (expression, k))
    else:
        # The match is made first and filtered after: joined into one, SQLite may run it per file.
        found = connection.execute(
            f"WITH found AS MATERIALIZED ({_RANKED})"
            " SELECT rowid, rank FROM found JOIN chunks ON row_id = rowid"
            " WHERE file_id IN (SELECT value FROM json_each(?)) ORDER BY rank LIMIT ?",
            (expression, msgspec.json.encode(list(file_ids)).decode(), k),
        )
    return [(int(row), float(rank)) for row, rank in found.fetchall()]
