"""Reads one memory file, and checks that it is one before anybody outside may see it."""

import hashlib
import os
import stat as stat_module
import time
from pathlib import Path
from typing import NamedTuple

from memoryd.flow import FileContent, file_stat, split_lines
from memoryd.source.discover import Discovery

ATTEMPTS = 3
TICK_NS = 20_000_000
"""Longer than one tick of any file system's clock: two changes within a tick look like one."""


class Excerpt(NamedTuple):
    """Lines of a file, how many it has in all, and whether `lines` end for want of room."""

    path: str
    lines: list[str]
    total_lines: int
    cut: bool


class NotMemoryError(Exception):
    """The path is outside the memory, or goes through a link; its content is not for clients."""


def read_file(path: Path) -> FileContent:
    """Read a regular file. Raises `OSError`; a link or a special file is one too.

    A file that changes meanwhile is read again; if it goes on changing, the stat is that from
    before the reading, so that the next scan looks again.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat_module.S_ISREG(os.fstat(descriptor).st_mode):
        # Here, for `open` refuses the descriptor of a folder and leaves it open.
        os.close(descriptor)
        raise OSError(0, "not a regular file", str(path))
    with open(descriptor, "rb") as file:
        for _ in range(ATTEMPTS):
            before = os.fstat(descriptor)
            file.seek(0)
            data = file.read()
            _let_settle(before.st_mtime_ns)
            after = os.fstat(descriptor)
            if (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size):
                break
    stat = file_stat(before)
    return FileContent(stat, hashlib.sha256(data).hexdigest(), decode(data))


def _let_settle(mtime_ns: int) -> None:
    """Wait until a change after the reading would show in the file's modification time."""
    age_ns = time.time_ns() - mtime_ns
    if 0 <= age_ns < TICK_NS:
        time.sleep((TICK_NS - age_ns) / 1e9)


def decode(data: bytes) -> str:
    """Return the text of a file: UTF-8, a byte order mark dropped, bad bytes as U+FFFD."""
    return data.decode("utf-8-sig", "replace").replace("\0", "\ufffd")


def read_lines(
    discovery: Discovery, path: str, *, start_line: int, max_lines: int, max_chars: int
) -> Excerpt:
    """Return whole lines of a memory file from `start_line` on, `max_chars` in all at most.

    `path` is relative to the workspace or absolute. A single line that is longer is cut. Raises
    `NotMemoryError`, `FileNotFoundError` (memory by its name, but not there) or another `OSError`.
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
        if room < 0:
            break
        taken.append(line)
    cut = room < 0
    if cut and not taken:
        taken.append(lines[start_line - 1][:max_chars])
    return Excerpt(found[0].path, taken, len(lines), cut)
