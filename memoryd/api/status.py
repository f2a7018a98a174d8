"""What `status` tells: put together from all parts."""

import asyncio
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

from memoryd import __version__
from memoryd.agent.agent import Agent
from memoryd.agent.factories import leaving
from memoryd.agent.transcripts import notes
from memoryd.api.files import remarks, skipped
from memoryd.api.health import Health
from memoryd.embed.batch.jobs import LIMIT
from memoryd.embed.vendors.factory import BATCH_APIS
from memoryd.errors import RequestFailedError
from memoryd.fs.hang import HUNG_S
from memoryd.index.driver import DRIVER, SQLITE_VERSION, Connection, Error, Fault, fault_of
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
    """Cached embeddings, texts that were set aside with the reason, the size of the file.

    `problems` says why there is none of it, where the index can't be read.
    """

    cached: int = 0
    set_aside: Sequence[tuple[str, str]] = ()
    db_bytes: int = 0
    problems: Sequence[str] = ()


async def read_facts(store: Store) -> IndexStats:
    """Read them."""
    try:
        return await store.readers.read(_read)
    except Error as error:
        if fault_of(error) is not Fault.SURROUNDINGS:
            raise
        return IndexStats(problems=[f"the index can't be read: {reason(error)}"])


def _read(connection: Connection) -> IndexStats:
    cached = int(connection.execute("SELECT count(*) FROM embedding_cache").fetchone()[0])
    set_aside = connection.execute(
        "SELECT hash, reason FROM set_aside WHERE hash IN (SELECT hash FROM chunks)"
    ).fetchall()
    pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return IndexStats(cached, set_aside, int(pages * size))


