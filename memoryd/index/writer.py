"""The single writer: everything that changes an index passes through this actor, in order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from memoryd.flow import (
    Embedded,
    FileGone,
    FileKey,
    ParsedFile,
    Replace,
    Salvage,
    SyncMarker,
    ToFeeder,
    ToWriter,
    Unreadable,
)
from memoryd.index import rows
from memoryd.index.catalog import FileRow
from memoryd.index.driver import Connection, Error
from memoryd.index.rows import Delta
from memoryd.index.store import Store

log = logging.getLogger(__name__)

PRUNE_EVERY_VECTORS = 1_000


@dataclass(frozen=True, slots=True)
class WriterStats:
    """Counters since the start; `messages` counts all that were handled."""

    messages: int
    files_written: int
    files_removed: int
    vectors_written: int
    vectors_reused: int


class Writer:
    """Applies one message after the other, each as one transaction on the connection's thread.

    In: `ToWriter`. Out: a wake-up for the feeder when chunks wait for vectors, and the sync
    markers, once everything before them has been committed.
    """

    def __init__(
        self,
        inbox: asyncio.Queue[ToWriter],
        feeder: asyncio.Queue[ToFeeder],
        store: Store,
        *,
        on_unreadable: Callable[[Unreadable], None],
        on_written: Callable[[FileKey], None],
    ) -> None:
        self._inbox = inbox
        self._feeder = feeder
        self._store = store
        self._on_unreadable = on_unreadable
        self._on_written = on_written
        self._messages = 0
        self._files_written = 0
        self._files_removed = 0
        self._vectors_written = 0
        self._vectors_reused = 0
        self._unpruned = 0

    async def run(self) -> None:
        """Write until cancelled."""
        await self._store.load_matrix()
        self._wake_feeder()
        while True:
            message = await self._inbox.get()
            try:
                await self._handle(message)
            finally:
                self._messages += 1
                self._inbox.task_done()

    def stats(self) -> WriterStats:
        """Return the counters."""
        return WriterStats(
            self._messages,
            self._files_written,
            self._files_removed,
            self._vectors_written,
            self._vectors_reused,
        )

    async def _handle(self, message: ToWriter) -> None:
        store = self._store
        match message:
            case ParsedFile():
                await self._put_file(message)
            case FileGone():
                await self._apply(lambda c: rows.delete_file(c, store.legs, message.key))
                store.catalog.remove(message.key)
                self._files_removed += 1
                self._on_written(message.key)
            case Unreadable():
                self._on_unreadable(message)
            case Embedded():
                await self._put_vectors(message)
            case Replace():
                await self._replace(message)
            case Salvage():
                await self._salvage(message)
            case SyncMarker():
                _resolve(message.text)
                await self._feeder.put(message)

    async def _put_file(self, message: ParsedFile) -> None:
        store = self._store
        known = store.catalog.rows.get(message.key)
        if known is not None and known.hash == message.hash:
            await store.database.run(lambda c: rows.touch_file(c, message.key, message.stat))
            row = replace(known, stat=message.stat)
        else:
            delta = await self._apply(lambda c: rows.replace_file(c, store.legs, message))
            row = FileRow(delta.file_id, message.hash, message.stat, delta.chunks)
            self._files_written += 1
            self._vectors_reused += delta.reused
            if delta.pending:
                self._wake_feeder()
        store.catalog.put(message.key, row)
        self._on_written(message.key)

    async def _salvage(self, message: Salvage) -> None:
        try:
            kept = await self._store.database.run(lambda c: rows.copy_cache(c, message.path))
            await self._apply(lambda c: rows.adopt_vectors(c, self._store.legs))
        except Error as error:
            log.warning("%s: nothing could be kept of it: %s", message.path, error)
        else:
            log.info("%s: kept %d embeddings of an unfinished rebuild", message.path, kept)
        _resolve(message.done)

    async def _replace(self, message: Replace) -> None:
        try:
            await self._store.replace_with(message.path, message.identity)
        except OSError as error:
            if not message.done.done():
                message.done.set_exception(error)
        _resolve(message.done)
        self._wake_feeder()

    async def _put_vectors(self, message: Embedded) -> None:
        store = self._store
        # Otherwise it was made for an index that a rebuild has replaced meanwhile.
        if message.identity.same_vectors(store.identity):
            if store.identity.dims is None and message.vectors:
                await store.learn_dims(len(message.vectors[0][1]) // 4)
            await self._apply(
                lambda c: rows.put_vectors(c, store.legs, message.vectors, message.bad),
                bad=bool(message.bad),
            )
            self._vectors_written += len(message.vectors)
            self._unpruned += len(message.vectors)
        if self._unpruned >= PRUNE_EVERY_VECTORS:
            self._unpruned = 0
            limit = store.options.cache_max_entries
            await store.database.run(lambda c: rows.prune_cache(c, limit))
        _resolve(message.committed)

    async def _apply(self, change: Callable[[Connection], Delta], *, bad: bool = False) -> Delta:
        """Commit a change, and bring the vectors in memory up to it on the same thread."""
        matrix = self._store.matrix

        def commit(connection: Connection) -> Delta:
            delta = change(connection)
            if matrix is not None:
                matrix.apply(delta.removed, delta.added)
            if bad or self._store.set_aside:
                self._store.set_aside = rows.count_set_aside(connection)
            return delta

        return await self._store.database.run(commit)

    def _wake_feeder(self) -> None:
        # Not empty: it will look again anyway.
        if self._feeder.empty():
            self._feeder.put_nowait(None)


def _resolve(waiter: asyncio.Future[None]) -> None:
    """Tell who waits, if it still does: at a stop it may be gone before the writer is."""
    if not waiter.done():
        waiter.set_result(None)
