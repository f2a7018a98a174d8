"""Reader of memory files: private blocks, and access checks for clients."""

import errno
import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.hang import idle
from memoryd.fs.safe_open import BLOCK_BYTES, LinkError, RegularFile
from memoryd.messages import FileContent, file_stat
from memoryd.source.mounts import Mounts
from memoryd.source.notes.decode import Decoder
from memoryd.source.notes.discover import Discovery
from memoryd.text.redact import Redactor

NOT_CLOSED = "a <private> block is not closed: hidden to the end"
MAX_ATTRIBUTES = 1_000
"""Maximum characters of attributes, so that unclosed tags are not searched quadratically."""

_TAG = re.compile(
    rf"<(private)(?:(?:\s[^<>]{{0,{MAX_ATTRIBUTES}}}?)?(?:(/)?>|$)|(?=\s))"
    rf"|</private\s{{0,{MAX_ATTRIBUTES}}}>",
    re.IGNORECASE,
)
"""Groups: 1 is set for an opening tag, 2 for a self-closing one. A tag that is cut by the line end,
or has attributes that are too long or contain `<`, is an opening one, because hiding too much does
less harm than hiding too little."""


class _Tag(NamedTuple):
    start: int
    end: int
    depth: int
    """Change of the depth: 1, -1, or 0 for an empty tag."""
    quoted: bool


def mask_private(lines: list[str], *, placeholder: str = "") -> tuple[list[str], str | None]:
    """Replace private text and its tags by the placeholder, once on each of its lines.

    Returns the same number of lines, and a remark, if any.
    """
    masked = lines
    depth = 0
    for number, line in enumerate(lines):
        if depth or "<" in line:
            shown, depth = _mask(line, depth, placeholder)
            if shown != line:
                if masked is lines:
                    masked = lines.copy()
                masked[number] = shown
    return masked, NOT_CLOSED if depth else None


def _mask(line: str, depth: int, placeholder: str) -> tuple[str, int]:
    """Return a line without private parts, and the depth at its end."""
    shown: list[str] = [placeholder] if depth else []
    at = 0
    for tag in _tags(line):
        # A quoted opening tag counts inside a block: better hide too much.
        if tag.quoted and not (depth and tag.depth > 0):
            continue
        if depth == 0 and tag.depth >= 0:
            shown += (line[at : tag.start], placeholder)
        if depth or tag.depth >= 0:
            depth += tag.depth
            at = tag.end
    if depth == 0:
        shown.append(line[at:])
    return "".join(shown), depth


def _tags(line: str) -> Iterator[_Tag]:
    at = line.find("<")
    while at >= 0:
        if match := _TAG.match(line, at):
            depth = -1 if match[1] is None else 0 if match[2] else 1
            quoted = line[at - 1 : at] == "`" == line[match.end() : match.end() + 1]
            yield _Tag(at, match.end(), depth, quoted)
        at = line.find("<", at + 1)


MAX_BYTES = 256 * 1024 * 1024
MAX_LINES = 5_000_000
"""Maximum lines, because each takes about 60 bytes of memory besides its text."""
PLACEHOLDER = "[private]"
ATTEMPTS = 3
AGAIN_BYTES = 1024 * 1024
"""Maximum size of a file that is read again at once if it changes meanwhile."""
TICK_NS = 20_000_000
"""Longer than any file system's clock tick; two changes within a tick look like one."""


class NoteExcerpt(NamedTuple):
    """Lines of a file, its number of lines, and whether `lines` is cut."""

    path: str
    lines: list[str]
    total_lines: int
    cut: bool


class NotMemoryError(Exception):
    """Path outside memory or through a link, whose content clients must not see."""


def read_file(path: Path, base: str | None = None) -> FileContent:
    """Read a regular file without its private parts.

    No links are allowed below the directory `base`; None: the file's own. Raises `OSError`, also
    for links, special files, files that are too large, and files that are not text. A small file
    that changes meanwhile is read again; if it keeps changing, the result has the stat from before
    the read, so that the next scan reads it again.
    """
    content = _read(path, os.path.dirname(path) if base is None else base)
    lines, remark = mask_private(content.lines)
    remarks = content.remarks if remark is None else (*content.remarks, remark)
    return content._replace(lines=lines, remarks=remarks)


class NoteReader:
    """Reads the notes of one agent, with secrets masked if there is a redactor.

    With `mounts`, a note that is missing along with its disk is an error, not a deletion.
    """

    def __init__(
        self, discovery: Discovery, redact: Redactor | None, mounts: Mounts | None = None
    ) -> None:
        self._discovery = discovery
        self._redact = redact
        self._mounts = mounts

    def __call__(self, path: Path) -> FileContent:
        """Read a note. Blocking. Raises `OSError`."""
        try:
            content = read_file(path, self._discovery.base(str(path)))
        except FileNotFoundError as error:
            if self._mounts is not None and self._mounts.away(path):
                raise OSError(errno.ENODEV, "its folder is not there") from error
            raise
        if self._redact is None:
            return content
        return content._replace(lines=self._redact.lines(content.lines))


def _read(path: Path, base: str) -> FileContent:
    with RegularFile(path, base) as file:
        for _ in range(ATTEMPTS):
            before = os.fstat(file.fileno())
            if before.st_size > MAX_BYTES:
                raise _too_large()
            file.seek(0)
            digest, decoder = _decode_file(file)
            _wait_for_clock(before.st_mtime_ns)
            _wait_for_clock(before.st_ctime_ns)
            after = os.fstat(file.fileno())
            if file_stat(after) == file_stat(before) or after.st_size > AGAIN_BYTES:
                break
    idle()
    return FileContent(file_stat(before), digest, decoder.lines.finish(), decoder.remarks())


def _decode_file(file: RegularFile) -> tuple[str, Decoder]:
    """Read a whole file; return the SHA-256 of its bytes, and its decoder."""
    digest, decoder = hashlib.sha256(), Decoder()
    size = 0
    while block := file.read(BLOCK_BYTES):
        size += len(block)
        if size > MAX_BYTES:
            raise _too_large()
        digest.update(block)
        decoder.feed(block)
        _check_text(decoder)
    decoder.feed(b"", last=True)
    _check_text(decoder)
    return digest.hexdigest(), decoder


def _check_text(decoder: Decoder) -> None:
    if not decoder.is_text():
        raise OSError(errno.EILSEQ, "not text")
    if len(decoder.lines) > MAX_LINES:
        raise OSError(errno.EFBIG, f"more than {MAX_LINES:,} lines; split it")


def _too_large() -> OSError:
    return OSError(errno.EFBIG, f"larger than {MAX_BYTES // 1024**2} MiB; split it")


def _wait_for_clock(changed_ns: int) -> None:
    """Wait until a later change would show in this time of the file."""
    age_ns = time.time_ns() - changed_ns
    if 0 <= age_ns < TICK_NS:
        time.sleep((TICK_NS - age_ns) / 1e9)


def read_lines(
    discovery: Discovery, path: str, *, start_line: int, max_lines: int, max_chars: int
) -> NoteExcerpt:
    """Return whole lines of a memory file from `start_line` on, at most `max_chars` in total.

    `path` is relative to the workspace or absolute. A single longer line is cut. Private parts
    become `[private]`. Raises `NotMemoryError`, `FileNotFoundError` or another `OSError`.
    """
    file = Path(os.path.normpath(discovery.workspace / path))
    found = discovery.stat(file)
    if found is None:
        raise NotMemoryError("it is not a memory file")
    try:
        content = _read(file, discovery.base(str(file)))
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
    return NoteExcerpt(found[0].path, taken, len(lines), cut)
