"""Reads one memory file, and checks that it is one before anybody outside may see it."""

import codecs
import errno
import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from memoryd.fs.hang import idle
from memoryd.fs.safe_open import LinkError, RegularFile
from memoryd.messages import FileContent, file_stat
from memoryd.source.notes.discover import Discovery

NOT_CLOSED = "a <private> block is not closed: hidden to the end"
MAX_ATTRIBUTES = 1_000
"""Characters: else a text full of openings without an end would be searched again for each."""

_TAG = re.compile(
    rf"<(private)(?:\s[^<>]{{0,{MAX_ATTRIBUTES}}}?)?(?:(/)?>|$)|</private\s{{0,{MAX_ATTRIBUTES}}}>",
    re.IGNORECASE,
)
"""Groups: 1 is there for an opening tag, 2 for one that is closed at once. One that a line end cuts
counts, since what is private by mistake does less harm than what is not."""


class _Tag(NamedTuple):
    start: int
    end: int
    depth: int
    """What it adds to the depth: 1, -1, or 0 for one that is empty."""
    quoted: bool


def mask_private(lines: list[str], *, placeholder: str = "") -> tuple[list[str], str | None]:
    """Replace what is private, tags included, by the placeholder: once on each line that it is on.

    Lines stay as many as they were. The second is a remark on the text, if there is any.
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
    """Return a line without its private parts, and the depth at its end."""
    shown: list[str] = [placeholder] if depth else []
    at = 0
    for tag in _tags(line):
        # Within a block, an opening tag that is only talked about counts: better hide too much.
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


def _tags(line: str) -> list[_Tag]:
    found: list[_Tag] = []
    at = line.find("<")
    while at >= 0:
        if match := _TAG.match(line, at):
            depth = -1 if match[1] is None else 0 if match[2] else 1
            found.append(_Tag(at, match.end(), depth, _is_quoted(line, match)))
        at = line.find("<", at + 1)
    return found


def _is_quoted(line: str, tag: re.Match[str]) -> bool:
    return line[tag.start() - 1 : tag.start()] == "`" == line[tag.end() : tag.end() + 1]


_UTF8_BOM = codecs.BOM_UTF8
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
"""What texts don't hold, NUL among them; in what is packed they are every tenth byte."""
_REPLACEMENT = "\ufffd"

_Decode = Callable[[bytes, str, bool], tuple[str, int]]


class Lines:
    """Splits a text that comes in pieces into lines, as `split_lines` does."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[str] = []
        self._carriage_return = ""

    def __len__(self) -> int:
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Take the next piece."""
        text = self._carriage_return + text
        self._carriage_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")  # it may be half of a line end
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
    """Reads UTF-8, and UTF-16 that says so; replaces what can't be read by U+FFFD.

    A byte order mark is dropped. NUL is replaced too, which SQLite takes for the end of a text.
    """

    def __init__(self) -> None:
        self.lines = Lines()
        self._begun = False
        self._decode: _Decode = codecs.utf_8_decode
        self._encoding = "UTF-8"
        self._rest = b""
        self._bytes = 0
        self._controls = 0
        self._nuls = 0
        self._bad = 0

    def feed(self, block: bytes, *, last: bool = False) -> None:
        """Take the next bytes; `last` says that these are all."""
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
        """Say whether what came so far looks like text in some encoding, not like an image."""
        if self._encoding != "UTF-8":
            # Of any two bytes, one in 32 is half of a pair that is not there.
            return self._bad * 100 <= self._bytes and self._controls * 3 <= self._bytes
        # Texts in old encodings may have more bad bytes than good ones, but no controls.
        return self._controls * 50 <= self._bytes or (self._controls + self._bad) * 3 <= self._bytes

    def remarks(self) -> tuple[str, ...]:
        """Return what people should know about the bytes."""
        found: list[str] = []
        if self._encoding != "UTF-8":
            found.append(f"{self._encoding}, not UTF-8; it is read all the same")
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
            # Good bytes come out as they went in, and a replacement as three.
            good = data.count(_REPLACEMENT.encode())
            self._bad += len(data) - len(text.encode()) + 3 * (replaced - good)
        self._bytes += len(data)
        self._nuls += data.count(0)
        self._controls += len(data) - len(data.translate(None, _CONTROLS))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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


class NoteExcerpt(NamedTuple):
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
    idle()
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
) -> NoteExcerpt:
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
    return NoteExcerpt(found[0].path, taken, len(lines), cut)
