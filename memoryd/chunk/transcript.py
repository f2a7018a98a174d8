"""Resumable chunking of transcript messages. Pure.

The end of a chunk depends only on its content and the next message. Chunking that resumes at the
first record of the last chunk therefore yields the chunks of the whole transcript.

Strangers' words share no chunk with others', so that no search finds the one by the other, and the
words of two chats share none. The assistant belongs to the chat of the others in its chunk.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from memoryd.messages import Chunk
from memoryd.text.token_estimate import pieces, weigh, well_formed, wrapped
from memoryd.text.voice import Voice, encode_voices, least_trusted
from memoryd_client.schema.search import Role

LINE_CHARS = 800
_MIN_BUDGET_UNITS = 32


class Position(NamedTuple):
    """Start of a record: byte offset, and 1-based line."""

    offset: int
    line: int


class _Line(NamedTuple):
    """Text line of a message. `units` and `size` (bytes) include a line end."""

    at: Position
    text: str
    units: int
    size: int
    voice: Voice


class TranscriptChunker:
    """Chunker of messages in order.

    It splits only messages that are too long for one chunk or quote outside content.

    A chunk weighs at most `tokens` (see `weigh`) and takes at most `max_bytes` in UTF-8; its line
    numbers are those of the records in the transcript.
    """

    def __init__(self, *, tokens: int, max_bytes: int) -> None:
        self._budget = max(_MIN_BUDGET_UNITS, tokens * 4)
        self._max_size = max_bytes + 1  # the last line has no end
        self._chunks: list[Chunk] = []
        self._open: list[_Line] = []
        self._units = 0
        self._size = 0
        self._trusts: set[bool] = set()
        self._chats: set[str] = set()

    def add(self, at: Position, parts: Sequence[tuple[str, Voice]]) -> None:
        """Add the next message: texts, each with its voice."""
        lines = [line for text, voice in parts for line in self._lines(at, text, voice)]
        units, size = sum(line.units for line in lines), sum(line.size for line in lines)
        # A message in several chunks begins a new one: resuming reads it from its start.
        if not self._fits(units, size) or not self._go_together(lines):
            self._close()
        for line in lines:
            if not self._fits(line.units, line.size) or not self._go_together([line]):
                self._close()
            self._open.append(line)
            self._trusts.add(line.voice.trusted)
            self._chats.update(_chats([line]))
            self._units += line.units
            self._size += line.size

    def interrupt(self) -> None:
        """End the open chunk, because a record that is left out follows it.

        Resuming would read that record again.
        """
        self._close()

    def finish(self, end: Position) -> tuple[list[Chunk], Position]:
        """Return all chunks, and the start of the last one; `end` if there is none."""
        tail = self._open[0].at if self._open else end
        self._close()
        return self._chunks, tail

    def _go_together(self, lines: Sequence[_Line]) -> bool:
        """Return whether lines may join the open chunk."""
        trusts = self._trusts.union(line.voice.trusted for line in lines)
        chats = self._chats.union(_chats(lines))
        return len(trusts) <= 1 and len(chats) <= 1

    def _lines(self, at: Position, text: str, voice: Voice) -> list[_Line]:
        text = well_formed(text)
        units, max_bytes = self._budget - 1, self._max_size - 1  # without a line end
        lines: list[_Line] = []
        for line in chain.from_iterable(
            wrapped(line, chars=LINE_CHARS) for line in text.split("\n")
        ):
            is_whole = weigh(line) <= units and len(line.encode()) <= max_bytes
            parts = (line,) if is_whole else pieces(line, units=units, max_bytes=max_bytes)
            lines += (
                _Line(at, part, weigh(part) + 1, len(part.encode()) + 1, voice) for part in parts
            )
        return lines

    def _fits(self, units: int, size: int) -> bool:
        return self._units + units <= self._budget and self._size + size <= self._max_size

    def _close(self) -> None:
        if self._open:
            first, last = self._open[0].at.line, self._open[-1].at.line
            text = "\n".join(line.text for line in self._open)
            line_map = ",".join(str(line.at.line) for line in self._open)
            voices = [line.voice for line in self._open]
            origin = least_trusted(voice.origin for voice in voices)
            self._chunks.append(
                Chunk(first, last, text, "", line_map, origin, encode_voices(voices))
            )
        self._open, self._units, self._size = [], 0, 0
        self._trusts, self._chats = set(), set()


def _chats(lines: Sequence[_Line]) -> set[str]:
    return {line.voice.channel for line in lines if line.voice.role is not Role.ASSISTANT}
