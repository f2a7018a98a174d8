"""The answer to `status`."""

import asyncio
import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from memoryd import __version__
from memoryd.agent.agent import Agent
from memoryd.api.files import failed, remarks, skipped
from memoryd.api.health import degraded, errors
from memoryd.backends.backend import BUILTIN
from memoryd.embed.batch.mode import LIMIT
from memoryd.embed.vendors.credentials import BATCH_VENDORS
from memoryd.errors import RequestFailedError
from memoryd.fs.hang import HUNG_S
from memoryd.index.driver import DRIVER, SQLITE_VERSION, Connection, Error, Fault, fault_of
from memoryd.index.queries import SetAside, read_set_aside
from memoryd.index.store import Store
from memoryd.index.write_outage import reason
from memoryd.source.notes.discover import SOURCE
from memoryd.source.notes.reconcile import ReconcileStats
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd_client.schema import status as wire
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.lock_holder import Holder
from memoryd_client.wire import protocol


class IndexStats(NamedTuple):
    """Number of cached embeddings, chunks that can't be embedded, size of the file.

    `problems` has the reason if the index can't be read.
    """

    cached: int = 0
    set_aside: Sequence[SetAside] = ()
    db_bytes: int = 0
    problems: Sequence[str] = ()


async def read_index_stats(store: Store) -> IndexStats:
    """Read the statistics of an index."""
    try:
        return await store.readers.read(_read)
    except Error as error:
        if fault_of(error) is not Fault.SURROUNDINGS:
            raise
        return IndexStats(problems=[f"can't read the index: {reason(error)}"])


def _read(connection: Connection) -> IndexStats:
    cached = int(connection.execute("SELECT count(*) FROM embedding_cache").fetchone()[0])
    pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return IndexStats(cached, read_set_aside(connection), int(pages * size))


