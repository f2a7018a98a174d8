"""Reading of all vectors of an index into memory."""

from memoryd.index.driver import Connection, CorruptIndexError, one_value
from memoryd.index.vector_matrix import VectorMatrix

_ROWS = 200
"""Embeddings read at once: more would leave holes of megabytes in the heap."""
_CACHE_KIB = 256
"""Pages that the connection keeps meanwhile, because each is read once."""


def load_vectors(connection: Connection, dims: int) -> VectorMatrix:
    """Read the vectors of all chunks."""
    usual = one_value(connection, "PRAGMA cache_size")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    try:
        return _load(connection, dims)
    finally:
        connection.execute(f"PRAGMA cache_size = {usual}")


def _load(connection: Connection, dims: int) -> VectorMatrix:
    total = one_value(connection, "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL")
    matrix = VectorMatrix(dims, capacity=total + total // 8)
    cursor = connection.execute(
        "SELECT row_id, file_id, embedding FROM chunks JOIN embedding_cache USING (vector_id)"
    )
    while batch := cursor.fetchmany(_ROWS):
        try:
            matrix.load(*zip(*batch, strict=True))
        except (ValueError, TypeError) as error:
            raise CorruptIndexError(f"a vector doesn't have {dims} numbers") from error
    if not matrix.is_finite():
        raise CorruptIndexError("a vector contains a value that is not a finite number")
    return matrix
