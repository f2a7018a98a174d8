"""The embedding cache by text hash.

Cached embeddings are stored as `quantize` encodes them.
"""

import time
from collections.abc import Sequence

import msgspec

from memoryd.identity import Identity
from memoryd.index.driver import Connection, one_value, transaction
from memoryd.index.quantize import (
    decode,
    encode,
    from_float32,
    is_embedding,
    of_any_version,
)

_OF_TEXTS = (
    "WHERE provider = ? AND model = ? AND provider_key = ? AND dims = ?"
    " AND hash IN (SELECT value FROM json_each(?))"
)


def model_key(identity: Identity) -> tuple[str, str, str]:
    """Return the columns that name the model of a cached embedding."""
    return identity.provider, identity.model, identity.provider_key


def keep_vectors(
    connection: Connection, identity: Identity, vectors: Sequence[tuple[str, bytes]]
) -> list[tuple[str, int, bytes]]:
    """Cache embeddings by text hash within the caller's transaction, unless the texts have some.

    Skips texts that were forgotten while they were embedded. Returns the hash, id and stored
    embedding of each other text. `vectors` are embeddings by text hash: one or more vectors of
    `dims` little-endian float32.
    """
    skipped: set[str] = set()
    if one_value(connection, "SELECT 1 FROM forgotten WHERE kind = 'chunk-hmac' LIMIT 1"):
        # `keyed` is a function of the store, which has the key.
        forgotten = connection.execute(
            "SELECT value FROM json_each(?) WHERE keyed(value) IN"
            " (SELECT value FROM forgotten WHERE kind = 'chunk-hmac')"
            " AND value NOT IN (SELECT hash FROM chunks)",
            (_json([digest for digest, _ in vectors]),),
        )
        skipped = {digest for (digest,) in forgotten}
    kept: list[tuple[str, int, bytes]] = []
    for digest, embedding in vectors:
        if digest in skipped:
            continue
        dims, now = identity.dims or len(embedding) // 4, int(time.time())
        kept += connection.execute(
            "INSERT INTO embedding_cache (provider, model, provider_key, hash, dims, embedding,"
            " used_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (provider, model, provider_key, hash)"
            " DO UPDATE SET used_at = excluded.used_at RETURNING hash, vector_id, embedding",
            (*model_key(identity), digest, dims, encode(embedding, dims, digest), now),
        ).fetchall()
    return kept


def take_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, tuple[int, bytes]]:
    """Return (id, stored embedding) of the texts in the cache and mark them as used."""
    found = connection.execute(
        f"UPDATE embedding_cache SET used_at = ? {_OF_TEXTS} RETURNING hash, vector_id, embedding",
        (int(time.time()), *model_key(identity), identity.dims, _json(digests)),
    ).fetchall()
    return {digest: (int(vector_id), embedding) for digest, vector_id, embedding in found}


def find_dims(connection: Connection, identity: Identity) -> int | None:
    """Return the dims of a model's newest cached embedding. Doesn't mark it as used."""
    dims: int | None = one_value(
        connection,
        "SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?"
        " ORDER BY vector_id DESC LIMIT 1",
        *model_key(identity),
    )
    return dims


def find_vectors(
    connection: Connection, identity: Identity, digests: Sequence[str]
) -> dict[str, bytes]:
    """Return the embeddings of the texts in the cache as float32. Doesn't mark them as used."""
    found = connection.execute(
        f"SELECT hash, embedding FROM embedding_cache {_OF_TEXTS}",
        (*model_key(identity), identity.dims, _json(digests)),
    )
    dims = identity.dims or 0
    return {
        digest: as_float32(stored, dims)
        for digest, stored in found
        if is_embedding(stored, dims, digest)
    }


def as_float32(stored: bytes, dims: int) -> bytes:
    """Return a stored embedding as little-endian float32, which is encoded to the same again."""
    return decode(stored, dims).astype("<f4").tobytes()


def add_conversions(connection: Connection) -> None:
    """Give a connection functions that convert embeddings of earlier versions."""
    for function in (from_float32, of_any_version):
        connection.create_function(function.__name__, 3, function, deterministic=True)


def release_text(connection: Connection, digest: str, vector_id: int | None) -> None:
    """Note that a chunk with this text was deleted: its vector stays in the cache for a while.

    A vendor's message about the text may quote it, and goes with the last chunk that has it.
    """
    if vector_id is not None:
        connection.execute(
            "UPDATE embedding_cache SET used_at = ? WHERE vector_id = ?",
            (int(time.time()), vector_id),
        )
    connection.execute(
        "DELETE FROM set_aside WHERE hash = ?1"
        " AND NOT EXISTS (SELECT 1 FROM chunks WHERE hash = ?1)",
        (digest,),
    )


def drop_deleted(connection: Connection, unused_since_s: float) -> int:
    """Drop the embeddings of texts without a chunk that were last used before a Unix time.

    Returns the number dropped.
    """
    with transaction(connection):
        dropped = connection.execute(
            "DELETE FROM embedding_cache WHERE used_at <= ? AND NOT EXISTS"
            " (SELECT 1 FROM chunks WHERE chunks.hash = embedding_cache.hash)",
            (int(unused_since_s),),
        ).rowcount
        connection.execute("DELETE FROM set_aside WHERE hash NOT IN (SELECT hash FROM chunks)")
    return int(dropped)


def prune_cache(connection: Connection, max_entries: int | None) -> int:
    """Drop the least recently used embeddings above the limit, but none that a chunk uses.

    `max_entries` None means no limit. Returns the number dropped.
    """
    total = one_value(connection, "SELECT count(*) FROM embedding_cache")
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
    dims = identity.dims or find_dims(connection, identity)
    return msgspec.structs.replace(identity, dims=dims)


def _json(digests: Sequence[str]) -> str:
    return msgspec.json.encode(digests).decode()
