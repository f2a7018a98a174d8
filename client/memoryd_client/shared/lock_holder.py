"""Lock files: one line of JSON that tells which process holds the lock, and how it was started.

The lock itself is flock(2)'s, which the kernel gives back however the process ends. The line is
left behind then: on its own it proves nothing.
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
"""More than the command line that a kernel takes."""


class Holder(Struct, frozen=True):
    """The process that holds a lock.

    `argv` and `cwd` start it again; `argv` is empty if that is not known. `manager` is `systemd`,
    `launchd` or "". `log_path` is the file it logs to (`None`: its standard error), `started_at`
    in seconds since 1970 (0: not known).
    """

    pid: Annotated[int, Meta(gt=0, le=_PID_MAX)]
    argv: list[str] = []
    cwd: str = ""
    manager: str = ""
    log_path: str | None = None
    version: str = ""
    started_at: float = 0.0


def this_process(*, version: str = "", log_path: str | None = None) -> Holder:
    """Describe the process that calls. Call it before anything changes the current directory."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = ""
    return Holder(
        pid=os.getpid(),
        # The first word may be a name that was looked up in PATH.
        argv=[sys.executable, *sys.orig_argv[1:]],
        cwd=cwd,
        manager=service_manager.manager(os.environ, pid=os.getpid(), parent_pid=os.getppid()),
        log_path=None if log_path is None else os.path.abspath(log_path),
        version=version,
        started_at=time.time(),
    )


def encode(holder: Holder) -> bytes:
    """Return the line. Not msgspec's JSON: names of files that are no UTF-8 have to survive."""
    return json.dumps(msgspec.to_builtins(holder)).encode("ascii") + b"\n"


def decode(data: bytes) -> Holder | None:
    """Read the first line; one of digits, as once written, gives the pid. Rubbish: `None`."""
    line, _, _ = data.partition(b"\n")
    try:
        found = json.loads(line)
        return msgspec.convert({"pid": found} if isinstance(found, int) else found, Holder)
    except (ValueError, RecursionError):
        return None


def write(descriptor: int, holder: Holder) -> None:
    """Put the line into a lock file whose lock is held."""
    # In this order a reader never sees half a line: only the first one counts.
    line = encode(holder)
    os.pwrite(descriptor, line, 0)
    os.ftruncate(descriptor, len(line))


def read_from(descriptor: int) -> Holder | None:
    """Return whom an open lock file names."""
    return decode(os.pread(descriptor, _MAX_BYTES, 0))


def read(path: str) -> Holder | None:
    """Return whom a lock file names, whether that process still holds it or not.

    `None` if there is no such file or it makes no sense. Raises `OSError` if it can't be read.
    """
    if (descriptor := _opened(path)) is None:
        return None
    try:
        return read_from(descriptor)
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Tell whether a daemon holds the lock. Raises `OSError` if the file can't be read."""
    with free(path) as is_free:
        return is_free is False


@contextmanager
def free(path: str) -> Iterator[bool | None]:
    """Keep daemons from taking the lock meanwhile. Gives whether it was free.

    `None`: there is no lock file, and none is made. The lock is shared: others who ask, or clean
    up, don't stand in the way, and a daemon that starts waits for them. Raises `OSError` if the
    file can't be read.
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
    """Open a lock file to read it; only a regular one is. Raises `OSError`."""
    # A link leads to somebody else's lock; a FIFO would keep us waiting.
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
