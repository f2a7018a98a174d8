"""A process held by a pidfd, so that its pid can't be reused."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from memoryd_client.shared.file_locks import holds_lock

_POLL_S = 0.05


class Process:
    """A running process, as a context manager.

    On Linux it holds a pidfd (pidfd_open(2)): facts established after opening hold for the
    signalled process. Elsewhere, and before kernel 5.3, it uses the pid. Raises
    `ProcessLookupError` if there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = _pidfd(pid)
        if self._descriptor is None:
            with suppress(PermissionError):
                os.kill(pid, 0)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Raises `ProcessLookupError` or `PermissionError`."""
        if sys.platform == "linux" and self._descriptor is not None:
            signal.pidfd_send_signal(self._descriptor, number)
        else:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float, *, gone: Callable[[], bool]) -> bool:
        """Return whether the process exits in time. `gone` is polled without a pidfd."""
        if self._descriptor is not None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            return bool(poll.poll(max(0.0, timeout_s) * 1000))
        end = time.monotonic() + timeout_s
        while not gone():
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        return True

    def has_open(self, path: str) -> bool | None:
        """Return whether the process has this file open, by proc_pid_fd(5); None without /proc.

        For a process with protected memory, as a daemon has, return whether it locks the file.
        """
        folder = f"/proc/{self.pid}/fd"
        try:
            wanted = os.stat(path)
            numbers = os.listdir(folder)
        except PermissionError:
            return holds_lock(self.pid, path)
        except OSError:
            return None
        for number in numbers:
            with suppress(OSError):
                if os.path.samestat(os.stat(f"{folder}/{number}"), wanted):
                    return True
        return False


def _pidfd(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None
