"""Reads and chunks the additions to a transcript since the last read."""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.fs.hang import tick
from memoryd.fs.safe_open import BLOCK_BYTES
from memoryd.messages import (
    NO_FACTS,
    Chunk,
    FileFacts,
    FileStat,
    TranscriptState,
    file_stat,
)
from memoryd.source.transcripts.archive import opened
from memoryd.source.transcripts.branch import current_branch
from memoryd.source.transcripts.format import (
    Record,
    TranscriptFormat,
    chat_type_of,
    record_id,
)
from memoryd.source.transcripts.locations import is_archive
from memoryd.source.transcripts.pi import Pi
from memoryd.source.transcripts.records import BOM, TranscriptExcerpt, decoded, excerpt, shown
from memoryd.source.transcripts.spoken import ReadingRules, Spoken, spoken
from memoryd.source.transcripts.times import Times
from memoryd.source.transcripts.topic import TopicReader, spoken_title

MAX_RECORD_BYTES = 16 * 1024 * 1024
HEAD_BYTES = 4_096
HEAD_RECORDS = 50
"""Maximum records from which the format is detected."""
HEAD_LINES = 1_000
"""Maximum lines searched for these, so that a large file of another kind is not read whole."""


Repeated = Callable[[TranscriptFormat, Sequence[Record]], Collection[str]]


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """Options for reading transcripts. `owner` is the owning agent.

    `repeated` returns the ids of records that another transcript has, and that are left out, from
    the first records, which are empty if they were read before.

    `base` returns the directory below which no links are allowed; `unpack_in` is the one for
    unpacked archives.
    """

    detect: Callable[[Sequence[Record]], TranscriptFormat | None]
    by_name: Callable[[str], TranscriptFormat]
    rules: ReadingRules
    base: Callable[[Path], Path]
    unpack_in: Path
    tokens: int
    max_bytes: int
    owner: str = ""
    repeated: Repeated = lambda fmt, head: ()


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """Result of a read: the chunks from `from_line` on, and the state at the end.

    `bytes_read` counts the lines from there on. `facts` are those of the whole transcript.
    """

    stat: FileStat
    hash: str
    state: TranscriptState
    chunks: list[Chunk]
    from_line: int
    bytes_read: int
    facts: FileFacts = NO_FACTS


class _Line(NamedTuple):
    """Line; `data` is None if it is too long. `end` is the offset after its line end, if any."""

    at: Position
    data: bytes | None
    end: int
    is_open: bool = False


