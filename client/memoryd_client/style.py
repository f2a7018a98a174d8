"""How text looks on a terminal, and what of it may get there."""

_CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
"""Control characters: what a note says must not move the cursor or colour the terminal."""


class Style:
    """How emphasis looks: as ANSI codes, or not at all."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def bold(self, text: str) -> str:
        """Make text stand out."""
        return f"\x1b[1m{text}\x1b[0m" if self._colour else text

    def dim(self, text: str) -> str:
        """Make text step back."""
        return f"\x1b[2m{text}\x1b[0m" if self._colour else text


def printable(text: str) -> str:
    """Replace control characters other than tabs and newlines."""
    return text.replace("\r\n", "\n").translate(_CONTROL)
