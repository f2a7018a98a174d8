"""The SQL that changes an index: each function is one transaction on the writer's thread.

Chunks that stay keep their rows, so that an edit of one line costs one chunk and not the file.
"""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from memoryd.flow import Chunk, FileKey, FileStat, ParsedFile
from memoryd.identity import Identity
from memoryd.index.driver import Connection, transaction
from memoryd.index.schema import fts_columns


@dataclass(frozen=True, slots=True)
class Legs:
    """Which derived tables this connection keeps, and whose rows it writes."""

    identity: Identity
    fts: bool
    vec: bool


class MatrixRow(NamedTuple):
    """A chunk's vector on its way into memory."""

    row_id: int
    file_id: int
    embedding: bytes


@dataclass(slots=True)
class Delta:
    """What a transaction changed, for the vectors and the catalog in memory."""

    file_id: int = 0
    chunks: int = 0
    pending: bool = False
    reused: int = 0
    removed: list[int] = field(default_factory=list)
    added: list[MatrixRow] = field(default_factory=list)


def text_hash(text: str) -> str:
    """Return the SHA-256 that names a text in the cache, as hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def chunk_id(key: FileKey, chunk: Chunk, digest: str, model: str) -> str:
    """Return a chunk's stable id: SHA-256 of `source:path:start:end:text-hash:model`, as hex."""
    name = f"{key.source}:{key.path}:{chunk.start_line}:{chunk.end_line}:{digest}:{model}"
    return hashlib.sha256(name.encode()).hexdigest()


def replace_file(connection: Connection, legs: Legs, parsed: ParsedFile) -> Delta:
    """Make the rows of one file those of its present content."""
    delta = Delta()
    with transaction(connection):
        delta.file_id = _upsert_file(connection, parsed)
        wanted: dict[str, tuple[Chunk, str]] = {}
        for chunk in parsed.chunks:
            digest = text_hash(chunk.text)
            wanted[chunk_id(parsed.key, chunk, digest, legs.identity.model)] = chunk, digest
        old = connection.execute(
            "SELECT id, row_id, heading FROM chunks WHERE file_id = ?", (delta.file_id,)
        ).fetchall()
        # A heading can change above a chunk that stays, and is part of what is searched.
        there = {
            id_: row
            for id_, row, heading in old
            if id_ in wanted and wanted[id_][0].heading == heading
        }
        _delete_chunks(connection, legs, [row for id_, row, _ in old if id_ not in there], delta)
        for id_, (chunk, digest) in wanted.items():
            if id_ not in there:
                _insert_chunk(connection, legs, parsed.key, id_, chunk, digest, delta)
        delta.chunks = len(wanted)
    return delta


def delete_file(connection: Connection, legs: Legs, key: FileKey) -> Delta:
    """Remove a file and all its rows."""
    delta = Delta()
    with transaction(connection):
        row = connection.execute(
            "SELECT file_id FROM files WHERE path = ? AND source = ?", (key.path, key.source)
        ).fetchone()
        if row is not None:
            delta.file_id = row[0]
            chunks = connection.execute("SELECT row_id FROM chunks WHERE file_id = ?", row)
            _delete_chunks(connection, legs, [r for (r,) in chunks.fetchall()], delta)
            connection.execute("DELETE FROM files WHERE file_id = ?", row)
    return delta


def touch_file(connection: Connection, key: FileKey, stat: FileStat) -> None:
    """Record that a file was touched but not changed."""
    with transaction(connection):
        connection.execute(
            "UPDATE files SET mtime_ns = ?, size = ?, inode = ? WHERE path = ? AND source = ?",
            (*stat, key.path, key.source),
        )


def put_vectors(
    connection: Connection,
    legs: Legs,
    vectors: Iterable[tuple[str, bytes]],
    bad: Iterable[tuple[str, str]] = (),
) -> Delta:
    """Store embeddings by text hash and give them to the chunks that wait for them.

    A text whose chunk is gone by now is cached all the same: it has been paid for. `bad` are texts
    that can't be embedded, by hash, with the reason.
    """
    delta = Delta()
    with transaction(connection):
        for digest, embedding in vectors:
            # One that was there before wins: disk and memory must hold the same.
            vector_id, embedding = _cache_vector(connection, legs.identity, digest, embedding)
            waiting = connection.execute(
                "UPDATE chunks SET vector_id = ? WHERE hash = ? AND vector_id IS NULL"
                " RETURNING row_id, file_id",
                (vector_id, digest),
            ).fetchall()
            delta.added += [MatrixRow(row, file, embedding) for row, file in waiting]
            if waiting and legs.vec:
                _put_vec(connection, vector_id, embedding)
        connection.executemany("INSERT OR REPLACE INTO set_aside VALUES (?, ?)", bad)
    return delta