def read_delta(
    path: Path, *, base: TranscriptState | None, options: DeltaOptions
) -> TranscriptDelta:
    """Read the additions since `base`; read everything if the file was replaced or truncated.

    Raises `OSError`, also for unknown formats. The last line needs no line end if it is a record,
    which the start of a record never is. The state ends before it, because it may still grow.
    """
    with opened(path, options.base(path), options.unpack_in) as (file, found, size):
        # Read first, so that a file rewritten meanwhile differs at the next check.
        first = os.pread(file.fileno(), HEAD_BYTES, 0)
        is_same = base is not None and _is_same(file, found, size, base)
        fmt, session, records = _recognized(file, size, base if is_same else None, options)
        name = "" if fmt is None else fmt.name
        generation = 0 if base is None else base.generation
        if base is not None and (not is_same or base.format not in ("", name)):
            base = None
            generation += 1
        # No copy is in the open chunk or follows it, so that additions have none.
        is_addition = base is not None and base.messages > 0
        repeated = () if fmt is None or is_addition else options.repeated(fmt, records)
        closed = is_archive(path.name)
        abandoned = _abandoned(file, size, fmt, base, closed=closed)
        if abandoned is None:
            base, abandoned = None, _abandoned(file, size, fmt, None, closed=closed) or set()
            generation += 1
        start = Position(0, 1) if base is None else Position(base.tail_offset, base.tail_line)
        end, messages, malformed, open_messages = start, 0, 0, 0
        chat_type = "" if base is None else base.chat_type
        times = Times.of(base)
        topics = TopicReader(None if base is None else base.topic, fmt, options.rules)
        chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
        read_to = start.offset
        for line in _lines(file, start, size, closed=closed) if fmt is not None else ():
            read_to = line.end
            if not line.is_open:
                end = Position(line.end, line.at.line + 1)
            is_new = base is None or line.at.line > base.lines
            record = decoded(line.data)
            if record is None:
                malformed += is_new and not _is_blank(line)
                continue
            if repeated and record_id(record) in repeated:
                chunker.interrupt()
                continue
            if line.at.line in abandoned:
                continue
            topics.read(record)
            if fmt is not None and (message := fmt.message(record)) is not None:
                messages += is_new
                open_messages += line.is_open
                times = times.with_message(message)
                chat_type = chat_type_of(chat_type, message.chat_type)
                said = list(spoken(message, options.rules))
                topics.hear(said)
                chunker.add(line.at, [(part.text, part.voice) for part in said])
        if base is not None and end.offset < base.offset:
            raise OSError(errno.ESTALE, "it was truncated while it was read")
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
        messages=messages + (0 if base is None else base.messages - base.open_messages),
        open_messages=open_messages,
        malformed=malformed + (0 if base is None else base.malformed),
        session=session,
        owner=options.owner,
        reading=options.rules.reading,
        first_at=times.first,
        last_at=times.last,
        topic=topics.topic,
        chat_type=chat_type,
    )
    content = f"{head_hash}:{generation}:{end.offset}:{read_to}:{state.reading}"
    return TranscriptDelta(
        file_stat(found),
        hashlib.sha256(content.encode()).hexdigest(),
        state,
        chunks,
        from_line=start.line,
        bytes_read=read_to - start.offset,
        facts=times.facts(),
    )


def read_records(
    path: Path, *, options: DeltaOptions, start_line: int, max_lines: int, max_chars: int, raw: bool
) -> TranscriptExcerpt:
    """Return the messages from line `start_line` on, or with `raw` the records themselves.

    Secrets are masked in both. Raises `OSError` as `read_delta` does.
    """
    with opened(path, options.base(path), options.unpack_in) as (file, _, size):
        fmt, *_ = _recognized(file, size, None, options)
        message = _no_message if fmt is None else fmt.message
        abandoned = (not raw and _abandoned(file, size, fmt, None)) or ()
        return excerpt(
            (
                (line.at.line, None if line.at.line in abandoned else line.data)
                for line in _lines(file, Position(0, 1), size)
            ),
            lambda data: shown(data, message, options.rules, raw=raw),
            start_line=start_line,
            max_lines=max_lines,
            max_chars=max_chars,
        )


def _no_message(record: Record) -> None:
    """Return no message: the format of the transcript is not known yet."""


def messages(path: Path, options: DeltaOptions) -> Iterator[Spoken]:
    """Yield every message of a transcript as `spoken` does, and its titles. Raises `OSError`."""
    with opened(path, options.base(path), options.unpack_in) as (file, _, size):
        fmt, *_ = _recognized(file, size, None, options)
        for line in _lines(file, Position(0, 1), size):
            record = decoded(line.data)
            if record is None or fmt is None:
                continue
            if (title := fmt.title(record)) is not None:
                yield spoken_title(title, options.rules)
            if (message := fmt.message(record)) is not None:
                yield from spoken(message, options.rules)


def first_records(path: Path, options: DeltaOptions) -> list[Record]:
    """Return the first records of a transcript, as its format is detected. Raises `OSError`."""
    with opened(path, options.base(path), options.unpack_in) as (file, _, size):
        return _head(file, size)[0]


def record_times(path: Path, options: DeltaOptions) -> dict[str, str]:
    """Return the ids of the records of a transcript, with their times as they are written there.

    "" if a record has no time. Raises `OSError`.
    """
    with opened(path, options.base(path), options.unpack_in) as (file, _, size):
        records = (decoded(line.data) or {} for line in _lines(file, Position(0, 1), size))
        times = {record_id(record): str(record.get("timestamp") or "") for record in records}
        times.pop("", None)
        return times


