"""Pools and models shared by agents with the same embedding settings."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from memoryd.config.settings import Settings
from memoryd.embed.batch.mode import BatchMode
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.provider import Provider
from memoryd.messages import MeteredQueue

Make = Callable[[Settings, str, bool], tuple[Provider, EmbedPool, MeteredQueue[EmbedJob]] | None]
"""(settings, provider, whether it is a fallback) → None for keyword search only."""


@dataclass(slots=True, eq=False)
class SharedPool:
    """A running pool, its provider, and the number of agents that use it."""

    provider: Provider
    pool: EmbedPool
    queue: MeteredQueue[EmbedJob]
    work: asyncio.Task[None]
    users: int = 0
    batch_mode: BatchMode = field(default_factory=BatchMode)

    async def watch(self) -> None:
        """Wait until the pool fails, and raise its error."""
        await asyncio.shield(self.work)


class SharedPools:
    """Starts a pool for its first user and stops it after its last."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._pools: dict[bytes, SharedPool] = {}

    @asynccontextmanager
    async def use(
        self, settings: Settings, provider: str, *, fallback: bool = False
    ) -> AsyncIterator[SharedPool | None]:
        """Yield the pool of a provider with these settings, None for keyword search only."""
        key = _key(settings, provider, fallback)
        shared = self._pools.get(key)
        if shared is None:
            if (made := self._make(settings, provider, fallback)) is None:
                yield None
                return
            work = asyncio.create_task(made[1].run(), name="embed pool")
            shared = self._pools[key] = SharedPool(*made, work)
        shared.users += 1
        try:
            yield shared
        finally:
            shared.users -= 1
            if shared.users == 0:
                del self._pools[key]
                shared.work.cancel()
                await asyncio.wait({shared.work})  # `watch` has raised its error, if any
                await shared.provider.close()


def _key(settings: Settings, provider: str, fallback: bool) -> bytes:
    """Return a key that is equal for agents that can share a pool."""
    texts = [
        settings.model,
        settings.output_dimensionality,
        settings.input_type,
        settings.query_input_type,
        settings.document_input_type,
        settings.query_prefix,
        settings.document_prefix,
    ]
    if provider == "local":
        return msgspec.json.encode([provider, settings.local, texts])
    remote = [fallback, settings.remote, settings.redact.patterns]
    return msgspec.json.encode([provider, *remote, texts])
