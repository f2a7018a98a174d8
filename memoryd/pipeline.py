"""The stages of one agent and their queues, built group by group in data-path order.

watch → reconcile → parse → WRITER ⇄ feeder → pool → provider;  socket → operations → search.
Every queue of the data path is created here and passed in; no actor imports another.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from memoryd.agent.agent import Agent, IndexStages, NoteStages, Queues, TranscriptStages
from memoryd.agent.consent import leaving, log_route
from memoryd.agent.dated_notes import DatedNotes
from memoryd.agent.embedding import Embedding, join_embedding
from memoryd.agent.entry_vectors import EntryVectors
from memoryd.agent.factories import (
    check_workspace,
    choose_provider,
    daily_budget,
    make_provider,
    note_reader,
    note_writer,
    rate_limits,
    redactor,
    store_options,
    time_zone,
    wanted_identity,
)
from memoryd.agent.facts import facts_of
from memoryd.agent.index_lock import IndexLock
from memoryd.agent.note_texts import NoteTexts
from memoryd.agent.rebuild_stages import RebuildStages
from memoryd.agent.recall_counter import RecallCounter
from memoryd.agent.recovery import Corruptions, Recovery
from memoryd.agent.renaming import rename
from memoryd.agent.session_notes import SessionNotes, forget_enabling
from memoryd.agent.transcripts import Transcripts
from memoryd.api.status import Daemon
from memoryd.backends.backend import Backend, BuiltinIndex, WithFallback
from memoryd.chunk.parser import ChunkOptions, Parser
from memoryd.config.load import AgentConfig
from memoryd.config.settings import Settings
from memoryd.daemon.agents import Opened
from memoryd.embed.pool import EmbedJob, EmbedPool
from memoryd.embed.pool_registry import SharedPool, SharedPools
from memoryd.embed.provider import Provider
from memoryd.embed.resolve import Resolved
from memoryd.events import AgentEvents, EventBus
from memoryd.fs.hang import DiskThreads, DiskWaits, PlaceThreads
from memoryd.index.forget import load_tombstones
from memoryd.index.queries import StoredIdentity, peek
from memoryd.index.rebuild.actor import Rebuilder, RebuildRequest
from memoryd.index.repair.checker import Checker
from memoryd.index.repair.recover import Recovered
from memoryd.index.schema import put_choice
from memoryd.index.store import Store
from memoryd.index.writer import Writer
from memoryd.messages import MeteredQueue, ToFeeder, ToParser, ToReconcile, ToWriter
from memoryd.search.engine import SearchEngine
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import SOURCE as NOTES
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.reconcile import NoteSource, Reconciler
from memoryd.source.notes.watch import Watcher
from memoryd.source.notes.write import NoteWriter
from memoryd.source.transcripts.endings import ConversationEndings
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.source.transcripts.tracker import TranscriptTracker, nothing_more
from memoryd.supervisor import Actor

log = logging.getLogger(__name__)

SMALL_QUEUE = 64
"""Messages in a queue of hints, sync markers or requests, which are few and small."""
FILE_QUEUE = 128
"""Messages in a queue of changed files, to bound the memory that a large change takes."""


@dataclass(frozen=True, slots=True)
class _Base:
    """The parts of an agent that every group of stages is built on."""

    config: AgentConfig
    store: Store
    events: AgentEvents
    queues: Queues
    threads: Executor
    waits: DiskWaits
    restart: Callable[[], None]


@asynccontextmanager
async def open_agent(
    config: AgentConfig,
    restart: Callable[[], None],
    waits: DiskWaits,
    *,
    pools: SharedPools,
    bus: EventBus,
    daemon: Daemon,
    findings: Corruptions,
) -> AsyncIterator[Opened]:
    """Open the index of an agent and build its stages; yield it with its actors."""
    async with AsyncExitStack() as stack:
        lock = await stack.enter_async_context(IndexLock(config, daemon.holder, waits))
        config = await lock.locate(config)
        await check_workspace(config)
        is_locked = await lock.lock()
        # The agent has threads of its own, because the disk of another agent may hang.
        threads = DiskThreads(2, f"files of {config.agent}", waits, config.workspace)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        lookups = PlaceThreads(config.agent)
        stack.callback(lookups.close)
        recovery = Recovery(await store_options(config, is_locked), findings, restart)
        await recovery.check(lock.run)
        stored = await peek(config.db_path)
        in_thread = asyncio.get_running_loop().run_in_executor
        resolved = await in_thread(threads, choose_provider, config.settings, stored)
        shared = await stack.enter_async_context(
            pools.use(config.settings, resolved.provider, fallback=resolved.is_fallback)
        )
        provider = None if shared is None else shared.provider
        store = Store(recovery.options, wanted_identity(config, provider))
        recovered = await recovery.open(store)
        stack.push_async_callback(store.close)
        await _keep_choice(store, resolved, stored, leaving(config, resolved, provider))
        events = AgentEvents(bus, config.agent, store)
        base = _Base(config, store, events, _queues(events), threads, waits, restart)
        agent = await _agent(base, shared, resolved, recovered, lookups)
        stack.push_async_callback(agent.close_facts)
        if config.settings.facts.store == "lancedb":
            facts_of(agent)  # which removes old versions of the table
        if agent.transcripts is not None:
            recovery.tombstones = agent.transcripts.files.forgotten.tombstones
        log.info("agent %s: workspace %s, index %s", config.agent, config.workspace, store.path)
        log_route(config, resolved, provider)
        actors = _actors(agent, Checker(store, found=recovery.report))
        guarded = [recovery.guarded(actor) for actor in actors]
        yield agent, guarded


async def _keep_choice(
    store: Store, resolved: Resolved, stored: StoredIdentity, warning: str | None
) -> None:
    """Store which provider was found, so that it stays; log a warning about it once."""
    if (choice := resolved.choice) is None:
        return
    if warning is not None and not choice.told:
        log.warning("%s", warning)
        choice = msgspec.structs.replace(choice, told=True)
    if choice != stored.choice and store.writable:
        await store.database.run(lambda connection: put_choice(connection, choice))


def make_pool(
    settings: Settings, name: str, fallback: bool
) -> tuple[Provider, EmbedPool, MeteredQueue[EmbedJob]] | None:
    """Return a provider, its pool and the pool's queue; None for keywords only."""
    if (provider := make_provider(settings, name, fallback=fallback)) is None:
        return None
    queue = MeteredQueue[EmbedJob]("embed", SMALL_QUEUE)
    limits = rate_limits(settings, fallback=fallback)
    budget = daily_budget(settings, provider)
    pool = EmbedPool(queue, provider, limits=limits, mask=redactor(settings), budget=budget)
    return provider, pool, queue


