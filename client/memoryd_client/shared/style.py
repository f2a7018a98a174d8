"""Style of terminal output, and removal of unsafe characters."""

from msgspec import Struct

_REPLACEMENT = "\ufffd"
_CONTROL = {
    code: _REPLACEMENT for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"
}
"""Control characters: a note must not move the cursor or colour the terminal."""
_BREAKS = ("\t", "\n", "\u2028", "\u2029")
_TURNS = (*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)))
"""Bidirectional controls: a name must not look like another name."""
_NOT_IN_A_NAME = _CONTROL | {ord(character): _REPLACEMENT for character in (*_BREAKS, *_TURNS)}


class Style(Struct, frozen=True, kw_only=True):
    """Text layout: `colour` allows ANSI codes; `columns` is the width, None if unlimited."""

    colour: bool
    columns: int | None = None

    def bold(self, text: str) -> str:
        """Return bold text."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        """Return dimmed text."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text


def printable(text: str) -> str:
    """Replace control characters other than tabs and newlines."""
    return text.replace("\r\n", "\n").translate(_CONTROL)


def printable_name(text: str) -> str:
    """Replace characters of a name that would break a line or control the terminal."""
    return text.translate(_NOT_IN_A_NAME)


def one_line(text: str) -> str:
    """Return a message on one line, safe for a terminal."""
    return printable_name(text.replace("\n", " "))
