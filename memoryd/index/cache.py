"""The embedding cache by text hash, and sqlite-vec's table of the embeddings in use."""

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from memoryd.identity import Identity
from memoryd.index.driver import Connection, transaction


def keep_vector(
    connection: Connection, identity: Identity, digest: str, embedding: bytes
) -> tuple[int, bytes]:
    """Cache an embedding unless the text has one; return the id and the cached embedding.

    Shape of an embedding: one or more vectors of `dims` little-endian float32.
    """
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
            identity.dims or len(embedding) // 4,
            embedding,
            int(time.time()),
        ),
    ).fetchone()
    return int(row[0]), bytes(row[1])


def keep_vectors(
    connection: Connection, identity: Identity, vectors: Sequence[tuple[str, bytes]]
) -> list[tuple[str, int, bytes]]:
    """Cache embeddings by text hash within the caller's transaction, except of forgotten texts.

    Returns the hash, id and embedding of each cached one.
    """
    gone = _forgotten(connection, [digest for digest, _ in vectors])
    return [
        (digest, *keep_vector(connection, identity, digest, embedding))
        for digest, embedding in vectors
        if digest not in gone
    ]


def _forgotten(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return the texts that were forgotten while they were embedded."""
    found = connection.execute(
        "SELECT value FROM forgotten WHERE kind = 'chunk'"
        " AND value IN (SELECT value FROM json_each(?)) AND value NOT IN (SELECT hash FROM chunks)",
        (msgspec.json.encode(digests).decode(),),
    )
    return {digest for (digest,) in found}


def take_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, tuple[int, bytes]]:
    """Return (id, embedding) of the texts in the cache and mark them as used."""
    found = connection.execute(
        "UPDATE embedding_cache SET used_at = ? WHERE provider = ? AND model = ?"
        " AND provider_key = ? AND dims = ? AND hash IN (SELECT value FROM json_each(?))"
        " RETURNING hash, vector_id, embedding",
        (
            int(time.time()),
            identity.provider,
            identity.model,
            identity.provider_key,
            identity.dims,
            msgspec.json.encode(digests).decode(),
        ),
    ).fetchall()
    return {digest: (int(vector_id), embedding) for digest, vector_id, embedding in found}


def find_dims(connection: Connection, identity: Identity) -> int | None:
    """Return the dims of a model's newest cached embedding. Doesn't mark it as used."""
    row = connection.execute(
        "SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?"
        " ORDER BY vector_id DESC LIMIT 1",
        (identity.provider, identity.model, identity.provider_key),
    ).fetchone()
    return None if row is None else int(row[0])


def find_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, bytes]:
    """Return the embeddings of the texts in the cache. Doesn't mark them as used."""
    found = connection.execute(
        "SELECT hash, embedding FROM embedding_cache WHERE provider = ? AND model = ?"
        " AND provider_key = ? AND dims = ? AND hash IN (SELECT value FROM json_each(?))",
        (
            identity.provider,
            identity.model,
            identity.provider_key,
            identity.dims,
            msgspec.json.encode(digests).decode(),
        ),
    )
    return dict(found.fetchall())


def put_vec(connection: Connection, vector_id: int, embedding: bytes, dims: int) -> None:
    """Add an embedding's mean vector to sqlite-vec's table, unless it is there."""
    # vec0 supports neither OR REPLACE nor ON CONFLICT, and two chunks may share one text.
    connection.execute(
        "INSERT INTO chunks_vec (rowid, embedding) SELECT ?, ? WHERE NOT EXISTS"
        " (SELECT 1 FROM chunks_vec_rowids WHERE rowid = ?)",
        (vector_id, mean_vector(embedding, dims), vector_id),
    )


def mean_vector(embedding: bytes, dims: int) -> bytes:
    """Return the mean of an embedding's vectors, scaled to length 1.

    Raises ValueError for bytes that are no embedding.
    """
    if len(embedding) == 4 * dims:
        return embedding
    if not embedding:
        raise ValueError("it holds no vector")
    with np.errstate(all="ignore"):  # a corrupt embedding may hold anything
        mean = np.frombuffer(embedding, "<f4").reshape(-1, dims).mean(axis=0)
        return bytes((mean / (np.linalg.norm(mean) or 1.0)).astype("<f4").tobytes())


def prune_cache(connection: Connection, max_entries: int | None) -> int:
    """Drop the least recently used embeddings above the limit, but none that a chunk uses.

    `max_entries` None means no limit. Returns the number dropped.
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


def with_known_dims(connection: Connection, identity: Identity) -> Identity:
    """Return the identity with the dims of its salvaged embeddings, if it has none yet."""
    if identity.dims is not None:
        return identity
    row = connection.execute(
        "SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?",
        (identity.provider, identity.model, identity.provider_key),
    ).fetchone()
    return identity if row is None else msgspec.structs.replace(identity, dims=row[0])
