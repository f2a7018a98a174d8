"""One running agent: the parts that `app` has joined, for those who ask across stages."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from memoryd.agent.transcripts import Transcripts
from memoryd.chunk.parser import Parser
from memoryd.config.load import AgentConfig
from memoryd.embed.batch.jobs import Batches
from memoryd.embed.feeder import Feeder
from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import Provider
from memoryd.embed.resolve import Resolved
from memoryd.events import EventBus
from memoryd.fs.hang import DiskWaits, PlaceThreads
from memoryd.index.rebuild.actor import Rebuilder, RebuildRequest
from memoryd.index.repair.recover import Recovered
from memoryd.index.store import Store
from memoryd.index.writer import Writer
from memoryd.messages import FileKey, MeteredQueue, SyncMarker, ToReconcile, ToWriter
from memoryd.search.engine import SearchEngine
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.reconcile import Reconciler
from memoryd.source.notes.watch import Watcher
from memoryd.source.transcripts.tracker import TranscriptTracker

T = TypeVar("T")
EVERYWHERE = "everywhere"
"""For looks at all places."""
KEY_FILES = "key files"
"""For looks at where keys and models are."""


@dataclass(slots=True, kw_only=True)
class Agent:
    """The parts of one agent.

    `watcher`, `provider`, `pool`, `transcripts` and `tracker` are None when switched off.
    `recovered` tells what became of an index that was damaged, until the next start.
    """

    config: AgentConfig
    store: Store
    discovery: Discovery
    mounts: Mounts
    resolved: Resolved
    provider: Provider | None
    pool: EmbedPool | None
    batches: Batches | None
    watcher: Watcher | None
    recovered: Recovered | None
    reconciler: Reconciler
    parser: Parser
    writer: Writer
    feeder: Feeder
    rebuilder: Rebuilder
    engine: SearchEngine
    to_reconcile: MeteredQueue[ToReconcile]
    to_rebuilder: MeteredQueue[RebuildRequest | None]
    transcripts: Transcripts | None
    tracker: TranscriptTracker | None
    to_tracker: MeteredQueue[ToReconcile]
    to_writer: MeteredQueue[ToWriter]
    queues: tuple[MeteredQueue[Any], ...]
    events: EventBus
    lookups: PlaceThreads
    disk_waits: DiskWaits
    unreadable: dict[FileKey, str] = field(default_factory=dict)

    def publish(
        self,
        kind: str,
        *,
        path: str | None = None,
        count: int | None = None,
        text: str | None = None,
    ) -> None:
        """Tell those who follow the daemon's events that something happened to this agent."""
        self.events.publish(kind, self.config.agent, path=path, count=count, text=text)

    async def look_up(
        self, function: Callable[..., T], *arguments: object, at: Path | str = EVERYWHERE
    ) -> T:
        """Run what a request wants of the disk in a thread: a disk that hangs holds up no other.

        `at` is the path that it looks at, or what else it has in common with others.
        """
        place = at if isinstance(at, str) else str(self.place_of(at) or EVERYWHERE)
        return await self.lookups.run(place, function, *arguments)

    def why_away(self, path: Path) -> str | None:
        """Say why a file that is not there may be on a disk that is not; None: it is gone.

        Blocking. Raises `OSError` when that can't be seen.
        """
        reason = self.mounts.why_away(path)
        if reason is None and self.tracker is not None:
            reason = self.tracker.why_away(path)
        return reason

    def place_of(self, path: Path) -> Path | None:
        """Return the place of memory that a path is in, the innermost; None: in none of them."""
        places = {*self.mounts.places(), self.discovery.workspace}
        around = [place for place in places if path.is_relative_to(place)]
        return max(around, key=lambda place: len(place.parts), default=None)

    def hung_disks(self) -> list[str]:
        """Return which paths do not answer, and since when, a line each."""
        return list(dict.fromkeys([*self.disk_waits.warnings(), *self.lookups.warnings()]))

    async def sync(self, *, vectors: bool) -> None:
        """Wait until all that has changed by now is searchable."""
        marker = SyncMarker()
        await self.to_reconcile.put(marker)
        await (marker.vectors if vectors else marker.text)

    def pending_files(self) -> int:
        """Return how many noticed changes are not searchable yet."""
        waiting = 0 if self.watcher is None else self.watcher.stats().waiting
        names = ("reconcile", "parse", "write")
        queued = sum(queue.qsize() for queue in self.queues if queue.name in names)
        large = self.reconciler.stats().waiting
        return waiting + large + queued + self.parser.in_hand() + self.writer.stats().in_hand

    def pending_chunks(self) -> int:
        """Return how many chunks wait for a vector; 0 without a provider."""
        if self.pool is None:
            return 0
        matrix = self.store.matrix
        embedded = 0 if matrix is None else len(matrix)
        return self.store.catalog.chunks - embedded - self.store.set_aside
