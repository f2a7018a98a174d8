"""Entries of a note, list items and paragraphs, and what their comments say about recall. Pure.

- Ana can't eat hazelnuts. <!-- trigger: dinner, restaurant --> <!-- importance: 9 -->
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.chunk.comments import without_comments
from memoryd.chunk.markdown import Outline

MOST_TRIGGERS, TRIGGER_CHARS = 50, 100
IMPORTANCE = 5.0
"""Importance, 0 to 10, of an entry that does not say."""
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_TRIGGER = re.compile(r"(?i)triggers?\s*:\s*(.+)", re.DOTALL)
_IMPORTANCE = re.compile(r"(?i)importance\s*:\s*(\d{1,2}(?:\.\d+)?)")
_SEPARATORS = re.compile(r"[,;、，；\n]")


class Entry(NamedTuple):
    """One entry: its lines (1-based, inclusive), its text without comments, the headings above.

    A message that has one of the `triggers` lets the entry through; `importance` (0 to 10) orders
    entries that fit equally well.
    """

    first_line: int
    last_line: int
    text: str
    title: str
    triggers: tuple[str, ...] = ()
    importance: float = IMPORTANCE


def entries(lines: Sequence[str], *, first_line: int = 1, title: str = "") -> list[Entry]:
    """Return the entries of a note, or of a part that begins at `first_line` below `title`.

    An entry is a list item with everything that is indented below it, or a paragraph. Fenced code
    belongs to what is before it.
    """
    shown, comments = without_comments(lines)
    splitter = _Splitter(title)
    for number, line in enumerate(shown):
        splitter.read(number, line)
    found = splitter.finish()
    steering: dict[int, list[str]] = {}
    at = -1
    for number, comment in comments:
        while at + 1 < len(found) and found[at + 1].first_line <= number:
            at += 1
        if at >= 0:
            steering.setdefault(at, []).append(comment)
    return [
        _steered(entry, steering.get(at, ()))._replace(
            first_line=entry.first_line + first_line, last_line=entry.last_line + first_line
        )
        for at, entry in enumerate(found)
    ]


class _Splitter:
    """Splitter that takes line by line; lines of its entries count from 0."""

    def __init__(self, title: str) -> None:
        self._outline = Outline()
        self._title = title
        self._found: list[Entry] = []
        self._lines: list[tuple[int, str]] = []
        self._indent = -1
        """Indent of the list item that is open, -1 in a paragraph."""

    def read(self, number: int, line: str | None) -> None:
        if line is None:
            return
        is_heading = self._outline.read(line)
        if self._outline.fence:
            self._lines.append((number, line))
        elif is_heading:
            self._close()
            self._title = self._outline.path
        elif not line.strip():
            if self._indent < 0:
                self._close()
        elif (item := _ITEM.match(line)) is not None:
            indent = _width(item[1])
            if self._indent < 0 or indent <= self._indent:
                self._close()
                self._indent = indent
            self._lines.append((number, line))
        else:
            apart = bool(self._lines) and number > self._lines[-1][0] + 1
            if self._indent >= 0 and apart and _width(line) <= self._indent:
                self._close()
            self._lines.append((number, line))

    def finish(self) -> list[Entry]:
        self._close()
        return self._found

    def _close(self) -> None:
        if self._lines:
            first, last = self._lines[0][0], self._lines[-1][0]
            text = "\n".join(line for _, line in self._lines).strip()
            self._found.append(Entry(first, last, text, self._title))
        self._lines, self._indent = [], -1


def _steered(entry: Entry, comments: Sequence[str]) -> Entry:
    """Return an entry with what its comments say."""
    triggers: list[str] = []
    importance = entry.importance
    for comment in comments:
        if found := _TRIGGER.search(comment):
            named = (" ".join(word.split()) for word in _SEPARATORS.split(found[1]))
            triggers += [word[:TRIGGER_CHARS] for word in named if word]
        if found := _IMPORTANCE.search(comment):
            importance = min(10.0, float(found[1]))
    return entry._replace(triggers=tuple(triggers[:MOST_TRIGGERS]), importance=importance)


def _width(text: str) -> int:
    """Return the columns of the blanks that a text begins with."""
    expanded = text.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
