"""Inserts many rows with few statements.

Every statement lets go of Python's lock and has to get it back. While another thread computes, as
the one that cuts files into chunks does, that takes a whole switch interval, for each row.
"""

import time
from collections.abc import Sequence
from functools import cache
from itertools import chain

from memoryd.index.driver import Connection

_BLOCKS_ROWS = (64, 8, 1)
"""More in one statement gains nothing."""


def last_id(connection: Connection, table: str, *, of: str = "main") -> int:
    """Return the largest row id that an AUTOINCREMENT table has ever had; 0 if none yet.

    Whoever inserts many rows numbers them from here on: the statement doesn't tell their ids. `of`
    is the database, which may be an attached one.
    """
    rows = connection.execute(f"SELECT seq FROM {of}.sqlite_sequence WHERE name = ?", (table,))
    row = rows.fetchone()
    return 0 if row is None else int(row[0])


def insert_rows(connection: Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, all of one width, `into` a table: its name and columns, as SQL has them."""
    start = 0
    for block in _BLOCKS_ROWS:
        while len(rows) - start >= block:
            values = chain.from_iterable(rows[start : start + block])
            connection.execute(_statement(into, len(rows[0]), block), tuple(values))
            start += block
            time.sleep(0)  # the event loop's turn, if it waits: this thread has had its own


@cache
def _statement(into: str, width: int, rows: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * rows)}"
