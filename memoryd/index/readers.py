"""Pool of read-only connections, each on a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memoryd.fs.atomic_replace import outlast
from memoryd.fs.hang import retrieve_error
from memoryd.index.driver import Connection, Database, Error, Fault, fault_of, one_value
from memoryd.index.file_identity import Moved

T = TypeVar("T")
POOL_SIZE = 3


def release_pages(connection: Connection) -> None:
    """Free the pages that a connection keeps in memory: up to 2 MiB, the writer's 8."""
    connection.execute("PRAGMA shrink_memory")


@dataclass(slots=True, eq=False)
class _Reader:
    database: Database


class ReaderPool:
    """Pool of read-only connections that can be closed while the file is replaced.

    A read is one function that fetches all its rows, because an open cursor blocks checkpoints of
    the write-ahead log. If the disk fails, the connection is reopened and the read retried once.
    `on_error` is called for every read that fails.
    """

    def __init__(
        self,
        path: Path,
        *,
        extension: str | None,
        immutable: bool = False,
        moved: Callable[[], Moved | None] = lambda: None,
    ) -> None:
        """Create a closed pool; `moved` returns how the file at `path` has changed, or None."""
        self.on_error: Callable[[Exception], None] = lambda error: None
        self._path = path
        self._extension = extension
        self._immutable = immutable
        self._moved = moved
        self._readers: list[_Reader] = []
        self._idle: asyncio.LifoQueue[_Reader] = asyncio.LifoQueue()
        self._admitting = asyncio.Event()
        self._leaving = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """False while reads have to wait until the pool is open."""
        return self._admitting.is_set()

    async def open(self) -> None:
        """Open all connections or none. The file must exist."""
        async with AsyncExitStack() as opened:
            fresh = [await opened.enter_async_context(self._database()) for _ in range(POOL_SIZE)]
            for database in fresh:
                with suppress(Error):  # reads report it
                    await database.run(_open_log)
            opened.pop_all()
        self._readers = [_Reader(database) for database in fresh]
        for reader in self._readers:
            self._idle.put_nowait(reader)
        self._leaving.clear()
        self._admitting.set()

    async def read_patiently(self, function: Callable[[Connection], T]) -> T:
        """Like `read`, for long reads: when the pool closes, the read stops.

        It starts again when the pool is open.
        """
        while True:
            await self._admitting.wait()
            work = asyncio.ensure_future(self.read(function))
            work.add_done_callback(retrieve_error)
            leaving = asyncio.ensure_future(self._leaving.wait())
            try:
                await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return work.result()
            finally:
                work.cancel()
                leaving.cancel()

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)` on a free connection. Cancelling stops its SQL."""
        await self._admitting.wait()
        reader = await self._idle.get()
        try:
            try:
                return await reader.database.read(function)
            except Error as error:
                if fault_of(error) is not Fault.SURROUNDINGS or not await self._renew(reader):
                    raise
            return await reader.database.read(function)
        except Error as error:
            self.on_error(error)
            raise
        finally:
            self._idle.put_nowait(reader)

    async def release_pages(self) -> None:
        """Free the pages that idle connections keep in memory; reads wait for a moment."""
        idle: list[_Reader] = []
        while not self._idle.empty():
            idle.append(self._idle.get_nowait())
        try:
            for reader in idle:
                with suppress(Error):
                    await reader.database.run(release_pages)
        finally:
            for reader in reversed(idle):  # the one that was used last is used next
                self._idle.put_nowait(reader)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """Close all connections during the block; new reads wait."""
        await self.close()
        try:
            yield
        finally:
            await self.open()

    async def close(self) -> None:
        """Close all connections, busy ones as soon as they are idle. Idempotent.

        Takes them ahead of later reads; if cancelled, all stay open.
        """
        self._admitting.clear()
        self._leaving.set()
        taken: list[_Reader] = []
        try:
            while len(taken) < len(self._readers):
                taken.append(await self._idle.get())
        except BaseException:
            for reader in taken:
                self._idle.put_nowait(reader)
            self._leaving.clear()
            self._admitting.set()
            raise
        for reader in self._readers:
            with suppress(Error):
                await reader.database.__aexit__()
        self._readers = []

    def _database(self) -> Database:
        return Database(
            self._path, readonly=True, immutable=self._immutable, extension=self._extension
        )

    async def _renew(self, reader: _Reader) -> bool:
        """Reopen a connection. Returns False if that fails."""
        # The rows of another file would be taken for ours.
        if await asyncio.to_thread(self._moved) is not None:
            return False
        try:
            fresh = await self._database().__aenter__()
        except (Error, OSError):
            return False
        stale, reader.database = reader.database, fresh
        with suppress(Error):
            await outlast(asyncio.ensure_future(stale.__aexit__()))
        return True


def _open_log(connection: Connection) -> None:
    """Open the write-ahead log, as a first read does: later there may be no descriptor for it."""
    one_value(connection, "SELECT 1 FROM sqlite_schema")
