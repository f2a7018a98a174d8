"""What is kept of another index file: its embeddings, which have been paid for, and tombstones."""

from pathlib import Path

from memoryd.index.cache import put_vec
from memoryd.index.driver import Connection, transaction
from memoryd.index.rows import Delta, Legs, MatrixRow


def copy_cache(connection: Connection, other: Path) -> int:
    """Take over what is worth keeping of another index file. Returns how many embeddings."""
    connection.execute("ATTACH DATABASE ? AS other", (str(other),))
    try:
        tables = "SELECT count(*) FROM other.sqlite_schema WHERE name = 'embedding_cache'"
        if not connection.execute(tables).fetchone()[0]:
            return 0  # it ended before it had tables
        with transaction(connection):
            connection.execute("INSERT OR IGNORE INTO forgotten SELECT * FROM other.forgotten")
            connection.execute(
                "INSERT OR IGNORE INTO meta SELECT * FROM other.meta WHERE key = 'choice'"
            )
            connection.execute("INSERT OR IGNORE INTO batch_jobs SELECT * FROM other.batch_jobs")
            return int(
                connection.execute(
                    "INSERT OR IGNORE INTO embedding_cache (provider, model, provider_key, hash,"
                    " dims, embedding, used_at) SELECT provider, model, provider_key, hash, dims,"
                    " embedding, used_at FROM other.embedding_cache"
                ).rowcount
            )
    finally:
        connection.execute("DETACH DATABASE other")


def adopt_vectors(connection: Connection, legs: Legs) -> Delta:
    """Give cached vectors to the chunks that wait for them, as after `copy_cache`."""
    identity = legs.identity
    cached = (
        "SELECT vector_id FROM embedding_cache e WHERE e.hash = chunks.hash AND provider = ?"
        " AND e.model = ? AND provider_key = ? AND dims = ?"
    )
    key = identity.provider, identity.model, identity.provider_key, identity.dims
    delta = Delta()
    with transaction(connection):
        adopted = connection.execute(
            f"UPDATE chunks SET vector_id = ({cached})"
            f" WHERE vector_id IS NULL AND EXISTS ({cached})"
            " RETURNING row_id, file_id, vector_id",
            (*key, *key),
        ).fetchall()
        for row_id, file_id, vector_id in adopted:
            (embedding,) = connection.execute(
                "SELECT embedding FROM embedding_cache WHERE vector_id = ?", (vector_id,)
            ).fetchone()
            delta.added.append(MatrixRow(row_id, file_id, embedding))
            if legs.vec:
                put_vec(connection, vector_id, embedding, legs.dims)
    return delta
