"""One running agent: its stages in groups, and the questions that concern several of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memoryd.agent.consent import notices
from memoryd.agent.dated_notes import DatedNotes
from memoryd.agent.embedding import Embedding
from memoryd.agent.entry_vectors import EntryVectors
from memoryd.agent.note_texts import NoteTexts
from memoryd.agent.recall_counter import RecallCounter
from memoryd.agent.session_notes import SessionNotes
from memoryd.agent.transcripts import Transcripts
from memoryd.backends.backend import Backend
from memoryd.chunk.parser import Parser
from memoryd.config.load import AgentConfig
from memoryd.events import AgentEvents
from memoryd.fs.hang import DiskWaits, PlaceThreads
from memoryd.index.rebuild.actor import Rebuilder, RebuildRequest
from memoryd.index.repair.recover import Recovered
from memoryd.index.store import Store
from memoryd.index.writer import Writer
from memoryd.messages import MeteredQueue, SyncMarker, ToFeeder, ToParser, ToReconcile, ToWriter
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.reconcile import Reconciler
from memoryd.source.notes.watch import Watcher
from memoryd.source.notes.write import NoteWriter
from memoryd.source.transcripts.tracker import TranscriptTracker
from memoryd_client.shared.humanize import counted

if TYPE_CHECKING:  # a daemon whose agents use no facts does not load it
    from memoryd.facts.memory import FactMemory

T = TypeVar("T")
EVERYWHERE = "everywhere"
"""The place of a lookup in all places of memory."""
KEY_FILES = "key files"
"""The place of a lookup in key files and model files."""


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of the data path, each named for the stage that reads it."""

    reconcile: MeteredQueue[ToReconcile]
    watch: MeteredQueue[frozenset[Path]]
    parse: MeteredQueue[ToParser]
    transcripts: MeteredQueue[ToReconcile]
    write: MeteredQueue[ToWriter]
    feed: MeteredQueue[ToFeeder]
    rebuild: MeteredQueue[RebuildRequest | None]

    def wake_rebuilder(self) -> None:
        """Have the rebuilder compare index and settings, unless it is about to."""
        if self.rebuild.empty():
            self.rebuild.put_nowait(None)


@dataclass(frozen=True, slots=True)
class NoteStages:
    """The stages that find and parse notes. Without a watcher, scans alone find changes."""

    discovery: Discovery
    mounts: Mounts
    watcher: Watcher | None
    reconciler: Reconciler
    parser: Parser


@dataclass(frozen=True, slots=True)
class TranscriptStages:
    """The stage that follows transcripts, the transcripts, and notes about them if enabled."""

    tracker: TranscriptTracker
    files: Transcripts
    notes: SessionNotes | None = None

    def unwritten(self) -> list[str]:
        """Return a line about session notes that could not be written."""
        failures = {} if self.notes is None else self.notes.stats().failures
        if not failures:
            return []
        (name, why), *others = failures.items()
        more = f" ({counted(len(others), 'other note')} too)" if others else ""
        return [f"session note about {name}{more}: {why}; memoryd tries again every minute"]


@dataclass(slots=True)
class IndexStages:
    """The open index and the stages that write it.

    `recovered` reports the repair of a corrupt index, until the next start.
    """

    store: Store
    writer: Writer
    rebuilder: Rebuilder
    recovered: Recovered | None