COLLECT_LIMIT_S = HUNG_S + 1.0
"""Seconds to compare disk and index."""
LISTED = 50
"""Maximum number of failures, remarks or skipped paths in the answer."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """Facts about the daemon. `holder` describes the process, for lock files."""

    holder: Holder
    socket_path: Path
    started_s: float


async def status(
    agent: Agent, daemon: Daemon, *, problem: str | None, agents: list[str]
) -> wire.StatusResult:
    """Return the state. Reads the index, and scans the disk if nothing watches it.

    `problem` is the problem of the daemon as a whole, if any, and `agents` are the ids of all.
    """
    scanned = agent.notes.reconciler.stats()
    watching = agent.notes.watcher is not None and agent.notes.watcher.stats().armed
    changed = 0 if watching or agent.hung_disks() else await _unseen_changes(agent)
    store, settings = agent.index.store, agent.config.settings
    index = await read_index_stats(store)
    pending_files = agent.pending_files() + changed
    pending_vectors = agent.pending_chunks()
    mismatch = store.difference()
    tracked = None if agent.transcripts is None else agent.transcripts.tracker.stats()
    transcripts = 0 if tracked is None else len(tracked.pending)
    reasons = _dirty_reasons(pending_files, pending_vectors, mismatch, scanned, transcripts)
    problems = failed(agent, index.set_aside)
    failures = [wire.Failure(key.path, why) for key, whys in problems.items() for why in whys]
    remarked = remarks(store.catalog)
    passed_over = skipped(agent)
    sources = _source_counts(agent)
    choice = agent.embedding.resolved.fallback
    return wire.StatusResult(
        agent_id=agent.config.agent,
        backend=agent.backend.name,
        version=__version__,
        protocol=protocol.PROTOCOL_MAX,
        python_version=platform.python_version(),
        sqlite_version=SQLITE_VERSION,
        sqlite_driver=DRIVER,
        pid=os.getpid(),
        uptime_s=time.monotonic() - daemon.started_s,
        rss_bytes=_rss_bytes(),
        tasks=len(asyncio.all_tasks()),
        files=len(store.catalog.rows),
        chunks=store.catalog.chunks,
        total_files=sum(count.total_files for count in sources),
        dirty=bool(reasons),
        dirty_reasons=reasons,
        pending_files=pending_files,
        pending_vectors=pending_vectors,
        workspace_dir=str(agent.config.workspace),
        db_path=str(store.path),
        db_bytes=index.db_bytes,
        socket_path=str(daemon.socket_path),
        provider=store.identity.provider,
        model=store.identity.model,
        requested_provider=settings.provider,
        sources=[SOURCE] if agent.transcripts is None else [SOURCE, SESSIONS],
        extra_paths=[str(path) for path in agent.notes.discovery.extra_paths],
        source_counts=sources,
        skipped_paths=[wire.SkippedPath(path, why) for _, path, why in passed_over[:LISTED]],
        skipped_count=len(passed_over),
        hidden=scanned.hidden,
        cache=wire.CacheStatus(
            enabled=settings.cache.enabled,
            entries=index.cached,
            max_entries=settings.cache.max_entries,
            hits=agent.index.writer.stats().vectors_reused,
            misses=agent.index.writer.stats().vectors_written,
        ),
        fts=wire.FtsStatus(enabled=True, available=store.fts_error is None, error=store.fts_error),
        vector=_vector(agent),
        batch=_batch(agent),
        custom=_custom(agent, mismatch),
        watch=_watch(agent),
        queues=[
            wire.QueueStatus(queue.name, queue.qsize(), queue.high_water, queue.maxsize)
            for queue in agent.metered_queues()
        ],
        failures=failures[:LISTED],
        failure_count=len(failures),
        degraded=[*degraded(agent, problem), *index.problems, *await _lost_notes(agent)],
        errors=errors(agent),
        rebuild=_rebuild(agent),
        last_scan_s_ago=scanned.last_scan_s_ago,
        remarks=[wire.Failure(key.path, why) for key, why in [*remarked.items()][:LISTED]],
        remark_count=len(remarked),
        agents=agents,
        embedding=_embedding(agent),
        fallback=None if choice is None else f"{choice.provider}, since {choice.why}",
        notices=agent.notices(),
        without_vector=0 if agent.embedding.pool is None else store.set_aside,
        session_notes=_session_notes(agent),
        backend_status=None if agent.backend.name == BUILTIN else agent.backend.status(),
    )


def _session_notes(agent: Agent) -> wire.SessionNotesStatus | None:
    notes = None if agent.transcripts is None else agent.transcripts.notes
    if notes is None:
        return None
    stats = notes.stats()
    failures = [wire.Failure(name, why) for name, why in [*stats.failures.items()][:LISTED]]
    return wire.SessionNotesStatus(stats.written, stats.last, failures)


def _batch(agent: Agent) -> wire.BatchStatus:
    provider, batches = agent.embedding.provider, agent.embedding.batches
    settings = agent.config.settings.remote.batch
    configured = wire.BatchStatus(
        enabled=False,
        supported=provider is not None and provider.name in BATCH_VENDORS,
        concurrency=settings.concurrency,
        poll_interval_ms=settings.poll_interval_ms,
        timeout_ms=round(settings.timeout_minutes * 60_000),
    )
    if batches is None:
        return configured
    mode, files = batches.mode, batches.files.stats()
    return replace(
        configured,
        enabled=mode.off_reason is None,
        supported=True,
        failures=mode.failures,
        limit=LIMIT,
        off_reason=mode.off_reason,
        last_error=mode.last_error,
        jobs=[wire.BatchJob(*astuple(job)) for job in batches.stats()],
        undeleted=files.jobs,
        undeleted_error=files.last_error,
        last_provider=provider.name if provider is not None and mode.last_error else None,
    )


def _embedding(agent: Agent) -> wire.EmbeddingStatus | None:
    embedding = agent.embedding
    provider, pool, choice = embedding.provider, embedding.pool, embedding.resolved.choice
    if provider is None or pool is None:
        return None
    stats, budget = pool.stats(), pool.calls.budget
    preview = None if embedding.gate is None else embedding.gate.preview
    remote = agent.config.settings.remote
    price = 0.0 if embedding.resolved.is_fallback else remote.price_per_million_tokens
    return wire.EmbeddingStatus(
        provider=provider.name,
        model=provider.model,
        address=provider.route.address,
        leaves_machine=provider.route.leaves_machine,
        chosen_because=None if choice is None else choice.why,
        requests=stats.requests,
        items=stats.items,
        tokens=stats.tokens,
        retries=stats.retries,
        failures=stats.failures,
        waits=stats.waits,
        waited_s=stats.waited_s,
        batch_items=stats.max_items,
        cost=stats.tokens * price / 1_000_000 if price else None,
        proxy=provider.route.proxy,
        unencrypted=provider.route.unencrypted,
        tokens_today=None if budget is None else budget.used,
        max_tokens_per_day=None if budget is None else budget.limit,
        unconfirmed_tokens=None if preview is None else preview.tokens,
    )


async def _unseen_changes(agent: Agent) -> int:
    known = agent.index.store.known_files(without=SESSIONS)

    def count_changes() -> int:
        scan = agent.notes.discovery.scan()
        unseen = [*scan.unread, *agent.notes.mounts.judge(scan, known).away]
        missing = map(agent.notes.discovery.real_path, known.keys() - scan.stats.keys())
        gone = [p for p in missing if not any(p.is_relative_to(folder) for folder in unseen)]
        return len(gone) + sum(known.get(key) != stat for key, stat in scan.stats.items())

    with suppress(TimeoutError, RequestFailedError):  # `degraded` reports the hung disk
        async with asyncio.timeout(COLLECT_LIMIT_S):
            return await agent.look_up(count_changes)
    return 0


async def _lost_notes(agent: Agent) -> list[str]:
    """Return a warning about written notes that are no longer in their files."""

    def paths_of_lost() -> list[str]:
        return [note.path for note in agent.note_writer.lost()]

    lost: list[str] = []
    with suppress(TimeoutError, RequestFailedError):  # `degraded` reports the hung disk
        async with asyncio.timeout(COLLECT_LIMIT_S), agent.note_turn:
            try:
                lost = await agent.look_up(paths_of_lost, at=agent.notes.discovery.workspace)
            except OSError as error:
                return [f"the journal of notes can't be read: {error.strerror or error}"]
    if not lost:
        return []
    named = list(dict.fromkeys(lost))
    are = "is" if len(lost) == 1 else "are"
    more = f" and {counted(len(named) - 1, 'other file')}" if len(named) > 1 else ""
    return [
        f"memoryd wrote {counted(len(lost), 'note')} to {named[0]}{more} that {are} no longer"
        " there, perhaps because an editor has saved an old text: `memctl note --restore` writes"
        " them again, `memctl note --dismiss` accepts it"
    ]


def _source_counts(agent: Agent) -> list[wire.SourceCount]:
    """Return the files in the index, and those found on disk or still in it, at one moment."""
    counts = agent.index.store.catalog.counts()
    files, chunks = counts.get(SOURCE, (0, 0))
    coming = agent.notes.reconciler.sent() - agent.index.store.catalog.rows.keys()
    found = [wire.SourceCount(SOURCE, files, files + len(coming), chunks)]
    if agent.transcripts is not None:
        tracked = agent.transcripts.tracker.stats()
        files, chunks = counts.get(SESSIONS, (0, 0))
        coming = tracked.pending.keys() - agent.index.store.catalog.rows.keys()
        found.append(wire.SourceCount(SESSIONS, files, files + len(coming), chunks))
    return found


def _vector(agent: Agent) -> wire.VectorStatus:
    store, vector = agent.index.store, agent.config.settings.store.vector
    in_memory = 0 if store.matrix is None else len(store.matrix)
    path = vector.extension_path or store.options.extension
    semantic = agent.embedding.pool is not None and not agent.embedding.pool.blocked.is_set()
    return wire.VectorStatus(
        enabled=agent.embedding.pool is not None,
        store_available=vector.enabled and store.vec_error is None,
        semantic_available=semantic,
        available=semantic and store.vector_problem() is None,
        extension_path=path if vector.enabled else None,
        load_error=store.vec_error,
        dims=store.identity.dims,
        in_memory=in_memory,
    )


def _custom(agent: Agent, mismatch: str | None) -> wire.Custom:
    pool = agent.embedding.pool
    reason = None if pool is None else pool.stats().blocked_reason
    working = "ready" if reason is None else "unavailable"
    mode = "hybrid" if agent.config.settings.query.hybrid.enabled else "vector"
    return wire.Custom(
        search_mode="keyword" if pool is None else mode,
        provider_state="disabled" if pool is None else working,
        provider_unavailable_reason=reason,
        index_identity=wire.IdentityStatus("valid" if mismatch is None else "mismatched", mismatch),
    )


def _watch(agent: Agent) -> wire.WatchStatus:
    if agent.notes.watcher is None:
        return wire.WatchStatus(enabled=False, armed=False, folders=0)
    stats = agent.notes.watcher.stats()
    return wire.WatchStatus(True, stats.armed, stats.folders, stats.last_event_s_ago, stats.error)


def _rebuild(agent: Agent) -> wire.RebuildStatus | None:
    stats = agent.index.rebuilder.stats()
    if stats.reason is None:
        return None
    return wire.RebuildStatus(stats.reason, stats.completed, stats.total, stats.label)


def _dirty_reasons(
    files: int, vectors: int, mismatch: str | None, scanned: ReconcileStats, transcripts: int
) -> list[str]:
    reasons = []
    if files:
        reasons.append(f"{counted(files, 'changed file')} not indexed yet")
    if vectors:
        reasons.append(f"{counted(vectors, 'chunk')} without a vector yet")
    if mismatch is not None:
        reasons.append(f"the index was built with other settings: {mismatch}")
    if transcripts:
        reasons.append(f"{counted(transcripts, 'transcript')} with messages not indexed yet")
    if not scanned.scans:
        reasons.append("the first scan is running")
    return reasons


def _rss_bytes() -> int:
    """Return the present resident memory, or the peak where only that is available (macOS)."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
        return int(fields[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
