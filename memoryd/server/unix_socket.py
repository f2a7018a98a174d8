"""Creation, takeover from systemd and removal of the Unix socket.

The caller takes a lock file first, so that a live daemon's socket is never replaced: asyncio,
given a path, would unlink any file there.
"""

import logging
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryd.errors import AlreadyRunningError, SocketError
from memoryd.server.systemd import inherited_socket
from memoryd_client.shared import paths
from memoryd_client.shared.paths import SOCKET_PATH_MAX_BYTES

log = logging.getLogger(__name__)

BACKLOG = 1_024


def check_path(path: Path) -> None:
    """Raise `SocketError` if the path is too long for a socket's address."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX_BYTES:
        raise SocketError(
            f"the socket path {path} is {length} bytes long, and this system allows"
            f" {SOCKET_PATH_MAX_BYTES}",
            "set MEMORYD_SOCKET (or --socket) to a shorter path",
        )


def check_main_path(path: Path) -> None:
    """Raise `SocketError` for a main socket that is too long a path, or was given to agents."""
    check_path(path)
    if paths.is_restricted_socket(str(path)):
        lock = paths.restricted_lock_path(str(path))
        raise SocketError(
            f"{path} is a restricted socket, which is for agents",
            "use the main socket: check MEMORYD_SOCKET and --socket. If it is restricted no more,"
            f" remove {lock}",
        )


def check_apart(path: Path, main_path: Path) -> None:
    """Raise `SocketError` if a sandbox with the restricted socket's folder gets memoryd's files."""
    folder = os.path.realpath(path.parent)
    for other, what in ((main_path.parent, "the main socket"), (paths.state_dir(), "the indexes")):
        if Path(os.path.realpath(other)).is_relative_to(folder):
            raise SocketError(
                f"the folder {folder} of the restricted socket contains {what}",
                "set socket.restricted to a path in a folder of its own",
            )


@contextmanager
def inherited_or_listening(path: Path) -> Iterator[socket.socket]:
    """Yield the socket that systemd has bound and keeps, else bind `path`."""
    try:
        inherited = inherited_socket(dict(os.environ))
    except OSError as error:
        raise SocketError(f"the socket of the service manager can't be used: {error}") from error
    if inherited is None:
        with listening(path) as bound:
            yield bound
    else:
        with inherited:
            _check_inherited(inherited)
            yield inherited


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Bind the socket at `path`, accessible only to its owner, and remove it at the end.

    The caller holds the lock. Raises `SocketError` or `AlreadyRunningError`.
    """
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        # Nobody can connect before listen(), so there is no moment with wider permissions.
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
        mine = os.lstat(path).st_ino
    except OSError as error:
        listener.close()
        raise SocketError(f"can't listen on {path}: {error.strerror}") from error
    try:
        yield listener
    finally:
        listener.close()
        try:
            if os.lstat(path).st_ino == mine:
                os.unlink(path)
        except FileNotFoundError:
            pass


def _check_inherited(listener: socket.socket) -> None:
    """Raise `SocketError` unless systemd's socket is a listening Unix stream socket."""
    is_stream = (listener.family, listener.type) == (socket.AF_UNIX, socket.SOCK_STREAM)
    if not is_stream or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise SocketError(
            "the socket of the service manager is not a listening Unix stream socket",
            "its unit needs ListenStream= with a path, and no Accept=yes",
        )
    path = listener.getsockname()
    if isinstance(path, str) and os.path.exists(path) and os.stat(path).st_mode & 0o077:
        log.warning(
            "%s is open to other users, who are refused; its unit needs SocketMode=0600", path
        )


def _remove_stale(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(f"{path} is not a socket", "move it away")
    if found.st_uid != os.geteuid():
        raise SocketError(
            f"{path} is the socket of another user (uid {found.st_uid})", "choose another --socket"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            pass
        except OSError as error:
            raise SocketError(f"{path} can't be probed: {error.strerror or error}") from error
        else:
            raise AlreadyRunningError(f"another process answers on {path} without holding its lock")
    try:
        os.unlink(path)
    except OSError as error:
        raise SocketError(f"{path} is stale and can't be removed: {error.strerror}") from error
    log.info("removed the stale socket %s of a memoryd that was killed", path)
