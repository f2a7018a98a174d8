"""Changes to an index, each repeated until it succeeds as a whole, however often the disk fails.

A change that fails because of the disk is rolled back. Then the connection is reopened and the
change retried, at once and later with back-off. Other changes wait meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from memoryd.index import queries
from memoryd.index.driver import Connection, Database, Error, Fault, Steps, fault_of
from memoryd.index.file_identity import Moved, MovedError
from memoryd.index.statements import RowChanges
from memoryd.index.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")


class Transactions:
    """All changes on the write connection of a store, one at a time.

    The state in memory follows each commit on the same thread.
    """

    def __init__(
        self, store: Store, *, restart: Callable[[], None], on_recovered: Callable[[], None]
    ) -> None:
        """`restart` requests a restart of the agent."""
        self._store = store
        self._restart = restart
        self._on_recovered = on_recovered
        self._restarting = False

    async def until_writable(self) -> None:
        """Return at once, unless the index is open read-only.

        Then retry until the index is writable and request a restart, which reopens it.
        """
        store = self._store
        if store.writable:
            return
        await store.outage.until_retry()
        while not await store.can_be_written():
            await store.outage.until_retry()
        log.info("%s is writable again", store.path)
        self._restart()
        await asyncio.get_running_loop().create_future()

    async def check_files(self) -> None:
        """Check that the index's files are still the open ones, and recover if not."""
        await self._do(lambda _: asyncio.sleep(0))

    async def run(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)`, which is one transaction."""
        return await self._do(lambda database: database.run(function))

    async def change(
        self, function: Callable[[Connection], list[RowChanges]], *, bad: bool
    ) -> None:
        """Run `function(connection)`, which is one transaction and returns its changes.

        `bad`: the changes include texts that can't be embedded.
        """

        def commit(connection: Connection) -> None:
            self._update_memory(connection, function(connection), bad=bad)

        await self.run(commit)

    async def write(
        self, start: Callable[[Connection], Steps[list[RowChanges]]]
    ) -> list[RowChanges]:
        """Like `change`, one step at a time."""

        def steps(connection: Connection) -> Steps[list[RowChanges]]:
            changes = yield from start(connection)
            self._update_memory(connection, changes, bad=False)
            return changes

        return await self._do(lambda database: database.run_steps(steps))

    async def run_if_possible(
        self, function: Callable[[Connection], T], otherwise: Callable[[Exception], T]
    ) -> T:
        """Run optional work once: if the disk fails, return `otherwise(error)` without a retry.

        So no other change has to wait for it.
        """
        try:
            return await self._store.database.run(function)
        except (Error, OSError) as error:
            if fault_of(error) is not Fault.SURROUNDINGS:
                raise
            return otherwise(error)

    async def _do(self, work: Callable[[Database], Awaitable[T]]) -> T:
        store, outage = self._store, self._store.outage
        try:
            await self._check_files()
            return await work(store.database)
        except (Error, OSError) as error:
            if fault_of(error) is not Fault.SURROUNDINGS:
                raise
        while True:
            try:
                moved = await store.reopen()
                done = await work(store.database)
            except (Error, OSError) as error:
                if fault_of(error) is not Fault.SURROUNDINGS or not store.writable:
                    raise
                if await store.note_failure(error):
                    log.warning("%s: %s; %s", store.path, outage.warning, outage.advice)
                await outage.until_retry()
            else:
                if outage.end():
                    log.info("%s is writable again", store.path)
                self._on_recovered()
                if moved is Moved.GONE and not (await store.file_state())[1]:
                    self._restart()  # the restart locks the index first
                return done

    async def _check_files(self) -> None:
        """Raise `MovedError` if writes would be lost.

        If another file has replaced the index, request a restart, which opens it. Until then writes
        go to the old file, which is kept.
        """
        if self._restarting:
            return
        moved, is_locked = await self._store.file_state()
        if moved is None and is_locked:
            return
        if moved not in (None, Moved.REPLACED):
            raise MovedError(f"it {moved.value}")
        self._restarting = True
        if moved is None:
            log.warning("the lock file of %s was removed; locking it again", self._store.path)
        else:
            log.warning("%s %s; opening the new file", self._store.path, moved.value)
        self._restart()

    def _update_memory(
        self, connection: Connection, changes: Iterable[RowChanges], *, bad: bool
    ) -> None:
        store = self._store
        changes = list(changes)
        store.erased |= any(changed.erased for changed in changes)
        if (matrix := store.matrix) is not None:
            for changed in changes:
                matrix.apply(changed.removed, changed.added)
        if bad or store.set_aside:
            store.set_aside = queries.count_set_aside(connection)
