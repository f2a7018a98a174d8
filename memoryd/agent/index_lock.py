"""The lock of an index, and the first looks at its file: in a thread that alone waits for its disk.

The disk may hang, and a thread that waits for it can't be stopped. So that what it does late harms
nobody, all is done by this one thread, in turn: a lock that is taken after its agent was given up
is given back next, and one that is held is given back when nobody looks at the file any more.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from memoryd.config.load import AgentConfig
from memoryd.fs.hang import LOOK_S, DiskWaits, waiting_for
from memoryd.fs.lockfile import locked_index
from memoryd_client.shared.lock_holder import Holder

T = TypeVar("T")


class IndexLock:
    """Looks at one index and holds its lock, as an async context manager.

    `waits` is told what is waited for. Whoever is cancelled meanwhile leaves the thread behind.
    """

    def __init__(self, config: AgentConfig, holder: Holder, waits: DiskWaits) -> None:
        """Wait for nothing yet."""
        self._path = config.db_path
        self._holder = holder
        self._held = ExitStack()
        name = f"index of {config.agent}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name, initializer=waits.adopt)

    async def __aenter__(self) -> "IndexLock":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        release = self._thread.submit(self._release)
        self._thread.shutdown(wait=False)
        await asyncio.wait({asyncio.wrap_future(release)}, timeout=LOOK_S)

    async def locate(self, config: AgentConfig) -> AgentConfig:
        """Wait until the disk answers; return the configuration with where the index really is.

        Links could not be followed while it hung.
        """
        self._path = Path(await self.run(partial(os.path.realpath, config.db_path)))
        await self.run(partial(os.path.exists, self._path))
        return replace(config, db_path=self._path)

    async def lock(self) -> Callable[[], bool]:
        """Take the lock. Returns and raises what `locked_index` does."""
        return await self.run(self._lock)

    async def run(self, look: Callable[[], T]) -> T:
        """Look at the index in the thread, while no other look is under way."""
        return await asyncio.wrap_future(self._thread.submit(self._waited_for, look))

    def _lock(self) -> Callable[[], bool]:
        return self._held.enter_context(locked_index(self._path, self._holder))

    def _release(self) -> None:
        with suppress(OSError):  # given back all the same
            self._held.close()

    def _waited_for(self, look: Callable[[], T]) -> T:
        with waiting_for(self._path):
            return look()
