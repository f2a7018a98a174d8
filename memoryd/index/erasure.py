"""Removal of the traces that deleted texts leave in an index.

SQLite overwrites deleted rows at once (`secure_delete`). The rest follows before a `sync` answers,
and when the writer is idle:

- Words stay in FTS5's segments until all of them are merged: 14 ms for 1,000 chunks. FTS5's own
  option for it, `secure-delete`, takes 5 to 14 ms for each chunk, leaves words in the keys of
  `chunks_fts_idx`, and makes files that SQLite before 3.42 can't read.
- The write-ahead log has earlier versions of the pages until it is truncated.
- Copies of a corrupt index have the rows of that time.
- When SQLite moves rows to other pages, it may leave bytes of them in the unused part of a page: in
  a trial, those of one deleted row in 3,600. So the file is rewritten within a day.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from memoryd.index import schema
from memoryd.index.cache import drop_deleted
from memoryd.index.driver import BUSY_TIMEOUT_MS, Connection, one_value, transaction
from memoryd.index.forget import complete, wipe
from memoryd.index.repair.recover import empty_copies
from memoryd.index.statements import DerivedTables, note_erased
from memoryd.index.store import Store
from memoryd.index.transactions import Transactions
from memoryd.index.write_outage import free_bytes

log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""Seconds that an erasure waits for readers of the log; it is repeated when idle."""
RETRY_S = 0.02
OVERDUE_S = 60.0
"""Seconds after which an erasure waits no longer for an idle writer."""
REST = 100.0
"""Rest after an erasure, as a multiple of the time that it took. A `sync` does not wait for it."""
LOOK_S = 3_600.0
"""Seconds between two looks for expired embeddings and for a rewrite that is due."""
REWRITE_S = 86_400.0
"""Seconds from a deletion to the rewrite of the file."""
MAX_REWRITE_BYTES = 256 * 1024 * 1024
"""Maximum size of a file that is rewritten by itself, because VACUUM keeps a copy in memory."""
_SHORT_LOG_BYTES, _SHORT_LOG_SHARE = 128 * 1024, 0.1
"""A log up to this length, or this share of the index, is not worth a checkpoint of its own."""


class Erasure:
    """The part of the writer that removes traces of deleted texts."""

    def __init__(
        self,
        store: Store,
        transactions: Transactions,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the collaborators; the clocks are for tests."""
        self._store = store
        self._transactions = transactions
        self._clock = clock
        self._wall_clock = wall_clock
        self._next_s = 0.0
        self._look_s = 0.0

    @property
    def overdue(self) -> bool:
        """True if traces remain although there was time to remove them."""
        return self._store.erased and self._clock() >= self._next_s + OVERDUE_S

    async def when_idle(self) -> None:
        """Remove traces, expired embeddings, a long log, and what unused parts of the file hold."""
        now_s = self._clock()
        look = now_s >= self._look_s
        if look:
            self._look_s = now_s + LOOK_S
            before_s = self._wall_clock() - self._store.options.cache_deleted_s
            drop = partial(drop_deleted, unused_since_s=before_s)
            if await self._transactions.run_if_possible(drop, lambda _: 0):
                self._store.erased = True
        if self._store.erased and now_s >= self._next_s:
            await self.finish()
        if await asyncio.to_thread(_has_long_log, self._store.path):
            await self._transactions.run_if_possible(_try_to_empty_log, lambda _: False)
        if look:
            await self._rewrite_if_due()

    async def finish(self) -> None:
        """Remove the traces of deleted texts, unless there are none."""
        store = self._store
        if not store.erased:
            return
        started_s = self._clock()
        possible = self._transactions.run_if_possible
        due_s = self._wall_clock() + REWRITE_S
        merges = store.tables.fts and await possible(_begin, lambda _: False)
        while merges and await possible(schema.merge_segments, lambda _: False):
            pass
        await asyncio.to_thread(empty_copies, store.path)
        if await possible(lambda c: _note(c, store.tables, due_s), lambda _: False):
            store.erased = not await self._empty_log()
        ended_s = self._clock()
        self._next_s = ended_s + REST * (ended_s - started_s)

    async def _empty_log(self) -> bool:
        """Empty the log as soon as nobody reads it. Return False if that takes too long."""
        end_s = self._clock() + PATIENCE_S
        possible = self._transactions.run_if_possible
        while not await possible(_try_to_empty_log, lambda _: False):
            if self._clock() >= end_s:
                log.info("%s: its log can't be emptied while it is being read", self._store.path)
                return False
            await asyncio.sleep(RETRY_S)
        return True

    async def _rewrite_if_due(self) -> None:
        store, possible = self._store, self._transactions.run_if_possible
        now_s = self._wall_clock()
        size = await possible(lambda c: _size_to_rewrite(c, now_s), lambda _: None)
        if size is None or size > MAX_REWRITE_BYTES:
            return
        free = await asyncio.to_thread(free_bytes, store.path.parent)
        if free > 2 * size and await possible(partial(rewrite, store.tables), lambda _: False):
            log.info("%s was rewritten, so that no deleted text remains in it", store.path)


def rewrite(tables: DerivedTables, connection: Connection) -> bool:
    """Rewrite the file and refill sqlite-vec's table, whose row ids VACUUM doesn't keep."""
    if tables.vec:
        connection.execute("DROP TABLE chunks_vec")
    try:
        wipe(connection)
    finally:
        complete(connection, tables)
    return True


def _begin(connection: Connection) -> bool:
    return schema.merge_segments(connection, begin_all=True)


def _note(connection: Connection, tables: DerivedTables, due_s: float) -> bool:
    """Record that the words are gone, and when the file is to be rewritten."""
    with transaction(connection):
        note_erased(connection, False)
        if schema.get_note(connection, schema.REWRITE_AT) == "":
            schema.put_note(connection, schema.REWRITE_AT, str(int(due_s)))
    return True


def _size_to_rewrite(connection: Connection, now_s: float) -> int | None:
    """Return the size of a file that is to be rewritten now, without free pages, else None."""
    due = schema.get_note(connection, schema.REWRITE_AT)
    if due == "" or (due is not None and due.isdigit() and int(due) > now_s):
        return None
    pages = one_value(connection, "PRAGMA page_count")
    free = one_value(connection, "PRAGMA freelist_count")
    return int((pages - free) * one_value(connection, "PRAGMA page_size"))


def _has_long_log(path: Path) -> bool:
    """Return whether the write-ahead log takes a notable part of the index's room."""
    with suppress(OSError):
        log = os.stat(f"{path}-wal").st_size
        return log > max(_SHORT_LOG_BYTES, _SHORT_LOG_SHARE * os.stat(path).st_size)
    return False


def _try_to_empty_log(connection: Connection) -> bool:
    """Empty the write-ahead log without waiting for readers. Return whether it is empty."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return not busy
