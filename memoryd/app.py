"""The wiring: resources in a stack, queues, actors. Read this first.

watch → reconcile → parse → WRITER ⇄ feeder → pool → provider;  socket → operations → search.
Every queue of the data path is made here and passed in; no actor knows another.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd import __version__
from memoryd.agent import Agent
from memoryd.chunk.parser import ChunkOptions, Parser
from memoryd.config import AgentConfig
from memoryd.embed.feeder import Feeder, PendingText
from memoryd.embed.local import LocalProvider
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.provider import Provider, ProviderError
from memoryd.flow import (
    FileKey,
    FileStat,
    MeteredQueue,
    ToFeeder,
    ToParser,
    ToReconcile,
    ToWriter,
    Unreadable,
)
from memoryd.identity import Identity
from memoryd.index import rows
from memoryd.index.driver import Connection, Error, ExtensionError, bundled_extension
from memoryd.index.rebuild import RebuildError, Stages, salvage, unfinished
from memoryd.index.rebuilder import Rebuilder, RebuildRequest
from memoryd.index.store import Store, StoreOptions
from memoryd.index.writer import Writer
from memoryd.operations import Operations
from memoryd.search.engine import LegError, SearchEngine, VectorLeg
from memoryd.serve.notify import Notifier
from memoryd.serve.server import Server
from memoryd.serve.socket import check_path, inherited_or_listening, locked
from memoryd.source.discover import Discovery
from memoryd.source.read import read_file
from memoryd.source.reconcile import Reconciler
from memoryd.source.watch import Watcher
from memoryd.status import Status
from memoryd.supervise import Actor, supervise
from memoryd.terms import TOKENIZER
from memoryd_client.protocol import CAPABILITIES, PROTOCOL_MAX, Welcome

log = logging.getLogger(__name__)

SMALL_QUEUE = 64
"""Hints, sync markers, requests: few and small."""
FILE_QUEUE = 128
"""Changed files by name, or as chunks: bounds what a large change keeps in memory."""
HEALTHY_S = 10.0
QUERY_S = 5.0
"""How long a search waits for the vector of its query; then keywords answer alone."""
MAX_INPUT_BYTES = 8_000
"""Longest text in UTF-8 that is embedded whole, unless the provider takes less."""


async def run(config: AgentConfig, socket_path: Path, stop: asyncio.Event) -> None:
    """Serve one agent until `stop` is set.

    Raises `AlreadyRunningError`, `SocketError`, `IndexRefusedError` or `ActorFailedError`.
    """
    check_path(socket_path)
    if config.others:
        log.info("serving agent %s only, not %s", config.agent, ", ".join(config.others))
    notifier = Notifier()
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(Path(f"{socket_path}.lock"), f"the socket {socket_path}"))
        stack.enter_context(locked(Path(f"{config.db_path}.lock"), f"the index {config.db_path}"))
        listener = stack.enter_context(inherited_or_listening(socket_path))
        threads = stack.enter_context(ThreadPoolExecutor(2, thread_name_prefix="files"))
        agent, actors = await stack.enter_async_context(_agent(config, threads))
        status = Status(agent, socket_path=socket_path)
        welcome = Welcome(
            protocol=PROTOCOL_MAX,
            server=f"memoryd/{__version__}",
            pid=os.getpid(),
            boot_id=secrets.token_hex(8),
            capabilities=list(CAPABILITIES),
        )
        server = Server(listener, handlers=Operations(agent, status).table(), welcome=welcome)
        notifier.send("READY=1", f"STATUS=serving {config.workspace}")
        log.info("ready: workspace %s, index %s, socket %s", *_places(config, socket_path))
        await supervise(
            [
                Actor("server", server.run),
                *actors,
                Actor("watchdog", partial(notifier.run, partial(_healthy, agent))),
            ],
            stop,
            drain=agent.feeder.finish,
            drain_after="parser",
            on_stopping=lambda: notifier.send("STOPPING=1"),
            explained=(OSError, Error),
        )
    log.info("stopped")


@asynccontextmanager
async def _agent(
    config: AgentConfig, threads: ThreadPoolExecutor
) -> AsyncIterator[tuple[Agent, list[Actor]]]:
    """Join the parts of one agent; yield it and its actors in the order of the data path."""
    settings = config.settings
    to_reconcile = MeteredQueue[ToReconcile]("reconcile", SMALL_QUEUE)
    to_watch = MeteredQueue[frozenset[Path]]("watch", 1)
    to_parser = MeteredQueue[ToParser]("parse", FILE_QUEUE)
    to_writer = MeteredQueue[ToWriter]("write", FILE_QUEUE)
    to_feeder = MeteredQueue[ToFeeder]("feed", SMALL_QUEUE)
    to_pool = MeteredQueue[EmbedJob]("embed", SMALL_QUEUE)
    to_rebuilder = MeteredQueue[RebuildRequest]("rebuild", SMALL_QUEUE)

    provider = make_provider(config)
    wanted = wanted_identity(config, provider)
    store = Store(_store_options(config), wanted)
    await store.open()
    try:
        discovery = Discovery(config.workspace, settings.extra_paths)
        pool = None if provider is None else EmbedPool(to_pool, provider)
        unreadable: dict[FileKey, str] = {}
        parser = Parser(
            to_parser,
            to_writer,
            read=read_file,
            options=ChunkOptions(
                settings.chunking.tokens, settings.chunking.overlap, wanted.max_input_bytes
            ),
            thread=threads,
        )
        leg = None
        if pool is not None and provider is not None:
            calibrate = provider.calibration.apply
            leg = VectorLeg(partial(_embed_query, pool), calibrate, store.vector_problem)
        watcher = None
        if settings.sync.watch:
            quiet_s = settings.sync.watch_debounce_ms / 1000
            watcher = Watcher(to_watch, to_reconcile, quiet_s=quiet_s)
        agent = Agent(
            config=config,
            store=store,
            discovery=discovery,
            provider=provider,
            pool=pool,
            watcher=watcher,
            reconciler=Reconciler(
                to_reconcile,
                to_parser,
                to_watch if watcher else None,
                discovery=discovery,
                known=lambda: store.catalog.stats(),
                thread=threads,
                interval_s=settings.sync.interval_minutes * 60 or None,
            ),
            parser=parser,
            writer=Writer(
                to_writer,
                to_feeder,
                store,
                on_unreadable=partial(_note_unreadable, unreadable),
                on_written=partial(_forget_unreadable, unreadable),
            ),
            feeder=Feeder(
                to_feeder,
                to_writer,
                pool=pool,
                pending=partial(_read_pending, store),
                identity=lambda: None if store.vector_problem() else store.identity,
                batch_items=1 if provider is None else provider.batch_items,
                jobs=1 if provider is None else provider.concurrency + 1,
            ),
            rebuilder=Rebuilder(
                to_rebuilder,
                to_writer,
                to_reconcile,
                store=store,
                stages=Stages(
                    scan=partial(_scan, discovery, threads),
                    parse=parser.parse,
                    embed=None if pool is None else partial(_embed_or_fail, pool),
                    batch_items=1 if provider is None else provider.batch_items,
                ),
            ),
            engine=SearchEngine(store, settings.query, leg),
            to_reconcile=to_reconcile,
            to_rebuilder=to_rebuilder,
            queues=(to_reconcile, to_parser, to_writer, to_feeder, to_pool, to_rebuilder),
            unreadable=unreadable,
        )
        yield agent, _actors(agent, to_writer)
    finally:
        if provider is not None:
            await provider.close()
        await store.close()


def make_provider(config: AgentConfig) -> Provider | None:
    """Return the embedding provider of the settings, or None for keywords only."""
    settings = config.settings
    if settings.provider == "none":
        return None
    return LocalProvider(
        threads=settings.local.threads, idle_unload_s=settings.local.idle_unload_seconds
    )


def wanted_identity(config: AgentConfig, provider: Provider | None) -> Identity:
    """Return the identity that an index built with the present settings has."""
    chunking = config.settings.chunking
    return Identity(
        provider="none" if provider is None else provider.name,
        model="fts-only" if provider is None else provider.model,
        provider_key="" if provider is None else provider.key,
        dims=None if provider is None else provider.dims,
        max_input_bytes=min(
            MAX_INPUT_BYTES, MAX_INPUT_BYTES if provider is None else provider.max_input_bytes
        ),
        chunk_tokens=chunking.tokens,
        chunk_overlap=min(chunking.overlap, chunking.tokens - 1),
        tokenizer=TOKENIZER,
    )


def _actors(agent: Agent, to_writer: MeteredQueue[ToWriter]) -> list[Actor]:
    watcher = [] if agent.watcher is None else [Actor("watcher", agent.watcher.run)]
    pool = [] if agent.pool is None else [Actor("embed pool", agent.pool.run)]
    return [
        *watcher,
        Actor("reconciler", agent.reconciler.run),
        Actor("rebuilder", partial(_sweep_then, agent, to_writer)),
        Actor("parser", agent.parser.run),
        Actor("feeder", agent.feeder.run),
        *pool,
        Actor("writer", agent.writer.run),
    ]


async def _sweep_then(agent: Agent, to_writer: MeteredQueue[ToWriter]) -> None:
    """Take back what a rebuild that was cut off had embedded, then wait for rebuilds."""
    for leftover in unfinished(agent.store.path):
        await salvage(leftover, to_writer)
    await agent.rebuilder.run()


def _store_options(config: AgentConfig) -> StoreOptions:
    vector, cache = config.settings.store.vector, config.settings.cache
    extension, problem = vector.extension_path, None
    if not vector.enabled:
        extension, problem = None, "switched off by store.vector.enabled"
    elif extension is not None:
        extension = str(Path(extension).expanduser())
    else:
        try:
            extension = bundled_extension()
        except ExtensionError as error:
            problem = str(error)
    bound = (cache.max_entries or None) if cache.enabled else 0
    return StoreOptions(config.db_path, config.workspace, extension, problem, bound)


async def _read_pending(store: Store, after: int, limit: int) -> list[PendingText]:
    found = await store.readers.read(partial(rows.read_pending, after=after, limit=limit))
    return [PendingText(*row) for row in found]


async def _scan(
    discovery: Discovery, threads: ThreadPoolExecutor
) -> dict[FileKey, tuple[Path, FileStat]]:
    """Return all memory files, for a rebuild. Raises `RebuildError` when some can't be seen."""
    scan = await asyncio.get_running_loop().run_in_executor(threads, discovery.scan)
    if scan.unread:
        raise RebuildError(f"{scan.unread[0]} can't be read")
    return scan.files