def _queues(events: AgentEvents) -> Queues:
    return Queues(
        reconcile=MeteredQueue[ToReconcile]("reconcile", SMALL_QUEUE),
        watch=MeteredQueue[frozenset[Path]]("watch", 1),
        parse=MeteredQueue[ToParser]("parse", FILE_QUEUE, on_put=events.noticed),
        transcripts=MeteredQueue[ToReconcile]("transcripts", SMALL_QUEUE),
        write=MeteredQueue[ToWriter]("write", FILE_QUEUE),
        feed=MeteredQueue[ToFeeder]("feed", SMALL_QUEUE),
        rebuild=MeteredQueue[RebuildRequest | None]("rebuild", SMALL_QUEUE),
    )


async def _agent(
    base: _Base,
    shared: SharedPool | None,
    resolved: Resolved,
    recovered: Recovered | None,
    lookups: PlaceThreads,
) -> Agent:
    """Build the groups of stages in data-path order."""
    notes = await _notes(base)
    writer, turn = note_writer(base.config, notes.discovery), asyncio.Lock()
    transcripts = await _transcripts(base, writer, turn, lookups)
    embedding = join_embedding(
        base.config,
        base.store,
        shared,
        resolved,
        to_feeder=base.queues.feed,
        to_writer=base.queues.write,
        on_embedded=base.events.embedded,
        restart=base.restart,
    )
    settings, discovery = base.config.settings, notes.discovery
    read = note_reader(settings, discovery, notes.mounts)
    dated = DatedNotes(discovery, read)
    agent = Agent(
        config=base.config,
        notes=notes,
        transcripts=transcripts,
        embedding=embedding,
        index=_index(base, notes, transcripts, embedding, recovered),
        queues=base.queues,
        backend=_backend(base, discovery, embedding),
        note_texts=NoteTexts(discovery, read),
        note_writer=writer,
        note_turn=turn,
        dated_notes=dated,
        recalls=_recalls(base, dated, lookups) if settings.promotion.tracking else None,
        entry_vectors=EntryVectors(embedding.pool),
        events=base.events,
        lookups=lookups,
        disk_waits=base.waits,
    )
    if embedding.gate is not None:
        embedding.gate.was_scanned = agent.was_scanned
        embedding.gate.unread_files = agent.pending_files
    return agent


def _backend(base: _Base, discovery: Discovery, embedding: Embedding) -> Backend:
    settings = base.config.settings
    engine = SearchEngine(base.store, settings.query, embedding.vectors, origin_of=discovery.origin)
    builtin = BuiltinIndex(engine, base.store)
    if settings.backend == "builtin":
        return builtin
    from memoryd.backends.qmd.backend import make_qmd  # nothing of it otherwise

    return WithFallback(make_qmd(base.config, base.store, discovery), builtin)


