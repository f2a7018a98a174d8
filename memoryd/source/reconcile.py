"""Compares disk and index, and says what to read again and what to forget.

Events are hints, the scan is the truth: at the start, on a timer, when the watcher has armed
itself or lost events, and for every `sync`, everything is looked at.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from memoryd.flow import (
    FileChanged,
    FileGone,
    FileKey,
    FileStat,
    Hint,
    SyncMarker,
    ToParser,
    ToReconcile,
)
from memoryd.source.discover import SOURCE, Discovery
from memoryd.source.names import IGNORE_FILE, is_utf8

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcileStats:
    """What the last full scan found. `sources` counts files on disk by source."""

    scans: int
    last_scan_s_ago: float | None
    sources: dict[str, int] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    problem: str | None = None


class _Found(NamedTuple):
    """What is kept of a scan: the number of files, and what differs from the index."""

    files: int
    folders: dict[Path, tuple[int, int]]
    skipped: list[tuple[str, str]]
    changed: list[FileChanged]
    gone: list[FileChanged | FileGone]
    problem: str | None


class Reconciler:
    """In: hints and sync markers. Out: changes, each marker behind those found for it."""

    def __init__(
        self,
        inbox: asyncio.Queue[ToReconcile],
        parser: asyncio.Queue[ToParser],
        folders: asyncio.Queue[frozenset[Path]] | None,
        *,
        discovery: Discovery,
        known: Callable[[], dict[FileKey, FileStat]],
        thread: Executor,
        interval_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inbox = inbox
        self._parser = parser
        self._folders = folders
        self._discovery = discovery
        self._known = known
        self._thread = thread
        self._interval_s = interval_s
        self._clock = clock
        self._watched: dict[Path, tuple[int, int]] = {}
        # On their way to the index: a scan doesn't know these yet, and they may be gone by then.
        self._sent: set[FileKey] = set()
        self._last: _Found | None = None
        self._last_at: float | None = None
        self._scans = 0
        self._problem: str | None = None

    async def run(self) -> None:
        """Reconcile until cancelled; the first scan needs no hint."""
        await self._reconcile([Hint(reason="start")])
        while True:
            await self._reconcile(await self._next())

    def stats(self) -> ReconcileStats:
        """Return what the last full scan found."""
        scan = self._last
        return ReconcileStats(
            scans=self._scans,
            last_scan_s_ago=None if self._last_at is None else self._clock() - self._last_at,
            sources={} if scan is None else {SOURCE: scan.files},
            skipped=[] if scan is None else scan.skipped,
            problem=self._problem,
        )

    async def _next(self) -> list[ToReconcile]:
        """Return all that waits, so that many requests share one scan."""
        messages: list[ToReconcile] = []
        try:
            async with asyncio.timeout(self._interval_s):
                messages.append(await self._inbox.get())
        except TimeoutError:
            messages.append(Hint(reason="timer"))
        while not self._inbox.empty():
            messages.append(self._inbox.get_nowait())
        return messages

    async def _reconcile(self, messages: list[ToReconcile]) -> None:
        markers = [message for message in messages if isinstance(message, SyncMarker)]
        hints = [message for message in messages if isinstance(message, Hint)]
        paths = frozenset[Path]().union(*(hint.paths for hint in hints if hint.paths is not None))
        if markers or any(hint.paths is None for hint in hints) or not await self._look(paths):
            await self._scan()
        for marker in markers:
            await self._parser.put(marker)

    async def _look(self, paths: frozenset[Path]) -> bool:
        """Look at single paths. Returns False when that is not enough and a scan has to."""
        if any(path in self._watched or path.name == IGNORE_FILE for path in paths):
            return False
        loop = asyncio.get_running_loop()
        changes = await loop.run_in_executor(
            self._thread, self._look_in_thread, paths, self._known()
        )
        if changes is None:
            return False
        for change in changes:
            await self._put(change)
        return True

    def _look_in_thread(
        self, paths: frozenset[Path], known: dict[FileKey, FileStat]
    ) -> list[FileChanged | FileGone] | None:
        owners = {stat.inode: key for key, stat in known.items()}
        changes: list[FileChanged | FileGone] = []
        for path in paths:
            if path.is_dir() and not path.is_symlink() and self._discovery.concerns(path):
                return None
            if (seen := self._discovery.look(path)) is None:
                continue
            key, stat = seen
            if stat is None:
                # Known or not: it may be on its way to the writer at this moment.
                changes.append(self._gone(key, known.get(key)))
            elif owners.get(stat.inode, key) != key:
                return None  # renamed, or one file under two names: only a scan tells which counts
            elif known.get(key) != stat:
                changes.append(FileChanged(key, self._discovery.real_path(key)))
        return changes

    async def _scan(self) -> None:
        loop = asyncio.get_running_loop()
        # Before the scan: a file that is indexed while it runs must not look as if it were gone.
        known, sent = self._known(), frozenset(self._sent)
        found = await loop.run_in_executor(self._thread, self._scan_in_thread, known, sent)
        self._last, self._last_at = found, self._clock()
        self._scans += 1
        await self._plan_watching(found.folders)
        self._sent -= known.keys()
        for change in found.changed:
            await self._put(change)
        if self._discovery.workspace not in found.folders:
            self._note(f"the workspace {self._discovery.workspace} can't be read")
            return
        self._note(found.problem)
        for gone in found.gone:
            await self._put(gone)

    async def _put(self, change: FileChanged | FileGone) -> None:
        if isinstance(change, FileChanged):
            self._sent.add(change.key)
        else:
            self._sent.discard(change.key)
        await self._parser.put(change)

    def _scan_in_thread(self, known: dict[FileKey, FileStat], sent: frozenset[FileKey]) -> _Found:
        """Walk, compare, and let go of all that is as it was, off the event loop."""
        scan = self._discovery.scan()
        changed = [
            FileChanged(key, self._discovery.real_path(key))
            for key, stat in scan.stats.items()
            if known.get(key) != stat
        ]
        gone = [
            self._gone(key, known.get(key))
            for key in (known.keys() | sent) - scan.stats.keys()
            if not any(
                self._discovery.real_path(key).is_relative_to(unread) for unread in scan.unread
            )
        ]
        problem = f"{scan.unread[0]} can't be read" if scan.unread else None
        skipped = list(scan.skipped.items())
        return _Found(len(scan.stats), scan.folders, skipped, changed, gone, problem)

    def _gone(self, key: FileKey, known: FileStat | None) -> FileChanged | FileGone:
        """Return what has become of a file that was not seen; it may have come back since."""
        path = self._discovery.real_path(key)
        seen = self._discovery.look(path)
        stat = None if seen is None else seen[1]
        if stat is not None and stat != known:
            return FileChanged(key, path)
        return FileGone(key, None if os.path.lexists(path) else path)

    async def _plan_watching(self, folders: dict[Path, tuple[int, int]]) -> None:
        if folders == self._watched:
            return
        self._watched = folders
        if self._folders is None:
            return
        # Only the newest set counts; the queue holds one.
        with contextlib.suppress(asyncio.QueueEmpty):
            self._folders.get_nowait()
        # What has another name is skipped anyway, and the watcher takes strings only.
        await self._folders.put(frozenset(path for path in folders if is_utf8(str(path))))

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            log.warning("scan: %s; nothing is removed from the index for it", problem)
        self._problem = problem
