"""sqlite-vec's table of the embeddings in use, for other programs: a float32 vector of each."""

from contextlib import suppress

from memoryd.index.driver import (
    Connection,
    CorruptIndexError,
    Error,
    Fault,
    fault_of,
    one_value,
    transaction,
)
from memoryd.index.quantize import decode, mean_vector

VEC_TABLE = "SELECT sql FROM sqlite_schema WHERE name = 'chunks_vec'"
"""Query for the declaration of sqlite-vec's table."""


def raise_unless_missing(error: Exception, table: str) -> None:
    """Raise corruption, of `table` alone if only it can't be loaded, and faults of the disk."""
    if "vtable constructor failed" in str(error) or "invalid fts5 file format" in str(error):
        raise CorruptIndexError(str(error), table=table) from error
    if fault_of(error) is not Fault.OTHER:
        raise error


def follow(
    connection: Connection, dims: int | None, extension: str | None, problem: str | None
) -> str | None:
    """Fill the table, or remove it if nobody wants it. Return why that fails, or None.

    `extension` and `problem` are those of the options: both None if the table is not wanted.
    """
    if problem is None and extension is None:
        with transaction(connection):
            drop_vec(connection)
    if problem is not None or extension is None or dims is None:
        return problem
    return ensure_vec(connection, dims)


def ensure_vec(connection: Connection, dims: int) -> str | None:
    """Make `chunks_vec` hold one vector of each chunk, the mean if there are several.

    Return why that fails, or None. Raises the driver's error if the disk fails.
    """
    try:
        with transaction(connection):
            declared = one_value(connection, VEC_TABLE)
            if declared is not None and f"float[{dims}]" not in declared:
                connection.execute("DROP TABLE chunks_vec")
            connection.execute(
                "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_vec USING vec0"
                f"(embedding float[{dims}] distance_metric=cosine)"
            )
            connection.execute(
                "DELETE FROM chunks_vec WHERE rowid IN (SELECT rowid FROM chunks_vec_rowids"
                " EXCEPT SELECT vector_id FROM chunks)"
            )
            connection.create_function("mean_of", 2, mean_of, deterministic=True)
            connection.execute(
                "INSERT INTO chunks_vec (rowid, embedding)"
                " SELECT vector_id, mean_of(embedding, dims) FROM embedding_cache"
                " WHERE vector_id IN (SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL"
                " EXCEPT SELECT rowid FROM chunks_vec_rowids)"
            )
    except Error as error:
        raise_unless_missing(error, "chunks_vec")
        return str(error)
    return None


def drop_vec(connection: Connection) -> None:
    """Remove sqlite-vec's table, also without sqlite-vec. Call it within a transaction."""
    if one_value(connection, VEC_TABLE) is None:
        return
    with suppress(Error):
        connection.execute("DROP TABLE chunks_vec")
        return
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'chunks_vec_*'"
    ).fetchall()
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'chunks_vec'")
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    for (table,) in tables:
        connection.execute(f"DROP TABLE {table}")


def put_vec(connection: Connection, vector_id: int, stored: bytes, dims: int) -> None:
    """Add an embedding's mean vector to sqlite-vec's table, unless it is there."""
    # vec0 supports neither OR REPLACE nor ON CONFLICT, and two chunks may share one text.
    connection.execute(
        "INSERT INTO chunks_vec (rowid, embedding) SELECT ?, ? WHERE NOT EXISTS"
        " (SELECT 1 FROM chunks_vec_rowids WHERE rowid = ?)",
        (vector_id, mean_of(stored, dims), vector_id),
    )


def mean_of(stored: bytes, dims: int) -> bytes:
    """Return the mean of a stored embedding's vectors as little-endian float32, of length 1.

    Raises ValueError for bytes that are no embedding.
    """
    return mean_vector(decode(stored, dims)).astype("<f4").tobytes()
