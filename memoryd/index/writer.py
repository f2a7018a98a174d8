"""Single-writer actor: every change of an index passes through it, in order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from memoryd.index import batch_jobs, schema
from memoryd.index.catalog import FileRow
from memoryd.index.driver import Error, sqlite
from memoryd.index.erasure import Erasure
from memoryd.index.forget import complete, forget, wipe
from memoryd.index.rebuild.leftovers import unfinished
from memoryd.index.statements import (
    GROUP_BYTES,
    GROUP_FILES,
    STEP_CHUNKS,
    FileChange,
    RowChanges,
    Touched,
    size,
    write_files,
)
from memoryd.index.store import Store
from memoryd.index.transactions import Transactions
from memoryd.index.vector_writer import VectorWriter
from memoryd.messages import (
    Choose,
    Chunk,
    Embedded,
    FileGone,
    FileKey,
    Forget,
    GivesDims,
    JobChange,
    KeepEmbeddings,
    MountPoints,
    ParsedFile,
    RecordChange,
    Replace,
    SyncMarker,
    ToFeeder,
    ToWriter,
    Unreadable,
)

log = logging.getLogger(__name__)

MERGE_AFTER_FILES, MERGE_ALL_AFTER_FILES = 64, 1_000
"""Files after which FTS5's segments are merged, and all of them into one."""
COLLECT_S = 0.05
"""Seconds that a commit waits for more files that are being parsed: with 25 files instead of 64,
writing each takes a third more, because every commit adds a segment to FTS5."""
CHECK_S = 5.0
"""Seconds between two checks of the index's files while nothing is written."""
FILE_FAULTS = (ValueError, sqlite.DataError, sqlite.IntegrityError)
"""Errors caused by one file's content, not by the disk or the index."""


@dataclass(frozen=True, slots=True)
class WriterStats:
    """Counters since the start; `messages` counts handled messages.

    `in_hand` counts messages that have left the queue and are not committed yet.
    """

    messages: int
    in_hand: int
    vectors_written: int
    vectors_reused: int


