"""Watcher actor: watches directories one by one and turns events into hints.

Directories are watched individually, so ignored trees cost nothing. When the reconciler sends a new
set, the watcher restarts and requests a full scan, which finds changes made in between.
"""

import asyncio
import contextlib
import ctypes
import errno
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from memoryd.fs.hang import DiskThreads, DiskWaits, idle, tick
from memoryd.messages import Hint, ToReconcile
from memoryd.source.filenames import IGNORE_FILE, is_markdown, is_real_folder, is_tool_folder

if "watchfiles" not in sys.modules and (_spec := find_spec("watchfiles")) is not None:
    # Its own code would load anyio and multiprocessing: 2 MiB that nothing here uses.
    sys.modules["watchfiles"] = module_from_spec(_spec)
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

log = logging.getLogger(__name__)

_ADDED = 1
"""Kind of a change: `watchfiles.Change.added`."""
CEILING_PERIODS = 8
"""Quiet periods after which a path that keeps changing is taken anyway."""


class QuietPeriod:
    """Recently changed paths, each with the times of its first and last change."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self._changed: dict[Path, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._changed)

    def __contains__(self, path: Path) -> bool:
        return path in self._changed

    def note(self, path: Path, now: float) -> None:
        """Note a change."""
        first, _ = self._changed.get(path, (now, now))
        self._changed[path] = first, now

    def take(self, now: float) -> frozenset[Path]:
        """Remove and return the paths that are due by then."""
        due = frozenset(path for path, seen in self._changed.items() if self._due(seen) <= now)
        for path in due:
            del self._changed[path]
        return due

    def next_due(self) -> float | None:
        """Return the time of the next due path, None without one."""
        return min(map(self._due, self._changed.values()), default=None)

    def _due(self, seen: tuple[float, float]) -> float:
        first, last = seen
        return min(last + self.period_s, first + CEILING_PERIODS * self.period_s)


IN_DELETE_SELF = 0x400
WATCHES = "the limit of watched folders is reached; raise it: sysctl fs.inotify.max_user_watches"
INSTANCES = (
    "too many open files or watching programs; raise the limit:"
    " LimitNOFILE of the service (ulimit -n), or sysctl fs.inotify.max_user_instances"
)


def check_watches() -> None:
    """Raise `OSError` if no further directory can be watched."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    if descriptor < 0:
        return  # the limit of instances, which our own watcher has passed
    try:
        watched = libc.inotify_add_watch(descriptor, b"/", IN_DELETE_SELF)
        if watched < 0 and ctypes.get_errno() == errno.ENOSPC:
            raise OSError(errno.ENOSPC, WATCHES)
    finally:
        os.close(descriptor)


def explained(error: Exception) -> str:
    """Return the meaning of a watch error, with a fix."""
    for number, meaning in ((errno.ENOSPC, WATCHES), (errno.EMFILE, INSTANCES)):
        if getattr(error, "errno", None) == number or f"(os error {number})" in str(error):
            return meaning
    return str(error)


STEP_MS = 20
GROUP_MS = 100
TIMEOUT_MS = 1_000
RETRY_S = 10.0
OVERFLOW_EVENTS = 4_000
"""Events at once that trigger a full scan, because near the kernel's queue length (16,384 by
default) it drops events, which watchfiles does not report."""
MANY_PATHS = 1_000
"""Waiting paths from which a full scan is faster than single checks."""
EVERYWHERE = Path("/")
"""Stands for all paths in the quiet period then."""


@dataclass(frozen=True, slots=True)
class WatchStats:
    """State of watching. With an `error`, only scans find changes."""

    armed: bool
    folders: int
    waiting: int
    last_event_s_ago: float | None
    error: str | None


