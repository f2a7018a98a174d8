"""Reads one memory file, and checks that it is one before anybody outside may see it."""

import errno
import hashlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.safe_open import LinkError, RegularFile
from memoryd.messages import FileContent, file_stat
from memoryd.source.notes.decode import Decoder
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.private import mask_private

MAX_BYTES = 256 * 1024 * 1024
MAX_LINES = 5_000_000
"""A line takes some 60 bytes of memory besides its text."""
BLOCK_BYTES = 256 * 1024
"""No call takes more at once: one that takes a whole file holds up every thread meanwhile."""
PLACEHOLDER = "[private]"
ATTEMPTS = 3
AGAIN_BYTES = 1024 * 1024
"""A larger file that changes while it is read is left to the next look."""
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


def read_file(path: Path, base: str | None = None) -> FileContent:
    """Read a regular file, what is private taken out.

    `base` is the folder from which on no link may lead to it; None: the one that it is in. Raises
    `OSError`; a link, a special file, one that is too large and one that is no text are among
    these. A file that changes meanwhile is read again, if it is not large; if it goes on changing,
    the stat is that from before the reading, so that the next scan looks again.
    """
    content = _read(path, os.path.dirname(path) if base is None else base)
    lines, remark = mask_private(content.lines)
    remarks = content.remarks if remark is None else (*content.remarks, remark)
    return content._replace(lines=lines, remarks=remarks)


def _read(path: Path, base: str) -> FileContent:
    with RegularFile(path, base) as file:
        for _ in range(ATTEMPTS):
            before = os.fstat(file.fileno())
            if before.st_size > MAX_BYTES:
                raise _too_large()
            file.seek(0)
            digest, decoder = _take_in(file)
            _let_settle(before.st_mtime_ns)
            after = os.fstat(file.fileno())
            if (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size):
                break
            if after.st_size > AGAIN_BYTES:
                break
    return FileContent(file_stat(before), digest, decoder.lines.finish(), decoder.remarks())


def _take_in(file: RegularFile) -> tuple[str, Decoder]:
    """Read all of a file; return the SHA-256 of its bytes, and what they say."""
    digest, decoder = hashlib.sha256(), Decoder()
    size = 0
    while block := file.read(BLOCK_BYTES):
        size += len(block)
        if size > MAX_BYTES:
            raise _too_large()
        digest.update(block)
        decoder.feed(block)
        if not decoder.is_text():
            raise OSError(errno.EILSEQ, "not text")
        if len(decoder.lines) > MAX_LINES:
            raise OSError(errno.EFBIG, f"more than {MAX_LINES:,} lines; split it")
    decoder.feed(b"", last=True)
    return digest.hexdigest(), decoder


def _too_large() -> OSError:
    return OSError(errno.EFBIG, f"larger than {MAX_BYTES // 1024**2} MiB; split it")


def _let_settle(mtime_ns: int) -> None:
    """Wait until a change after the reading would show in the file's modification time."""
    age_ns = time.time_ns() - mtime_ns
    if 0 <= age_ns < TICK_NS:
        time.sleep((TICK_NS - age_ns) / 1e9)


def read_lines(
    discovery: Discovery, path: str, *, start_line: int, max_lines: int, max_chars: int
) -> Excerpt:
    """Return whole lines of a memory file from `start_line` on, `max_chars` in all at most.

    `path` is relative to the workspace or absolute. A single line that is longer is cut. What is
    private is `[private]`. Raises `NotMemoryError`, `FileNotFoundError` (memory by its name, but
    not there) or another `OSError`.
    """
    wanted = Path(os.path.normpath(discovery.workspace / path))
    found = discovery.look(wanted)
    if found is None:
        raise NotMemoryError("it is not a memory file")
    try:
        content = _read(wanted, discovery.base(str(wanted)))
    except LinkError as error:
        raise NotMemoryError("symbolic links are not followed") from error
    lines, _ = mask_private(content.lines, placeholder=PLACEHOLDER)
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