class Writer:
    """Applies messages in order on the connection's thread.

    Each message is one transaction, but queued changes of files share one within bounds. A file is
    written whole or not at all; after a crash the next scan finds the rest. While the disk fails,
    the current message is retried and all others wait. When idle, the writer merges FTS5 segments
    and removes the traces of deleted texts, which it also does before it answers a `sync`.

    In: `ToWriter`. Out: a wake-up for the feeder when chunks need vectors, and the sync markers
    once everything before them is committed.
    """

    def __init__(
        self,
        inbox: asyncio.Queue[ToWriter],
        feeder: asyncio.Queue[ToFeeder],
        store: Store,
        *,
        coming: Callable[[], int],
        on_unreadable: Callable[[Unreadable], None],
        on_written: Callable[[FileKey, bool], None],
        on_wanted: Callable[[], None],
        restart: Callable[[], None],
    ) -> None:
        """`coming` counts the files that are being parsed. `restart` restarts the whole agent.

        `on_written` gets each committed file and whether its rows changed; `on_wanted` is called
        when the index has to be rebuilt for other dims.
        """
        self._inbox = inbox
        self._feeder = feeder
        self._store = store
        self._transactions = Transactions(store, restart=restart, on_recovered=self._wake_feeder)
        self._vectors = VectorWriter(store, self._transactions)
        self._erasure = Erasure(store, self._transactions)
        self._coming = coming
        self._on_unreadable = on_unreadable
        self._on_target_changed = on_wanted
        self._on_written = on_written
        self._next: ToWriter | None = None
        self._messages = 0
        self._in_hand = 0
        self._vectors_written = 0
        self._vectors_reused = 0
        # The last process may have stopped before its merge.
        self._unmerged = MERGE_AFTER_FILES

    async def run(self) -> None:
        """Write until cancelled."""
        await self._store.load_matrix()
        await self._transactions.until_writable()
        # Before the feeder starts, so that it doesn't embed an unfinished rebuild's texts again.
        for leftover in await asyncio.to_thread(unfinished, self._store.path):
            await self._vectors.take_over(leftover)
        self._store.swept.set()
        self._wake_feeder()
        while True:
            if self._next is None and self._inbox.empty() and self._unmerged >= MERGE_AFTER_FILES:
                await self._merge()
                continue
            if self._next is None and self._inbox.empty() and self._erasure.overdue:
                await self._erasure.finish()
            message, self._next = self._next or await self._receive(), None
            await self._process(message)
            del message  # it may be large, and the next message late

    async def _receive(self) -> ToWriter:
        while True:
            try:
                async with asyncio.timeout(CHECK_S):
                    return await self._inbox.get()
            except TimeoutError:
                await self._transactions.check_files()
                await self._erasure.when_idle()

    def stats(self) -> WriterStats:
        """Return the counters."""
        return WriterStats(
            self._messages,
            self.in_hand(),
            self._vectors_written,
            self._vectors_reused,
        )

    def in_hand(self) -> int:
        """Return the number of messages that have left the queue and are not committed yet."""
        return self._in_hand + (self._next is not None)

    async def _process(self, message: ToWriter) -> None:
        """Handle a message, together with queued files if it is a file."""
        self._in_hand = 1
        try:
            if isinstance(message, ParsedFile | FileGone):
                await self._put_files(await self._group(message))
            else:
                await self._handle(message)
        finally:
            self._messages += self._in_hand
            for _ in range(self._in_hand):
                self._inbox.task_done()
            self._in_hand = 0

    async def _group(self, first: ParsedFile | FileGone) -> list[ParsedFile | FileGone]:
        """Return the files to commit together: those in the queue, within bounds, each once.

        Waits a moment for those that are about to come.
        """
        group = {first.key: first}
        total = size(first)
        until_s = asyncio.get_running_loop().time() + COLLECT_S
        while len(group) < GROUP_FILES and total < GROUP_BYTES:
            if self._inbox.empty() and not self._coming():
                break
            try:
                async with asyncio.timeout_at(until_s):
                    message = await self._inbox.get()
            except TimeoutError:
                break
            if not isinstance(message, ParsedFile | FileGone) or message.key in group:
                self._next = message
                break
            group[message.key] = message
            self._in_hand = len(group)
            total += size(message)
        return list(group.values())

    async def _put_files(self, group: list[ParsedFile | FileGone]) -> None:
        try:
            await self._commit([message for message in group if not self._is_outdated(message)])
        finally:
            for message in group:
                if isinstance(message, ParsedFile) and message.committed is not None:
                    _resolve(message.committed)

    def _is_outdated(self, message: ParsedFile | FileGone) -> bool:
        """Return whether a part of a transcript doesn't continue the indexed part."""
        if not isinstance(message, ParsedFile) or message.from_line == 1:
            return False
        known = self._store.catalog.rows.get(message.key)
        return known is None or known.transcript != message.extends

    async def _commit(self, group: list[ParsedFile | FileGone]) -> None:
        if not group:
            return
        files = [self._change(message) for message in group]
        try:
            changes = await self._transactions.write(
                lambda c: write_files(c, self._store.tables, files)
            )
        except FILE_FAULTS as error:
            if len(group) > 1:
                for message in group:
                    await self._commit([message])
            else:
                self._on_unreadable(Unreadable(group[0].key, f"can't be stored: {error}"))
            return
        for file, changed in zip(files, changes, strict=True):
            self._update_catalog(file, changed)
        if any(changed.pending for changed in changes):
            self._wake_feeder()
        for message in group:
            if isinstance(message, ParsedFile):
                await _free(message.chunks)

    def _change(self, message: ParsedFile | FileGone) -> FileChange:
        known = self._store.catalog.rows.get(message.key)
        if isinstance(message, FileGone) or known is None or known.hash != message.hash:
            return message
        return Touched(message.key, message.stat, message.remarks)

    def _update_catalog(self, file: FileChange, rows: RowChanges) -> None:
        """Update the catalog after a commit."""
        catalog = self._store.catalog
        changed = True
        match file:
            case ParsedFile(key=key, stat=stat, remarks=remarks, transcript=state):
                chunks, before = rows.chunks, catalog.rows.get(key)
                if file.from_line > 1 and before is not None:
                    chunks += before.chunks - rows.replaced
                row = FileRow(rows.file_id, file.hash, stat, chunks, remarks, state, file.facts)
                catalog.put(key, row)
                self._unmerged += 1
                self._vectors_reused += rows.reused
            case Touched(key=key, stat=stat, remarks=remarks):
                catalog.put(key, replace(catalog.rows[key], stat=stat, remarks=remarks))
                changed = False
            case FileGone(key=key):
                changed = key in catalog.rows
                catalog.remove(key)
        self._on_written(file.key, changed)

    async def _handle(self, message: ToWriter) -> None:
        """Handle a message that is not a file."""
        match message:
            case Unreadable():
                self._on_unreadable(message)
            case Embedded():
                self._vectors_written += await self._vectors.put(message)
                _resolve(message.committed)
            case GivesDims():
                dims, follow = message.dims, self._store.follow_dims
                if await self._transactions.run(lambda c: follow(c, dims)):
                    self._on_target_changed()
                    self._wake_feeder()
            case Replace():
                await self._replace(message)
            case KeepEmbeddings():
                await self._vectors.take_over(message.path, message.paid)
                self._store.in_rebuild.clear()
                self._wake_feeder()
                _resolve(message.done)
            case Forget():
                await self._forget(message)
            case Choose():
                await self._transactions.run(lambda c: schema.put_choice(c, message.choice))
                _resolve(message.done)
            case JobChange():
                await self._transactions.run(lambda c: batch_jobs.write_job(c, message))
                _resolve(message.done)
            case RecordChange():
                await self._transactions.run(message.write)
                _resolve(message.done)
            case MountPoints():
                await self._transactions.run(lambda c: schema.put_places(c, message))
            case SyncMarker():
                if message.paths is None:
                    await self._erasure.finish()
                _resolve(message.text)
                await self._feeder.put(message)

    async def _forget(self, message: Forget) -> None:
        store, transactions = self._store, self._transactions
        await transactions.change(
            lambda c: forget(
                c, store.tables, message.keys, message.tombstones, store.tombstone_key
            ),
            bad=False,
        )
        store.forgotten_meanwhile.update(message.keys)
        for key in message.keys:
            store.catalog.remove(key)
            self._on_written(key, True)
        # Takes as much disk space again as the index.
        await transactions.run_if_possible(wipe, lambda error: _resolve(message.done, error))
        await transactions.run(lambda c: complete(c, store.tables))
        _resolve(message.done)

    async def _replace(self, message: Replace) -> None:
        try:
            await message.finish()
            await self._store.replace_with(message.path, message.identity)
        except (OSError, Error) as error:
            if not self._store.writable:
                raise
            _resolve(message.done, error)
            return
        self._store.in_rebuild.clear()
        self._unmerged = max(MERGE_AFTER_FILES, len(self._store.catalog.rows))
        self._wake_feeder()
        _resolve(message.done)

    async def _merge(self) -> None:
        """Merge some FTS5 segments while the queue is empty.

        After many files, such as those of a first index, begins to merge all into one: a search of
        10,000 chunks takes 4% less, and merging them takes 0.12 s.
        """
        merge = partial(schema.merge_segments, begin_all=self._unmerged >= MERGE_ALL_AFTER_FILES)
        self._unmerged = MERGE_AFTER_FILES
        run = self._transactions.run_if_possible
        if not self._store.tables.fts or not await run(merge, lambda _: False):
            self._unmerged = 0

    def _wake_feeder(self) -> None:
        # A feeder with a message in its queue checks for chunks anyway.
        if self._feeder.empty():
            self._feeder.put_nowait(None)


async def _free(chunks: list[Chunk]) -> None:
    """Free a list a few items at a time, because freeing a long one blocks the event loop."""
    while len(chunks) > STEP_CHUNKS:
        del chunks[-STEP_CHUNKS:]
        await asyncio.sleep(0)


def _resolve(waiter: asyncio.Future[None], error: Exception | None = None) -> None:
    """Resolve a future, unless its waiter is gone, as at a shutdown."""
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(error)
