"""Embedding of one agent: feeder, batch jobs, fallback, and the vectors of queries."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryd.agent.factories import batch_api_of, upload_gate
from memoryd.config.load import AgentConfig
from memoryd.embed.circuit_breaker import CircuitBreaker
from memoryd.embed.feeder import Feeder
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.pool_registry import SharedPool
from memoryd.embed.provider import PermanentError, Provider, ProviderError
from memoryd.embed.query_embedder import ImpatientError
from memoryd.embed.resolve import Resolved
from memoryd.embed.scale import Scale
from memoryd.embed.upload_gate import UploadGate
from memoryd.embed.windows import window_of_each_line
from memoryd.identity import Choice
from memoryd.index.store import Store
from memoryd.messages import Choose, GivesDims, MeteredQueue, ToFeeder, ToWriter
from memoryd.search.retrievers import RetrieverError, VectorRetriever, in_one_window
from memoryd.supervisor import Actor

if TYPE_CHECKING:  # only providers with a batch API need it
    from memoryd.embed.batch.jobs import Batches

log = logging.getLogger(__name__)

QUERY_S = 5.0
"""Seconds that a search waits for its query's vector before keywords answer alone."""
OUTAGE_S = 3_600.0
"""Seconds after which an outage counts as permanent. A rate limit or used-up quota never does."""
LOADING = "the local model is being loaded; ask again in a moment"
CHECK_S = 5.0
"""Seconds between checks while the provider is blocked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """In: the state of the provider. Out: the choice of another one, to the writer; a restart.

    `failed` is the provider to watch, `instead_of` the configured one. It never switches back,
    because the vectors of both providers would be paid for repeatedly.
    """

    writer: asyncio.Queue[ToWriter]
    hold: CircuitBreaker
    failed: str
    fallback: str
    instead_of: str
    restart: Callable[[], None]
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    async def run(self) -> None:
        """Wait for a permanent failure of the provider, then restart the agent."""
        while not self._failed_permanently():
            await self.hold.blocked.wait()
            if not self._failed_permanently():
                await self.sleep(CHECK_S)
        why = self.hold.reason or ""
        log.warning("%s failed permanently, switching to %s: %s", self.failed, self.fallback, why)
        why = f"{self.failed} failed: {why}"
        message = Choose(Choice(self.fallback, "fallback", why, self.instead_of))
        await self.writer.put(message)
        await message.done
        self.restart()
        await asyncio.get_running_loop().create_future()

    def _failed_permanently(self) -> bool:
        error = self.hold.error
        if isinstance(error, PermanentError):
            return error.for_good
        return error is not None and not error.busy and (self.hold.failing_s or 0.0) >= OUTAGE_S


@dataclass(slots=True)
class Embedding:
    """The stages that embed. Without a provider only the feeder runs, to answer sync markers.

    `batches` and `fallback` are None where the provider has no batch API, or no other replaces it.
    """

    resolved: Resolved
    feeder: Feeder
    provider: Provider | None = None
    pool: EmbedPool | None = None
    queue: MeteredQueue[EmbedJob] | None = None
    batches: "Batches | None" = None
    vectors: VectorRetriever | None = None
    fallback: Fallback | None = None
    pool_actor: Actor | None = None
    gate: UploadGate | None = None
    scale: Scale | None = None

    def warm(self) -> None:
        """Prepare for a question that may come soon."""
        if self.provider is not None:
            self.provider.warm()

    def actors(self) -> list[Actor]:
        """Return the actors in data-path order."""
        found = [Actor("feeder", self.feeder.run, drain=self.feeder.finish)]
        if self.pool_actor is not None:
            found.append(self.pool_actor)
        if self.batches is not None:
            found.append(Actor("batch jobs", self.batches.run))
        if self.fallback is not None:
            found.append(Actor("fallback", self.fallback.run))
        return found


def join_embedding(
    config: AgentConfig,
    store: Store,
    shared: SharedPool | None,
    resolved: Resolved,
    *,
    to_feeder: asyncio.Queue[ToFeeder],
    to_writer: asyncio.Queue[ToWriter],
    on_embedded: Callable[[int], None],
    restart: Callable[[], None],
) -> Embedding:
    """Build the stages; `shared` is the pool of the provider, None for keywords only."""
    if shared is None:
        return Embedding(resolved, Feeder(to_feeder, to_writer, None, store))
    provider, pool, settings = shared.provider, shared.pool, config.settings
    gate = upload_gate(config, provider, store)
    scale = Scale(pool.calls, provider.calibration)
    if store.vector_problem() is None:
        pool.calls.expect(store.identity.dims)
    batches = fallback = None
    if (api := batch_api_of(provider, settings)) is not None:
        from memoryd.embed.batch.jobs import Batches

        batches = Batches(
            to_writer,
            store,
            api=api,
            mode=shared.batch_mode,
            calls=pool.calls,
            settings=settings.remote.batch,
        )
    if store.catalog.chunks:  # questions may come as soon as the socket is there
        provider.warm()
    feeder = Feeder(
        to_feeder, to_writer, pool, store, batches=batches, gate=gate, on_embedded=on_embedded
    )
    if batches is not None:
        batches.on_change = feeder.wake
    if settings.fallback not in ("none", resolved.provider) and not resolved.is_fallback:
        fallback = Fallback(
            writer=to_writer,
            hold=pool.breaker,
            failed=resolved.provider,
            fallback=settings.fallback,
            instead_of=settings.provider,
            restart=restart,
        )
    return Embedding(
        resolved,
        feeder,
        provider,
        pool,
        shared.queue,
        batches,
        _vector_retriever(pool, store, to_writer, gate, scale, settings.local.load_wait_ms / 1000),
        fallback,
        Actor("embed pool", shared.watch),
        gate,
        scale,
    )


def _vector_retriever(
    pool: EmbedPool,
    store: Store,
    writer: asyncio.Queue[ToWriter],
    gate: UploadGate | None,
    scale: Scale,
    load_wait_s: float,
) -> VectorRetriever:
    embed = partial(embed_query, pool, store, writer, gate, scale, load_wait_s=load_wait_s)
    vectors = VectorRetriever(
        embed,
        scale.apply,
        store.vector_problem,
    )

    def window_of_line(text: str) -> Sequence[int]:
        units = pool.window_units
        return in_one_window(text) if units is None else window_of_each_line(text, units)

    return replace(vectors, window_of_each_line=window_of_line)


async def embed_query(
    pool: EmbedPool,
    store: Store,
    writer: asyncio.Queue[ToWriter],
    gate: UploadGate | None,
    scale: Scale,
    text: str,
    *,
    load_wait_s: float = QUERY_S,
) -> NDArray[np.float32]:
    """Embed a search query within `QUERY_S`, and know the model's scale. Raises `RetrieverError`.

    A model that has to be loaded first gets `load_wait_s`; later queries then find it loaded.

    When the vector can't be compared with those of the index, the provider is asked for its dims:
    it may have changed them for texts too.
    """
    if gate is not None and await gate.is_open() is False:
        raise RetrieverError(str(gate.preview))
    was_ready = pool.is_ready
    try:
        vector = await pool.embed_query(text, patience_s=QUERY_S if was_ready else load_wait_s)
        if store.identity.dims in (None, len(vector)):
            await scale.measure()
            return vector
        async with asyncio.timeout(QUERY_S):
            dims = await pool.calls.dims_now()
    except (ProviderError, TimeoutError) as error:
        if isinstance(error, ImpatientError) and not was_ready:
            raise RetrieverError(LOADING) from error
        raise RetrieverError(str(error) or "the provider took too long") from error
    if dims != store.identity.dims:
        await writer.put(GivesDims(dims))
        raise RetrieverError(
            f"the provider gives vectors of {dims} dimensions now, and the index has some of"
            f" {store.identity.dims}; it will be rebuilt"
        )
    raise RetrieverError(
        f"the provider gives a question {len(vector)} dimensions and a text {dims}; set"
        " query_input_type, document_input_type or the server so that one model answers both"
    )