def spoken_records(path: Path, options: DeltaOptions) -> Iterator[tuple[str, list[Spoken]]]:
    """Yield the id and the words of each record with a message. Raises `OSError`."""
    with opened(path, options.base(path), options.unpack_in) as (file, _, size):
        fmt, *_ = _recognized(file, size, None, options)
        for line in _lines(file, Position(0, 1), size) if fmt is not None else ():
            record = decoded(line.data)
            if record is not None and fmt is not None and (message := fmt.message(record)):
                yield record_id(record), list(spoken(message, options.rules))


def _abandoned(
    file: BinaryIO,
    size: int,
    fmt: TranscriptFormat | None,
    base: TranscriptState | None,
    *,
    closed: bool = False,
) -> set[int] | None:
    """Return the lines of abandoned branches, from those on that are read again after `base`.

    None if all must be read again, as an event that was read may have been abandoned since.
    """
    if not isinstance(fmt, Pi):
        return set()
    start = Position(0, 1) if base is None else Position(base.tail_offset, base.tail_line)
    lines = _lines(file, start, size, closed=closed)
    current, events = current_branch(
        ((line.at.line, decoded(line.data)) for line in lines), over_gaps=base is None
    )
    if base is not None:
        read_before = max((n for n in events if n <= base.lines), default=0)
        # The branch may also come from before these lines, or a record may be lost.
        if read_before not in current or min(events) not in current:
            return None
    return events - current


def _is_same(file: BinaryIO, found: os.stat_result, size: int, base: TranscriptState) -> bool:
    """Return whether the file is the one read before and has only grown.

    The first bytes and the recorded line ends must match, because a file rewritten in place often
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
) -> tuple[TranscriptFormat | None, str, list[Record]]:
    """Return a transcript's format, session and head; no format if it has only blank lines so far.

    They are detected again until the head is complete, because the first line alone may fit another
    format. Raises `OSError` if no format fits.
    """
    if base is not None and (
        base.lines >= HEAD_LINES or base.lines - base.malformed >= HEAD_RECORDS
    ):
        return options.by_name(base.format), base.session, []
    head, is_empty = _head(file, size)
    fmt = None if is_empty else options.detect(head)
    if fmt is None and not is_empty:
        raise OSError(errno.EILSEQ, "not a transcript of a known format")
    return fmt, "" if fmt is None else fmt.session(head), head


def _head(file: BinaryIO, size: int) -> tuple[list[Record], bool]:
    """Return the first records, at most `MAX_RECORD_BYTES` in total, and whether all is blank.

    Blank lines count as records, as in the count of malformed lines.
    """
    head: list[Record] = []
    well_formed, held_bytes, is_empty = 0, 0, True
    for line in islice(_lines(file, Position(0, 1), size), HEAD_LINES):
        is_blank = _is_blank(line)
        is_empty = is_empty and is_blank
        if (record := decoded(line.data)) is not None:
            head.append(record)
            held_bytes += line.end - line.at.offset
        well_formed += is_blank or record is not None
        if well_formed == HEAD_RECORDS or held_bytes > MAX_RECORD_BYTES:
            break
    return head, is_empty


def _is_blank(line: _Line) -> bool:
    return line.data is not None and not line.data.removeprefix(BOM).strip()


def _lines(file: BinaryIO, start: Position, size: int, *, closed: bool = False) -> Iterator[_Line]:
    """Yield the complete lines from `start` on, up to `size` bytes of the file.

    A last line without a line end is complete in a `closed` file. In others it is `is_open`, and
    left out unless it is a record.
    """
    at, position = start, start.offset
    held: list[bytes] = []
    held_bytes = 0
    file.seek(position)
    while position < size and (block := file.read(min(BLOCK_BYTES, size - position))):
        tick()
        time.sleep(0)  # let the event loop run if it waits
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
    if held_bytes:
        data = b"".join(held) if held_bytes <= MAX_RECORD_BYTES else None
        if closed or decoded(data) is not None:
            yield _Line(at, data, at.offset + held_bytes, is_open=not closed)
