"""Reaching a daemon that may be on its way up. Nothing here blocks or waits."""

import errno
import socket
import time

from memoryd_client.errors import DaemonNotRunningError
from memoryd_client.protocol import HELLO_TIMEOUT_S

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25

_STARTING_ERRNOS = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN})
"""No socket yet; a stale one of a daemon that is gone; one whose queue is full for the moment."""


class Dialler:
    """Connects to the socket at `path`, again and again until `wait_s` seconds are over."""

    def __init__(self, path: str, *, wait_s: float) -> None:
        self._path = path
        self._end = time.monotonic() + wait_s
        self._pause_s = _FIRST_PAUSE_S

    def dial(self) -> socket.socket | float:
        """Return a connected, non-blocking socket, or the seconds to pause before the next try.

        Raises `DaemonNotRunningError` when the time is over or waiting won't help.
        """
        try:
            return _connect(self._path)
        except OSError as error:
            left_s = self._end - time.monotonic()
            if error.errno not in _STARTING_ERRNOS or left_s <= 0:
                raise _not_running(self._path, error) from error
        pause_s = min(self._pause_s, left_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s


def greeting_limit_s(wait_s: float, limit_s: float | None) -> float:
    """Return the seconds a daemon has to answer `hello`.

    A socket that systemd holds takes connections before the daemon is up, so this is a part of
    waiting for its start; a call that has less time gives it less.
    """
    patience_s = max(wait_s, HELLO_TIMEOUT_S)
    return patience_s if limit_s is None else min(patience_s, limit_s)


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A Unix socket is connected at once or not at all, so that there is nothing to wait for.
        connection.setblocking(False)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _not_running(path: str, error: OSError) -> DaemonNotRunningError:
    if error.errno == errno.EAGAIN:
        return DaemonNotRunningError(
            f"the queue of clients at {path} is full", hint="try again, or wait for longer"
        )
    if error.errno in _STARTING_ERRNOS:
        return DaemonNotRunningError(
            f"no memoryd is running at {path}",
            hint="start one with `memoryd --workspace DIR`, "
            "or set MEMORYD_SOCKET if it listens elsewhere",
        )
    reason = error.strerror or type(error).__name__
    return DaemonNotRunningError(
        f"cannot connect to memoryd at {path}: {reason}",
        hint="check who owns the socket and its folder, or set MEMORYD_SOCKET to another one",
        retryable=False,
    )
