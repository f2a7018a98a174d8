"""Tracker actor: follows growing transcripts and reads their additions.

Polling is cheap: one stat of each file every few seconds, in a thread. Notes come first: no
transcript is read before the first scan of notes has passed the parser.
"""

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from memoryd.fs.directories import shown_path
from memoryd.fs.hang import tick
from memoryd.messages import (
    FileGone,
    FileKey,
    FileStat,
    Hint,
    MountPoints,
    ParsedFile,
    SyncMarker,
    ToReconcile,
    ToWriter,
    TranscriptState,
    Unreadable,
)
from memoryd.source.mounts import MEANT, Mounts, Verdict, cannot_be_seen
from memoryd.source.transcripts.delta import TranscriptDelta
from memoryd.source.transcripts.due import Pending, Thresholds, is_due, pending
from memoryd.source.transcripts.foreign_sqlite import StoreBusyError
from memoryd.source.transcripts.format import LeftOutError
from memoryd.source.transcripts.locations import SOURCE, Found, is_archive
from memoryd.source.transcripts.openclaw_json5 import BeingWrittenError
from memoryd.source.transcripts.stored import is_stored

log = logging.getLogger(__name__)


POLL_S = 5.0
AT_ONCE = 2
"""Maximum transcripts on their way to the index, one being read and one written, so that changed
notes wait for no more than these."""
COUNT_BYTES = 64 * 1024
MISSING = f"is missing; {MEANT}"

Known = Mapping[FileKey, tuple[FileStat, TranscriptState | None]]
Followed = Callable[[Collection[FileKey], bool], Awaitable[None]]
"""Called with the transcripts that have unread messages, and whether all were to be read."""


async def nothing_more(pending: Collection[FileKey], everything: bool) -> None:
    """Do nothing after a check."""


@dataclass(slots=True)
class Keeping:
    """Fate of transcripts whose files are gone.

    `copies` are to be read in their place, with their paths and stats; `removed` leave the index.
    `problems` are for people.
    """

    copies: dict[FileKey, tuple[Path, FileStat]] = field(default_factory=dict)
    removed: list[FileKey] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class TranscriptFiles(Protocol):
    """The transcripts of one agent, on disk and in the index.

    All but `known`, `read_in` and `keep` are blocking.
    """

    thresholds: Thresholds

    def find(self) -> Found:
        """Return all transcripts on disk."""

    def known(self) -> Known:
        """Return the stat and the reading state of each transcript in the index."""

    async def read_in(
        self, thread: Executor, path: Path, base: TranscriptState | None
    ) -> TranscriptDelta:
        """Read the records added since `base`. Raises `OSError`."""

    def first_record(self, path: Path) -> str:
        """Return the id of the first record, "" if it has none."""

    def open_file(self, path: Path) -> int:
        """Return a file descriptor of a transcript. Raises `OSError`."""

    async def keep(self, gone: Collection[FileKey], found: Found, thread: Executor) -> Keeping:
        """Keep transcripts whose files are gone, as far as the settings say."""


