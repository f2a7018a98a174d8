"""Reconciler actor: compares disk and index to find changed and deleted files.

Events are only hints. A full scan runs at the start, on a timer, when the watcher starts or loses
events, and for each `sync`.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.hang import idle
from memoryd.messages import (
    FileChanged,
    FileGone,
    FileKey,
    FileStat,
    Hint,
    MountPoints,
    SyncMarker,
    ToParser,
    ToReconcile,
    ToWriter,
)
from memoryd.source.filenames import IGNORE_FILE, is_real_folder, is_utf8
from memoryd.source.mounts import Mounts, Verdict
from memoryd.source.notes.discover import SOURCE, Discovery

log = logging.getLogger(__name__)

READ_BYTES_PER_S = 1_000_000
"""Bytes a second of one changing file. Indexing is about ten times as fast, so a file that never
stops changing takes a tenth of a processor."""
FREE_BYTES = 1_000_000
"""Smallest size that is paced; smaller files are read at each change."""


class Pace:
    """Pacing of large files: recent reads and waiting changes."""

    def __init__(self) -> None:
        self._rests_until: dict[FileKey, float] = {}
        self._waiting: dict[FileKey, FileChanged] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, change: FileChanged, now: float, *, at_once: bool = False) -> bool:
        """Return whether to pass a change on now; otherwise it waits here.

        `at_once`: a caller waits for it.
        """
        if change.size < FREE_BYTES:
            return True
        if not at_once and now < self._rests_until.get(change.key, now):
            self._waiting[change.key] = change
            return False
        self._waiting.pop(change.key, None)
        self._rests_until[change.key] = now + change.size / READ_BYTES_PER_S
        return True

    def due(self, now: float) -> list[FileChanged]:
        """Remove and return the changes that are due."""
        self._rests_until = {key: until for key, until in self._rests_until.items() if until > now}
        due = [c for key, c in self._waiting.items() if key not in self._rests_until]
        for change in due:
            del self._waiting[change.key]
        return due

    def next_due(self) -> float | None:
        """Return the time of the next due change."""
        return min((self._rests_until[key] for key in self._waiting), default=None)

    def forget(self, key: FileKey) -> None:
        """Drop a deleted file."""
        self._rests_until.pop(key, None)
        self._waiting.pop(key, None)


PULSE_S = 5.0
"""Seconds between checks that each location still has the scanned directory, because no event
reports a mount or the rename of a directory above the workspace."""
LARGE_BYTES = 4_000_000
"""Files of at least this size come after all others."""


class ReconcileStats(NamedTuple):
    """Result of the last full scan.

    `hidden` counts the paths that each rule hides. `away`: some indexed files may be on an
    unmounted disk. `waiting` counts changed large files that were read recently. `left_out` has a
    message for each directory whose ignore file can't be used.
    """

    scans: int = 0
    last_scan_s_ago: float | None = None
    skipped: Sequence[tuple[str, str]] = ()
    hidden: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    problem: str | None = None
    away: bool = False
    waiting: int = 0
    left_out: tuple[str, ...] = ()


class _Found(NamedTuple):
    """Result of a scan: its stats and the differences from the index.

    `arrived`: sent files that the index has by now. `watch`: the new directories to watch.
    """

    stats: ReconcileStats
    arrived: frozenset[FileKey]
    folders: dict[Path, tuple[int, int]]
    watch: frozenset[Path] | None
    changed: list[FileChanged]
    gone: list[FileChanged | FileGone]
    verdict: Verdict
    doubled: set[FileKey]


@dataclass(frozen=True, slots=True)
class NoteSource:
    """The notes of one agent: the rules, their mount points, and the stats that the index has.

    `reported` returns the files of all sources that could not be read.
    """

    discovery: Discovery
    mounts: Mounts
    known: Callable[[], dict[FileKey, FileStat]]
    reported: Callable[[], Collection[FileKey]] = tuple


class Reconciler:
    """In: hints and sync markers. Out: changes, each marker after those found for it.

    Also sends directory sets to the watcher, and the directory at each location to the writer.
    """

    def __init__(
        self,
        inbox: asyncio.Queue[ToReconcile],
        parser: asyncio.Queue[ToParser],
        writer: asyncio.Queue[ToWriter],
        folders: asyncio.Queue[frozenset[Path]] | None,
        source: NoteSource,
        *,
        thread: Executor,
        interval_s: float | None,
        pulse_s: float = PULSE_S,
    ) -> None:
        self._inbox = inbox
        self._parser = parser
        self._writer = writer
        self._folders = folders
        self._discovery = source.discovery
        self._mounts = source.mounts
        self._known = source.known
        self._reported = source.reported
        self._thread = thread
        self._interval_s = interval_s
        self._pulse_s = None if folders is None else pulse_s
        self._pace = Pace()
        self._watched: dict[Path, tuple[int, int]] = {}
        # Files on their way to the index, which a scan does not know yet.
        self._sent: set[FileKey] = set()
        # Deleted files: the parser looks once more, and may meet a file or an error behind a scan.
        self._given_up: set[FileKey] = set()
        self._doubled: set[FileKey] = set()
        self._stats = ReconcileStats()
        self._last_at: float | None = None
        self.first_done = asyncio.Event()
        """Set when what the first scan has found is searchable by keyword."""

    async def run(self) -> None:
        """Reconcile until cancelled; the first scan needs no hint."""
        first = SyncMarker()
        first.text.add_done_callback(lambda _: self.first_done.set())
        await self._reconcile([Hint(reason="start"), first])
        while True:
            await self._reconcile(await self._next())

    def stats(self) -> ReconcileStats:
        """Return the result of the last full scan."""
        s_ago = None if self._last_at is None else time.monotonic() - self._last_at
        return self._stats._replace(last_scan_s_ago=s_ago, waiting=self.waiting())

    def waiting(self) -> int:
        """Return the number of changed large files that were read recently."""
        return len(self._pace)

    def sent(self) -> Set[FileKey]:
        """Return the files found on disk that a scan has not seen in the index; a live view."""
        return self._sent

    async def _next(self) -> list[ToReconcile]:
        """Return all waiting messages, so that requests share a scan; none after a while."""
        now, scan_at = time.monotonic(), None
        if self._interval_s is not None and self._last_at is not None:
            scan_at = self._last_at + self._interval_s
        pulse_at = None if self._pulse_s is None else now + self._pulse_s
        moments = [at for at in (scan_at, pulse_at, self._pace.next_due()) if at is not None]
        messages: list[ToReconcile] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(moments) - now) if moments else None):
                messages.append(await self._inbox.get())
        if scan_at is not None and time.monotonic() >= scan_at:
            messages.append(Hint(reason="timer"))
        while not self._inbox.empty():
            messages.append(self._inbox.get_nowait())
        return messages

    async def _reconcile(self, messages: list[ToReconcile]) -> None:
        markers = [message for message in messages if isinstance(message, SyncMarker)]
        named = [message.paths for message in messages]
        paths = frozenset[Path]().union(*(each for each in named if each is not None))
        everything = None in named or await self._unnoticed()
        if everything or not await self._check(paths, at_once=bool(markers)):
            meant = any(marker.meant for marker in markers)
            await self._scan(paths, at_once=bool(markers), meant=meant)
        for change in self._pace.due(time.monotonic()):
            await self._put(change)
        for marker in markers:
            await self._parser.put(marker)

    async def _unnoticed(self) -> bool:
        """Return whether something has changed of which the watcher gets no event.

        This may be a location that has another directory, or the target of an ignore file.
        """
        if self._pulse_s is None:
            return False
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._mounts.moved) or (
            await loop.run_in_executor(self._thread, self._discovery.rules_have_changed)
        )

    async def _check(self, paths: frozenset[Path], *, at_once: bool) -> bool:
        """Check single paths. Returns False if a scan is needed."""
        if any(path in self._watched or path.name == IGNORE_FILE for path in paths):
            return False
        if not paths:
            return True
        loop = asyncio.get_running_loop()
        changes = await loop.run_in_executor(self._thread, self._check_in_thread, paths)
        if changes is None:
            return False
        self._given_up.update(change.key for change in changes if isinstance(change, FileGone))
        for change in sorted(changes, key=_is_large):
            await self._put(change, at_once=at_once)
        return True

    def _check_in_thread(self, paths: frozenset[Path]) -> list[FileChanged | FileGone] | None:
        known = self._known()
        owners = {stat.inode: key for key, stat in known.items()}
        changes: list[FileChanged | FileGone] = []
        for path in paths:
            try:
                if is_real_folder(path) and self._discovery.concerns(path):
                    return None
                seen = self._discovery.stat(path)
            except OSError:
                return None  # a scan reports the problem
            if seen is None:
                continue
            key, stat = seen
            before = known.get(key)
            replaced = before is None or stat is None or stat.inode != before.inode
            if replaced and key in self._doubled:
                return None  # only a scan finds its other name, which counts now
            if stat is None and self._mounts.away(path):
                return None
            if stat is None:
                # Even if unknown: it may be on its way to the writer.
                changes.append(self._gone(key, before))
            elif owners.get(stat.inode, key) != key:
                return None  # renamed, or two names: only a scan knows which counts
            else:
                # Even with the same stat: some clocks are coarse, and some programs set times.
                changes.append(FileChanged(key, self._discovery.real_path(key), stat.size))
        return changes

    async def _scan(self, named: frozenset[Path], *, at_once: bool, meant: bool) -> None:
        """Scan everything; the files that events named are read even if their stat is the same."""
        loop = asyncio.get_running_loop()
        reported = (key for key in self._reported() if key.source == SOURCE)
        sent = frozenset(self._sent.union(self._given_up, reported))
        found = await loop.run_in_executor(self._thread, self._scan_in_thread, sent, named, meant)
        self._doubled, self._last_at = found.doubled, time.monotonic()
        if found.stats.problem not in (None, self._stats.problem):
            log.warning("scan: %s; nothing is removed from the index", found.stats.problem)
        for line in found.stats.left_out:
            if line not in self._stats.left_out:
                log.warning("%s", line)
        if self._stats.left_out and not found.stats.left_out:
            log.info("all ignore files can be used again")
        self._stats = found.stats
        if found.watch is not None:
            self._watched = found.folders
            if self._folders is not None:
                # Only the newest set matters; the queue holds one.
                with contextlib.suppress(asyncio.QueueEmpty):
                    self._folders.get_nowait()
                await self._folders.put(found.watch)
        self._sent -= found.arrived
        self._given_up -= found.arrived
        if self._mounts.record(found.verdict):
            await self._writer.put(MountPoints(SOURCE, self._mounts.recorded()))
        self._sent.update(change.key for change in found.changed)
        # One by one from the end: freeing thousands at once would hold up the event loop.
        while found.changed:
            await self._put(found.changed.pop(), at_once=at_once)
        while found.gone:
            gone = found.gone.pop()
            self._given_up.discard(gone.key)
            await self._put(gone)

    async def _put(self, change: FileChanged | FileGone, *, at_once: bool = False) -> None:
        if isinstance(change, FileChanged):
            self._sent.add(change.key)
            if not self._pace.take(change, time.monotonic(), at_once=at_once):
                return
        else:
            self._sent.discard(change.key)
            self._pace.forget(change.key)
        await self._parser.put(change)

    def _scan_in_thread(
        self, sent: frozenset[FileKey], named: frozenset[Path], meant: bool
    ) -> _Found:
        """Walk, compare, and drop unchanged files, off the event loop."""
        # Read before the scan: a file indexed meanwhile must not look deleted.
        known = self._known()
        scan = self._discovery.scan()
        idle()
        verdict = self._mounts.judge(scan, known.keys() | sent, meant=meant)
        unseen = [*scan.unread, *verdict.away]
        touched = {self._discovery.key(path) for path in named}
        changed = [
            FileChanged(key, self._discovery.real_path(key), stat.size)
            for key, stat in scan.stats.items()
            if known.get(key) != stat or key in touched
        ]
        changed.sort(key=_is_large)
        changed.reverse()
        gone = [
            self._gone(key, known.get(key))
            for key in (known.keys() | sent) - scan.stats.keys()
            if not any(self._discovery.real_path(key).is_relative_to(folder) for folder in unseen)
        ]
        problems = [*scan.problems(), *verdict.away.values()]
        problem = problems[0] if problems else None
        if len(problems) > 1:
            problem = f"{problem} (and {len(problems) - 1} more)"
        stats = ReconcileStats(
            self._stats.scans + 1,
            skipped=list(scan.skipped.items()),
            hidden=dict(sorted(Counter(scan.hidden.values()).items())),
            problem=problem,
            away=bool(verdict.away),
            left_out=tuple(scan.left_out()),
        )
        watch = None
        if scan.folders != self._watched:
            # The watcher takes UTF-8 only, and other names are skipped anyway.
            watch = frozenset(path for path in scan.folders if is_utf8(str(path)))
        # One that is not on disk may still be behind the deletion of its former version.
        arrived = sent & known.keys() & scan.stats.keys()
        return _Found(stats, arrived, scan.folders, watch, changed, gone, verdict, scan.doubled)

    def _gone(self, key: FileKey, known: FileStat | None) -> FileChanged | FileGone:
        """Return the change for a file that was not found; it may have returned since."""
        path = self._discovery.real_path(key)
        # Before the stat: a file that is created behind it must be looked at once more.
        exists = os.path.lexists(path)
        try:
            seen = self._discovery.stat(path)
        except OSError:
            return FileChanged(key, path)  # reading it reports the problem
        stat = None if seen is None else seen[1]
        if stat is not None and stat != known:
            return FileChanged(key, path, stat.size)
        return FileGone(key, None if exists else path)


def _is_large(change: FileChanged | FileGone) -> bool:
    return isinstance(change, FileChanged) and change.size >= LARGE_BYTES
