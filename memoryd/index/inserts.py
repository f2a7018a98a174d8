"""Insertion of many rows at once, numbered by the code that inserts them."""

import time
from collections.abc import Sequence
from functools import cache
from itertools import chain

from memoryd.index.driver import Connection, one_value

_BLOCKS_ROWS = (64, 8, 1)
"""Rows of one INSERT; larger statements gain nothing."""


def last_id(connection: Connection, table: str, *, of: str = "main") -> int:
    """Return the largest row id that an AUTOINCREMENT table has ever had, 0 if none yet.

    Code that inserts many rows numbers them from here on, because the statement returns no ids.
    `of` is the database, which may be an attached one.
    """
    last = one_value(connection, f"SELECT seq FROM {of}.sqlite_sequence WHERE name = ?", table)
    return int(last or 0)


def insert_rows(connection: Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows of one width `into` a table, given as `table (columns)`."""
    start = 0
    for block in _BLOCKS_ROWS:
        while len(rows) - start >= block:
            values = chain.from_iterable(rows[start : start + block])
            connection.execute(_insert_statement(into, len(rows[0]), block), tuple(values))
            start += block
            time.sleep(0)  # yields to the event loop if it waits for the GIL


@cache
def _insert_statement(into: str, width: int, rows: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * rows)}"
