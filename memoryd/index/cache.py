"""The cache of embeddings, by text hash, and sqlite-vec's table of those in use."""

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from memoryd.identity import Identity
from memoryd.index.driver import Connection, transaction


def keep_vector(
    connection: Connection, identity: Identity, digest: str, embedding: bytes
) -> tuple[int, bytes]:
    """Keep an embedding, unless there is one for this text; return the one that is kept and its id.

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
    """Keep embeddings by text hash, within a transaction of the caller's; no forgotten text's.

    Returns hash, id and embedding of those that are kept.
    """
    gone = _forgotten(connection, [digest for digest, _ in vectors])
    return [
        (digest, *keep_vector(connection, identity, digest, embedding))
        for digest, embedding in vectors
        if digest not in gone
    ]


def _forgotten(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return those texts that were forgotten while they were embedded."""
    found = connection.execute(
        "SELECT value FROM forgotten WHERE kind = 'chunk'"
        " AND value IN (SELECT value FROM json_each(?)) AND value NOT IN (SELECT hash FROM chunks)",
        (msgspec.json.encode(digests).decode(),),
    )
    return {digest for (digest,) in found}


def take_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, tuple[int, bytes]]:
    """Return (id, embedding) of those texts that are in the cache, which counts as a use of it."""
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
    """Return the dims of the newest embedding of a model that is in the cache; only reads."""
    row = connection.execute(
        "SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?"
        " ORDER BY vector_id DESC LIMIT 1",
        (identity.provider, identity.model, identity.provider_key),
    ).fetchone()
    return None if row is None else int(row[0])


def find_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, bytes]:
    """Return the embeddings of those texts that are in the cache; only reads."""
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
    """Give an embedding's mean vector to sqlite-vec's table, unless it has one."""
    # vec0 knows neither OR REPLACE nor ON CONFLICT, and two chunks may share one text.
    connection.execute(
        "INSERT INTO chunks_vec (rowid, embedding) SELECT ?, ? WHERE NOT EXISTS"
        " (SELECT 1 FROM chunks_vec_rowids WHERE rowid = ?)",
        (vector_id, mean_vector(embedding, dims), vector_id),
    )


def mean_vector(embedding: bytes, dims: int) -> bytes:
    """Return the mean of an embedding's vectors, of length 1.

    Raises ValueError for what can't be one.
    """
    if len(embedding) == 4 * dims:
        return embedding
    if not embedding:
        raise ValueError("it holds no vector")
    with np.errstate(all="ignore"):  # of a damaged one, whatever that is
        mean = np.frombuffer(embedding, "<f4").reshape(-1, dims).mean(axis=0)
        return bytes((mean / (np.linalg.norm(mean) or 1.0)).astype("<f4").tobytes())


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


def with_known_dims(connection: Connection, identity: Identity) -> Identity:
    """Return an identity with the dims of embeddings that were salvaged, if it has none yet."""
    if identity.dims is not None:
        return identity
    row = connection.execute(
        "SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?",
        (identity.provider, identity.model, identity.provider_key),
    ).fetchone()
    return identity if row is None else msgspec.structs.replace(identity, dims=row[0])
