"""Copies of the transcripts whose files are gone: their words as indexed, compressed.

The folder `<index>.kept` has one file for each transcript: JSON lines packed with zstd, a header
and then one line for each message. A copy is a source of the index like the file that it replaces.
"""

import errno
import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import accumulate, groupby
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import msgspec

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.fs.atomic_replace import rename_over
from memoryd.fs.hang import tick
from memoryd.fs.safe_open import BLOCK_BYTES, RegularFile, stat_file
from memoryd.messages import Chunk, FileFacts, FileKey, FileStat, TranscriptState, file_stat
from memoryd.source.transcripts.archive import MAX_WINDOW_BYTES
from memoryd.text.voice import UNREAD, Voice, decode_voices

FOLDER = ".kept"
"""Suffix of the folder of copies, after the path of the index."""
_SUFFIX = ".jsonl.zst"
_UNFINISHED = ".new"
_LEVEL = 9
_READ_BYTES = 4 * 1024
"""Bytes unpacked at once: they can't expand to more than 128 MiB."""
_MAX_LINE_BYTES = 64 * 1024 * 1024
_ADVICE = "restore it from a backup, or forget the transcript with `memctl forget --path`"


class KeptHeader(msgspec.Struct, frozen=True):
    """First line of a copy. `state` is that of the last reading of the file.

    `name` is the transcript's, `gone_at` the Unix time at which the file was missed, and
    `messages` the number of lines that follow. In an export, a large transcript has several parts,
    of version 2: the messages from lines above `after` up to `until`. A copy to which a next part
    may be added has its `until`.
    """

    name: str
    state: TranscriptState
    facts: FileFacts
    gone_at: float
    messages: int
    kind: Literal["memoryd transcript"] = "memoryd transcript"
    version: Literal[1, 2] = 1
    after: int = 0
    until: int = 0


class KeptMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message as indexed: the line of its record, and its parts, each with its voice."""

    line: int
    parts: list[tuple[str, Voice]]


class KeptCopy(NamedTuple):
    """A copy on disk, as its header describes it."""

    path: Path
    stat: FileStat
    header: KeptHeader


class KeptCopies:
    """The copies beside one index. All methods are blocking."""

    def __init__(self, index: Path) -> None:
        self.folder = Path(f"{index}{FOLDER}")
        self.problems: dict[Path, str] = {}
        self._known: dict[Path, KeptCopy] = {}

    def path(self, name: str) -> Path:
        """Return the path of the copy of a transcript."""
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}{_SUFFIX}"

    def holds(self, path: Path) -> bool:
        """Return whether a path is that of a copy."""
        return path.parent == self.folder

    def is_named(self, path: Path) -> bool:
        """Return whether a path in the folder has the name of a copy."""
        return path.name.endswith(_SUFFIX)

    def all(self) -> list[KeptCopy]:
        """Return all readable copies. `problems` has the reason for each of the others."""
        known, found = self._known, list[KeptCopy]()
        problems = dict[Path, str]()
        for path, stat in self._files():
            before = known.get(path)
            if before is not None and before.stat == stat:
                found.append(before)
                continue
            try:
                found.append(KeptCopy(path, stat, self._header(path)))
            except FileNotFoundError:
                continue
            except OSError as error:
                problems[path] = f"{path}: {error.strerror or error}; {_ADVICE}"
        self._known, self.problems = {copy.path: copy for copy in found}, problems
        return found

    def listed(self) -> list[KeptCopy]:
        """Return the copies that `all` returned last."""
        return list(self._known.values())

    def find(self, name: str) -> KeptCopy | None:
        """Return the copy of a transcript, None if there is none. Raises `OSError`."""
        path = self.path(name)
        try:
            stat = file_stat(stat_file(path, self.folder))
            return KeptCopy(path, stat, self._header(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: Path) -> tuple[KeptHeader, list[KeptMessage], FileStat, str]:
        """Return the whole content of a copy, its stat, and the SHA-256 of the file.

        Raises `OSError`, also for a copy that is damaged or incomplete.
        """
        with RegularFile(path, self.folder) as file:
            stat, digest = file_stat(os.fstat(file.fileno())), hashlib.sha256()
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
            file.seek(0)
            lines = unpacked(cast(BinaryIO, file))
            header = decoded_header(next(lines, b""))
            messages = [decoded_message(line) for line in lines]
        if len(messages) != header.messages:
            raise damaged(f"it has {len(messages)} of {header.messages} messages")
        if self.path(header.name) != path:
            raise damaged("it is not named for its transcript")
        return header, messages, stat, digest.hexdigest()

    def write(self, header: KeptHeader, messages: Iterable[KeptMessage]) -> KeptCopy:
        """Write a copy, or replace it as a whole. Raises `OSError`."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if self.folder.is_symlink():
            raise OSError(errno.ELOOP, f"{self.folder} is a symbolic link")
        path = self.path(header.name)
        new = path.with_name(path.name + _UNFINISHED)
        new.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
                for block in packed(header, messages):
                    tick(new)
                    file.write(block)
            rename_over(new, path)
        except BaseException:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise
        return KeptCopy(path, file_stat(stat_file(path, self.folder)), header)

    def rename(self, names: Mapping[FileKey, FileKey]) -> list[str]:
        """Copy the copies of renamed transcripts under their new names.

        Returns the old names of those that were copied.
        """
        done: list[str] = []
        for old, new in names.items():
            with suppress(OSError):
                if self.find(old.path) is not None:
                    header, messages, *_ = self.read(self.path(old.path))
                    self.write(msgspec.structs.replace(header, name=new.path), messages)
                    done.append(old.path)
        return done

    def remove(self, name: str) -> bool:
        """Remove the copy of a transcript. Returns whether there was one. Raises `OSError`."""
        path, found = self.path(name), False
        for file in (path, path.with_name(path.name + _UNFINISHED)):
            try:
                file.unlink()
                found = True
            except (FileNotFoundError, NotADirectoryError):
                continue
        return found

    def _files(self) -> list[tuple[Path, FileStat]]:
        """Return the files of the folder with their stats, without following links."""
        tick(self.folder)
        try:
            with os.scandir(self.folder) as listing:
                return sorted(
                    (self.folder / entry.name, file_stat(entry.stat(follow_symlinks=False)))
                    for entry in listing
                    if self.is_named(Path(entry.name)) and entry.is_file(follow_symlinks=False)
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _header(self, path: Path) -> KeptHeader:
        with (
            RegularFile(path, self.folder) as file,
            closing(unpacked(cast(BinaryIO, file))) as lines,
        ):
            header = decoded_header(next(lines, b""))
        if self.path(header.name) != path:
            raise damaged("it is not named for its transcript")
        return header


def packed(header: KeptHeader, messages: Iterable[KeptMessage]) -> Iterator[bytes]:
    """Yield a copy as bytes, packed."""
    import zstandard  # takes memory, so only when needed

    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    for item in (header, *messages):
        if block := packer.compress(msgspec.json.encode(item) + b"\n"):
            yield block
    yield packer.flush()


def part_after(
    header: KeptHeader, messages: Sequence[KeptMessage], after: int, most_bytes: int
) -> tuple[KeptHeader, list[KeptMessage]]:
    """Return the part of a transcript with the next messages, of about `most_bytes` unpacked."""
    rest = [message for message in messages if message.line > after]
    sizes = accumulate(len(msgspec.json.encode(message)) for message in rest)
    count = max(1, sum(size <= most_bytes for size in sizes))
    part = rest[:count]
    until = part[-1].line if part else after
    header = msgspec.structs.replace(
        header, messages=len(part), version=2, after=after, until=until
    )
    return header, part


def unpacked(file: BinaryIO) -> Generator[bytes, None, None]:
    """Yield the lines of packed JSON lines. Raises `OSError`, also for an incomplete file."""
    import zstandard  # takes memory, so only when needed

    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
    held = b""
    try:
        while not unpacker.eof:
            tick()
            if not (block := file.read(_READ_BYTES)):
                raise damaged("it is incomplete")
            *lines, held = (held + unpacker.decompress(block)).split(b"\n")
            if len(held) > _MAX_LINE_BYTES:
                raise damaged("a line is too long")
            yield from lines
    except zstandard.ZstdError as error:
        raise damaged(str(error)) from error
    if held:
        raise damaged("its last line is incomplete")


def decoded_header(line: bytes) -> KeptHeader:
    """Return the header of a copy. Raises `OSError`."""
    try:
        return msgspec.json.decode(line, type=KeptHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(str(error)) from error


def decoded_message(line: bytes) -> KeptMessage:
    """Return a message of a copy. Raises `OSError`."""
    try:
        return msgspec.json.decode(line, type=KeptMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(str(error)) from error


def damaged(why: str) -> OSError:
    """Return the error of a copy that can't be used. Its rows stay in the index."""
    return OSError(errno.EBADMSG, f"the copy of a transcript is damaged: {why}")


def messages_of(chunks: Sequence[Chunk]) -> list[KeptMessage]:
    """Return the messages of a transcript from all of its chunks, in order."""
    lines: list[tuple[int, str, Voice]] = []
    for chunk in chunks:
        texts = chunk.text.split("\n")
        numbers = [int(number) for number in chunk.line_map.split(",")] if chunk.line_map else []
        voices = decode_voices(chunk.voices) if chunk.voices else [UNREAD] * len(texts)
        if len(numbers) != len(texts):
            numbers = [chunk.start_line] * len(texts)
        lines += zip(numbers, texts, voices, strict=True)
    return [
        KeptMessage(number, _parts([(text, voice) for _, text, voice in of_record]))
        for number, of_record in groupby(lines, key=lambda line: line[0])
    ]


def _parts(lines: list[tuple[str, Voice]]) -> list[tuple[str, Voice]]:
    """Join the lines of a message to its parts. Each begins with its speaker's label."""
    parts: list[tuple[list[str], Voice]] = []
    for text, voice in lines:
        if not parts or parts[-1][1] != voice or text.startswith(f"{voice.label}: "):
            parts.append(([], voice))
        parts[-1][0].append(text)
    return [("\n".join(texts), voice) for texts, voice in parts]


def chunked(
    messages: Iterable[KeptMessage], *, tokens: int, max_bytes: int
) -> tuple[list[Chunk], int]:
    """Return the chunks of a transcript, and the line at which the last one begins; 0 if none."""
    chunker = TranscriptChunker(tokens=tokens, max_bytes=max_bytes)
    for message in messages:
        chunker.add(Position(0, message.line), message.parts)
    chunks, tail = chunker.finish(Position(0, 0))
    return chunks, tail.line
