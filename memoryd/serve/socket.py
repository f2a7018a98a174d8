"""The Unix socket: who may own it, who may talk to it.

A lock file is taken first, so that a live daemon's socket is never stolen: asyncio, given a path,
would unlink whatever is there.
"""

import fcntl
import logging
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryd.serve.notify import inherited_socket
from memoryd_client.background import holder as locks
from memoryd_client.background.holder import Holder
from memoryd_client.paths import check_socket_path

log = logging.getLogger(__name__)

BACKLOG = 1_024
_LOCK_PAUSE_S = 0.005
_LOCK_TRIES = 400
"""Two seconds in all: far more than those who share a lock keep it for."""


class AlreadyRunningError(Exception):
    """Another process holds the lock; the message names it."""


class SocketError(Exception):
    """The socket can't be made; the message says why and what to do."""


@contextmanager
def locked(path: Path, what: str, holder: Holder | None = None) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created if need be), which tells who `holder` is.

    Without one it is this process. Raises `AlreadyRunningError`. The kernel gives the lock back
    however the process ends; the file is left, for removing it would let two daemons lock two files
    of one name.
    """
    private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor):
            owner = locks.read_from(descriptor)
            process = "unknown" if owner is None else owner.pid
            raise AlreadyRunningError(f"{what} is in use by another memoryd (process {process})")
        locks.write(descriptor, holder or locks.this_process())
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Take the exclusive lock, unless somebody else has it.

    A client that asks whether a daemon runs, or removes a stale socket, shares the lock for a
    moment: that is waited for.
    """
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_LOCK_PAUSE_S)
        else:
            return True
    return False


def check_path(path: Path) -> None:
    """Raise `SocketError` when a socket's address can't hold the path."""
    try:
        check_socket_path(str(path))
    except ValueError as error:
        raise SocketError(str(error)) from error


def private_folder(folder: Path) -> None:
    """Create a folder only we can enter, if it is not there. Raises `SocketError`.

    One that belongs to somebody else (but the system) is no place for our socket or index.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SocketError(f"{folder} can't be made: {error.strerror}") from error
    if os.stat(folder).st_uid not in (os.geteuid(), 0):
        raise SocketError(
            f"{folder} belongs to another user; choose another --socket or store.path"
        )


@contextmanager
def inherited_or_listening(path: Path) -> Iterator[socket.socket]:
    """Give the socket that systemd has bound for us, which stays its own, else bind `path`."""
    try:
        inherited = inherited_socket(dict(os.environ))
    except OSError as error:
        raise SocketError(f"the socket that was handed over can't be used: {error}") from error
    if inherited is None:
        with listening(path) as bound:
            yield bound
    else:
        with inherited:
            yield inherited


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Bind the socket at `path`, readable by us alone, and remove it at the end.

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


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise SocketError(f"{path} is there and is not a socket; move it away")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            pass
        except OSError as error:
            raise SocketError(f"{path} can't be probed: {error.strerror or error}") from error
        else:
            raise AlreadyRunningError(f"somebody answers on {path} without holding its lock")
    try:
        os.unlink(path)
    except OSError as error:
        raise SocketError(f"{path} is stale and can't be removed: {error.strerror}") from error
    log.info("removed the stale socket %s: the memoryd that made it was killed", path)


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end of a Unix socket; None if it is gone."""
    try:
        if sys.platform == "darwin":
            # struct xucred of <sys/ucred.h>: u_int cr_version; uid_t cr_uid; …
            credentials = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED
            return int(struct.unpack_from("=II", credentials)[1])
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("=iII", credentials)[1])
    except OSError:
        return None
