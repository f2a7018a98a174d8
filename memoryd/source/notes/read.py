"""Reader of memory files: decoding, private blocks, and access checks for clients."""

import codecs
import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.hang import idle
from memoryd.fs.safe_open import BLOCK_BYTES, LinkError, RegularFile
from memoryd.messages import FileContent, file_stat
from memoryd.source.mounts import Mounts
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


_UTF8_BOM = codecs.BOM_UTF8
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
"""Control bytes that text files don't contain; in packed files, every tenth byte is one."""
_REPLACEMENT = "\ufffd"


class Lines:
    """Incremental `split_lines`."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []
        self._carriage_return = ""

    def __len__(self) -> int:
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Add the next piece."""
        text = self._carriage_return + text
        self._carriage_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")  # perhaps half of a line end
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._open.append(first)
        if others:
            self._lines.append("".join(self._open))
            self._open = [others.pop()]
            self._lines += others

    def finish(self) -> list[str]:
        """Return all lines."""
        if self._carriage_return:
            self.feed("\n")
        if last := "".join(self._open):
            self._lines.append(last)
        return self._lines


class Decoder:
    """Decoder of UTF-8, and of UTF-16 with a byte order mark, which is dropped.

    Replaces invalid bytes by U+FFFD, and NUL too, because SQLite takes it for the end of a text.
    """

    def __init__(self) -> None:
        self.lines = Lines()
        self._begun = False
        self._decode: Callable[[bytes, str, bool], tuple[str, int]] = codecs.utf_8_decode
        self._encoding = "UTF-8"
        self._rest = b""
        self._bytes = 0
        self._controls = 0
        self._nuls = 0
        self._bad = 0

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Decode the next bytes; `last` marks the end."""
        data = self._rest + block
        if not self._begun:
            if len(data) < len(_UTF8_BOM) and not last:
                self._rest = data
                return
            data = self._begin(data)
        text, used = self._decode(data, "replace", last)
        self._rest = data[used:]
        self._count(text, data[:used])
        self.lines.feed(text.replace("\0", _REPLACEMENT))

    def is_text(self) -> bool:
        """Return whether the bytes so far look like text in some encoding."""
        if self._encoding != "UTF-8":
            # One in 32 random pairs of bytes is a lone surrogate.
            return self._bad * 100 <= self._bytes and self._controls * 3 <= self._bytes
        # Text in an old encoding may be mostly invalid bytes, but has no controls.
        return self._controls * 50 <= self._bytes or (self._controls + self._bad) * 3 <= self._bytes

    def remarks(self) -> tuple[str, ...]:
        """Return remarks about the encoding for the user."""
        found: list[str] = []
        if self._encoding != "UTF-8":
            found.append(f"{self._encoding}, not UTF-8; it is read anyway")
            if self._bad:
                found.append(f"{_counted(self._bad, 'character')} can't be read")
        elif self._bad:
            found.append(
                f"not UTF-8: {_counted(self._bad, 'byte')} can't be read; save it as UTF-8"
            )
        if self._nuls:
            found.append(f"{_counted(self._nuls, 'NUL byte')}, read as U+FFFD")
        return tuple(found)

    def _begin(self, data: bytes) -> bytes:
        self._begun = True
        if data.startswith(_UTF8_BOM):
            return data[len(_UTF8_BOM) :]
        for mark, decode in (
            (codecs.BOM_UTF16_LE, codecs.utf_16_le_decode),
            (codecs.BOM_UTF16_BE, codecs.utf_16_be_decode),
        ):
            if data.startswith(mark):
                self._decode, self._encoding = decode, "UTF-16"
                return data[len(mark) :]
        return data

    def _count(self, text: str, data: bytes) -> None:
        replaced = text.count(_REPLACEMENT)
        if self._encoding != "UTF-8":
            self._bad += replaced
            data = text.encode()
        elif replaced:
            # Valid bytes keep their length; a replacement has three.
            good = data.count(_REPLACEMENT.encode())
            self._bad += len(data) - len(text.encode()) + 3 * (replaced - good)
        self._bytes += len(data)
        self._nuls += data.count(0)
        self._controls += len(data) - len(data.translate(None, _CONTROLS))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
        if not decoder.is_text():
            raise OSError(errno.EILSEQ, "not text")
        if len(decoder.lines) > MAX_LINES:
            raise OSError(errno.EFBIG, f"more than {MAX_LINES:,} lines; split it")
    decoder.feed(b"", last=True)
    return digest.hexdigest(), decoder


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
