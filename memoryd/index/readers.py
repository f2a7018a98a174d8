"""A small pool of read-only connections, each on a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from memoryd.index.driver import Connection, Database, Error

T = TypeVar("T")
POOL_SIZE = 3


class ReaderPool:
    """Hands out read-only connections; can be emptied so that the file may be replaced.

    Every read is one whole function that fetches all it wants: a half-read cursor would keep the
    write-ahead log from being checkpointed. `on_error` is told of every statement that fails.
    """

    def __init__(self, path: Path, *, extension: str | None) -> None:
        self.on_error: Callable[[Exception], None] = lambda error: None
        self._path = path
        self._extension = extension
        self._idle: asyncio.LifoQueue[Database] = asyncio.LifoQueue()
        self._stack = AsyncExitStack()
        self._admitting = asyncio.Event()

    async def open(self) -> None:
        """Open all connections, or none of them. The file must exist."""
        async with AsyncExitStack() as opened:
            databases = [
                await opened.enter_async_context(
                    Database(self._path, readonly=True, extension=self._extension)
                )
                for _ in range(POOL_SIZE)
            ]
            self._stack = opened.pop_all()
        for database in databases:
            self._idle.put_nowait(database)
        self._admitting.set()

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)` on a free connection. Cancelling stops its SQL."""
        await self._admitting.wait()
        database = await self._idle.get()
        try:
            return await database.read(function)
        except Error as error:
            self.on_error(error)
            raise
        finally:
            self._idle.put_nowait(database)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """Close all connections for the time of the block; reads that come meanwhile wait."""
        await self._take_all()
        await self._stack.aclose()
        try:
            yield
        finally:
            await self.open()

    async def close(self) -> None:
        """Close all connections, those in use as soon as they are back."""
        await self._take_all()
        await self._stack.aclose()

    async def _take_all(self) -> None:
        """Take all connections, ahead of every read that comes later; cancelled, none."""
        self._admitting.clear()
        taken: list[Database] = []
        try:
            while len(taken) < POOL_SIZE:
                taken.append(await self._idle.get())
        except BaseException:
            for database in taken:
                self._idle.put_nowait(database)
            self._admitting.set()
            raise
