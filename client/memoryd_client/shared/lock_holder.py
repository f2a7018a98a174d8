"""Lock files with one line of JSON: the process that holds the lock, and its command.

The lock is flock(2)'s, which the kernel releases at any exit. The line remains, so it proves
nothing by itself.
"""

import errno
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from memoryd_client.shared import service_manager

_PID_MAX = 2**31 - 1
_MAX_BYTES = 4 * 1024 * 1024
"""More than the longest command line of a kernel."""


class Holder(Struct, frozen=True):
    """The process that holds a lock.

    `argv` and `cwd` start it again; `argv` is empty if unknown. `manager` is `systemd`, `launchd`
    or "". `log_path` is its log file (None: standard error), `started_at` Unix time (0: unknown).
    """

    pid: Annotated[int, Meta(gt=0, le=_PID_MAX)]
    argv: list[str] = []
    cwd: str = ""
    manager: str = ""
    log_path: str | None = None
    version: str = ""
    started_at: float = 0.0


def this_process(*, version: str = "", log_path: str | None = None) -> Holder:
    """Describe the calling process. Call it before the current directory changes."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = ""
    return Holder(
        pid=os.getpid(),
        # The first word may be a name from PATH.
        argv=[sys.executable, *sys.orig_argv[1:]],
        cwd=cwd,
        manager=service_manager.manager(os.environ, pid=os.getpid(), parent_pid=os.getppid()),
        log_path=None if log_path is None else os.path.abspath(log_path),
        version=version,
        started_at=time.time(),
    )


def encode(holder: Holder) -> bytes:
    """Return the line; by `json`, because msgspec rejects file names that are not UTF-8."""
    return json.dumps(msgspec.to_builtins(holder)).encode("ascii") + b"\n"


def decode(data: bytes) -> Holder | None:
    """Parse the first line, or the bare pid of an older version; None if invalid."""
    line, _, _ = data.partition(b"\n")
    try:
        found = json.loads(line)
        return msgspec.convert({"pid": found} if isinstance(found, int) else found, Holder)
    except (ValueError, RecursionError):
        return None


def write(descriptor: int, holder: Holder) -> None:
    """Write the line into a lock file whose lock is held."""
    # In this order, a reader never sees an incomplete first line.
    line = encode(holder)
    os.pwrite(descriptor, line, 0)
    os.ftruncate(descriptor, len(line))


def read_from(descriptor: int) -> Holder | None:
    """Return the holder that an open lock file names."""
    return decode(os.pread(descriptor, _MAX_BYTES, 0))


def read(path: str) -> Holder | None:
    """Return the holder that a lock file names, even if it no longer holds the lock.

    None if the file is missing or invalid. Raises `OSError` if it can't be read.
    """
    if (descriptor := _opened(path)) is None:
        return None
    try:
        return read_from(descriptor)
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Return whether a daemon holds the lock. Raises `OSError` if the file can't be read."""
    with free(path) as is_free:
        return is_free is False


@contextmanager
def free(path: str) -> Iterator[bool | None]:
    """Hold a shared lock meanwhile, which keeps daemons out; yield whether the lock was free.

    Yields None, and creates nothing, without a lock file. Other readers don't conflict; a starting
    daemon waits for them. Raises `OSError` if the file can't be read.
    """
    if (descriptor := _opened(path)) is None:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        yield is_free
    finally:
        os.close(descriptor)


def _opened(path: str) -> int | None:
    """Open a regular lock file for reading. Raises `OSError`."""
    # A link may lead to another lock, and a FIFO would block.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(error.errno, "it is a symbolic link", path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PermissionError(errno.EACCES, "it is not a regular file", path)
    return descriptor
