"""One pool and one model for all agents with the same embedding settings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.provider import Provider
from memoryd.flow import MeteredQueue
from memoryd.settings import Settings

Make = Callable[[Settings], tuple[Provider, EmbedPool, MeteredQueue[EmbedJob]] | None]
"""Returns None for settings without embeddings."""


@dataclass(slots=True, eq=False)
class SharedPool:
    """A pool that works, its provider, and how many agents use it."""

    provider: Provider
    pool: EmbedPool
    queue: MeteredQueue[EmbedJob]
    work: asyncio.Task[None]
    users: int = 0

    async def watch(self) -> None:
        """Wait until the pool ends, which it only does by an error: that is raised here too."""
        await asyncio.shield(self.work)


class SharedPools:
    """Makes a pool for its first user and ends it after its last."""

    def __init__(self, make: Make) -> None:
        """Make none yet."""
        self._make = make
        self._pools: dict[Hashable, SharedPool] = {}

    @asynccontextmanager
    async def use(self, settings: Settings) -> AsyncIterator[SharedPool | None]:
        """Give the pool for these settings, None for keywords only."""
        key = settings.provider.replace("auto", "local"), settings.local
        shared = self._pools.get(key)
        if shared is None:
            if (made := self._make(settings)) is None:
                yield None
                return
            provider, pool, queue = made
            work = asyncio.create_task(pool.run(), name="embed pool")
            shared = self._pools[key] = SharedPool(provider, pool, queue, work)
        shared.users += 1
        try:
            yield shared
        finally:
            shared.users -= 1
            if shared.users == 0:
                del self._pools[key]
                await _end(shared)


async def _end(shared: SharedPool) -> None:
    shared.work.cancel()
    # An error of it has been raised by `watch`.
    await asyncio.wait({shared.work})
    await shared.provider.close()
