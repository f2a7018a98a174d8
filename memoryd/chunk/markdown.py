"""Cut a Markdown file into chunks of whole lines that know their headings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memoryd.chunk.fences import MAY_BEGIN, Fences
from memoryd.chunk.packing import ChunkItem, ChunkPacker
from memoryd.messages import Chunk
from memoryd.text.outside import OutsideLines
from memoryd.text.token_estimate import pieces, weigh, well_formed
from memoryd.text.voice import NOTE, Voice, shown_name
from memoryd_client.schema.search import Origin, Role

_MIN_BUDGET_UNITS = 32
_MAX_HEADING_CHARS = 200

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_MARKER_STARTS = frozenset(" #")
_NOT_PLAIN = MAY_BEGIN | _MARKER_STARTS
"""First characters of the lines that may be headings or begin code."""
_DELIMITERS = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*(?:\||\Z))+[ \t]*")
"""The line below the first one of a table."""
NONE_WRITTEN: Mapping[int, Voice] = {}
_MARKER_CHARS = 4096
"""Maximum characters of an overlong line that are searched for a heading or fence."""


def chunk_markdown(
    lines: Iterable[str | None],
    *,
    tokens: int = 400,
    overlap: int = 80,
    max_bytes: int = 8000,
    outside: Sequence[OutsideLines] = (),
    written: Mapping[int, Voice] = NONE_WRITTEN,
    first_line: int = 1,
) -> list[Chunk]:
    """Cut lines without their ends into chunks; the same lines always give the same chunks.

    A chunk weighs at most `tokens` (less than 8 counts as 8), except a single character made of
    many code points, and takes at most `max_bytes` in UTF-8. Sizes are estimates in quarter tokens
    (`weigh`); a line costs its weight and 1 for its end.

    A chunk ends where the next line would make it too large, or before a heading once it is half
    full, but never between a heading and its text, and in fenced code or a table only if that
    does not fit into one chunk. It repeats the last lines of the chunk before
    it, up to `overlap` tokens and half a chunk, unless it starts with a heading.
    A line too long for one chunk is cut at sentences or words; its parts follow each other without
    a line end. Lines of `outside` content share no chunk with others, and their headings apply to
    them alone. `written` has the voices of lines that memoryd wrote, by their index (0-based);
    untrusted ones share no chunk with others either. The lines are numbered from `first_line` on. A
    line that is None is left out, and no chunk spans it.

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
    packer = ChunkPacker(budget=budget, repeat=repeat, max_bytes=max_bytes)
    # Parts as small as the default overlap: one can be repeated, and a few fill a chunk well.
    part = budget // 5
    items = _items(
        enumerate(lines, start=first_line),
        outside,
        {index + 1: voice for index, voice in written.items()},
        budget=budget,
        part=part,
        max_bytes=max_bytes,
    )
    for item in _blocks(items, budget=budget, max_bytes=max_bytes):
        if item is None:
            packer.cut()
        elif isinstance(item, list):
            packer.add_block(item)
        else:
            packer.add(item)
    return packer.finish()


