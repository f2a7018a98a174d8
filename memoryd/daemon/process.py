"""The daemon's process: signals, standard streams and exit."""

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
"""Seconds for threads to end at exit. A thread on a hung disk never ends."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def occupy_standard_streams() -> None:
    """Open missing standard streams, so that no other file gets their descriptors."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


class Signals:
    """Events set by signals: `stop` by SIGTERM and SIGINT, `hangup` by SIGHUP.

    An early signal is kept. A second stop signal ends the process at once.
    """

    def __init__(self) -> None:
        self.stop, self.hangup = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        signal.signal(signal.SIGHUP, self._on_hangup)

    def attend(self) -> None:
        """Set the events in the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        # The loop's own handlers would wait for a loop that hangs.
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
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(event.set)


def run_until_stopped(
    run: Run, signals: Signals, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """Run `run(stop=…, hangup=…)` in an event loop. Raises its errors."""

    async def main() -> None:
        # asyncio waits without limit for the threads of its default executor.
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
    """Return the exit code; exit at once if Python would wait for hung threads or a hung log."""
    # At exit, Python restores the default action, which kills the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if names := threads_that_hang(0.0):
        log.warning("exiting without waiting for threads on a hung disk: %s", ", ".join(names))
    if not flushed(FLUSH_S) or names:
        os._exit(code)
    # Lines that the reader of the log did not take are lost; that is no reason to fail.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return code


def threads_that_hang(limit_s: float) -> list[str]:
    """Return the names of the non-daemon threads that don't end within `limit_s`."""
    end_s = time.monotonic() + limit_s
    found = []
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join(max(0.0, end_s - time.monotonic()))
            if thread.is_alive():
                found.append(thread.name)
    return found
