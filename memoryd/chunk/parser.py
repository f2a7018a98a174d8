"""Parser actor: reads changed files and chunks them in a thread, in order."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from memoryd.chunk.facts import note_facts
from memoryd.chunk.markdown import chunk_markdown
from memoryd.chunk.provenance import written_entries
from memoryd.fs.hang import tick
from memoryd.messages import (
    FileChanged,
    FileContent,
    FileGone,
    FileKey,
    ParsedFile,
    SyncMarker,
    ToParser,
    ToReconcile,
    ToWriter,
    Unreadable,
)
from memoryd.text.front_matter import FrontMatter, read_front_matter
from memoryd.text.no_text import DRAWING, data_in
from memoryd.text.outside import OutsideLines, outside_lines

C = TypeVar("C")
T = TypeVar("T")
Parsed = ParsedFile | Unreadable | FileGone

BATCH_FILES = 64
BATCH_BYTES = 256 * 1024
BATCH_S = 0.02
"""Maximum files, bytes and seconds of one job, because handing over each small file costs more."""

AHEAD_BYTES = 16 * 1024 * 1024
"""Maximum bytes that are parsed but not written, unless one file is larger."""


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Chunk size and overlap in tokens, and maximum UTF-8 bytes of one text for the provider."""

    tokens: int
    overlap: int
    max_bytes: int


def parse(
    change: FileChanged, read: Callable[[Path], FileContent], options: ChunkOptions
) -> Parsed:
    """Read a file and chunk it. Blocking; never raises for problems on disk."""
    try:
        content = read(change.real_path)
    except FileNotFoundError:
        return FileGone(change.key)
    except OSError as error:
        return Unreadable(change.key, error.strerror or str(error))
    outside = outside_lines(content.lines)
    front = _front_matter(content.lines, outside)
    facts = note_facts(change.key.path, content.lines, front, outside)
    written = written_entries(content.lines)
    data, left_out = data_in(content.lines, front.lines, drawing=DRAWING in front.properties)
    remarks = (*content.remarks, *(each for each in (front.remark, left_out) if each is not None))
    chunks = chunk_markdown(
        _drained(content.lines, front.lines, written.shown | data),
        tokens=options.tokens,
        overlap=min(options.overlap, options.tokens - 1),
        max_bytes=options.max_bytes,
        outside=outside,
        written=written.voices,
        first_line=front.lines + 1,
    )
    return ParsedFile(change.key, content.stat, content.hash, chunks, remarks, facts=facts)


def _stat(path: Path) -> None:
    tick(path)
    path.lstat()


def _front_matter(lines: list[str], outside: Sequence[OutsideLines]) -> FrontMatter:
    """Return the front matter of a note. It is text if there is no other, or if it is not ours."""
    front = read_front_matter(lines)
    if outside and outside[0].first < max(front.lines, len(front.properties)):
        return FrontMatter({})
    if not any(line and not line.isspace() for line in islice(lines, front.lines, None)):
        return front._replace(lines=0)
    return front


def _drained(
    lines: list[str], start: int, instead: Mapping[int, str | None]
) -> Iterator[str | None]:
    """Yield the lines from `start` on, or what stands instead of them, and free each.

    Freeing a large file at once would hold up every thread.
    """
    lines.reverse()
    del lines[len(lines) - start :]
    number = start
    while lines:
        line = lines.pop()
        yield instead.get(number, line)
        number += 1


def parse_some(
    changes: Sequence[FileChanged], read: Callable[[Path], FileContent], options: ChunkOptions
) -> list[Parsed]:
    """Read and chunk the first files, up to the limits of one job."""
    parsed: list[Parsed] = []
    size = 0
    until = time.monotonic() + BATCH_S
    for change in changes:
        parsed.append(outcome := parse(change, read, options))
        size += outcome.stat.size if isinstance(outcome, ParsedFile) else 0
        if size >= BATCH_BYTES or time.monotonic() >= until:
            break
        time.sleep(0)  # let the event loop run if it waits
    return parsed


class Parser:
    """In: changes and markers. Out: parsed files, and markers behind those before them."""

    def __init__(
        self,
        inbox: asyncio.Queue[ToParser],
        writer: asyncio.Queue[ToWriter],
        markers: asyncio.Queue[ToWriter] | asyncio.Queue[ToReconcile],
        *,
        read: Callable[[Path], FileContent],
        options: ChunkOptions,
        thread: Executor,
    ) -> None:
        self._inbox = inbox
        self._writer = writer
        self._markers = markers
        self._read = read
        self._options = options
        self._thread = thread
        self._parsed = 0
        self._in_hand = 0
        self._ahead_bytes = 0

    async def run(self) -> None:
        """Parse until cancelled."""
        message: ToParser | None = None
        while True:
            # A separate call, so that no large file is kept in memory while waiting.
            message = await self._take(message or await self._inbox.get())

    async def _take(self, message: ToParser | None) -> FileChanged | None:
        """Handle a message and those that share its work; return one to handle next, if any.

        Writers of one note each send a change of it and a marker. Those that wait are parsed once.
        """
        by_key: dict[FileKey, FileChanged] = {}
        markers: list[SyncMarker] = []
        while True:
            if isinstance(message, FileChanged) and (not markers or message.key in by_key):
                by_key[message.key] = message
            elif isinstance(message, SyncMarker) and message.paths is not None:
                markers.append(message)
            else:
                break
            full = len(by_key) >= BATCH_FILES or self._inbox.empty()
            message = None if full else self._inbox.get_nowait()
        changes = list(by_key.values())
        self._in_hand = len(changes) + isinstance(message, FileChanged)
        while changes:
            parsed = await self._in_thread(parse_some, changes)
            del changes[: len(parsed)]
            while parsed:
                await self._pass_on(parsed.pop(0))
        for marker in markers:  # they are about notes alone, and wait for no transcript
            await self._writer.put(marker)
        if isinstance(message, FileChanged):
            return message
        if isinstance(message, SyncMarker):
            await self._markers.put(message)
        elif message is not None:
            await self._writer.put(await self._still_gone(message))
        return None

    async def _still_gone(self, gone: FileGone) -> Parsed:
        """Return the result for a file that was missing: it may have returned since."""
        if gone.absent is None:
            return gone
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, _stat, gone.absent)
        except (FileNotFoundError, NotADirectoryError):
            return gone
        except OSError as error:
            return Unreadable(gone.key, error.strerror or str(error))
        return await self.parse(FileChanged(gone.key, gone.absent))

    async def _pass_on(self, outcome: Parsed) -> None:
        self._ahead_bytes += outcome.stat.size if isinstance(outcome, ParsedFile) else 0
        await self._writer.put(outcome)
        self._parsed += 1
        self._in_hand -= 1
        if self._ahead_bytes >= AHEAD_BYTES:
            del outcome
            await self._writer.join()
            self._ahead_bytes = 0

    async def parse(self, change: FileChanged) -> Parsed:
        """Read and chunk one file off the event loop; rebuilds use this too."""
        return await self._in_thread(parse, change)

    def stats(self) -> int:
        """Return the number of parsed files."""
        return self._parsed

    def in_hand(self) -> int:
        """Return the number of files that have left the queue and not reached the writer."""
        return self._in_hand

    async def _in_thread(
        self, work: Callable[[C, Callable[[Path], FileContent], ChunkOptions], T], subject: C
    ) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, subject, self._read, self._options)
