"""Reads what of the index has no vector yet."""

from memoryd.index.driver import Connection


def read_pending(connection: Connection, after: int, limit: int) -> list[tuple[int, str, str]]:
    """Return (row, text hash, text) of the next chunks without a vector, by row."""
    return connection.execute(
        "SELECT row_id, hash, text FROM chunks WHERE vector_id IS NULL AND row_id > ?"
        " AND hash NOT IN (SELECT hash FROM set_aside) ORDER BY row_id LIMIT ?",
        (after, limit),
    ).fetchall()


def count_set_aside(connection: Connection) -> int:
    """Return how many chunks have a text that can't be embedded."""
    row = connection.execute(
        "SELECT count(*) FROM chunks WHERE vector_id IS NULL"
        " AND hash IN (SELECT hash FROM set_aside)"
    ).fetchone()
    return int(row[0])


def count_pending(connection: Connection) -> int:
    """Return how many distinct texts wait for a vector."""
    row = connection.execute(
        "SELECT count(DISTINCT hash) FROM chunks WHERE vector_id IS NULL"
        " AND hash NOT IN (SELECT hash FROM set_aside)"
    ).fetchone()
    return int(row[0])