LOOK_S = HUNG_S + 1.0
"""For a look at the disk."""
LISTED = 50
"""Failures and skipped paths that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """What the agents of a daemon have in common.

    `holder` describes the process, for lock files. `problem` returns what is wrong with the daemon
    as a whole, `agents` the ids of all.
    """

    holder: Holder
    socket_path: Path
    started_s: float
    problem: Callable[[], str | None]
    agents: Callable[[], list[str]]


class Status:
    """Collects the state of one agent."""

    def __init__(self, agent: Agent, daemon: Daemon) -> None:
        self.health = Health(agent, daemon.problem)
        self._agent = agent
        self._daemon = daemon

    async def collect(self) -> wire.StatusResult:
        """Return everything. Reads the index; looks at the disk when nobody watches it."""
        agent = self._agent
        scanned = agent.reconciler.stats()
        changed = 0 if self._watching() or agent.hung_disks() else await self._unseen_changes()
        store, settings = agent.store, agent.config.settings
        facts = await read_facts(store)
        pending_files = agent.pending_files() + changed
        pending_vectors = agent.pending_chunks()
        mismatch = store.difference()
        transcripts = 0 if agent.tracker is None else len(agent.tracker.stats().pending)
        reasons = _dirty_reasons(pending_files, pending_vectors, mismatch, scanned, transcripts)
        failures = [wire.Failure(key.path, reason) for key, reason in agent.unreadable.items()]
        failures += [wire.Failure(f"text {digest[:12]}", why) for digest, why in facts.set_aside]
        remarked = remarks(store.catalog)
        passed_over = skipped(agent)
        sources = self._source_counts(scanned)
        return wire.StatusResult(
            agent_id=agent.config.agent,
            backend="builtin",
            version=__version__,
            protocol=protocol.PROTOCOL_MAX,
            python_version=platform.python_version(),
            sqlite_version=SQLITE_VERSION,
            sqlite_driver=DRIVER,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._daemon.started_s,
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
            db_bytes=facts.db_bytes,
            socket_path=str(self._daemon.socket_path),
            provider=store.identity.provider,
            model=store.identity.model,
            requested_provider=settings.provider,
            sources=[SOURCE] if agent.tracker is None else [SOURCE, SESSIONS],
            extra_paths=[str(path) for path in agent.discovery.extra_paths],
            source_counts=sources,
            skipped_paths=[wire.SkippedPath(path, why) for _, path, why in passed_over[:LISTED]],
            skipped_count=len(passed_over),
            cache=wire.CacheStatus(
                enabled=settings.cache.enabled,
                entries=facts.cached,
                max_entries=settings.cache.max_entries,
                hits=agent.writer.stats().vectors_reused,
                misses=agent.writer.stats().vectors_written,
            ),
            fts=wire.FtsStatus(
                enabled=True, available=store.fts_error is None, error=store.fts_error
            ),
            vector=self._vector(),
            batch=self._batch(),
            custom=self._custom(mismatch),
            watch=self._watch(),
            queues=[
                wire.QueueStatus(queue.name, queue.qsize(), queue.high_water, queue.maxsize)
                for queue in agent.queues
            ],
            failures=failures[:LISTED],
            failure_count=len(failures),
            degraded=[*self.health.degraded(), *facts.problems],
            errors=self.health.errors(),
            rebuild=self._rebuild(),
            last_scan_s_ago=scanned.last_scan_s_ago,
            remarks=[wire.Failure(key.path, why) for key, why in [*remarked.items()][:LISTED]],
            remark_count=len(remarked),
            agents=self._daemon.agents(),
            embedding=self._embedding(),
            fallback=self._fallback(),
        )

    def _batch(self) -> wire.BatchStatus:
        agent = self._agent
        batches = agent.batches
        if batches is None:
            supported = agent.provider is not None and agent.provider.name in BATCH_APIS
            return wire.BatchStatus(enabled=False, supported=supported)
        mode = batches.mode
        return wire.BatchStatus(
            enabled=mode.off_reason is None,
            supported=True,
            failures=mode.failures,
            limit=LIMIT,
            off_reason=mode.off_reason,
            last_error=mode.last_error,
            jobs=[wire.BatchJob(*astuple(job)) for job in batches.stats()],
        )

    def _fallback(self) -> str | None:
        choice = self._agent.resolved.fallback
        return None if choice is None else f"{choice.provider}, since {choice.why}"

    def _embedding(self) -> wire.EmbeddingStatus | None:
        agent = self._agent
        provider, pool, choice = agent.provider, agent.pool, agent.resolved.choice
        if provider is None or pool is None:
            return None
        stats = pool.stats()
        remote = agent.config.settings.remote
        price = 0.0 if agent.resolved.is_fallback else remote.price_per_million_tokens
        because = None if choice is None else choice.why
        if choice is not None and choice.by == "found" and provider.leaves_machine:
            because = leaving(provider, choice)
        return wire.EmbeddingStatus(
            provider=provider.name,
            model=provider.model,
            address=provider.address,
            leaves_machine=provider.leaves_machine,
            chosen_because=because,
            requests=stats.requests,
            items=stats.items,
            tokens=stats.tokens,
            retries=stats.retries,
            failures=stats.failures,
            waits=stats.waits,
            waited_s=stats.waited_s,
            batch_items=stats.max_items,
            cost=stats.tokens * price / 1_000_000 if price else None,
        )

    def _watching(self) -> bool:
        return self._agent.watcher is not None and self._agent.watcher.stats().armed

    async def _unseen_changes(self) -> int:
        agent = self._agent
        known = notes(agent.store.catalog)

        def look() -> int:
            scan = agent.discovery.scan()
            unseen = [*scan.unread, *agent.mounts.judge(scan, known).away]
            missing = map(agent.discovery.real_path, known.keys() - scan.stats.keys())
            gone = [p for p in missing if not any(p.is_relative_to(folder) for folder in unseen)]
            return len(gone) + sum(known.get(key) != stat for key, stat in scan.stats.items())

        with suppress(TimeoutError, RequestFailedError):  # `degraded` says that it hangs
            async with asyncio.timeout(LOOK_S):
                return await agent.look_up(look)
        return 0

    def _source_counts(self, scanned: ReconcileStats) -> list[wire.SourceCount]:
        counts = self._agent.store.catalog.counts()
        files, chunks = counts.get(SOURCE, (0, 0))
        found = [wire.SourceCount(SOURCE, files, scanned.sources.get(SOURCE, files), chunks)]
        if (tracker := self._agent.tracker) is not None:
            files, chunks = counts.get(SESSIONS, (0, 0))
            on_disk = tracker.stats().files if tracker.stats().looks else files
            found.append(wire.SourceCount(SESSIONS, files, on_disk, chunks))
        return found

    def _vector(self) -> wire.VectorStatus:
        agent = self._agent
        store, vector = agent.store, agent.config.settings.store.vector
        in_memory = 0 if store.matrix is None else len(store.matrix)
        semantic = agent.pool is not None and not agent.pool.blocked.is_set()
        return wire.VectorStatus(
            enabled=agent.pool is not None,
            store_available=vector.enabled and store.vec_error is None,
            semantic_available=semantic,
            available=semantic and agent.store.vector_problem() is None,
            extension_path=vector.extension_path or store.options.extension,
            load_error=store.vec_error,
            dims=store.identity.dims,
            in_memory=in_memory,
        )

    def _custom(self, mismatch: str | None) -> wire.Custom:
        agent = self._agent
        reason = None if agent.pool is None else agent.pool.stats().blocked_reason
        working = "ready" if reason is None else "unavailable"
        return wire.Custom(
            search_mode=self._search_mode(),
            provider_state="disabled" if agent.pool is None else working,
            provider_unavailable_reason=reason,
            index_identity=wire.IdentityStatus(
                "valid" if mismatch is None else "mismatched", mismatch
            ),
        )

    def _search_mode(self) -> str:
        if self._agent.pool is None:
            return "keyword"
        return "hybrid" if self._agent.config.settings.query.hybrid.enabled else "vector"

    def _watch(self) -> wire.WatchStatus:
        if self._agent.watcher is None:
            return wire.WatchStatus(enabled=False, armed=False, folders=0)
        stats = self._agent.watcher.stats()
        return wire.WatchStatus(
            True, stats.armed, stats.folders, stats.last_event_s_ago, stats.error
        )

    def _rebuild(self) -> wire.RebuildStatus | None:
        stats = self._agent.rebuilder.stats()
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
        reasons.append("the first scan is under way")
    return reasons


def _rss_bytes() -> int:
    """Return the resident memory now; where only the peak can be had (macOS), the peak."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
        return int(fields[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
