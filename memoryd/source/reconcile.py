"""Compares disk and index, and says what to read again and what to forget.

Events are hints, the scan is the truth: at the start, on a timer, when the watcher has armed
itself or lost events, and for every `sync`, everything is looked at.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

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
from memoryd.source.discover import SOURCE, Discovery, Scan

Look = tuple[FileKey, FileStat | None]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcileStats:
    """What the last full scan found. `sources` counts files on disk by source."""

    scans: int
    last_scan_s_ago: float | None
    sources: dict[str, int] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    problem: str | None = None


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
        self._last: Scan | None = None
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
            sources={} if scan is None else {SOURCE: len(scan.files)},
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
        if any(path in self._watched for path in paths):
            return False
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._look_in_thread, paths)
        if found is None:
            return False
        known = self._known()
        owners = {stat.inode: key for key, stat in known.items()}
        if any(stat is not None and owners.get(stat.inode, key) != key for key, stat in found):
            return False  # renamed, or one file under two names: only a scan tells which counts
        for key, stat in found:
            if stat is None:
                if key in known:
                    await self._parser.put(FileGone(key))
            elif known.get(key) != stat:
                await self._parser.put(FileChanged(key, self._discovery.real_path(key)))
        return True

    def _look_in_thread(
        self, paths: frozenset[Path]
    ) -> list[tuple[FileKey, FileStat | None]] | None:
        found = []
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                return None
            if (seen := self._discovery.look(path)) is not None:
                found.append(seen)
        return found

    async def _scan(self) -> None:
        loop = asyncio.get_running_loop()
        scan = await loop.run_in_executor(self._thread, self._discovery.scan)
        self._last, self._last_at = scan, self._clock()
        self._scans += 1
        known = self._known()
        await self._plan_watching(scan)
        for key, (path, stat) in scan.files.items():
            if known.get(key) != stat:
                await self._parser.put(FileChanged(key, path))
        if self._discovery.workspace not in scan.folders:
            self._note(f"the workspace {self._discovery.workspace} can't be read")
            return
        self._note(f"{scan.unread[0]} can't be read" if scan.unread else None)
        for key in known.keys() - scan.files.keys():
            path = self._discovery.real_path(key)
            if not any(path.is_relative_to(unread) for unread in scan.unread):
                await self._parser.put(FileGone(key))

    async def _plan_watching(self, scan: Scan) -> None:
        if scan.folders == self._watched:
            return
        self._watched = scan.folders
        if self._folders is None:
            return
        # Only the newest set counts; the queue holds one.
        with contextlib.suppress(asyncio.QueueEmpty):
            self._folders.get_nowait()
        await self._folders.put(frozenset(scan.folders))

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            log.warning("scan: %s; nothing is removed from the index for it", problem)
        self._problem = problem
