"""Handling of a provider that changes its dims under the same model name.

Vectors of different dims never mix: the index is rebuilt as for another model. Vectors received
earlier stay in the cache under a key of their own, so that no change back and forth is paid twice.
"""

from collections.abc import Sequence

import msgspec

from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.cache import keep_vectors, model_key
from memoryd.index.driver import Connection, transaction

_NOTE = "dims now"


def expected_identity(connection: Connection, wanted: Identity, built: Identity) -> Identity:
    """Return the identity that the settings ask for, with the last known dims of the provider.

    `built` is the identity of the index.
    """
    if wanted.dims is not None or not wanted.same_model(built):
        return wanted
    try:
        noted = msgspec.json.decode(schema.get_note(connection, _NOTE) or "", type=Identity)
    except (msgspec.MsgspecError, RecursionError):
        return wanted.with_dims_of(built)
    return wanted.with_dims_of(noted if noted.same_model(wanted) else built)


def record_dims(connection: Connection, wanted: Identity, built: Identity, dims: int) -> Identity:
    """Record the dims that the provider gives now; return the identity to build for."""
    if wanted.same_model(built) and dims == built.dims:
        now = wanted.with_dims_of(built)
    elif wanted.dims == dims:
        return wanted
    else:
        now = wanted.with_dims(dims)
    if now != wanted:
        with transaction(connection):
            schema.put_note(connection, _NOTE, msgspec.json.encode(now).decode())
    return now


def cache_vectors(
    connection: Connection, built: Identity, dims: int, vectors: Sequence[tuple[str, bytes]]
) -> None:
    """Cache vectors that don't fit the index: the rebuild uses them, because they are paid for."""
    with transaction(connection):
        keep_vectors(connection, built.with_dims(dims), vectors)


def adopt_cached(connection: Connection, identity: Identity) -> None:
    """Adopt the embeddings of these dims that were cached before the provider changed its dims.

    For a new index without any chunk.
    """
    provider, model, key = model_key(identity)
    with transaction(connection):
        connection.execute(
            "UPDATE OR IGNORE embedding_cache SET provider_key = ?"
            " WHERE provider = ? AND model = ? AND provider_key = ? AND dims = ?",
            (key, provider, model, identity.first_key, identity.dims),
        )
