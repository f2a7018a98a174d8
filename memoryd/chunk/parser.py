"""Reads changed files and cuts them into chunks, in a thread, in the order they were noticed."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memoryd.chunk.markdown import chunk_markdown
from memoryd.fs.hang import tick
from memoryd.messages import (
    FileChanged,
    FileContent,
    FileGone,
    ParsedFile,
    SyncMarker,
    ToParser,
    ToReconcile,
    ToWriter,
    Unreadable,
)

C = TypeVar("C")
T = TypeVar("T")
Parsed = ParsedFile | Unreadable | FileGone

BATCH_FILES = 64
BATCH_BYTES = 256 * 1024
BATCH_S = 0.02
"""What a thread does at one go: small files cost less than handing each over."""

AHEAD_BYTES = 16 * 1024 * 1024
"""As much is parsed and not written at a time, or one larger file."""


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Chunk size and overlap in tokens, and the most a provider takes of one text in UTF-8."""

    tokens: int
    overlap: int
    max_bytes: int


def parse(
    change: FileChanged, read: Callable[[Path], FileContent], options: ChunkOptions
) -> Parsed:
    """Read a file and chunk it. Blocking; never raises for what is on disk."""
    try:
        content = read(change.real_path)
    except FileNotFoundError:
        return FileGone(change.key)
    except OSError as error:
        return Unreadable(change.key, error.strerror or str(error))
    chunks = chunk_markdown(
        _given_up(content.lines),
        tokens=options.tokens,
        overlap=min(options.overlap, options.tokens - 1),
        max_bytes=options.max_bytes,
    )
    return ParsedFile(change.key, content.stat, content.hash, chunks, content.remarks)


def _look_for(path: Path) -> None:
    tick(path)
    path.lstat()


def _given_up(lines: list[str]) -> Iterator[str]:
    """Yield lines and free each: all of a large file's at once would hold up every thread."""
    lines.reverse()
    while lines:
        yield lines.pop()


def parse_some(
    changes: Sequence[FileChanged],
    read: Callable[[Path], FileContent],
    options: ChunkOptions,
) -> list[Parsed]:
    """Read and chunk the first of some files, as many as take no more than a moment."""
    parsed: list[Parsed] = []
    size = 0
    until = time.monotonic() + BATCH_S
    for change in changes:
        parsed.append(outcome := parse(change, read, options))
        size += outcome.stat.size if isinstance(outcome, ParsedFile) else 0
        if size >= BATCH_BYTES or time.monotonic() >= until:
            break
        time.sleep(0)  # the event loop's turn, if it waits
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
        while True:
            # A call of its own, so that nothing of a large file is held on to while we wait.
            await self._take(await self._inbox.get())

    async def _take(self, message: ToParser | None) -> None:
        changes: list[FileChanged] = []
        while isinstance(message, FileChanged):
            changes.append(message)
            full = len(changes) >= BATCH_FILES or self._inbox.empty()
            message = None if full else self._inbox.get_nowait()
        self._in_hand = len(changes)
        while changes:
            parsed = await self._in_thread(parse_some, changes)
            del changes[: len(parsed)]
            while parsed:
                await self._pass_on(parsed.pop(0))
        if isinstance(message, SyncMarker):
            await self._markers.put(message)
        elif message is not None:
            await self._writer.put(await self._still_gone(message))

    async def _still_gone(self, gone: FileGone) -> Parsed:
        """Return what has become of a file that was not there: it may have come back since."""
        if gone.absent is None:
            return gone
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, _look_for, gone.absent)
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
        """Read and chunk one file off the event loop; a rebuild uses this too."""
        return await self._in_thread(parse, change)

    def stats(self) -> int:
        """Return how many files were parsed."""
        return self._parsed

    def in_hand(self) -> int:
        """Return how many files have left the queue and are not with the writer yet."""
        return self._in_hand

    async def _in_thread(
        self, work: Callable[[C, Callable[[Path], FileContent], ChunkOptions], T], what: C
    ) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, what, self._read, self._options)