async def _notes(base: _Base) -> NoteStages:
    settings, queues, store = base.config.settings, base.queues, base.store
    workspace, chunking = base.config.workspace, settings.chunking
    discovery = await asyncio.to_thread(Discovery, workspace, settings.extra_paths)
    recorded = await store.mount_points(NOTES)
    mounts = Mounts(recorded, locate=discovery.real_path, workspace=workspace)
    # Without the tracker of transcripts, the reconciler removes those that are in the index.
    others = SESSIONS if settings.sessions.enabled else None
    known, reported = partial(store.known_files, without=others), base.events.unreadable.keys
    source = NoteSource(discovery, mounts, known, reported)
    watcher = None
    if settings.sync.watch:
        quiet_s = settings.sync.watch_debounce_ms / 1000
        watcher = Watcher(queues.watch, queues.reconcile, quiet_s=quiet_s, waits=base.waits)
    reconciler = Reconciler(
        queues.reconcile,
        queues.parse,
        queues.write,
        None if watcher is None else queues.watch,
        source,
        thread=base.threads,
        interval_s=settings.sync.interval_minutes * 60 or None,
    )
    parser = Parser(
        queues.parse,
        queues.write,
        queues.transcripts if settings.sessions.enabled else queues.write,
        read=note_reader(settings, discovery, mounts),
        options=ChunkOptions(chunking.tokens, chunking.overlap, base.store.wanted.max_input_bytes),
        thread=base.threads,
    )
    return NoteStages(discovery, mounts, watcher, reconciler, parser)


async def _transcripts(
    base: _Base, writer: NoteWriter, turn: asyncio.Lock, lookups: PlaceThreads
) -> TranscriptStages | None:
    settings = base.config.settings.sessions
    if not settings.notes.enabled:
        await asyncio.to_thread(forget_enabling, base.store.path)
    if not settings.enabled:
        return None
    store, queues = base.store, base.queues
    files = await asyncio.to_thread(Transcripts, base.config, store.wanted, store)
    files.forgotten.add(await store.readers.read(load_tombstones))
    if store.writable:
        await rename(files.places, store, files.kept.copies, base.threads)
    notes = None
    if settings.notes.enabled:
        notes = SessionNotes(
            store,
            writer,
            turn,
            ConversationEndings(files.places, files.stored),
            lookups,
            queues.reconcile,
            workspace=base.config.workspace,
            idle_s=settings.notes.idle_minutes * 60,
            of_agent=None if settings.visibility == "all" else base.config.agent,
        )
    tracker = TranscriptTracker(
        queues.transcripts,
        queues.write,
        queues.reconcile,
        files,
        mounts=Mounts(await store.mount_points(SESSIONS), locate=files.places.real_path),
        thread=base.threads,
        followed=nothing_more if notes is None else notes.look,
    )
    return TranscriptStages(tracker, files, notes)


def _index(
    base: _Base,
    notes: NoteStages,
    transcripts: TranscriptStages | None,
    embedding: Embedding,
    recovered: Recovered | None,
) -> IndexStages:
    store, queues, files = base.store, base.queues, None
    hints = [queues.reconcile]
    if transcripts is not None:
        files = transcripts.files
        hints.append(queues.transcripts)
    stages = RebuildStages(store, notes, files, embedding, base.threads)
    rebuilder = Rebuilder(queues.rebuild, queues.write, hints, store=store, stages=stages)
    writer = Writer(
        queues.write,
        queues.feed,
        store,
        coming=notes.parser.in_hand,
        on_unreadable=base.events.note_unreadable,
        on_written=base.events.written,
        on_wanted=queues.wake_rebuilder,
        restart=base.restart,
    )
    return IndexStages(store, writer, rebuilder, recovered)


def _recalls(base: _Base, notes: DatedNotes, lookups: PlaceThreads) -> RecallCounter:
    place, zone = str(base.config.workspace), time_zone(base.config.settings)
    return RecallCounter(base.store, base.queues.write, notes, lookups, place=place, zone=zone)


def _actors(agent: Agent, checker: Checker) -> list[Actor]:
    """Return the actors in data-path order, in which they are stopped."""
    notes, transcripts, recalls = agent.notes, agent.transcripts, agent.recalls
    backend = agent.backend
    return [
        *([] if notes.watcher is None else [Actor("watcher", notes.watcher.run)]),
        Actor("reconciler", notes.reconciler.run),
        Actor("rebuilder", agent.index.rebuilder.run),
        Actor("parser", notes.parser.run),
        *([] if transcripts is None else [Actor("transcripts", transcripts.tracker.run)]),
        *agent.embedding.actors(),
        *(backend.first.actors() if isinstance(backend, WithFallback) else ()),
        Actor("checker", checker.run),
        *([] if recalls is None else [Actor("recalls", recalls.run, drain=recalls.flush)]),
        Actor("writer", agent.index.writer.run),
    ]
