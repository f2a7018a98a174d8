"""What is kept of another index file: its embeddings, which have been paid for, and its records."""

import logging
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from memoryd.index import schema
from memoryd.index.cache import keep_vectors, put_vec
from memoryd.index.driver import Connection, transaction
from memoryd.index.statements import DerivedTables, MatrixRow, RowChanges, last_id
from memoryd.messages import StoredVector

log = logging.getLogger(__name__)


def copy_cache(connection: Connection, other: Path, *, after: int = 0) -> int:
    """Take over the embeddings of another index file, those with a larger id than `after`.

    None of a text that was forgotten here, and none of the same model with other dims than this
    index has. Returns how many.
    """
    built = schema.get_identity(connection)
    model = built.provider, built.model, built.provider_key
    with _attached(connection, other) as has_tables:
        if not has_tables:
            return 0  # it ended before it had tables
        with transaction(connection):
            return int(
                connection.execute(
                    "INSERT OR IGNORE INTO embedding_cache (provider, model, provider_key, hash,"
                    " dims, embedding, used_at) SELECT provider, model, provider_key, hash, dims,"
                    " embedding, used_at FROM other.embedding_cache WHERE vector_id > ?1"
                    " AND hash NOT IN (SELECT value FROM forgotten WHERE kind = 'chunk'"
                    " AND value NOT IN (SELECT hash FROM chunks))"
                    " AND NOT (?2 IS NOT NULL AND dims <> ?2"
                    " AND (provider, model, provider_key) = (?3, ?4, ?5))",
                    (after, built.dims, *model),
                ).rowcount
            )


def keep_embeddings(connection: Connection, other: Path) -> None:
    """Take over the embeddings of an unfinished file, which was begun as a copy of this index.

    None if something was forgotten since: its text may be among them, in other pieces.
    """
    if not other.exists():
        return  # its log alone was left
    with _attached(connection, other) as has_tables:
        forgotten = "SELECT kind, value FROM forgotten EXCEPT SELECT kind, value FROM"
        kept = has_tables and not connection.execute(f"{forgotten} other.forgotten").fetchall()
    if kept:
        count = copy_cache(connection, other)
        log.info("%s: kept %d embeddings of an unfinished rebuild", other, count)


def all_forgotten(connection: Connection) -> set[tuple[str, str]]:
    """Return all that was forgotten, the texts of chunks too."""
    return set(connection.execute("SELECT kind, value FROM forgotten").fetchall())


def read_vectors(
    connection: Connection, forgotten: Set[tuple[str, str]], *, max_bytes: int
) -> list[StoredVector]:
    """Return the newest embeddings of an unfinished file's own model, within a bound.

    None if something was forgotten since it was begun, as in `keep_embeddings`.
    """
    if forgotten - all_forgotten(connection):
        return []
    identity = schema.get_identity(connection)
    found: list[StoredVector] = []
    total = 0
    for digest, embedding in connection.execute(
        "SELECT hash, embedding FROM embedding_cache WHERE provider = ? AND model = ?"
        " AND provider_key = ? AND dims = ? ORDER BY vector_id DESC",
        (identity.provider, identity.model, identity.provider_key, identity.dims),
    ):
        total += len(embedding)
        if total > max_bytes:
            break
        found.append((identity, digest, embedding))
    return found


def insert_vectors(connection: Connection, vectors: Sequence[StoredVector]) -> None:
    """Keep embeddings in the cache, whatever model they are of."""
    with transaction(connection):
        for identity, digest, embedding in vectors:
            keep_vectors(connection, identity, [(digest, embedding)])


def copy_records(connection: Connection, other: Path) -> int:
    """Bring tombstones, batch jobs and choice to what another index file, the live one, has now.

    Returns its last vector's id: later ones will have been made after this.
    """
    with _attached(connection, other), transaction(connection):
        connection.execute("INSERT OR IGNORE INTO forgotten SELECT * FROM other.forgotten")
        connection.execute(
            "INSERT OR REPLACE INTO meta SELECT * FROM other.meta"
            " WHERE key IN ('choice', 'recovered') OR key LIKE 'places of %'"
        )
        connection.execute("DELETE FROM batch_jobs")
        connection.execute("INSERT INTO batch_jobs SELECT * FROM other.batch_jobs")
        return last_id(connection, "embedding_cache", of="other")


@contextmanager
def _attached(connection: Connection, other: Path) -> Iterator[bool]:
    """Make another index file readable as `other`; says whether it has tables."""
    connection.execute("ATTACH DATABASE ? AS other", (str(other),))
    try:
        tables = "SELECT count(*) FROM other.sqlite_schema WHERE name = 'embedding_cache'"
        yield bool(connection.execute(tables).fetchone()[0])
    finally:
        connection.execute("DETACH DATABASE other")


def adopt_vectors(connection: Connection, tables: DerivedTables) -> RowChanges:
    """Give cached vectors to the chunks that wait for them, as after `copy_cache`."""
    identity = tables.identity
    cached = (
        "SELECT vector_id FROM embedding_cache e WHERE e.hash = chunks.hash AND provider = ?"
        " AND e.model = ? AND provider_key = ? AND dims = ?"
    )
    key = identity.provider, identity.model, identity.provider_key, identity.dims
    changed = RowChanges()
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
            changed.added.append(MatrixRow(row_id, file_id, embedding))
            if tables.vec:
                put_vec(connection, vector_id, embedding, tables.dims)
    return changed