def prune_cache(connection: Connection, max_entries: int | None) -> int:
    """Drop the least recently used embeddings over the bound; never one that a chunk uses.

    `max_entries` None means no bound. Returns how many were dropped.
    """
    total = connection.execute("SELECT count(*) FROM embedding_cache").fetchone()[0]
    if max_entries is None or total <= max_entries:
        return 0
    with transaction(connection):
        dropped = connection.execute(
            "DELETE FROM embedding_cache WHERE vector_id IN (SELECT vector_id FROM embedding_cache"
            " WHERE vector_id NOT IN (SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL)"
            " ORDER BY used_at LIMIT ?)",
            (total - max_entries,),
        ).rowcount
        connection.execute("DELETE FROM set_aside WHERE hash NOT IN (SELECT hash FROM chunks)")
    return int(dropped)


def copy_cache(connection: Connection, other: Path) -> int:
    """Take over the embeddings of another index file. Returns how many are new."""
    connection.execute("ATTACH DATABASE ? AS other", (str(other),))
    try:
        tables = "SELECT count(*) FROM other.sqlite_schema WHERE name = 'embedding_cache'"
        if not connection.execute(tables).fetchone()[0]:
            return 0  # it ended before it had tables
        with transaction(connection):
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
                _put_vec(connection, vector_id, embedding)
    return delta


def _upsert_file(connection: Connection, parsed: ParsedFile) -> int:
    row = connection.execute(
        "INSERT INTO files (path, source, hash, mtime_ns, size, inode) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path, source) DO UPDATE SET hash = excluded.hash,"
        " mtime_ns = excluded.mtime_ns, size = excluded.size, inode = excluded.inode"
        " RETURNING file_id",
        (parsed.key.path, parsed.key.source, parsed.hash, *parsed.stat),
    ).fetchone()
    return int(row[0])


def _insert_chunk(
    connection: Connection,
    legs: Legs,
    key: FileKey,
    id_: str,
    chunk: Chunk,
    digest: str,
    delta: Delta,
) -> None:
    identity = legs.identity
    now = int(time.time())
    cached = connection.execute(
        "UPDATE embedding_cache SET used_at = ? WHERE provider = ? AND model = ?"
        " AND provider_key = ? AND hash = ? RETURNING vector_id, embedding",
        (now, identity.provider, identity.model, identity.provider_key, digest),
    ).fetchone()
    vector_id = None if cached is None else int(cached[0])
    row_id = connection.execute(
        "INSERT INTO chunks (id, file_id, start_line, end_line, hash, model, heading, text,"
        " vector_id, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id_,
            delta.file_id,
            chunk.start_line,
            chunk.end_line,
            digest,
            identity.model,
            chunk.heading,
            chunk.text,
            vector_id,
            now,
        ),
    ).lastrowid
    assert row_id is not None  # noqa: S101 - an INSERT that didn't raise has a row
    if legs.fts:
        connection.execute(
            "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, ?)",
            (row_id, *fts_columns(chunk.text, key.path, chunk.heading)),
        )
    if vector_id is None:
        delta.pending = True
    else:
        delta.reused += 1
        delta.added.append(MatrixRow(row_id, delta.file_id, cached[1]))
        if legs.vec:
            _put_vec(connection, vector_id, cached[1])


def _delete_chunks(connection: Connection, legs: Legs, rows: list[int], delta: Delta) -> None:
    for row in rows:
        (vector_id,) = connection.execute(
            "DELETE FROM chunks WHERE row_id = ? RETURNING vector_id", (row,)
        ).fetchone()
        if legs.fts:
            connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (row,))
        if vector_id is not None and legs.vec:
            connection.execute(
                "DELETE FROM chunks_vec WHERE rowid = ?"
                " AND NOT EXISTS (SELECT 1 FROM chunks WHERE vector_id = ?)",
                (vector_id, vector_id),
            )
    delta.removed += rows


def _cache_vector(
    connection: Connection, identity: Identity, digest: str, embedding: bytes
) -> tuple[int, bytes]:
    row = connection.execute(
        "INSERT INTO embedding_cache (provider, model, provider_key, hash, dims, embedding,"
        " used_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (provider, model, provider_key, hash)"
        " DO UPDATE SET used_at = excluded.used_at RETURNING vector_id, embedding",
        (
            identity.provider,
            identity.model,
            identity.provider_key,
            digest,
            len(embedding) // 4,
            embedding,
            int(time.time()),
        ),
    ).fetchone()
    return int(row[0]), bytes(row[1])


def _put_vec(connection: Connection, vector_id: int, embedding: bytes) -> None:
    # vec0 knows neither OR REPLACE nor ON CONFLICT, and two chunks may share one text.
    connection.execute(
        "INSERT INTO chunks_vec (rowid, embedding) SELECT ?, ? WHERE NOT EXISTS"
        " (SELECT 1 FROM chunks_vec_rowids WHERE rowid = ?)",
        (vector_id, embedding, vector_id),
    )


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
