"""Reads one memory file, and checks that it is one before anybody outside may see it."""

import hashlib
import os
import stat as stat_module
import time
from pathlib import Path

from memoryd.flow import FileContent, FileStat, split_lines
from memoryd.source.discover import Discovery

ATTEMPTS = 3
UNSETTLED_NS = 20_000_000
"""A file changed less than this before it was read may change again within one tick of the file
system's clock, unseen by the quick check."""


class NotMemoryError(Exception):
    """The path is outside the memory, or goes through a link; its content is not for clients."""


def read_file(path: Path) -> FileContent:
    """Read a regular file. Raises `OSError`; a link or a special file is one too.

    A file that changes meanwhile is read again; if it goes on changing, the stat is that from
    before the reading, so that the next scan looks again.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        for _ in range(ATTEMPTS):
            before = os.fstat(descriptor)
            if not stat_module.S_ISREG(before.st_mode):
                raise OSError(0, "not a regular file", str(path))
            file.seek(0)
            data = file.read()
            after = os.fstat(descriptor)
            if (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size):
                break
    settled = time.time_ns() - before.st_mtime_ns > UNSETTLED_NS
    stat = FileStat(before.st_mtime_ns if settled else 0, before.st_size, before.st_ino)
    return FileContent(stat, hashlib.sha256(data).hexdigest(), decode(data))


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, a byte order mark dropped, bad bytes as U+FFFD."""
    return data.decode("utf-8-sig", "replace").replace("\0", "\ufffd")


def read_lines(
    discovery: Discovery, path: str, *, start_line: int, max_lines: int, max_chars: int
) -> tuple[str, list[str], int]:
    """Return (display path, whole lines from `start_line` on, number of lines of the file).

    `path` is relative to the workspace or absolute. At least one line is returned where there is
    one, even if it alone is over `max_chars`. Raises `NotMemoryError`, `FileNotFoundError`
    (memory by its name, but not there) or another `OSError`.
    """
    wanted = Path(os.path.normpath(discovery.workspace / path))
    found = discovery.look(wanted)
    if found is None:
        raise NotMemoryError("it is not a memory file")
    if os.path.realpath(wanted) != str(wanted):
        raise NotMemoryError("symbolic links are not followed")
    lines = split_lines(read_file(wanted).text)
    taken: list[str] = []
    room = max_chars
    for line in lines[start_line - 1 : start_line - 1 + max_lines]:
        room -= len(line) + 1
        if taken and room < 0:
            break
        taken.append(line)
    return found[0].path, taken, len(lines)
