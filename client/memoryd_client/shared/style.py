"""How text looks on a terminal, and what of it may get there."""

from msgspec import Struct

_REPLACEMENT = "\ufffd"
_CONTROL = {
    code: _REPLACEMENT for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"
}
"""Control characters: what a note says must not move the cursor or colour the terminal."""
_BREAKS = ("\t", "\n", "\u2028", "\u2029")
_TURNS = (*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)))
"""What turns the direction of text around: a name must not read as another one."""
_NOT_IN_A_NAME = _CONTROL | {ord(character): _REPLACEMENT for character in (*_BREAKS, *_TURNS)}


class Style(Struct, frozen=True, kw_only=True):
    """How text is laid out: `colour` allows ANSI codes, `columns` (`None`: any) is its width."""

    colour: bool
    columns: int | None = None

    def bold(self, text: str) -> str:
        """Make text stand out."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def dim(self, text: str) -> str:
        """Make text step back."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text


def printable(text: str) -> str:
    """Replace control characters other than tabs and newlines."""
    return text.replace("\r\n", "\n").translate(_CONTROL)


def printable_name(text: str) -> str:
    """Replace what would break a line or play with the terminal: a name may hold anything."""
    return text.translate(_NOT_IN_A_NAME)


def one_line(text: str) -> str:
    """Return a message on one line, as `printable_name` would have it."""
    return printable_name(text.replace("\n", " "))
