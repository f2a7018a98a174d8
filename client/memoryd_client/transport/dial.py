"""Connecting to a daemon that may still be starting. Only `start_daemon` blocks."""

import errno
import socket
import time

from msgspec import Struct

from memoryd_client.errors import DaemonNotRunningError, MemorydError
from memoryd_client.transport.peer import check_listener
from memoryd_client.wire.protocol import HELLO_TIMEOUT_S

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25

NOT_LISTENING_ERRNOS = frozenset({errno.ENOENT, errno.ECONNREFUSED})
"""No socket, or the stale socket of a daemon that has exited."""

_STARTING_ERRNOS = NOT_LISTENING_ERRNOS | {errno.EAGAIN}
"""As above, or a socket whose queue is full at the moment."""


class Target(Struct, frozen=True):
    """Socket to connect to, and introduction of the client.

    `autostart` allows a start of the daemon if the user's configuration enables it; `name` and
    `kind` introduce the client, `folder` is its current directory.
    """

    path: str
    autostart: bool
    name: str
    folder: str
    kind: str = ""


class Dialler:
    """Connects to a socket with retries for `wait_s` seconds from `since`, by `time.monotonic`."""

    def __init__(self, target: Target, *, since: float, wait_s: float) -> None:
        self._path = target.path
        self._may_start = target.autostart
        self._end = since + wait_s
        self._pause_s = _FIRST_PAUSE_S

    def dial(self) -> socket.socket | float | None:
        """Return a connected, non-blocking socket, or the seconds to pause before the next try.

        None, at most once: no daemon listens; call `start_daemon`, then dial again. Raises
        `DaemonNotRunningError` if the time is up or waiting won't help, `DeniedError` if another
        user listens.
        """
        try:
            return _connect(self._path)
        except OSError as error:
            if self._may_start and error.errno in NOT_LISTENING_ERRNOS:
                self._may_start = False
                return None
            failure = not_running(self._path, error)
            if error.errno not in _STARTING_ERRNOS:
                raise failure from error
            return self.pause_s(failure)

    def pause_s(self, failure: MemorydError) -> float:
        """Return the seconds to pause after `failure`. Raises it if the time is up."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise failure
        pause_s = min(self._pause_s, left_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s


def start_daemon(path: str) -> None:
    """Start memoryd and wait until it is ready, if the user's configuration enables it.

    Raises `MemorydError` if the start fails.
    """
    from memoryd_client.launcher.autostart import autostart

    autostart(path)


def greeting_limit_s(wait_s: float, limit_s: float | None) -> float:
    """Return the seconds for a daemon to answer `hello`, at most `limit_s`.

    A socket of systemd accepts connections before the daemon is up, so this includes its start.
    """
    patience_s = max(wait_s, HELLO_TIMEOUT_S)
    return patience_s if limit_s is None else min(patience_s, limit_s)


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A Unix socket connects at once or not at all.
        connection.setblocking(False)
        connection.connect(path)
        check_listener(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def not_running(path: str, error: OSError) -> DaemonNotRunningError:
    """Return the error for a failed connection to the socket at `path`."""
    if error.errno == errno.EAGAIN:
        return DaemonNotRunningError(
            f"the queue of clients at {path} is full", hint="try again, or wait longer"
        )
    if error.errno in NOT_LISTENING_ERRNOS:
        return DaemonNotRunningError(
            f"no memoryd is running at {path}",
            hint="start one with `memctl start` or `memoryd --workspace DIR`, "
            "or set MEMORYD_SOCKET if it listens elsewhere",
        )
    reason = error.strerror or type(error).__name__
    return DaemonNotRunningError(
        f"cannot connect to memoryd at {path}: {reason}",
        hint="check who owns the socket and its folder, or set MEMORYD_SOCKET",
        retryable=False,
    )
