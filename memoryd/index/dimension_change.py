"""What becomes of an index when its provider gives vectors of other dims under the same name.

Vectors of both never mix: the index wants to be rebuilt then, as for another model. What has come
is kept in the cache, under a key of its own, so that neither this way nor back is paid for twice.
"""

from collections.abc import Sequence

import msgspec

from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.cache import keep_vectors
from memoryd.index.driver import Connection, transaction

_NOTE = "dims now"


def expected_identity(connection: Connection, wanted: Identity, built: Identity) -> Identity:
    """Return what the settings want, with the dims that the provider was last known to give.

    `built` is what the index is built with.
    """
    if wanted.dims is not None or not wanted.same_model(built):
        return wanted
    try:
        noted = msgspec.json.decode(schema.get_note(connection, _NOTE) or "", type=Identity)
    except (msgspec.MsgspecError, RecursionError):
        return wanted.with_dims_of(built)
    return wanted.with_dims_of(noted if noted.same_model(wanted) else built)


def record_dims(connection: Connection, wanted: Identity, built: Identity, dims: int) -> Identity:
    """Note which dims the provider gives now; return what is wanted then."""
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
    """Keep vectors that don't fit the index: a rebuild takes them, they have been paid for."""
    with transaction(connection):
        keep_vectors(connection, built.with_dims(dims), vectors)


def adopt_cached(connection: Connection, identity: Identity) -> None:
    """Take what is cached of these dims since before the provider first changed them.

    Of a new index, which no chunk is in yet.
    """
    with transaction(connection):
        connection.execute(
            "UPDATE OR IGNORE embedding_cache SET provider_key = ?1"
            " WHERE provider = ?2 AND model = ?3 AND provider_key = ?4 AND dims = ?5",
            (
                identity.provider_key,
                identity.provider,
                identity.model,
                identity.first_key,
                identity.dims,
            ),
        )