class Outline:
    """Current headings, updated line by line; at first those of another outline."""

    def __init__(self, around: "Outline | None" = None) -> None:
        self.path: str = "" if around is None else around.path
        self._levels: list[tuple[int, str]] = [] if around is None else list(around._levels)
        self.fence = 0
        """Number of the fenced code to which the last line belongs, 0 for none."""
        self._fences = Fences()

    @property
    def level(self) -> int:
        """The level of the current heading, 1 to 6; 0 before the first."""
        return self._levels[-1][0] if self._levels else 0

    def read(self, line: str) -> bool:
        """Read the next line; return whether it is a heading (CommonMark 0.31, 4.2 and 4.5)."""
        start = line[:1]
        if start in MAY_BEGIN or self._fences.is_open:
            self.fence = self._fences.read(line)
        else:
            self.fence = 0
        if self.fence or start not in _MARKER_STARTS:
            return False
        if (marker := _HEADING.match(line)) is None:
            return False
        self._read_heading(len(marker[1]), line[marker.end() :])
        return True

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
    written: Mapping[int, Voice],
    *,
    budget: int,
    part: int,
    max_bytes: int,
) -> Iterator[ChunkItem | None]:
    own = outline = Outline()
    voice = NOTE
    begins = {run.first + 1: run for run in outside}
    turns = iter(sorted({*begins, *(run.last + 2 for run in outside)}))
    turn = next(turns, 0)
    headings_units, room = 0, min(budget, max_bytes + 1)
    for number, raw in lines:
        if (
            raw is not None
            and number != turn
            and not written
            and not outline.fence
            and len(raw) + headings_units < room
            and raw[:1] not in _NOT_PLAIN
            and raw.isascii()
        ):  # most lines, in a third of the time
            cost, is_blank = len(raw) + 1, not raw or raw.isspace()
            headings_units = headings_units + cost if is_blank and headings_units else 0
            yield ChunkItem(number, raw, cost, cost, outline.path, voice, False, is_blank)
            continue
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
        said = written.get(number, voice) if voice is NOTE else voice
        if len(raw) >= budget:
            # Too long for one chunk, perhaps by far: nothing here reads all of it.
            outline.read(well_formed(raw[:_MARKER_CHARS]))
            headings_units = 0
            for text in pieces(raw, units=part - 1, max_bytes=max_bytes):
                yield _item(number, text, outline, said, is_heading=False)
            continue
        line = well_formed(raw)
        is_heading = outline.read(line)
        item = _item(number, line, outline, said, is_heading=is_heading)
        left = budget if is_heading else budget - headings_units
        if item.units <= left and item.size <= max_bytes + 1:
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
                yield _item(number, text, outline, said, is_heading=False)


def _item(line: int, text: str, outline: Outline, voice: Voice, *, is_heading: bool) -> ChunkItem:
    is_blank, path, fence = not text or text.isspace(), outline.path, outline.fence
    if text.isascii():
        cost = len(text) + 1
        return ChunkItem(line, text, cost, cost, path, voice, is_heading, is_blank, fence)
    units, size = weigh(text) + 1, len(text.encode()) + 1
    return ChunkItem(line, text, units, size, path, voice, is_heading, is_blank, fence)


def _blocks(
    items: Iterator[ChunkItem | None], *, budget: int, max_bytes: int
) -> Iterator[list[ChunkItem] | ChunkItem | None]:
    """Yield each code or table that fits into one chunk as a list, and all else as it is."""
    block: list[ChunkItem] = []
    units = size = 0
    too_large: ChunkItem | None = None  # first item of a block that is passed on
    for item in items:
        is_plain = item is not None and not item.fence and "|" not in item.text
        if is_plain and not block:  # most lines
            too_large = None
            yield item
            continue
        if block and (item is None or not _continues(block[0], item, second=len(block) == 1)):
            yield block
            block = []
        if too_large is not None and (item is None or not _continues(too_large, item)):
            too_large = None
        if item is None or too_large is not None or not (item.fence or _is_row(item)):
            yield item
            continue
        if not block:
            units = size = 0
        block.append(item)
        units += item.units
        size += item.size
        if units > budget or size > max_bytes + 1:
            too_large = block[0] if block[0].fence or len(block) > 1 else None
            yield from block
            block = []
    if block:
        yield block


def _continues(first: ChunkItem, item: ChunkItem, *, second: bool = False) -> bool:
    """Return whether a line belongs to the code or table that begins with another."""
    if item.voice is not first.voice or item.fence != first.fence:
        return False
    if first.fence:
        return True
    return _is_row(item) and not (second and _DELIMITERS.fullmatch(item.text) is None)


def _is_row(item: ChunkItem) -> bool:
    return "|" in item.text and not item.is_heading
