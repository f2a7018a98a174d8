"""The wiring: resources in a stack, queues, actors. Read this first.

watch → reconcile → parse → WRITER ⇄ feeder → pool → provider;  socket → operations → search.
Every queue of the data path is made here and passed in; no actor knows another.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memoryd import __version__
from memoryd.agent.adapters import (
    embed_or_fail,
    healthy,
    mounts_of,
    note_unreadable,
    parse_for_rebuild,
    scan_for_rebuild,
    tell_noticed,
    tell_wanted,
    tell_written,
)
from memoryd.agent.agent import Agent
from memoryd.agent.embedding import join_embedding
from memoryd.agent.factories import (
    check_workspace,
    choose_provider,
    keep_choice,
    make_provider,
    rate_limits,
    reader,
    redactor,
    store_options,
    wanted_identity,
)
from memoryd.agent.index_lock import IndexLock
from memoryd.agent.recovery import Corruptions, Recovery
from memoryd.agent.transcripts import Transcripts, known, notes
from memoryd.api.handlers import Operations
from memoryd.api.status import Daemon, Status
from memoryd.chunk.parser import ChunkOptions, Parser
from memoryd.config.load import AgentConfig
from memoryd.config.settings import Settings
from memoryd.daemon.agents import EXPLAINED, STOP_S, AgentSupervisor, Opened
from memoryd.daemon.handlers import DaemonOperations
from memoryd.daemon.malloc import HeapTrimmer
from memoryd.daemon.reload import Reloader
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.pool_registry import SharedPools
from memoryd.embed.provider import Provider
from memoryd.events import EventBus
from memoryd.fs.hang import DiskThreads, DiskWaits, PlaceThreads
from memoryd.index.forget import load_tombstones
from memoryd.index.queries import peek
from memoryd.index.rebuild.actor import Rebuilder, RebuildRequest
from memoryd.index.rebuild.rebuild import Stages
from memoryd.index.repair.checker import Checker
from memoryd.index.store import Store
from memoryd.index.writer import Writer
from memoryd.messages import FileKey, MeteredQueue, ToFeeder, ToParser, ToReconcile, ToWriter
from memoryd.search.engine import SearchEngine
from memoryd.server.endpoint import Endpoint
from memoryd.server.server import Server
from memoryd.server.systemd import Notifier
from memoryd.server.unix_socket import check_path
from memoryd.source.mounts import unless_away
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.reconcile import Reconciler
from memoryd.source.notes.watch import Watcher
from memoryd.source.transcripts.tracker import TranscriptTracker
from memoryd.supervisor import Actor, done_before, supervise
from memoryd.text.tokenize import load_stop_words
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import this_process
from memoryd_client.wire.protocol import CAPABILITIES, PROTOCOL_MAX, Welcome

log = logging.getLogger(__name__)

SMALL_QUEUE = 64
"""Hints, sync markers, requests: few and small."""
FILE_QUEUE = 128
"""Changed files by name, or as chunks: bounds what a large change keeps in memory."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says. `config_file` None: the default place, if there is a file."""

    socket_path: Path
    config_file: Path | None = None
    agent: str | None = None
    workspace: Path | None = None
    log_path: Path | None = None


