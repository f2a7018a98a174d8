"""Packer of lines into chunks. Pure."""

import msgspec

from memoryd.messages import Chunk
from memoryd.text.voice import NOTE, Voice, encode_voices, least_trusted


class ChunkItem(msgspec.Struct, frozen=True, gc=False):
    """Line, or part of an overlong one. `units` and `size` (bytes) include a line end."""

    line: int
    text: str
    units: int
    size: int
    path: str
    voice: Voice
    is_heading: bool
    is_blank: bool
    fence: int = 0
    """Number of the fenced code to which the line belongs, 0 for none."""


class ChunkPacker:
    """Packer that fills one chunk after another.

    The current chunk has `_old` items of no new content (repeated lines, and blank lines after
    them), followed by new items. `_headings` is the index of the headings and blank lines at its
    end, None if there are none.
    """

    def __init__(self, *, budget: int, repeat: int, max_bytes: int) -> None:
        self._budget = budget
        self._repeat = repeat
        self._max_size = max_bytes + 1  # the last line has no end
        self._chunks: list[Chunk] = []
        self._current: list[ChunkItem] = []
        self._old = 0
        self._headings: int | None = None
        self._units = 0
        self._size = 0
        self._voice = NOTE

    def add(self, item: ChunkItem) -> None:
        """Put the next item into the current chunk or the next one."""
        is_heading, voice = item.is_heading, item.voice
        units, size = item.units, item.size
        if voice is not self._voice:
            if _is_apart(voice, self._voice):
                self.cut()
            self._voice = voice
        if (
            self._units + units > self._budget
            or self._size + size > self._max_size
            or (is_heading and 2 * self._units >= self._budget)
        ):
            self._make_room(units, size)
        if is_heading and not self._has_new():
            self._keep([], old=0)
        index = len(self._current)
        if item.is_blank:
            if self._old == index:
                self._old += 1
        elif not is_heading:
            self._headings = None
        elif self._headings is None:
            self._headings = index
        self._current.append(item)
        self._units += units
        self._size += size

    def add_block(self, block: list[ChunkItem]) -> None:
        """Add code or a table that fits into one chunk, and keep it whole."""
        units, size = _sums(block)
        apart = _is_apart(block[0].voice, self._voice)
        if not apart and not self._fits(units, size) and self._cuts(block):
            headings = [] if self._headings is None else self._current[self._headings :]
            below_units, below_size = _sums(headings)
            if units + below_units > self._budget or size + below_size > self._max_size:
                self._headings = None
            self._make_room(units, size)
        for item in block:
            self.add(item)

    def _cuts(self, block: list[ChunkItem]) -> bool:
        """Return whether a block would be cut, and not repeated whole in the next chunk."""
        units, size = self._units, self._size
        here = 0
        for item in block:
            units, size = units + item.units, size + item.size
            if units > self._budget or size > self._max_size:
                break
            here += 1
        if here == 0 and self._headings is not None:
            return True
        tail = self._tail([*self._current, *block[:here]])
        if len(tail) < here:
            return True
        units, size = _sums([*tail, *block[here:]])
        return units > self._budget or size > self._max_size

    def _make_room(self, units: int, size: int) -> None:
        """End the chunk, and keep as many repeated lines as leave room for this much."""
        self._close()
        if self._has_new() and not self._fits(units, size):
            # Only headings, and no room for text.
            self._headings = None
            self._close()
        drop = 0
        while drop < self._old and not self._fits(units, size):
            self._units -= self._current[drop].units
            self._size -= self._current[drop].size
            drop += 1
        del self._current[:drop]
        self._old -= drop

    def cut(self) -> None:
        """End the chunk here."""
        self.finish()
        self._keep([], old=0)

    def finish(self) -> list[Chunk]:
        """Finish the last chunk and return all."""
        if self._has_new():
            self._emit(self._current)
        return self._chunks

    def _has_new(self) -> bool:
        return self._old < len(self._current)

    def _fits(self, units: int, size: int) -> bool:
        return self._units + units <= self._budget and self._size + size <= self._max_size

    def _close(self) -> None:
        """End the chunk before its last headings; start the next with them or a repeat."""
        if not self._has_new() or self._headings == 0:
            # Nothing to end. Don't copy a long run of headings for each new one.
            return
        end = len(self._current) if self._headings is None else self._headings
        if end > self._old:
            self._emit(self._current[:end])
        if self._headings is not None:
            self._keep(self._current[end:], old=0)
            self._headings = 0
            return
        repeated = self._tail(self._current)
        self._keep(repeated, old=len(repeated))

    def _tail(self, items: list[ChunkItem]) -> list[ChunkItem]:
        """Return the last items that may be repeated, starting no earlier than a heading."""
        units = self._repeat
        start = len(items)
        while start and items[start - 1].units <= units:
            start -= 1
            units -= items[start].units
            if items[start].is_heading:
                break
        return items[start:]

    def _keep(self, items: list[ChunkItem], *, old: int) -> None:
        self._current = items
        self._old = old
        self._headings = None
        self._units, self._size = _sums(items)

    def _emit(self, items: list[ChunkItem]) -> None:
        """Append a chunk of `items`, at least one of which isn't blank."""
        first = next(at for at, item in enumerate(items) if not item.is_blank)
        last = next(at for at in range(len(items) - 1, -1, -1) if not items[at].is_blank)
        items = items[first : last + 1]
        line = items[0].line
        parts = []
        for item in items:
            parts.append("\n" * (item.line - line) + item.text)
            line = item.line
        first_line, voices, origin = items[0].line, "", NOTE.origin
        if any(item.voice is not NOTE for item in items):
            of_line = {item.line: item.voice for item in items}
            # A line that was left out has the voice of the first one; it says nothing.
            spoken = [of_line.get(n, items[0].voice) for n in range(first_line, line + 1)]
            voices = encode_voices(spoken)
            origin = least_trusted(item.voice.origin for item in items)
        self._chunks.append(
            Chunk(first_line, line, "".join(parts), items[0].path, "", origin, voices)
        )


def _is_apart(one: Voice, other: Voice) -> bool:
    """Return whether lines of two voices share no chunk: a stranger's with those of others."""
    if one is other or (one.trusted and other.trusted):
        return False
    return one.origin is not other.origin or not (one.source and other.source)


def _sums(items: list[ChunkItem]) -> tuple[int, int]:
    return sum(item.units for item in items), sum(item.size for item in items)