class Watcher:
    """In: sets of folders to watch. Out: hints, each path after its quiet period.

    `waits` notes the folders while the watching thread waits for their disk.
    """

    def __init__(
        self,
        folders: asyncio.Queue[frozenset[Path]],
        hints: asyncio.Queue[ToReconcile],
        *,
        quiet_s: float,
        waits: DiskWaits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._hints = hints
        self._quiet = QuietPeriod(quiet_s)
        self._waits = waits or DiskWaits()
        self._clock = clock
        self._changed = asyncio.Event()
        self._scan_for: str | None = None
        self._flush = False
        self._armed = 0
        self._error: str | None = None
        self._failures = 0
        self._last_event: float | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        thread = DiskThreads(1, "watch", self._waits)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._release(), name="watch: quiet period")
                wanted = await self._folders.get()
                while True:
                    wanted = await self._watch(wanted, thread)
        finally:
            # Not awaited, because its disk may hang.
            thread.shutdown(wait=False)

    def flush_now(self) -> None:
        """Pass changes on without their quiet period, for a search."""
        if self._quiet:
            self._flush = True
            self._changed.set()

    def waiting(self) -> int:
        """Return the number of changes that wait for a quiet moment."""
        return len(self._quiet)

    def stats(self) -> WatchStats:
        """Return the state."""
        last = self._last_event
        return WatchStats(
            armed=self._armed > 0,
            folders=self._armed,
            waiting=self.waiting(),
            last_event_s_ago=None if last is None else self._clock() - last,
            error=self._error,
        )

    async def _watch(self, wanted: frozenset[Path], thread: Executor) -> frozenset[Path]:
        """Watch these directories until a new set or an error arrives; return the next set."""
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        next_set: asyncio.Future[Any] = asyncio.ensure_future(self._folders.get())
        watching: asyncio.Future[Any] = loop.run_in_executor(
            thread, self._watch_in_thread, wanted, stop, loop
        )
        try:
            await asyncio.wait([next_set, watching], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            error = await watching
            self._armed = 0
            if error is not None:
                self._fail(error)
                await asyncio.wait({next_set}, timeout=RETRY_S)
            taken: frozenset[Path] = next_set.result() if next_set.done() else wanted
            return taken
        finally:
            stop.set()
            next_set.cancel()

    def _watch_in_thread(
        self, wanted: frozenset[Path], stop: threading.Event, loop: asyncio.AbstractEventLoop
    ) -> Exception | None:
        try:
            folders = [str(path) for path in wanted]
            place = os.path.commonpath(folders)
            tick(place)
            with RustNotify(folders, False, False, 0, False, True) as notify:
                check_watches()
                loop.call_soon_threadsafe(self._on_armed, len(folders))
                while not stop.is_set():
                    idle()
                    found = notify.watch(GROUP_MS, STEP_MS, TIMEOUT_MS, stop)
                    if not isinstance(found, set):
                        continue
                    paths = _relevant(found, wanted)
                    if len(found) >= OVERFLOW_EVENTS:
                        paths = frozenset({EVERYWHERE})
                    if paths:
                        loop.call_soon_threadsafe(self._on_events, paths)
        except (OSError, WatchfilesRustInternalError) as error:
            return error
        return None

    def _fail(self, error: Exception) -> None:
        """Request a scan instead of watching, now and after each failed attempt."""
        self._error = explained(error)
        self._failures += 1
        # A directory removed before it was watched is missing from the next set.
        warn_at = 2 if isinstance(error, FileNotFoundError) else 1
        if self._failures == warn_at:
            log.warning("watching failed, scanning every %d s instead: %s", RETRY_S, self._error)
        self._request_scan("watching failed")

    def _on_armed(self, folders: int) -> None:
        if self._failures:
            log.info("watching %d folders again", folders)
        self._armed = folders
        self._error = None
        self._failures = 0
        self._request_scan("watching began")

    def _on_events(self, paths: frozenset[Path]) -> None:
        now = self._last_event = self._clock()
        if EVERYWHERE not in self._quiet and len(self._quiet) + len(paths) > MANY_PATHS:
            self._quiet.take(math.inf)
            paths = frozenset({EVERYWHERE})
        for path in {EVERYWHERE} if EVERYWHERE in self._quiet else paths:
            self._quiet.note(path, now)
        self._changed.set()

    def _request_scan(self, reason: str) -> None:
        self._scan_for = reason
        self._changed.set()

    async def _release(self) -> None:
        while True:
            due = self._quiet.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await self._changed.wait()
            self._changed.clear()
            if self._scan_for is not None:
                reason, self._scan_for = self._scan_for, None
                await self._hints.put(Hint(reason=reason))
            paths = self._quiet.take(math.inf if self._flush else self._clock())
            self._flush = False
            if EVERYWHERE in paths:
                await self._hints.put(Hint(reason="many changes"))
            elif paths:
                await self._hints.put(Hint(paths, "changed"))


def _relevant(events: set[tuple[int, str]], watched: frozenset[Path]) -> frozenset[Path]:
    """Return the paths that may change memory: Markdown, ignore files, changed directories.

    A watched directory, such as a workspace, may contain other files that change constantly.
    """
    found = ((kind, Path(path)) for kind, path in events)
    return frozenset(
        path
        for kind, path in found
        if is_markdown(path.name)
        or path.name == IGNORE_FILE
        or path in watched
        or (
            # A directory of any name may be a missing extra path.
            (kind == _ADDED or not is_tool_folder(path.name)) and is_real_folder(path)
        )
    )