async def run(options: RunOptions, *, stop: asyncio.Event, hangup: asyncio.Event) -> None:
    """Serve until `stop` is set; whenever `hangup` is, read the configuration again.

    Raises `ConfigError`, `AlreadyRunningError`, `SocketError`, `IndexRefusedError` or
    `ActorFailedError`.
    """
    socket_path = options.socket_path
    check_path(socket_path)
    notifier, events = Notifier(), EventBus()
    log_path = None if options.log_path is None else str(options.log_path)
    holder = this_process(version=__version__, log_path=log_path)
    async with AsyncExitStack() as stack:
        door = stack.enter_context(Endpoint(socket_path, holder))
        daemon = Daemon(
            holder,
            socket_path,
            time.monotonic(),
            problem=lambda: host.problem,
            agents=lambda: [hosted.config.agent for hosted in host.all()],
        )
        host = AgentSupervisor(
            partial(
                _agent, pools=SharedPools(_make_pool), events=events, daemon=daemon, findings={}
            ),
            explained=EXPLAINED,
        )
        suffix = paths.socket_suffix(str(socket_path))
        reloader = Reloader(
            host,
            hangup,
            config_file=options.config_file,
            agent=options.agent,
            workspace=options.workspace,
            added_path=Path(paths.state_dir()) / f"added{suffix}.json",
            on_reloading=notifier.reloading,
            on_reloaded=lambda: notifier.send("READY=1"),
        )
        welcome = Welcome(
            protocol=PROTOCOL_MAX,
            server=f"memoryd/{__version__}",
            pid=os.getpid(),
            boot_id=secrets.token_hex(8),
            capabilities=list(CAPABILITIES),
        )
        handlers = DaemonOperations(host, reloader, events).table()
        server = Server(door, handlers=handlers, welcome=welcome)
        await asyncio.to_thread(load_stop_words)
        stack.push_async_callback(host.close)
        if not await done_before(stop, reloader.start()):
            return
        ids = ", ".join(hosted.config.agent for hosted in host.all())
        notifier.send("READY=1", f"STATUS=serving {ids}")
        log.info("ready: socket %s, agents: %s", socket_path, ids)
        await supervise(
            [
                Actor("server", server.run),
                Actor("reloader", reloader.run),
                Actor("agents", host.run, stop_s=STOP_S),
                Actor("heaps", HeapTrimmer().run),
                Actor("watchdog", partial(notifier.run, partial(healthy, host))),
            ],
            stop,
            on_stopping=lambda: notifier.send("STOPPING=1"),
            explained=EXPLAINED,
        )
    log.info("stopped")


def _make_pool(
    settings: Settings, name: str, fallback: bool
) -> tuple[Provider, EmbedPool, MeteredQueue[EmbedJob]] | None:
    if (provider := make_provider(settings, name, fallback=fallback)) is None:
        return None
    to_pool = MeteredQueue[EmbedJob]("embed", SMALL_QUEUE)
    limits = rate_limits(settings, fallback=fallback)
    return provider, EmbedPool(to_pool, provider, limits=limits, mask=redactor(settings)), to_pool


