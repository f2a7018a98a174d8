"""Cut a Markdown file into chunks of whole lines that know their headings."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from memoryd.messages import Chunk
from memoryd.text.outside import OutsideLines
from memoryd.text.token_estimate import pieces, weigh, well_formed
from memoryd.text.voice import NOTE, Voice, encode_voices, shown_name
from memoryd_client.schema.search import Origin, Role

_MIN_BUDGET_UNITS = 32
_MAX_HEADING_CHARS = 200

_MARKER = re.compile(r" {0,3}(?:(#{1,6})(?=[ \t]|\Z)|(`{3,}|~{3,}))")
_MARKER_STARTS = frozenset(" #`~")
_MARKER_CHARS = 4096
"""Maximum characters of an overlong line that are searched for a heading or fence."""


def chunk_markdown(
    lines: Iterable[str | None],
    *,
    tokens: int = 400,
    overlap: int = 80,
    max_bytes: int = 8000,
    outside: Sequence[OutsideLines] = (),
    first_line: int = 1,
) -> list[Chunk]:
    """Cut lines without their ends into chunks; the same lines always give the same chunks.

    A chunk weighs at most `tokens` (less than 8 counts as 8), except a single character made of
    many code points, and takes at most `max_bytes` in UTF-8. Sizes are estimates in quarter tokens
    (`weigh`); a line costs its weight and 1 for its end.

    A chunk ends where the next line would make it too large, or before a heading once it is half
    full, but never between a heading and its text. It repeats the last lines of the chunk before
    it, up to `overlap` tokens and half a chunk, unless it starts with a heading.
    A line too long for one chunk is cut at sentences or words; its parts follow each other without
    a line end. Lines of `outside` content share no chunk with others, and their headings apply to
    them alone. The lines are numbered from `first_line` on. A line that is None is left out, and no
    chunk spans it.

    Raises `ValueError` for an argument out of range.
    """
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}: set it to 1 or more (400 suits most models)")
    if overlap < 0:
        raise ValueError(f"overlap is {overlap}: set it to 0 or more tokens")
    if max_bytes < 4:
        raise ValueError(f"max_bytes is {max_bytes}: set it to 4 or more, so any character fits")
    budget = max(_MIN_BUDGET_UNITS, tokens * 4)
    repeat = min(min(overlap, tokens - 1) * 4, budget // 2)
    packer = _Packer(budget=budget, repeat=repeat, max_bytes=max_bytes)
    # Parts as small as the default overlap: one can be repeated, and a few fill a chunk well.
    part = budget // 5
    items = _items(
        enumerate(lines, start=first_line), outside, budget=budget, part=part, max_bytes=max_bytes
    )
    for item in items:
        if item is None:
            packer.cut()
        else:
            packer.add(item)
    return packer.finish()


class _Item(msgspec.Struct, frozen=True, gc=False):
    """Line, or part of an overlong one. `units` and `size` (bytes) include a line end."""

    line: int
    text: str
    units: int
    size: int
    path: str
    voice: Voice
    is_heading: bool
    is_blank: bool


class Outline:
    """Current headings, updated line by line; at first those of another outline."""

    def __init__(self, around: "Outline | None" = None) -> None:
        self.path: str = "" if around is None else around.path
        self._levels: list[tuple[int, str]] = [] if around is None else list(around._levels)
        self._fence = ""

    @property
    def level(self) -> int:
        """The level of the current heading, 1 to 6; 0 before the first."""
        return self._levels[-1][0] if self._levels else 0

    def read(self, line: str) -> bool:
        """Read the next line; return whether it is a heading (CommonMark 0.31, 4.2 and 4.5)."""
        if line[:1] not in _MARKER_STARTS or (marker := _MARKER.match(line)) is None:
            return False
        hashes, fence = marker.groups()
        rest = line[marker.end() :]
        if fence:
            self._read_fence(fence, rest)
        elif not self._fence:
            self._read_heading(len(hashes), rest)
            return True
        return False

    def _read_fence(self, fence: str, rest: str) -> None:
        if not self._fence:
            if fence[0] == "~" or "`" not in rest:
                self._fence = fence
        elif fence.startswith(self._fence) and not rest.strip():
            self._fence = ""

    def _read_heading(self, level: int, rest: str) -> None:
        title = rest.strip()
        unclosed = title.rstrip("#")
        if not unclosed or unclosed[-1] in " \t":
            title = unclosed.rstrip()
        while self._levels and self._levels[-1][0] >= level:
            self._levels.pop()
        self._levels.append((level, title[:_MAX_HEADING_CHARS]))
        titles = [title for _, title in self._levels if title]
        while len(" > ".join(titles)) > _MAX_HEADING_CHARS:
            # The innermost headings say most about the text.
            del titles[0]
        self.path = " > ".join(titles)


def _items(
    lines: Iterable[tuple[int, str | None]],
    outside: Sequence[OutsideLines],
    *,
    budget: int,
    part: int,
    max_bytes: int,
) -> Iterator[_Item | None]:
    own = outline = Outline()
    voice = NOTE
    begins = {run.first + 1: run for run in outside}
    turns = iter(sorted({*begins, *(run.last + 2 for run in outside)}))
    turn = next(turns, 0)
    headings_units = 0
    for number, raw in lines:
        if number == turn:
            turn, headings_units = next(turns, 0), 0
            outline, voice = own, NOTE
            if (run := begins.get(number)) is not None:
                names = shown_name(run.sender), shown_name(run.source)
                outline = Outline(own)
                voice = Voice(Role.NOTE, Origin.UNTRUSTED, *names)
        if raw is None:
            headings_units = 0
            yield None
            continue
        if len(raw) >= budget:
            # Too long for one chunk, perhaps by far: nothing here reads all of it.
            outline.read(well_formed(raw[:_MARKER_CHARS]))
            headings_units = 0
            for text in pieces(raw, units=part - 1, max_bytes=max_bytes):
                yield _item(number, text, outline.path, voice, is_heading=False)
            continue
        line = well_formed(raw)
        is_heading = outline.read(line)
        item = _item(number, line, outline.path, voice, is_heading=is_heading)
        room = budget if is_heading else budget - headings_units
        if item.units <= room and item.size <= max_bytes + 1:
            if is_heading or (item.is_blank and headings_units):
                headings_units += item.units
            else:
                headings_units = 0
            yield item
        else:
            headings_units = 0
            if not line:
                yield item  # there is nothing to cut, but its end counts
            for text in pieces(line, units=part - 1, max_bytes=max_bytes):
                yield _item(number, text, outline.path, voice, is_heading=False)


def _item(line: int, text: str, path: str, voice: Voice, *, is_heading: bool) -> _Item:
    is_blank = not text or text.isspace()
    if text.isascii():
        cost = len(text) + 1
        return _Item(line, text, cost, cost, path, voice, is_heading, is_blank)
    units, size = weigh(text) + 1, len(text.encode()) + 1
    return _Item(line, text, units, size, path, voice, is_heading, is_blank)


class _Packer:
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
        self._current: list[_Item] = []
        self._old = 0
        self._headings: int | None = None
        self._units = 0
        self._size = 0
        self._voice = NOTE

    def add(self, item: _Item) -> None:
        """Put the next item into the current chunk or the next one."""
        is_heading = item.is_heading
        if item.voice is not self._voice:
            self.cut()
            self._voice = item.voice
        if not self._fits(item) or (is_heading and 2 * self._units >= self._budget):
            self._close()
            if self._has_new() and not self._fits(item):
                # Only headings, and no room for text.
                self._headings = None
                self._close()
            self._drop_old(item)
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
        self._units += item.units
        self._size += item.size

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

    def _fits(self, item: _Item) -> bool:
        return self._units + item.units <= self._budget and self._size + item.size <= self._max_size

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
        repeated = self._tail()
        self._keep(repeated, old=len(repeated))

    def _tail(self) -> list[_Item]:
        """Return the last items that may be repeated, starting no earlier than a heading."""
        units = self._repeat
        start = len(self._current)
        while start and self._current[start - 1].units <= units:
            start -= 1
            units -= self._current[start].units
            if self._current[start].is_heading:
                break
        return self._current[start:]

    def _drop_old(self, item: _Item) -> None:
        """Drop the first old items until `item` fits."""
        drop = 0
        while drop < self._old and not self._fits(item):
            self._units -= self._current[drop].units
            self._size -= self._current[drop].size
            drop += 1
        del self._current[:drop]
        self._old -= drop

    def _keep(self, items: list[_Item], *, old: int) -> None:
        self._current = items
        self._old = old
        self._headings = None
        self._units = sum(item.units for item in items)
        self._size = sum(item.size for item in items)

    def _emit(self, items: list[_Item]) -> None:
        """Append a chunk of `items`, at least one of which isn't blank."""
        first = next(at for at, item in enumerate(items) if not item.is_blank)
        last = next(at for at in range(len(items) - 1, -1, -1) if not items[at].is_blank)
        items = items[first : last + 1]
        line = items[0].line
        parts = []
        for item in items:
            parts.append("\n" * (item.line - line) + item.text)
            line = item.line
        first_line, voice = items[0].line, items[0].voice
        voices = "" if voice is NOTE else encode_voices([voice] * (line - first_line + 1))
        self._chunks.append(
            Chunk(first_line, line, "".join(parts), items[0].path, "", voice.origin, voices)
        )
