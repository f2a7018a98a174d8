"""Lock files with one line of JSON: the process that holds the lock, and its options.

The lock is flock(2)'s, which the kernel releases at any exit. The line remains, so it proves
nothing by itself. Only files that nobody else can change are read.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from memoryd_client.shared import ownership, service_manager

_PID_MAX = 2**31 - 1
_MAX_BYTES = 4 * 1024 * 1024
"""More than the longest command line of a kernel."""

OPTIONS = ("agent", "config", "log-level", "workspace")
"""Options of `memoryd` that a restart keeps, besides the socket and the log."""


class Holder(Struct, frozen=True):
    """The process that holds a lock.

    `manager` is `systemd`, `launchd` or "". `log_path` is its log file (None: standard error),
    `started_at` Unix time (0: unknown). `options` has the given ones of `OPTIONS`; None if unknown,
    as in the files of memoryd 0.1.
    """

    pid: Annotated[int, Meta(gt=0, le=_PID_MAX)]
    cwd: str = ""
    manager: str = ""
    log_path: str | None = None
    version: str = ""
    started_at: float = 0.0
    options: dict[str, str] | None = None


def this_process(
    *, version: str = "", log_path: str | None = None, options: dict[str, str] | None = None
) -> Holder:
    """Describe the calling process. Call it before the current directory changes."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = ""
    return Holder(
        pid=os.getpid(),
        cwd=cwd,
        manager=service_manager.manager(os.environ, pid=os.getpid(), parent_pid=os.getppid()),
        log_path=None if log_path is None else os.path.abspath(log_path),
        version=version,
        started_at=time.time(),
        options=options,
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

    None if the file is missing or invalid. Raises `OSError` if it can't be read, `NotOursError` if
    others can change it.
    """
    if (descriptor := _opened(path)) is None:
        return None
    try:
        return read_from(descriptor)
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Return whether a daemon holds the lock. Raises the errors of `read`."""
    with free(path) as is_free:
        return is_free is False


@contextmanager
def free(path: str) -> Iterator[bool | None]:
    """Hold a shared lock meanwhile, which keeps daemons out; yield whether the lock was free.

    Yields None, and creates nothing, without a lock file. Other readers don't conflict; a starting
    daemon waits for them. Raises the errors of `read`.
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


def is_private(path: str) -> bool:
    """Return whether only we can open the lock file, and therefore lock it. Raises `OSError`."""
    return not os.lstat(path).st_mode & 0o077


def _opened(path: str) -> int | None:
    try:
        return ownership.open_own(path)
    except FileNotFoundError:
        return None
