"""Data in a note that are no text: encoded files, keys, minified code, JSON dumps, drawings. Pure.

Nobody searches for such data, and they would take most of the chunks. What people may look for
stays: ids and hashes, also lists of them, addresses, tables, short JSON, and the start of each
piece of data.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

DRAWING = "excalidraw-plugin"
"""Property of notes that hold a drawing of Excalidraw."""
LONG_RUN = 200
"""Characters of encoded data without a space from which they are left out; a SHA-512 has 128."""
KEPT_CHARS = 32
"""Characters of them that stay."""
BLOCK_LINES, BLOCK_WIDTHS = 4, range(56, 101)
"""Least lines of an encoded block, and their possible widths."""
MINIFIED_CHARS = 2_000
JSON_CHARS = 8_000
"""Least sizes of a minified line and of a JSON dump."""
JSON_HEAD_LINES = 5
"""Lines of a JSON dump that stay."""
CHANGES = 0.35
"""Least share of neighbours of different kind, such as `aB` and `B7`, in encoded data: in Base64 it
is 0.6, in words and paths at most 0.2."""
DIGITS = 0.05
"""Least share of digits in encoded data; in Base64 it is 0.16."""
_DATA_URI = re.compile(rf"(data:[\w.+-]{{1,80}}/[\w.+;=-]{{1,120}},)[^\s)\"'<>]{{{LONG_RUN},}}")
_RUN = re.compile(rf"[A-Za-z0-9+/=_-]{{{LONG_RUN},}}")
_ENCODED_LINE = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{1,60}-----\s*\Z")
_DRAWING = re.compile(r"#{1,6} Drawing\s*\Z|```compressed-json\s*\Z")
_STARTS_JSON = frozenset('{}[]"-0123456789tfn')
_STRING = r'"(?:[^"\\]|\\.)*+"'
_JSON_LINE = re.compile(
    # Not a wikilink.
    rf"(?!\[\[[^,\[\]]*\]\])(?:{_STRING}\s*:\s*(?:[\[{{].*|{_STRING}|[\w.+-]+)?,?"
    rf"|[\[\]{{}},\s]+|(?:{_STRING}|-?\d[\w.+-]*+|true|false|null),?|[\[{{]\s*[\d\"\[{{-].*[\]}}],?)"
)
_CODE = re.compile(r"[{};\"]")
_CODE_SHARE, _SPACE_SHARE, _OTHER_SHARE = 0.03, 0.05, 0.1
"""Of a minified line: least share of braces, quotes and semicolons, largest share of spaces, and
largest share of bytes beyond one a character."""


def data_in(
    lines: Sequence[str], start: int, *, drawing: bool
) -> tuple[dict[int, str | None], str | None]:
    """Return the lines from `start` on that are data or have them, as they are to be read.

    The keys are indices of lines; None stands for a line that is left out. `drawing`: the note has
    the property `DRAWING`. Returns a remark for people too, if there are any.
    """
    whole = {*_drawing(lines, start)} if drawing else set[int]()
    sizes = list(map(len, lines))
    whole |= {*_blocks(lines, start)}
    if sum(sizes) >= JSON_CHARS:
        whole |= {*_dumps(lines, start)}
    if not whole and max(sizes, default=0) < LONG_RUN:  # most notes
        return {}, None
    found: dict[int, str | None] = dict.fromkeys(sorted(whole))
    size = sum(len(lines[number]) for number in whole)
    for number in range(start, len(lines)):
        if len(text := lines[number]) < LONG_RUN or number in whole:
            continue
        kept = None if _is_minified(text) else _RUN.sub(_shortened, _DATA_URI.sub(r"\1…", text))
        if kept != text:
            found[number] = kept
            size += len(text) - len(kept or "")
    if not found:
        return {}, None
    return found, f"{size:,} characters in {len(found):,} lines are no text and are left out"


def _drawing(lines: Sequence[str], start: int) -> range:
    """Return the lines of the drawing itself, which ends the note."""
    first = (n for n in range(start, len(lines)) if _DRAWING.match(lines[n]))
    return range(next(first, len(lines)), len(lines))


def _blocks(lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield the lines of encoded blocks: lines of one width, and the content of PEM blocks."""
    number = start
    while number < len(lines):
        end = number + 1
        if " " in lines[number] and lines[number][:1] != "-":
            pass  # most lines
        elif lines[number].startswith("-----") and _PEM.match(lines[number]):
            while end < len(lines) and _ENCODED_LINE.match(lines[end]):
                end += 1
            if end - number > BLOCK_LINES:
                yield from range(number + 1, end)
        elif len(lines[number]) in BLOCK_WIDTHS and _is_encoded(lines[number]):
            width = len(lines[number])
            while end < len(lines) and len(lines[end]) == width and _is_encoded(lines[end]):
                end += 1
            if end - number >= BLOCK_LINES:
                if end < len(lines) and len(lines[end]) < width and _ENCODED_LINE.match(lines[end]):
                    end += 1
                yield from range(number, end)
        number = end


def _dumps(lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield the lines of long JSON, apart from its first ones."""
    first, size = -1, 0
    for number in range(start, len(lines) + 1):
        text = lines[number].strip() if number < len(lines) else ""
        if text[:1] in _STARTS_JSON and _JSON_LINE.fullmatch(text) is not None:
            if first < 0 and text[0] in "{[":
                first, size = number, 0
            size += len(text)
        elif first >= 0:
            if size >= JSON_CHARS:
                yield from range(first + JSON_HEAD_LINES, number)
            first = -1


def _is_minified(line: str) -> bool:
    """Return whether a line is minified code, or JSON in one line."""
    size = len(line)
    if size < MINIFIED_CHARS or len(line.encode()) > (1 + _OTHER_SHARE) * size:
        return False
    is_dense = line.count(" ") < _SPACE_SHARE * size
    is_json = size >= JSON_CHARS and line.lstrip()[:1] in "{[" and line.rstrip()[-1:] in "}],"
    return (is_dense or is_json) and len(_CODE.findall(line)) >= _CODE_SHARE * size


def _is_encoded(text: str) -> bool:
    """Return whether a run of letters, digits and signs is encoded data, not words or a path."""
    return _ENCODED_LINE.match(text) is not None and _changes(text) >= CHANGES


def _shortened(run: re.Match[str]) -> str:
    text = run[0]
    return f"{text[:KEPT_CHARS]}…" if _changes(text[: 10 * LONG_RUN]) >= CHANGES else text


def _changes(text: str) -> float:
    """Return the share of neighbours of different kind; hexadecimal text counts as one kind."""
    if text.islower() or text.isupper():
        return 0.0
    if sum(map(str.isdigit, text)) < DIGITS * len(text):
        return 0.0
    kinds = [char.isdigit() + 2 * char.isupper() + 4 * (not char.isalnum()) for char in text]
    return sum(a != b for a, b in pairwise(kinds)) / len(text)