@asynccontextmanager
async def _agent(
    config: AgentConfig,
    restart: Callable[[], None],
    waits: DiskWaits,
    *,
    pools: SharedPools,
    events: EventBus,
    daemon: Daemon,
    findings: Corruptions,
) -> AsyncIterator[Opened]:
    """Join the parts of one agent; yield it and its actors in the order of the data path."""
    settings = config.settings
    publish = partial(events.publish, agent=config.agent)
    to_reconcile = MeteredQueue[ToReconcile]("reconcile", SMALL_QUEUE)
    to_watch = MeteredQueue[frozenset[Path]]("watch", 1)
    to_parser = MeteredQueue[ToParser]("parse", FILE_QUEUE, on_put=partial(tell_noticed, publish))
    to_writer = MeteredQueue[ToWriter]("write", FILE_QUEUE)
    to_feeder = MeteredQueue[ToFeeder]("feed", SMALL_QUEUE)
    to_rebuilder = MeteredQueue[RebuildRequest | None]("rebuild", SMALL_QUEUE)
    to_tracker = MeteredQueue[ToReconcile]("transcripts", SMALL_QUEUE)

    async with AsyncExitStack() as stack:
        # Threads of its own: another agent's disk may hang. Nobody waits for one that does.
        keeper = await stack.enter_async_context(IndexLock(config, daemon.holder, waits))
        config = await keeper.locate(config)
        await check_workspace(config)
        is_locked = await keeper.lock()
        threads = DiskThreads(2, f"files of {config.agent}", waits, config.workspace)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        lookups = PlaceThreads(config.agent)
        stack.callback(lookups.close)
        recovery = Recovery(await store_options(config, is_locked), findings, restart)
        await recovery.look(keeper.run)
        peeked = await peek(config.db_path)
        in_thread = asyncio.get_running_loop().run_in_executor
        resolved = await in_thread(threads, choose_provider, settings, peeked)
        shared = await stack.enter_async_context(
            pools.use(settings, resolved.provider, fallback=resolved.is_fallback)
        )
        provider, pool = (None, None) if shared is None else (shared.provider, shared.pool)
        wanted = wanted_identity(config, provider)
        store = Store(recovery.options, wanted)
        recovered = await recovery.open(store)
        stack.push_async_callback(store.close)
        await keep_choice(store, resolved, peeked, provider)
        discovery = await asyncio.to_thread(Discovery, config.workspace, settings.extra_paths)
        mounts = await mounts_of(store, discovery)
        unreadable: dict[FileKey, str] = {}
        transcripts = None
        if settings.sessions.enabled:
            transcripts = await asyncio.to_thread(Transcripts, config, wanted)
        if transcripts is not None:
            transcripts.tombstones |= await store.readers.read(load_tombstones)
            recovery.tombstones = transcripts.tombstones
        parser = Parser(
            to_parser,
            to_writer,
            to_writer if transcripts is None else to_tracker,
            read=unless_away(reader(settings, discovery.base), mounts),
            options=ChunkOptions(
                settings.chunking.tokens, settings.chunking.overlap, wanted.max_input_bytes
            ),
            thread=threads,
        )
        watcher = None
        if settings.sync.watch:
            quiet_s = settings.sync.watch_debounce_ms / 1000
            watcher = Watcher(to_watch, to_reconcile, quiet_s=quiet_s, waits=waits)
        tracker = None
        if transcripts is not None:
            tracker = TranscriptTracker(
                to_tracker,
                to_writer,
                to_reconcile,
                find=transcripts.find,
                read=transcripts.read,
                open_file=transcripts.places.open_file,
                known=lambda: known(store.catalog, settings.sessions.formats),
                mounts=await mounts_of(store, transcripts.places),
                thread=threads,
                thresholds=transcripts.thresholds,
            )
        embedding = join_embedding(
            config,
            store,
            shared,
            resolved,
            to_feeder=to_feeder,
            to_writer=to_writer,
            on_embedded=lambda count: publish("embedded", count=count),
            restart=restart,
        )
        rebuilder = Rebuilder(
            to_rebuilder,
            to_writer,
            [to_reconcile] if tracker is None else [to_reconcile, to_tracker],
            store=store,
            stages=Stages(
                scan=partial(scan_for_rebuild, discovery, mounts, store, transcripts, threads),
                parse=partial(parse_for_rebuild, parser, transcripts, threads),
                embed=None if pool is None else partial(embed_or_fail, pool),
                under_way=embedding.feeder.under_way,
                later=embedding.batches is not None,
                batch_items=1 if provider is None else provider.batch_items,
            ),
        )
        queues = (to_reconcile, to_parser, to_tracker, to_writer, to_feeder, to_rebuilder)
        agent = Agent(
            config=config,
            store=store,
            discovery=discovery,
            mounts=mounts,
            resolved=resolved,
            provider=provider,
            pool=pool,
            batches=embedding.batches,
            watcher=watcher,
            recovered=recovered,
            reconciler=Reconciler(
                to_reconcile,
                to_parser,
                to_writer,
                to_watch if watcher else None,
                discovery=discovery,
                mounts=mounts,
                known=lambda: notes(store.catalog) if transcripts else store.catalog.stats(),
                thread=threads,
                interval_s=settings.sync.interval_minutes * 60 or None,
            ),
            parser=parser,
            writer=Writer(
                to_writer,
                to_feeder,
                store,
                on_unreadable=partial(note_unreadable, unreadable),
                on_written=partial(tell_written, publish, store, unreadable),
                on_wanted=partial(tell_wanted, to_rebuilder),
                restart=restart,
            ),
            feeder=embedding.feeder,
            rebuilder=rebuilder,
            transcripts=transcripts,
            tracker=tracker,
            to_tracker=to_tracker,
            to_writer=to_writer,
            engine=SearchEngine(store, settings.query, embedding.leg),
            to_reconcile=to_reconcile,
            to_rebuilder=to_rebuilder,
            queues=queues if shared is None else (*queues, shared.queue),
            events=events,
            lookups=lookups,
            disk_waits=waits,
            unreadable=unreadable,
        )
        actors = [
            *([] if watcher is None else [Actor("watcher", watcher.run)]),
            Actor("reconciler", agent.reconciler.run),
            Actor("rebuilder", rebuilder.run),
            Actor("parser", parser.run),
            *([] if tracker is None else [Actor("transcripts", tracker.run)]),
            *embedding.actors,
            Actor("checker", Checker(store, found=recovery.report).run),
            Actor("writer", agent.writer.run),
        ]
        log.info("agent %s: workspace %s, index %s", config.agent, config.workspace, store.path)
        guarded = [recovery.guarded(actor) for actor in actors]
        yield Opened(agent, Operations(agent, Status(agent, daemon)), guarded)
