"""Joins what embeds for one agent: feeder, batch jobs, the search's vector leg, fallback."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from memoryd.agent.adapters import (
    count_pending,
    embed_query,
    embeddable,
    embeddable_now,
    read_jobs,
    read_pending,
)
from memoryd.agent.factories import batch_api_of
from memoryd.agent.fallback import Fallback
from memoryd.config.load import AgentConfig
from memoryd.embed.batch.jobs import Batches
from memoryd.embed.feeder import Feeder
from memoryd.embed.pool_registry import SharedPool
from memoryd.embed.resolve import Resolved
from memoryd.embed.windows import window_of_each_line
from memoryd.index.store import Store
from memoryd.messages import ToFeeder, ToWriter
from memoryd.search.retrievers import VectorRetriever
from memoryd.supervisor import Actor


@dataclass(frozen=True, slots=True)
class Embedding:
    """The parts; None where there is no provider, batch API or fallback."""

    feeder: Feeder
    batches: Batches | None
    leg: VectorRetriever | None
    actors: list[Actor]


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
    """Join what embeds for an agent; without a pool (`shared` None) nothing does."""
    settings = config.settings
    batches, leg, actors = None, None, list[Actor]()
    if shared is not None:
        provider, pool = shared.provider, shared.pool
        if store.vector_problem() is None:
            pool.calls.expect(store.identity.dims)
        leg = VectorRetriever(
            partial(embed_query, pool, store, to_writer),
            provider.calibration.apply,
            store.vector_problem,
        )
        if (units := provider.window_units) is not None:
            leg = replace(leg, window_of_each_line=partial(window_of_each_line, units=units))
        actors.append(Actor("embed pool", shared.watch))
        if (api := batch_api_of(provider, settings)) is not None:
            batches = Batches(
                to_writer,
                api=api,
                mode=shared.batch_mode,
                settings=settings.remote.batch,
                identity=partial(embeddable, store),
                folder=config.db_path.parent,
                calls=pool.calls,
                known=partial(read_jobs, store),
                on_change=lambda: feeder.wake(),
            )
            actors.append(Actor("batch jobs", batches.run))
        if settings.fallback not in ("none", resolved.provider) and not resolved.is_fallback:
            fallback = Fallback(
                to_writer,
                hold=pool.hold,
                failed=resolved.provider,
                fallback=settings.fallback,
                instead_of=settings.provider,
                restart=restart,
            )
            actors.append(Actor("fallback", fallback.run))
    feeder = Feeder(
        to_feeder,
        to_writer,
        pool=None if shared is None else shared.pool,
        pending=partial(read_pending, store),
        count=partial(count_pending, store),
        batches=batches,
        identity=partial(embeddable_now, store),
        on_embedded=on_embedded,
        batch_items=1 if shared is None else shared.provider.batch_items,
        jobs=1 if shared is None else shared.provider.concurrency + 1,
        elsewhere=store.in_rebuild,
    )
    actors.insert(0, Actor("feeder", feeder.run, drain=feeder.finish))
    return Embedding(feeder, batches, leg, actors)
