"""Reads changed files and cuts them into chunks, in a thread, in the order they were noticed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from memoryd.chunk.markdown import chunk_markdown
from memoryd.flow import (
    FileChanged,
    FileContent,
    FileGone,
    ParsedFile,
    ToParser,
    ToWriter,
    Unreadable,
    split_lines,
)


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Chunk size and overlap in tokens, and the most a provider takes of one text in UTF-8."""

    tokens: int
    overlap: int
    max_bytes: int


def parse(
    change: FileChanged, read: Callable[[Path], FileContent], options: ChunkOptions
) -> ParsedFile | Unreadable | FileGone:
    """Read a file and chunk it. Blocking; never raises for what is on disk."""
    try:
        content = read(change.real_path)
    except FileNotFoundError:
        return FileGone(change.key)
    except OSError as error:
        return Unreadable(change.key, error.strerror or str(error))
    chunks = chunk_markdown(
        split_lines(content.text),
        tokens=options.tokens,
        overlap=min(options.overlap, options.tokens - 1),
        max_bytes=options.max_bytes,
    )
    return ParsedFile(change.key, content.stat, content.hash, chunks)


class Parser:
    """In: changes and markers. Out: parsed files, in the same order."""

    def __init__(
        self,
        inbox: asyncio.Queue[ToParser],
        writer: asyncio.Queue[ToWriter],
        *,
        read: Callable[[Path], FileContent],
        options: ChunkOptions,
        thread: Executor,
    ) -> None:
        self._inbox = inbox
        self._writer = writer
        self._read = read
        self._options = options
        self._thread = thread
        self._parsed = 0

    async def run(self) -> None:
        """Parse until cancelled."""
        while True:
            message = await self._inbox.get()
            if isinstance(message, FileChanged):
                await self._writer.put(await self.parse(message))
                self._parsed += 1
            else:
                await self._writer.put(message)

    async def parse(self, change: FileChanged) -> ParsedFile | Unreadable | FileGone:
        """Read and chunk one file off the event loop; a rebuild uses this too."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, parse, change, self._read, self._options)

    def stats(self) -> int:
        """Return how many files were parsed."""
        return self._parsed