@dataclass(frozen=True, slots=True)
class TrackerStats:
    """Result of the last poll: files on disk, and pending bytes by file.

    `to_read` files are being read now, one after another. `left_out` has reasons by file;
    `problems` are reasons why indexed transcripts were not found; `skipped` maps displayable paths
    that are never read to reasons.
    """

    looks: int
    files: int
    to_read: int = 0
    pending: dict[FileKey, int] = field(default_factory=dict)
    left_out: dict[FileKey, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


class _Job(NamedTuple):
    key: FileKey
    path: Path
    stat: FileStat
    base: TranscriptState | None


class _Plan(NamedTuple):
    stats: TrackerStats
    due: list[_Job]
    gone: list[FileKey]
    verdict: Verdict
    found: Found


class TranscriptTracker:
    """In: hints and sync markers. Out: additions to transcripts, then the markers."""

    def __init__(
        self,
        inbox: asyncio.Queue[ToReconcile],
        writer: asyncio.Queue[ToWriter],
        notes: asyncio.Queue[ToReconcile],
        transcripts: TranscriptFiles,
        *,
        mounts: Mounts,
        thread: Executor,
        followed: Followed = nothing_more,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the queues; markers put into `notes` pass through here.

        `followed` runs after each check of all files, before the markers go on.
        """
        self._inbox = inbox
        self._writer = writer
        self._notes = notes
        self._transcripts = transcripts
        self._mounts = mounts
        self._thread = thread
        self._followed = followed
        self._thresholds = transcripts.thresholds
        self._clock = clock
        self._wall_clock = wall_clock
        self._unchanged: dict[FileKey, tuple[FileStat, float]] = {}
        self._reading = asyncio.Lock()
        self._refused: dict[FileKey, FileStat] = {}
        self._stats = TrackerStats(0, 0)
        self._left_out: dict[FileKey, str] = {}
        self._to_read = 0
        self._unkept: list[str] = []

    async def run(self) -> None:
        """Follow until cancelled."""
        first = SyncMarker()
        await self._notes.put(first)
        messages: list[ToReconcile] = []
        while first not in messages:
            messages.append(await self._inbox.get())
        messages.remove(first)
        # Files that changed while memoryd was not running are read without waiting.
        await self._follow([Hint(reason="start"), *messages])
        while True:
            await self._follow(await self._next())

    def stats(self) -> TrackerStats:
        """Return the state of the transcripts on disk."""
        waiting, left_out = dict(self._stats.pending), dict(self._left_out)
        return replace(
            self._stats,
            to_read=self._to_read,
            pending=waiting,
            left_out=left_out,
            problems=[*self._stats.problems, *self._unkept],
        )

    def why_away(self, path: Path) -> str | None:
        """Return why a missing transcript may be on an unmounted disk. Blocking."""
        return self._mounts.why_away(path)

    async def _next(self) -> list[ToReconcile]:
        messages: list[ToReconcile] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                messages.append(await self._inbox.get())
        while not self._inbox.empty():
            messages.append(self._inbox.get_nowait())
        return messages

    async def _follow(self, messages: list[ToReconcile]) -> None:
        """Check all files and read those that are due or requested."""
        markers = [message for message in messages if isinstance(message, SyncMarker)]
        hints = [message for message in messages if isinstance(message, Hint)]
        everything = bool(markers) or any(hint.paths is None for hint in hints)
        meant = any(marker.meant for marker in markers)
        wanted = frozenset[Path]().union(*(hint.paths for hint in hints if hint.paths is not None))
        loop = asyncio.get_running_loop()
        plan = await loop.run_in_executor(
            self._thread, self._plan, dict(self._transcripts.known()), wanted, everything, meant
        )
        self._log(plan.stats.problems, self._stats.problems)
        self._stats = plan.stats
        if self._mounts.record(plan.verdict):
            await self._writer.put(MountPoints(SOURCE, self._mounts.recorded()))
        await self._read_all(plan.due)
        # After the reading, because a missing file may be there under another name.
        kept = await self._transcripts.keep(plan.gone, plan.found, self._thread)
        self._log(kept.problems, self._unkept)
        self._unkept = kept.problems
        await self._read_all([_Job(key, *copy, None) for key, copy in kept.copies.items()])
        for key in kept.removed:
            self._refused.pop(key, None)
            self._left_out.pop(key, None)
            await self._writer.put(FileGone(key))
        await self._followed(self._stats.pending.keys(), everything)
        for marker in markers:
            await self._writer.put(marker)

    def _log(self, problems: Collection[str], before: Collection[str]) -> None:
        for problem in problems:
            if problem not in before:
                log.warning("transcripts: %s", problem)

    def _plan(self, known: Known, wanted: frozenset[Path], everything: bool, meant: bool) -> _Plan:
        """Compare disk and index, in a thread."""
        found = self._transcripts.find()
        verdict = self._mounts.judge(found, known.keys(), meant=meant)
        before, self._unchanged = self._unchanged, {}
        due: list[_Job] = []
        waiting: dict[FileKey, int] = {}
        for key, (path, stat) in found.files.items():
            known_stat, state = known.get(key, (None, None))
            what = pending(stat, known_stat, state)
            if what is None or self._refused.get(key) == stat:
                continue
            waiting[key] = what.bytes
            last = before.get(key)
            seen = last if last is not None and last[0] == stat else (stat, self._clock())
            self._unchanged[key] = seen
            idle_s = self._idle_s(*seen)
            is_wanted = path in wanted or (is_stored(path) and path.parent in wanted)
            if everything or is_wanted or self._is_due(path, what, idle_s):
                due.append(_Job(key, path, stat, state))
        gone, problems = self._gone(known.keys() - found.files.keys(), found, verdict, meant)
        stats = TrackerStats(
            self._stats.looks + 1,
            len(found.files),
            pending=waiting,
            problems=problems,
            skipped=found.skipped,
        )
        return _Plan(stats, self._in_order(due), gone, verdict, found)

    def _in_order(self, jobs: list[_Job]) -> list[_Job]:
        """Return jobs, newest files first, because users ask about these.

        But a session comes before those that resumed it, because they repeat its records.
        """
        groups: dict[str, list[_Job]] = {}
        for job in sorted(jobs, key=lambda job: (job.stat.mtime_ns, job.stat.size), reverse=True):
            first = self._transcripts.first_record(job.path) if job.base is None else ""
            groups.setdefault(first or job.key.path, []).append(job)
        return [job for group in groups.values() for job in reversed(group)]

    def _gone(
        self, unseen: Collection[FileKey], found: Found, verdict: Verdict, meant: bool
    ) -> tuple[list[FileKey], list[str]]:
        """Return the deleted ones of the unseen transcripts, and why others are kept."""
        problems = verdict.away | found.unreadable
        if not meant:  # nothing is known about a missing directory
            problems |= {
                place.folder: f"{shown_path(place.folder)} {MISSING}" for place in found.missing
            }
        gone: list[FileKey] = []
        reasons: dict[str, None] = {}
        for key in unseen:
            reason = None
            if (path := self._mounts.locate(key)) is not None:
                reason = next((problems[f] for f in problems if path.is_relative_to(f)), None)
                reason = reason or cannot_be_seen(path)
            if reason is None:
                gone.append(key)
            else:
                reasons[reason] = None
        return gone, list(reasons)

    def _idle_s(self, stat: FileStat, since_s: float) -> float:
        """Return the seconds since a file changed, by its time or by our own observation.

        A file's time may be in the future after the clock was set back.
        """
        return max(self._wall_clock() - stat.mtime_ns / 1e9, self._clock() - since_s)

    def _is_due(self, path: Path, what: Pending, idle_s: float) -> bool:
        small = what.bytes < self._thresholds.delta_bytes
        return is_due(
            what,
            messages=self._count(path, what) if small else 0,
            idle_s=idle_s,
            archive=is_archive(str(path)),
            thresholds=self._thresholds,
        )

    def _count(self, path: Path, what: Pending) -> int:
        """Return the number of added records; of complete lines, 0 if the file is unreadable."""
        if is_stored(path):
            return what.bytes
        lines = 0
        try:
            with open(self._transcripts.open_file(path), "rb") as file:
                file.seek(what.offset)
                while block := file.read(COUNT_BYTES):
                    tick()
                    lines += block.count(b"\n")
        except OSError:
            return 0
        return lines

    async def _read_all(self, jobs: list[_Job]) -> None:
        """Read transcripts, with at most `AT_ONCE` on their way to the index."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            for number, job in enumerate(jobs):
                self._to_read = len(jobs) - number
                if len(under_way) >= AT_ONCE:
                    done, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
                    for task in done:
                        task.result()
                task = asyncio.create_task(self._read_one(job), name=f"transcript {job.key.path}")
                under_way.add(task)
            for task in under_way:
                await task
        finally:
            self._to_read = 0
            for task in under_way:
                task.cancel()

    async def _read_one(self, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._reading:
                delta = await self._transcripts.read_in(self._thread, job.path, job.base)
        except FileNotFoundError:
            return  # the next poll reports it
        except (BeingWrittenError, StoreBusyError):
            return  # still pending for the next poll
        except OSError as error:
            self._refused[job.key] = job.stat
            self._stats.pending.pop(job.key, None)
            reason = error.strerror or str(error)
            if error.errno == errno.EILSEQ:
                # Readable, but not a transcript: remove its earlier chunks.
                await self._writer.put(FileGone(job.key))
            if isinstance(error, LeftOutError):
                self._left_out[job.key] = reason
            else:
                await self._writer.put(Unreadable(job.key, reason))
            return
        committed: asyncio.Future[None] = loop.create_future()
        parsed = ParsedFile(
            job.key,
            delta.stat,
            delta.hash,
            delta.chunks,
            from_line=delta.from_line,
            transcript=delta.state,
            extends=job.base,
            committed=committed,
            facts=delta.facts,
        )
        await self._writer.put(parsed)
        await committed
        self._stats.pending.pop(job.key, None)
        self._left_out.pop(job.key, None)
