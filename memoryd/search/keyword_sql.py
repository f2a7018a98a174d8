"""SQL that ranks chunks by SQLite's bm25(), and finds those that a search may return."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoryd.index.driver import Connection, one_value
from memoryd.search.fts_sizes import LEAST_NUMBER, parse_numbers

BODY_WEIGHT = 1.0
CONTEXT_WEIGHT = 0.5
"""A word in the path or the headings counts half as much as one in the text."""
# Constants only; user input is bound as a parameter.
RANKED = (
    f"SELECT rowid, bm25(chunks_fts, {BODY_WEIGHT}, {CONTEXT_WEIGHT}) AS score FROM chunks_fts"
    " WHERE chunks_fts MATCH ?"
)
# The plus sign keeps SQLite from running the match once per row of the inner SELECT; only rows that
# the inner SELECT returns are ranked.
IN_FILES = (
    " AND +rowid IN (SELECT row_id FROM chunks WHERE file_id IN (SELECT value FROM json_each(?)))"
)
AND_TRUSTED = " AND +rowid NOT IN (SELECT row_id FROM chunks WHERE origin = 'untrusted')"
BEST = " ORDER BY score"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The chunks of some files, with `trusted` without untrusted ones."""

    files: frozenset[int]
    trusted: bool

    def rows(self, connection: Connection) -> NDArray[np.int64]:
        """Return the rows of all chunks that are allowed, in order."""
        which = " AND origin <> 'untrusted'" if self.trusted else ""
        digits = one_value(
            connection,
            f"SELECT CAST(group_concat({LEAST_NUMBER} + row_id, '') AS BLOB) FROM chunks"
            f" WHERE file_id IN (SELECT value FROM json_each(?)){which}",
            msgspec.json.encode(list(self.files)).decode(),
        )
        return np.sort(parse_numbers(digits or b""))

    def among(
        self, connection: Connection, ranked: Sequence[tuple[int, float]]
    ) -> list[tuple[int, float]]:
        """Return those of the ranked chunks that are allowed, in their order."""
        which = " AND origin <> 'untrusted'" if self.trusted else ""
        files = dict(
            connection.execute(
                "SELECT row_id, file_id FROM chunks"
                f" WHERE row_id IN (SELECT value FROM json_each(?)){which}",
                (msgspec.json.encode([row for row, _ in ranked]).decode(),),
            ).fetchall()
        )
        return [(row, score) for row, score in ranked if files.get(row) in self.files]


def ranked_new(
    connection: Connection, expression: str, k: int, after: int, allowed: Allowed | None
) -> list[tuple[int, float]]:
    """Return the k best of the chunks with a higher row."""
    values: list[object] = [expression, after]
    filters = " AND rowid > ?"
    if allowed is not None:
        filters += IN_FILES + (AND_TRUSTED if allowed.trusted else "")
        values.append(msgspec.json.encode(list(allowed.files)).decode())
    return connection.execute(f"{RANKED}{filters}{BEST} LIMIT ?", (*values, k)).fetchall()
