"""Style of terminal output, and removal of unsafe characters."""

from msgspec import Struct

_REPLACEMENT = "\ufffd"
CONTROLS = (*range(32), *range(127, 160))
"""Control characters: a note must not move the cursor or colour the terminal."""
MARKS = (0x061C, 0x200E, 0x200F)
"""Invisible marks of direction, which are usual in texts that run from right to left."""
TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Embeddings, overrides and isolates: text must not look like other text."""
_BREAKS = (*map(ord, "\t\n"), 0x2028, 0x2029)
_NOT_IN_A_NAME = dict.fromkeys((*CONTROLS, *MARKS, *TURNS, *_BREAKS), _REPLACEMENT)
_NOT_IN_A_TEXT = {
    code: None if code in MARKS else shown
    for code, shown in _NOT_IN_A_NAME.items()
    if code not in _BREAKS
}
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(127, 160), *MARKS, *TURNS, 0x2028, 0x2029)}
"""Characters that JSON may contain as they are, but a terminal should not."""


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
    """Return a text without characters that control a terminal or turn the text around.

    Tabs and newlines stay. Marks of direction are removed, all others replaced by U+FFFD.
    """
    return text.replace("\r\n", "\n").translate(_NOT_IN_A_TEXT)


def printable_name(text: str) -> str:
    """Return a name on one line, with each unsafe or invisible character as U+FFFD."""
    return text.translate(_NOT_IN_A_NAME)


def printable_json(text: str) -> str:
    r"""Return the same JSON value with characters that a terminal may act upon as `\uXXXX`."""
    return text.translate(_ESCAPED)


def one_line(text: str) -> str:
    """Return a message on one line, safe for a terminal."""
    return printable_name(text.replace("\n", " "))
