"""A small pool of read-only connections, each on a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from memoryd.index.driver import Connection, Database

T = TypeVar("T")
POOL_SIZE = 3


class ReaderPool:
    """Hands out read-only connections; can be emptied so that the file may be replaced.

    Every read is one whole function that fetches all it wants: a half-read cursor would keep the
    write-ahead log from being checkpointed.
    """

    def __init__(self, path: Path, *, extension: str | None) -> None:
        self._path = path
        self._extension = extension
        self._idle: asyncio.LifoQueue[Database] = asyncio.LifoQueue()
        self._stack = AsyncExitStack()

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

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)` on a free connection. Cancelling stops its SQL."""
        database = await self._idle.get()
        try:
            return await database.read(function)
        finally:
            self._idle.put_nowait(database)

    @asynccontextmanager
    async def emptied(self) -> AsyncIterator[None]:
        """Close all connections for the time of the block; reads that come meanwhile wait."""
        for _ in range(POOL_SIZE):
            await self._idle.get()
        await self._stack.aclose()
        try:
            yield
        finally:
            await self.open()

    async def close(self) -> None:
        """Close all connections, those in use as soon as they are back."""
        for _ in range(POOL_SIZE):
            await self._idle.get()
        await self._stack.aclose()
