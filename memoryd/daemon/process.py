"""The process that the daemon is: its signals, its standard streams, and its end."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from memoryd.daemon.log_writer import FLUSH_S, flushed

Run = Callable[..., Awaitable[None]]

log = logging.getLogger(__name__)

THREADS_S = 2.0
"""For threads to end, once all is closed. One that waits for a disk that hangs never does."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def occupy_standard_streams() -> None:
    """Open those that we were started without, so that no file of ours gets their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest number is free.


class Signals:
    """`stop` is set by SIGTERM and SIGINT, `hangup` by SIGHUP; one that comes early is kept.

    The second signal to stop is for those who can't wait: it ends the process at once.
    """

    def __init__(self) -> None:
        self.stop, self.hangup = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        signal.signal(signal.SIGHUP, self._on_hangup)

    def attend(self) -> None:
        """Set the events from now on, in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        # Not the loop's own handlers: those would wait for a loop that hangs.
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_stop)

    def _on_hangup(self, number: int, frame: FrameType | None) -> None:
        self._set(self.hangup)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._set(self.stop)

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is None:
            event.set()
        else:
            with contextlib.suppress(RuntimeError):  # The loop is closed: we are on our way out.
                self._loop.call_soon_threadsafe(event.set)


def run_until_stopped(
    run: Run, signals: Signals, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """Run `run(stop=…, hangup=…)` in an event loop. Raises what it does."""

    async def main() -> None:
        # One of our own: asyncio waits for its threads at the end, however long they take.
        executor = ThreadPoolExecutor(thread_name_prefix="work")
        asyncio.get_running_loop().set_default_executor(executor)
        signals.attend()
        try:
            await run(stop=signals.stop, hangup=signals.hangup)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        runner.run(main())
    finally:
        if not threads_that_hang(THREADS_S):
            runner.close()


def leave(code: int) -> int:
    """Return an exit code, unless Python would wait for threads that hang: then exit with it.

    So it would for a log that nobody takes.
    """
    # Python gives it its default back while it ends, and that is to be killed.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if names := threads_that_hang(0.0):
        log.warning("ended without waiting for what a disk may never answer: %s", ", ".join(names))
    if not flushed(FLUSH_S) or names:
        os._exit(code)
    # What the reader of our log did not take is lost; that is no reason to fail.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return code


def threads_that_hang(limit_s: float) -> list[str]:
    """Return the names of the threads that Python waits for and that don't end in time."""
    end_s = time.monotonic() + limit_s
    found = []
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, end_s - time.monotonic()))
            if thread.is_alive():
                found.append(thread.name)
    return found
