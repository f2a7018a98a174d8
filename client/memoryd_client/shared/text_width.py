"""Display width of text on a terminal: padding, wrapping, tables. Pure.

Widths follow Unicode: UAX #11 (East Asian Width) for wide characters, the general category for
zero-width marks. An emoji of several code points counts as one, as on most terminals.
"""

from collections.abc import Iterator, Sequence

_WIDEST_CELL = 48
"""Maximum columns that a cell adds to its column's width; a wider cell overflows alone."""

_JOINER = "\u200d"
_EMOJI_PRESENTATION = "\ufe0f"
_SOFT_HYPHEN = "\u00ad"
_NO_ROOM = frozenset({"Mn", "Me", "Cf"})


def display_width(text: str) -> int:
    """Return the columns of a line of text without control characters."""
    if text.isascii():
        return len(text)
    return sum(width for _, width in _clusters(text))


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to `width` columns; `right` puts the spaces first."""
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def cut(text: str, width: int) -> str:
    """Return the start of a line, up to `width` columns."""
    if text.isascii():
        return text[:width]
    end = 0
    for cluster, columns in _clusters(text):
        width -= columns
        if width < 0:
            break
        end += len(cluster)
    return text[:end]


def wrap(text: str, width: int) -> list[str]:
    """Break a line into lines of at most `width` columns: at spaces, else between characters.

    Drops the spaces at a break. A character wider than `width` gets a line of its own.
    """
    lines = []
    while (head := cut(text, width)) != text:
        end = len(head or next(_clusters(text))[0])
        # Inside a word: break at the last space, unless only the indent has spaces.
        if not text.startswith(" ", end) and head[: head.rfind(" ") + 1].strip(" "):
            end = head.rfind(" ")
        lines.append(text[:end].rstrip(" "))
        text = text[end:].lstrip(" ")
    return [*lines, text] if text or not lines else lines


def column_width(cells: Sequence[str]) -> int:
    """Return the width of a column of cells."""
    return max((min(display_width(cell), _WIDEST_CELL) for cell in cells), default=0)


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Return rows of equal length as aligned lines; columns in `right` are right-aligned."""
    widths = [column_width(column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width, right=at in right)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip(" ")
        for row in rows
    ]


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield each group of code points that a terminal shows as one character, and its width."""
    cluster, width = "", 0
    for character in text:
        if character == _EMOJI_PRESENTATION:
            # "❤" is narrow, "❤️" an emoji.
            cluster, width = cluster + character, 2 if width else 0
            continue
        own = _width(character)
        if cluster and (own == 0 or _joins(cluster, width, character)):
            cluster += character
            if _is_regional(character):
                width = 2
        else:
            if cluster:
                yield cluster, width
            cluster, width = character, own
    if cluster:
        yield cluster, width


def _width(character: str) -> int:
    if character.isascii():
        return 1
    # Imported late, because most output is ASCII.
    from unicodedata import category, east_asian_width

    if "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff":
        # A vowel or final consonant joins the Hangul letter before it.
        return 0
    if category(character) in _NO_ROOM and character != _SOFT_HYPHEN:
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


def _joins(cluster: str, width: int, character: str) -> bool:
    """Return whether a character with a width joins the emoji before it."""
    if _is_regional(character):
        # Two letters are one flag.
        return len(cluster) == 1 and _is_regional(cluster)
    is_skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
    return width == 2 and (is_skin_tone or cluster.endswith(_JOINER))


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
