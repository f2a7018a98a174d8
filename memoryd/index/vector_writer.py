"""Storing of embeddings in the index, or at least in its cache."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from memoryd.index import dimension_change, statements
from memoryd.index.cache import prune_cache
from memoryd.index.driver import Database, Error
from memoryd.index.rebuild.carry_over import (
    adopt_vectors,
    all_forgotten,
    insert_vectors,
    keep_embeddings,
    read_vectors,
)
from memoryd.index.rebuild.leftovers import discard
from memoryd.index.store import Store
from memoryd.index.transactions import Transactions
from memoryd.messages import Embedded, StoredVector

log = logging.getLogger(__name__)

PRUNE_EVERY_VECTORS = 1_000
IN_MEMORY_BYTES = 64 * 1024 * 1024
"""Maximum kept in memory of a file that must be removed first: 10,000 vectors of 1,536 numbers."""


class VectorWriter:
    """The part of the writer that stores vectors."""

    def __init__(self, store: Store, transactions: Transactions) -> None:
        self._store = store
        self._transactions = transactions
        self._unpruned = 0

    async def put(self, message: Embedded) -> int:
        """Store vectors, or only cache those of other dims. Return the number stored."""
        store, transactions = self._store, self._transactions
        taken = 0
        # Otherwise a rebuild has replaced the index that the vectors were made for.
        made_for = message.identity
        if made_for.same_vectors(store.identity) or made_for.same_model(store.identity):
            vectors, number = message.vectors, _dims_of(message)
            if store.identity.dims is None and number is not None:
                await transactions.run(lambda c: store.learn_dims(c, number))
            if number is not None and number != store.identity.dims:
                await transactions.run(
                    lambda c: dimension_change.cache_vectors(c, store.identity, number, vectors)
                )
                vectors = []
            await transactions.change(
                lambda c: [statements.put_vectors(c, store.tables, vectors, message.bad)],
                bad=bool(message.bad),
            )
            taken = len(vectors)
            self._unpruned += len(message.vectors)
        if self._unpruned >= PRUNE_EVERY_VECTORS:
            self._unpruned = 0
            limit = store.options.cache_max_entries
            await transactions.run_if_possible(lambda c: prune_cache(c, limit), lambda _: 0)
        return taken

    async def take_over(self, leftover: Path, vectors: Sequence[StoredVector] = ()) -> None:
        """Keep the embeddings of an unfinished rebuild and remove its file.

        On a full disk that file takes the room: then its newest embeddings are read into memory and
        it is removed first. `vectors` are embeddings that the rebuild could not store.
        """
        store, kept = self._store, list(vectors)
        try:
            await store.database.run(lambda c: keep_embeddings(c, leftover))
        except Error as error:
            found = await self._read(leftover)
            log.warning("%s: %s; kept %d of its embeddings", leftover, error, len(found))
            kept += found
        await asyncio.to_thread(discard, leftover)
        if kept and not store.forgotten_meanwhile:
            await self._transactions.run(lambda c: insert_vectors(c, kept))
        await self._transactions.change(lambda c: [adopt_vectors(c, store.tables)], bad=False)

    async def _read(self, leftover: Path) -> list[StoredVector]:
        """Return the newest embeddings of a file, up to `IN_MEMORY_BYTES`."""
        forgotten = await self._store.readers.read(all_forgotten)
        with suppress(Error, OSError):
            async with Database(leftover, readonly=True) as database:
                return await database.run(
                    lambda c: read_vectors(c, forgotten, max_bytes=IN_MEMORY_BYTES)
                )
        return []


def _dims_of(message: Embedded) -> int | None:
    """Return the number of dimensions; None if there is no vector."""
    if not message.vectors:
        return None
    return message.dims or len(message.vectors[0][1]) // 4
