"""Reads of a transcript what was added since the last time, and makes chunks of it."""

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.fs.hang import tick
from memoryd.messages import Chunk, FileStat, TranscriptState, file_stat
from memoryd.source.transcripts.archive import opened
from memoryd.source.transcripts.format import Message, Record, TranscriptFormat
from memoryd.source.transcripts.locations import is_archive

BLOCK_BYTES = 256 * 1024
"""No call takes more at once: one that takes a whole file holds up every thread meanwhile."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
HEAD_BYTES = 4_096
HEAD_RECORDS = 50
"""What a transcript is, is told by its first records."""
HEAD_LINES = 1_000
"""They are looked for among as many lines: not in all of a large file that is no transcript."""
BOM = b"\xef\xbb\xbf"
SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """How transcripts are read. `redact` masks secrets; `owner` is whose transcript it is.

    `base` returns the folder from which on no link may lead to one.
    `forgotten` says of a message, as it is spoken, that it is not there for us.
    """

    detect: Callable[[Sequence[Record]], TranscriptFormat | None]
    by_name: Callable[[str], TranscriptFormat]
    redact: Callable[[str], str]
    base: Callable[[Path], Path]
    tokens: int
    max_bytes: int
    owner: str = ""
    forgotten: Callable[[str], bool] = lambda text: False


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """What a reading gave: the chunks that begin at `from_line` or later, and where it ended.

    `bytes_read` are those of the complete lines from there on.
    """

    stat: FileStat
    hash: str
    state: TranscriptState
    chunks: list[Chunk]
    from_line: int
    bytes_read: int


class TranscriptExcerpt(NamedTuple):
    """Messages or records as text, how many lines the transcript has, and where to go on, if so."""

    lines: list[str]
    total_lines: int
    next_line: int | None


class _Line(NamedTuple):
    """One complete line; `data` None: too long to be held. `end` is behind its line end."""

    at: Position
    data: bytes | None
    end: int


def read_delta(
    path: Path, *, base: TranscriptState | None, options: DeltaOptions
) -> TranscriptDelta:
    """Read what was added since `base`; all of it for another file, or one that was cut short.

    Raises `OSError`, also for what is no transcript of a known format. The last line counts once it
    is complete.
    """
    with opened(path, options.base(path)) as (file, found, size):
        # Before the rest: a file that is rewritten meanwhile shall differ at the next look.
        first = os.pread(file.fileno(), HEAD_BYTES, 0)
        is_same = base is not None and _is_same(file, found, size, base)
        fmt, session = _recognized(file, size, base if is_same else None, options)
        name = "" if fmt is None else fmt.name
        generation = 0 if base is None else base.generation
        if base is not None and (not is_same or base.format not in ("", name)):
            base = None
            generation += 1
        start = Position(0, 1) if base is None else Position(base.tail_offset, base.tail_line)
        end, messages, malformed = start, 0, 0
        chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
        closed = is_archive(path.name)
        for line in _lines(file, start, size, closed=closed) if fmt is not None else ():
            end = Position(line.end, line.at.line + 1)
            is_new = base is None or line.at.line > base.lines
            record = _record(line.data)
            if record is None:
                malformed += is_new and not _is_blank(line)
            elif fmt is not None and (message := fmt.message(record)) is not None:
                messages += is_new
                if not options.forgotten(text := spoken(message, options.redact)):
                    chunker.add(line.at, text)
        if base is not None and end.offset < base.offset:
            raise OSError(errno.ESTALE, "it was cut short while it was read")
        chunks, tail = chunker.finish(end)
        head_bytes = min(HEAD_BYTES, end.offset)
        head_hash = hashlib.sha256(first[:head_bytes]).hexdigest()
    state = TranscriptState(
        format=name,
        device=found.st_dev,
        inode=found.st_ino,
        generation=generation,
        offset=end.offset,
        lines=end.line - 1,
        head_bytes=head_bytes,
        head_hash=head_hash,
        tail_offset=tail.offset,
        tail_line=tail.line,
        messages=messages + (0 if base is None else base.messages),
        malformed=malformed + (0 if base is None else base.malformed),
        session=session,
        owner=options.owner,
    )
    content = f"{head_hash}:{generation}:{end.offset}"
    return TranscriptDelta(
        file_stat(found),
        hashlib.sha256(content.encode()).hexdigest(),
        state,
        chunks,
        from_line=start.line,
        bytes_read=end.offset - start.offset,
    )


def read_records(
    path: Path,
    *,
    options: DeltaOptions,
    start_line: int,
    max_lines: int,
    max_chars: int,
    raw: bool,
) -> TranscriptExcerpt:
    """Return the messages of the records from `start_line` on, or with `raw` these themselves.

    Secrets are masked in both. Raises `OSError` as `read_delta` does.
    """
    taken: list[str] = []
    room, next_line, total = max_chars, None, 0
    with opened(path, options.base(path)) as (file, _, size):
        fmt, _ = _recognized(file, size, None, options)
        for line in _lines(file, Position(0, 1), size):
            total = line.at.line
            if total < start_line or next_line is not None:
                continue
            text = _shown(line, fmt, options, raw=raw)
            if text is None:
                continue
            room -= len(text) + 1
            if len(taken) == max_lines or (room < 0 and taken):
                next_line = total
            else:
                taken.append(text[:max_chars])
    return TranscriptExcerpt(taken, total, next_line)


def spoken(message: Message, redact: Callable[[str], str]) -> str:
    """Return a message as its line of text, secrets masked."""
    return f"{SPEAKERS[message.role]}: {redact(message.text)}"


def messages(path: Path, options: DeltaOptions) -> Iterator[str]:
    """Yield every message of a transcript, as it is spoken. Raises `OSError`."""
    with opened(path, options.base(path)) as (file, _, size):
        fmt, _ = _recognized(file, size, None, options)
        for line in _lines(file, Position(0, 1), size):
            if (text := _shown(line, fmt, options, raw=False)) is not None:
                yield text


def _shown(
    line: _Line, fmt: TranscriptFormat | None, options: DeltaOptions, *, raw: bool
) -> str | None:
    record = _record(line.data)
    message = None if record is None or fmt is None else fmt.message(record)
    text = None if message is None else spoken(message, options.redact)
    if text is not None and options.forgotten(text):
        return None
    if raw:
        return None if line.data is None else _raw(line.data, record, options.redact)
    return text


def _raw(data: bytes, record: Record | None, redact: Callable[[str], str]) -> str | None:
    """Return a line as it stands, or what it means where that has secrets.

    As it stands, JSON may write any character of a secret as an escape.
    """
    text = data.decode("utf-8", "replace")
    try:
        masked = _masked(record, redact)
        if masked != record:
            text = json.dumps(masked, ensure_ascii=False)
    except RecursionError:
        return None
    return redact(text)


def masked_json(value: Any, redact: Callable[[str], str]) -> str:
    """Return a value as JSON, secrets in its texts masked."""
    return redact(json.dumps(_masked(value, redact), ensure_ascii=False))


def _masked(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_masked(item, redact) for item in value]
    if isinstance(value, dict):
        return {redact(key): _masked(item, redact) for key, item in value.items()}
    return value


def _is_same(file: BinaryIO, found: os.stat_result, size: int, base: TranscriptState) -> bool:
    """Say whether the file is the one that was read, and has only grown.

    Beside its first bytes, lines must still end where they did: what is rewritten in place often
    begins with the same header.
    """
    head = os.pread(file.fileno(), base.head_bytes, 0)
    return (
        (found.st_dev, found.st_ino) == (base.device, base.inode)
        and size >= base.offset
        and hashlib.sha256(head).hexdigest() == base.head_hash
        and all(
            os.pread(file.fileno(), 1, end - 1) == b"\n"
            for end in (base.tail_offset, base.offset)
            if end
        )
    )


def _recognized(
    file: BinaryIO, size: int, base: TranscriptState | None, options: DeltaOptions
) -> tuple[TranscriptFormat | None, str]:
    """Return a transcript's format and session; no format as long as it has blank lines at most.

    Both are looked for again until all lines that can tell are there: the first one alone may fit
    another format. Raises `OSError` when no format fits.
    """
    if base is not None and (
        base.lines >= HEAD_LINES or base.lines - base.malformed >= HEAD_RECORDS
    ):
        return options.by_name(base.format), base.session
    head, is_empty = _head(file, size)
    fmt = None if is_empty else options.detect(head)
    if fmt is None and not is_empty:
        raise OSError(errno.EILSEQ, "not a transcript of a known format")
    return fmt, "" if fmt is None else fmt.session(head)


def _head(file: BinaryIO, size: int) -> tuple[list[Record], bool]:
    """Return the first records, and whether there is nothing but blank lines.

    These count as records, as where malformed lines are counted. Beyond `MAX_RECORD_BYTES` in all,
    no more are taken.
    """
    head: list[Record] = []
    well_formed, held_bytes, is_empty = 0, 0, True
    for line in islice(_lines(file, Position(0, 1), size), HEAD_LINES):
        is_blank = _is_blank(line)
        is_empty = is_empty and is_blank
        if (record := _record(line.data)) is not None:
            head.append(record)
            held_bytes += line.end - line.at.offset
        well_formed += is_blank or record is not None
        if well_formed == HEAD_RECORDS or held_bytes > MAX_RECORD_BYTES:
            break
    return head, is_empty


def _is_blank(line: _Line) -> bool:
    return line.data is not None and not line.data.removeprefix(BOM).strip()


def _record(data: bytes | None) -> Record | None:
    if data is None:
        return None
    data = data.removeprefix(BOM)
    try:
        record = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = _mended(data) if b"\\u" in data else None
    return record if isinstance(record, dict) else None


def _mended(data: bytes) -> object:
    """Return what a line means whose texts have half a surrogate pair, as U+FFFD; None if nothing.

    JavaScript writes such texts when it has cut them within an emoji.
    """
    try:
        text = json.dumps(json.loads(data.decode()), ensure_ascii=False)
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return msgspec.json.decode(whole)
    except (ValueError, RecursionError):
        return None


def _lines(file: BinaryIO, start: Position, size: int, *, closed: bool = False) -> Iterator[_Line]:
    """Yield the complete lines from `start` on, up to `size` bytes of the file.

    Of a file that is `closed` the last one is complete without a line end.
    """
    at, position = start, start.offset
    held: list[bytes] = []
    held_bytes = 0
    file.seek(position)
    while position < size and (block := file.read(min(BLOCK_BYTES, size - position))):
        tick()
        time.sleep(0)  # the event loop's turn, if it waits
        position += len(block)
        begin = 0
        while (stop := block.find(b"\n", begin)) >= 0:
            length = held_bytes + stop - begin
            data = None
            if length <= MAX_RECORD_BYTES:
                data = b"".join((*held, block[begin:stop]))
            end = at.offset + length + 1
            yield _Line(at, data, end)
            at = Position(end, at.line + 1)
            held, held_bytes, begin = [], 0, stop + 1
        held_bytes += len(block) - begin
        if held_bytes <= MAX_RECORD_BYTES:
            held.append(block[begin:])
        else:
            held.clear()
    if closed and held_bytes:
        data = b"".join(held) if held_bytes <= MAX_RECORD_BYTES else None
        yield _Line(at, data, at.offset + held_bytes)
