"""Log file of a daemon: its path, last lines, and new lines as they are written."""

import os
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from memoryd_client.launcher.errors import ManagedError, NoLogError, check_main_socket
from memoryd_client.launcher.own import only_own
from memoryd_client.shared import lock_holder, ownership, paths
from memoryd_client.shared.log_line import decoded

_POLL_S = 0.2
_BLOCK_BYTES = 64 * 1024


def log_path(socket_path: str) -> str:
    """Return the log path that `start` uses for the daemon of this socket."""
    return os.path.join(paths.state_dir(), f"memoryd{paths.socket_suffix(socket_path)}.log")


def current(socket_path: str) -> str:
    """Return the log of the running, or last, daemon at this socket.

    Raises `ManagedError` if a service manager keeps it, `NoLogError` if there is none or somebody
    else can change it, `RestrictedSocketError` if only agents use the socket.
    """
    path = check_main_socket(os.path.abspath(socket_path))
    with only_own(path, "logs", NoLogError):
        log = _named(path)
        try:
            os.close(ownership.open_own(log))
        except FileNotFoundError as error:
            hint = "`memctl start` creates one"
            raise NoLogError(f"there is no log yet: {log}", hint=hint) from error
    return log


def _named(socket_path: str) -> str:
    """Return the log that the lock file names, else the one that `start` uses."""
    lock = paths.lock_path(socket_path)
    found, held = lock_holder.read(lock), lock_holder.is_held(lock)
    if found is not None and found.log_path is None and held:
        if found.manager:
            raise ManagedError(found.manager, "logs")
        raise NoLogError(
            f"memoryd (process {found.pid}) has no log file: it logs to its terminal",
            hint="see that terminal, or use `memctl restart`",
        )
    return (found.log_path if found is not None else None) or log_path(socket_path)


def tail(path: str, lines: int) -> list[str]:
    """Return the last lines of a log, without line ends, continued in the rotated log.

    Reads no more than needed, replaces invalid UTF-8 and escapes control characters. Raises
    `OSError`, also if somebody else can change the log.
    """
    with _own(path) as log:
        found = _tail(log, path, lines)
        rest = log.read()
    return [*found, *map(decoded, rest.splitlines())][-lines:] if lines > 0 else []


def follow(
    path: str, *, lines: int = 0, pause: Callable[[float], object] = time.sleep
) -> Iterator[str]:
    """Yield the last `lines` of a log, then new lines, forever.

    Continues after rotation or truncation and waits for a missing log. Calls `pause(seconds)`
    between two checks.
    """
    while (log := _opened(path)) is None:
        pause(_POLL_S)
    try:
        yield from _tail(log, path, lines)
        rest = b""
        while True:
            rest += log.read()
            *whole, rest = rest.split(b"\n")
            yield from map(decoded, whole)
            if (newer := _newer(log, path)) is not None:
                # Lines written between the read and the rotation.
                rest += log.read()
                yield from map(decoded, rest.splitlines())
                rest = b""
                log.close()
                log = newer
            elif os.fstat(log.fileno()).st_size < log.tell():
                rest = b""
                log.seek(0)
            else:
                pause(_POLL_S)
    finally:
        log.close()


def _tail(log: BinaryIO, path: str, lines: int) -> list[str]:
    """Return the last complete lines; leaves `log` positioned after them."""
    found = _last_lines(log, lines)
    if (missing := lines - len(found)) > 0 and (older := _opened(f"{path}.1")) is not None:
        with older:
            if not _same(older, log):
                found = _last_lines(older, missing) + found
    return [decoded(line) for line in found]


def _last_lines(log: BinaryIO, lines: int) -> list[bytes]:
    position = end = log.seek(0, os.SEEK_END)
    blocks: list[bytes] = []
    newlines = 0
    while position and newlines <= lines:
        begin = max(0, position - _BLOCK_BYTES)
        log.seek(begin)
        blocks.append(log.read(position - begin))
        newlines += blocks[-1].count(b"\n")
        position = begin
    *whole, rest = b"".join(reversed(blocks)).split(b"\n")
    log.seek(end - len(rest))
    return whole[-lines:] if lines > 0 else []


def _newer(log: BinaryIO, path: str) -> BinaryIO | None:
    """Open the log if its path has a new file."""
    newer = _opened(path)
    if newer is not None and _same(newer, log):
        newer.close()
        return None
    return newer


def _opened(path: str) -> BinaryIO | None:
    try:
        return _own(path)
    except FileNotFoundError:
        return None


def _own(path: str) -> BinaryIO:
    return os.fdopen(ownership.open_own(path), "rb")


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
