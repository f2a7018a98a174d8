"""The lock of an index and the first checks of its file, in a thread of their own.

The disk may hang, and a waiting thread can't be stopped. One thread does everything in turn, so
that late work does no harm: a lock taken after its agent was abandoned is released next, and a
held lock is released once no check of the file runs any more.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from memoryd.config.load import AgentConfig
from memoryd.fs.hang import DISK_LIMIT_S, DiskThreads, DiskWaits
from memoryd.fs.lockfile import locked_index
from memoryd_client.shared.lock_holder import Holder

T = TypeVar("T")


class IndexLock:
    """Async context manager that checks one index and holds its lock.

    `waits` notes the index while the thread is busy. A cancelled caller leaves the thread behind.
    """

    def __init__(self, config: AgentConfig, holder: Holder, waits: DiskWaits) -> None:
        self._path = config.db_path
        self._holder = holder
        self._held = ExitStack()
        self._thread = DiskThreads(1, f"index of {config.agent}", waits, self._path)

    async def __aenter__(self) -> "IndexLock":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        release = self._thread.submit(self._release)
        self._thread.shutdown(wait=False)
        await asyncio.wait({asyncio.wrap_future(release)}, timeout=DISK_LIMIT_S)

    async def locate(self, config: AgentConfig) -> AgentConfig:
        """Wait until the disk answers; return the configuration with the index's real path.

        The configuration may have been read while the disk hung, with links not resolved.
        """
        self._path = Path(await self.run(partial(os.path.realpath, config.db_path)))
        self._thread.place = self._path
        await self.run(partial(os.path.exists, self._path))
        return replace(config, db_path=self._path)

    async def lock(self) -> Callable[[], bool]:
        """Take the lock. Returns and raises as `locked_index` does."""
        return await self.run(self._lock)

    async def run(self, check: Callable[[], T]) -> T:
        """Run a check of the index in the thread, after earlier ones."""
        return await asyncio.wrap_future(self._thread.submit(check))

    def _lock(self) -> Callable[[], bool]:
        return self._held.enter_context(locked_index(self._path, self._holder))

    def _release(self) -> None:
        with suppress(OSError):  # it is released all the same
            self._held.close()
