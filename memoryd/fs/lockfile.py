"""Lock files that allow one daemon for each socket and each index."""

import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from memoryd.errors import AlreadyRunningError, SocketError
from memoryd.fs.directories import private_folder
from memoryd_client.shared import lock_holder as locks
from memoryd_client.shared.lock_holder import Holder

log = logging.getLogger(__name__)

_LOCK_PAUSE_S = 0.005
_LOCK_TRIES = 400
"""Two seconds in total; a shared lock is held for much less."""


@contextmanager
def locked(path: Path, what: str, holder: Holder | None = None) -> Iterator[Callable[[], bool]]:
    """Hold an exclusive lock on `path`, created if missing; record `holder` (default: us) in it.

    Yields a function that tells whether `path` is still the locked file: if somebody removes it,
    another daemon can lock a new one. Raises `AlreadyRunningError`, or `SocketError` if the file
    can't be used as a lock. The kernel releases the lock however the process ends. The file stays,
    because removing it would let two daemons lock two files of one name.
    """
    private_folder(path.parent)
    descriptor = _taken(path, what)
    try:
        try:
            locks.write(descriptor, holder or locks.this_process())
        except OSError as error:
            log.warning("%s is locked, but can't record its holder: %s", path, error.strerror)
        yield partial(_is_at, descriptor, path)
    finally:
        os.close(descriptor)


@contextmanager
def locked_index(path: Path, holder: Holder) -> Iterator[Callable[[], bool]]:
    """Hold the lock of an index, whose path contains no symbolic link.

    Yields and raises as `locked`; also raises `SocketError` for an index with a second name, which
    another daemon could lock: SQLite would then keep two write-ahead logs.
    """
    with locked(Path(f"{path}.lock"), f"the index {path}", holder) as is_found:
        try:
            found = os.lstat(path)
            names = 1 if stat.S_ISDIR(found.st_mode) else found.st_nlink
        except FileNotFoundError:
            names = 1
        if names > 1:
            raise SocketError(
                f"the index {path} has {names} names (hard links), and is only safe with one",
                f"remove the others (`find / -samefile {path}`), or make this one a copy",
            )
        yield is_found


@contextmanager
def in_turn(path: Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on `path` for a short change; wait for others up to `seconds`.

    Raises `SocketError`, also if the lock stays taken. Blocking.
    """
    private_folder(path.parent)
    descriptor = _opened(path)
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise SocketError(
                        f"{path} has been locked for {seconds:g} s", "try again"
                    ) from None
                time.sleep(_LOCK_PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _taken(path: Path, what: str) -> int:
    """Open a lock file and take its lock. Raises `AlreadyRunningError` or `SocketError`."""
    for _ in range(_LOCK_TRIES):
        descriptor = _opened(path)
        try:
            if not _lock(descriptor):
                owner = locks.read_from(descriptor)
                process = "unknown" if owner is None else owner.pid
                raise AlreadyRunningError(
                    f"{what} is in use by another memoryd (process {process})"
                )
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed, and perhaps replaced, meanwhile
    raise SocketError(f"{path} keeps disappearing", "find out which program removes it")


def _opened(path: Path) -> int:
    # A FIFO in its place would block us, a link would make us write to another file.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            # A read-only file can be locked too.
            descriptor = os.open(path, os.O_RDONLY | flags & ~(os.O_RDWR | os.O_CREAT))
    except OSError as error:
        linked = error.errno == errno.ELOOP
        reason = "it is a symbolic link" if linked else error.strerror
        message = f"{path} can't be used as a lock: {reason}"
        raise SocketError(message, "remove it" if linked else "") from error
    found = os.fstat(descriptor)
    reason = hint = ""
    if not stat.S_ISREG(found.st_mode):
        reason, hint = "it is not a regular file", "move it away"
    elif found.st_uid != os.geteuid():
        reason = f"it belongs to another user (uid {found.st_uid})"
        hint = "choose another place"
    elif found.st_nlink > 1:
        reason, hint = "it has another name too (a hard link)", "remove it"
    if reason:
        os.close(descriptor)
        raise SocketError(f"{path} can't be used as a lock: {reason}", hint)
    if found.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)  # whoever can open it can lock it
    return descriptor


def _lock(descriptor: int) -> bool:
    """Take the exclusive lock; return False if another process holds it.

    Waits while a client shares the lock, to check for a daemon or remove a stale socket.
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


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # unknown counts as unchanged