@dataclass(slots=True, kw_only=True)
class Agent:
    """The stages of one agent. `transcripts` and `recalls` are None when they are disabled."""

    config: AgentConfig
    notes: NoteStages
    transcripts: TranscriptStages | None
    embedding: Embedding
    index: IndexStages
    queues: Queues
    backend: Backend
    note_texts: NoteTexts
    note_writer: NoteWriter
    dated_notes: DatedNotes
    recalls: RecallCounter | None
    entry_vectors: EntryVectors
    events: AgentEvents
    lookups: PlaceThreads
    disk_waits: DiskWaits
    note_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a thread uses `note_writer`."""
    facts: "FactMemory | None" = None
    """Opened by the first request about facts."""

    async def look_up(
        self, function: Callable[..., T], *arguments: object, at: Path | str = EVERYWHERE
    ) -> T:
        """Run a request's disk access in a thread, so that a hung disk blocks no other request.

        `at` is the path that is accessed, or a name for the place.
        """
        place = at if isinstance(at, str) else str(self.place_of(at) or EVERYWHERE)
        return await self.lookups.run(place, function, *arguments)

    def missing_disk_reason(self, path: Path) -> str | None:
        """Return why a missing file may be on a missing disk; None: the file is deleted.

        Blocking. Raises `OSError` when the disk can't be checked.
        """
        reason = self.notes.mounts.why_away(path)
        if reason is None and self.transcripts is not None:
            reason = self.transcripts.tracker.why_away(path)
        return reason

    def place_of(self, path: Path) -> Path | None:
        """Return the innermost place of memory that contains a path, None if there is none."""
        inside = f"{path}/"
        return next((place for begin, place in self.places() if inside.startswith(begin)), None)

    def places(self) -> list[tuple[str, Path]]:
        """Return the places of memory, each with the beginning of what it contains.

        The innermost come first. Paths are compared as text, because a search asks for each of its
        results.
        """
        places = {*self.notes.mounts.places(), self.notes.discovery.workspace}
        begins = [(f"{str(place).rstrip('/')}/", place) for place in places]
        if len(begins) > 1:
            begins.sort(key=lambda each: len(each[0]), reverse=True)
        return begins

    def hung_disks(self) -> list[str]:
        """Return a line for each path that does not answer, with the time since when."""
        return list(dict.fromkeys([*self.disk_waits.warnings(), *self.lookups.warnings()]))

    def warnings(self) -> list[str]:
        """Return a line for each problem that makes answers incomplete."""
        store, embedding, found = self.index.store, self.embedding, list[str]()
        if (unwritable := store.outage.warning) is not None:
            found.append(unwritable)
        found += self.hung_disks()
        failed = self.index.rebuilder.last_error
        if failed is not None and store.difference():
            found.append(f"the last rebuild failed: {failed}")
        scan = self.notes.reconciler.stats()
        if scan.problem is not None:
            found.append(f"scan: {scan.problem}")
        found += scan.left_out
        if self.transcripts is not None:
            found += [f"transcripts: {why}" for why in self.transcripts.tracker.stats().problems]
            found += self.transcripts.unwritten()
        if (choice := embedding.resolved.fallback) is not None:
            found.append(
                f"the fallback provider {choice.provider} is in use: {choice.why};"
                f" to switch back, run `memctl index --provider {choice.instead_of}`"
            )
        if embedding.gate is not None and (preview := embedding.gate.preview) is not None:
            found.append(str(preview))
        pool = embedding.pool
        if pool is not None and (missing := store.set_aside):
            all_of_them = counted(store.catalog.chunks, "chunk")
            found.append(
                f"{missing} of {all_of_them} ({missing / max(1, store.catalog.chunks):.0%}) get no"
                " vector, because the provider gives none for their text; `memctl files --failed`"
                " lists them; change these lines, or set a `model` that takes them, then run"
                " `memctl index --force`"
            )
        if pool is not None and (reason := pool.stats().blocked_reason) is not None:
            without = f"{counted(self.pending_chunks(), 'chunk')} without a vector yet"
            found.append(f"embedding is paused, {without}: {reason}")
        return found

    def notices(self) -> list[str]:
        """Return a line for each fact about the way of the texts that the user may not expect."""
        return notices(self.config, self.embedding.resolved, self.embedding.provider)

    async def sync(self, *, vectors: bool, paths: frozenset[Path] | None = None) -> None:
        """Wait until every change made so far is searchable, or those of some notes."""
        marker = SyncMarker(paths=paths)
        await self.queues.reconcile.put(marker)
        await (marker.vectors if vectors else marker.text)

    async def close_facts(self) -> None:
        """Release the facts, if a request has opened them."""
        if self.facts is not None:
            await self.facts.close()

    def metered_queues(self) -> list[MeteredQueue[Any]]:
        """Return the queues to report, in data-path order."""
        q, embed = self.queues, self.embedding.queue
        own = (q.reconcile, q.parse, q.transcripts, q.write, q.feed, q.rebuild)
        return [*own] if embed is None else [*own, embed]

    def was_scanned(self) -> bool:
        """Return whether all sources have been scanned since the start."""
        tracked = None if self.transcripts is None else self.transcripts.tracker.stats()
        return self.notes.reconciler.stats().scans > 0 and (tracked is None or tracked.looks > 0)

    def pending_files(self) -> int:
        """Return the number of noticed changes that are not searchable yet."""
        notes, queues = self.notes, self.queues
        waiting = 0 if notes.watcher is None else notes.watcher.waiting()
        waiting += queues.reconcile.qsize() + queues.parse.qsize() + queues.write.qsize()
        waiting += notes.reconciler.waiting() + notes.parser.in_hand()
        return waiting + self.index.writer.in_hand()

    def pending_chunks(self) -> int:
        """Return the number of chunks without a vector; 0 without a provider."""
        if self.embedding.pool is None:
            return 0
        store = self.index.store
        embedded = 0 if store.matrix is None else len(store.matrix)
        return store.catalog.chunks - embedded - store.set_aside
