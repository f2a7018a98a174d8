"""Transfer of embeddings, which are paid for, and of records from another index file."""

import logging
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from memoryd.index import recalls, schema
from memoryd.index.cache import add_conversions, as_float32, keep_vectors, model_key
from memoryd.index.driver import Connection, one_value, transaction
from memoryd.index.inserts import last_id
from memoryd.index.quantize import is_embedding, of_any_version
from memoryd.index.statements import DerivedTables, MatrixRow, RowChanges
from memoryd.index.vec_table import put_vec
from memoryd.messages import StoredVector

log = logging.getLogger(__name__)


def copy_cache(connection: Connection, other: Path, *, after: int = 0) -> int:
    """Copy the embeddings of another index file with ids above `after`.

    Skips texts that were forgotten here, and embeddings of the same model with other dims than this
    index has. Returns the number copied.
    """
    built = schema.get_identity(connection)
    with _attached(connection, other) as has_tables:
        if not has_tables:
            return 0  # the rebuild ended before it had tables
        add_conversions(connection)
        with transaction(connection):
            return int(
                connection.execute(
                    "INSERT OR IGNORE INTO embedding_cache (provider, model, provider_key, hash,"
                    " dims, embedding, used_at) SELECT provider, model, provider_key, hash, dims,"
                    " of_any_version(embedding, dims, hash),"
                    # Those in use there may be out of use here, from now on.
                    " CASE WHEN hash IN (SELECT hash FROM other.chunks)"
                    " THEN max(used_at, ?6) ELSE used_at END"
                    " FROM other.embedding_cache WHERE vector_id > ?1"
                    " AND NOT (keyed(hash) IN"
                    " (SELECT value FROM forgotten WHERE kind = 'chunk-hmac')"
                    " AND hash NOT IN (SELECT hash FROM chunks))"
                    " AND NOT (?2 IS NOT NULL AND dims <> ?2"
                    " AND (provider, model, provider_key) = (?3, ?4, ?5))",
                    (after, built.dims, *model_key(built), int(time.time())),
                ).rowcount
            )


def keep_embeddings(connection: Connection, other: Path) -> None:
    """Copy the embeddings of an unfinished rebuild of this index.

    Copies none if anything was forgotten since it began: they may be of its text, cut differently.
    """
    if not other.exists():
        return  # only its log is left
    with _attached(connection, other) as has_tables:
        forgotten = "SELECT kind, value FROM forgotten EXCEPT SELECT kind, value FROM"
        kept = has_tables and not connection.execute(f"{forgotten} other.forgotten").fetchall()
    if kept:
        count = copy_cache(connection, other)
        log.info("%s: kept %d embeddings of an unfinished rebuild", other, count)


def all_forgotten(connection: Connection) -> set[tuple[str, str]]:
    """Return all tombstones, including those of chunks."""
    return set(connection.execute("SELECT kind, value FROM forgotten").fetchall())


def read_vectors(
    connection: Connection, forgotten: Set[tuple[str, str]], *, max_bytes: int
) -> list[StoredVector]:
    """Return the newest embeddings of an unfinished file's own model, up to `max_bytes`.

    Returns none if anything was forgotten since it began, as `keep_embeddings` does.
    """
    if forgotten - all_forgotten(connection):
        return []
    identity = schema.get_identity(connection)
    dims = identity.dims or 0
    found: list[StoredVector] = []
    total = 0
    for digest, embedding in connection.execute(
        "SELECT hash, embedding FROM embedding_cache WHERE provider = ? AND model = ?"
        " AND provider_key = ? AND dims = ? ORDER BY vector_id DESC",
        (*model_key(identity), identity.dims),
    ):
        stored = of_any_version(embedding, dims, digest)
        if not is_embedding(stored, dims, digest):
            continue
        vectors = as_float32(stored, dims)
        total += len(vectors)
        if total > max_bytes:
            break
        found.append((identity, digest, vectors))
    return found


def insert_vectors(connection: Connection, vectors: Sequence[StoredVector]) -> None:
    """Insert embeddings of any model into the cache."""
    with transaction(connection):
        for identity, digest, embedding in vectors:
            keep_vectors(connection, identity, [(digest, embedding)])


def copy_records(connection: Connection, other: Path) -> int:
    """Copy tombstones, batch jobs, recalls and the provider's choice from the live index file.

    Returns the id of its last vector; vectors made after this call have larger ones.
    """
    with _attached(connection, other), transaction(connection):
        connection.execute("INSERT OR IGNORE INTO forgotten SELECT * FROM other.forgotten")
        connection.execute(
            "INSERT OR REPLACE INTO meta SELECT * FROM other.meta"
            " WHERE key IN ('choice', 'recovered', 'tombstone key') OR key LIKE 'places of %'"
        )
        connection.execute("DELETE FROM batch_jobs")
        connection.execute("INSERT INTO batch_jobs SELECT * FROM other.batch_jobs")
        connection.execute("DELETE FROM recalls")
        connection.execute(f"INSERT INTO recalls SELECT {recalls.COLUMNS} FROM other.recalls")
        return last_id(connection, "embedding_cache", of="other")


@contextmanager
def _attached(connection: Connection, other: Path) -> Iterator[bool]:
    """Attach another index file as `other`; yield whether it has tables."""
    connection.execute("ATTACH DATABASE ? AS other", (str(other),))
    try:
        tables = "SELECT count(*) FROM other.sqlite_schema WHERE name = 'embedding_cache'"
        yield one_value(connection, tables) > 0
    finally:
        connection.execute("DETACH DATABASE other")


def adopt_vectors(connection: Connection, tables: DerivedTables) -> RowChanges:
    """Assign cached vectors to the chunks without one, as after `copy_cache`."""
    identity = tables.identity
    cached = (
        "SELECT vector_id FROM embedding_cache e WHERE e.hash = chunks.hash AND provider = ?"
        " AND e.model = ? AND provider_key = ? AND dims = ?"
    )
    key = *model_key(identity), identity.dims
    changed = RowChanges()
    with transaction(connection):
        adopted = connection.execute(
            f"UPDATE chunks SET vector_id = ({cached})"
            f" WHERE vector_id IS NULL AND EXISTS ({cached})"
            " RETURNING row_id, file_id, vector_id",
            (*key, *key),
        ).fetchall()
        for row_id, file_id, vector_id in adopted:
            embedding = one_value(
                connection, "SELECT embedding FROM embedding_cache WHERE vector_id = ?", vector_id
            )
            changed.added.append(MatrixRow(row_id, file_id, embedding))
            if tables.vec:
                put_vec(connection, vector_id, embedding, tables.dims)
    return changed
