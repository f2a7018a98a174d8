"""Reaching a daemon that may be on its way up. Nothing here waits; only `start_daemon` blocks."""

import errno
import socket
import time

from msgspec import Struct

from memoryd_client.errors import DaemonNotRunningError, MemorydError
from memoryd_client.transport.peer import check_listener
from memoryd_client.wire.protocol import HELLO_TIMEOUT_S

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25

_NOBODY_ERRNOS = frozenset({errno.ENOENT, errno.ECONNREFUSED})
"""No socket yet; a stale one of a daemon that is gone."""

_STARTING_ERRNOS = _NOBODY_ERRNOS | {errno.EAGAIN}
"""Those, or a socket whose queue is full for the moment."""


class Target(Struct, frozen=True):
    """Whom a client talks to, and as whom.

    `path` is the socket's, `autostart` whether to start a daemon where the user's configuration
    says so; `name` introduces the client, `folder` is its current directory.
    """

    path: str
    autostart: bool
    name: str
    folder: str


class Dialler:
    """Connects to a socket, again and again until `wait_s` seconds are over.

    They count from `since` on, in seconds of `time.monotonic`.
    """

    def __init__(self, target: Target, *, since: float, wait_s: float) -> None:
        self._path = target.path
        self._may_start = target.autostart
        self._end = since + wait_s
        self._pause_s = _FIRST_PAUSE_S

    def dial(self) -> socket.socket | float | None:
        """Return a connected, non-blocking socket, or the seconds to pause before the next try.

        `None`: nobody listens; call `start_daemon`, then dial again. Said once at most.
        Raises `DaemonNotRunningError` when the time is over or waiting won't help, `DeniedError`
        when another user listens.
        """
        try:
            return _connect(self._path)
        except OSError as error:
            if self._may_start and error.errno in _NOBODY_ERRNOS:
                self._may_start = False
                return None
            failure = _not_running(self._path, error)
            if error.errno not in _STARTING_ERRNOS:
                raise failure from error
            return self.pause_s(failure)

    def pause_s(self, failure: MemorydError) -> float:
        """Return the seconds to pause after `failure`. Raises it when the time is over."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise failure
        pause_s = min(self._pause_s, left_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s


def start_daemon(path: str) -> None:
    """Start memoryd and wait until it is ready, if the user's configuration says so.

    Raises `MemorydError` if it could not be started.
    """
    from memoryd_client.launcher.autostart import autostart

    autostart(path)


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
        check_listener(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _not_running(path: str, error: OSError) -> DaemonNotRunningError:
    if error.errno == errno.EAGAIN:
        return DaemonNotRunningError(
            f"the queue of clients at {path} is full", hint="try again, or wait for longer"
        )
    if error.errno in _NOBODY_ERRNOS:
        return DaemonNotRunningError(
            f"no memoryd is running at {path}",
            hint="start one with `memctl start` or `memoryd --workspace DIR`, "
            "or set MEMORYD_SOCKET if it listens elsewhere",
        )
    reason = error.strerror or type(error).__name__
    return DaemonNotRunningError(
        f"cannot connect to memoryd at {path}: {reason}",
        hint="check who owns the socket and its folder, or set MEMORYD_SOCKET to another one",
        retryable=False,
    )