async def _embed_or_fail(
    pool: EmbedPool, texts: list[tuple[str, str]]
) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """Embed for a rebuild, which doesn't wait for a provider that is out of order."""
    work = asyncio.ensure_future(pool.embed(texts))
    blocked = asyncio.ensure_future(pool.blocked.wait())
    try:
        await asyncio.wait({work, blocked}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise RebuildError(pool.stats().blocked_reason or "the provider is out of order")
        outcome = work.result()
        return outcome.vectors, outcome.bad
    finally:
        work.cancel()
        blocked.cancel()


async def _embed_query(pool: EmbedPool, text: str) -> NDArray[np.float32]:
    try:
        async with asyncio.timeout(QUERY_S):
            return await pool.embed_query(text)
    except ProviderError as error:
        raise LegError(str(error)) from error
    except TimeoutError as error:
        raise LegError(f"the query was not embedded within {QUERY_S:g} s") from error


def _note_unreadable(unreadable: dict[FileKey, str], message: Unreadable) -> None:
    if unreadable.get(message.key) != message.reason:
        log.warning("%s can't be read: %s", message.key.path, message.reason)
    unreadable[message.key] = message.reason


def _forget_unreadable(unreadable: dict[FileKey, str], key: FileKey) -> None:
    unreadable.pop(key, None)


async def _healthy(agent: Agent) -> bool:
    """Say whether both sides of the index answer: what systemd's watchdog is fed for."""
    try:
        async with asyncio.timeout(HEALTHY_S):
            await agent.store.readers.read(_trivial)
            await agent.store.database.run(_trivial)
    except TimeoutError:
        return False
    return True


def _trivial(connection: Connection) -> None:
    connection.execute("SELECT 1").fetchone()


def _places(config: AgentConfig, socket_path: Path) -> tuple[Path, Path, Path]:
    return config.workspace, config.db_path, socket_path
