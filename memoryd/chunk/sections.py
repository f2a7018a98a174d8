"""Sections of a note: a heading and the text below it. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from memoryd.chunk.comments import without_comments
from memoryd.chunk.markdown import Outline

MAX_CHARS = 2_000
"""Length above which a section is divided, at blank lines if it has some."""


class NoteSection(NamedTuple):
    """One section: its lines (1-based, inclusive), its text without comments, its headings."""

    first_line: int
    last_line: int
    text: str
    title: str


def sections(lines: Sequence[str], *, start: int = 0) -> list[NoteSection]:
    """Return the sections of a note in order, from the line `start` (0-based) on.

    Headings without text of their own are no sections. Long sections are divided.
    """
    shown, _ = without_comments(lines)
    outline = Outline()
    found: list[NoteSection] = []
    current: list[tuple[int, str]] = []
    heading = title = ""

    def close() -> None:
        nonlocal current
        while current and not current[-1][1].strip():
            current.pop()
        if any(line.strip() for _, line in current[1 if heading else 0 :]):
            found.extend(_divided(current, title))
        current = []

    for number, line in enumerate(shown[start:], start=start + 1):
        if line is None:
            continue
        if outline.read(line):
            close()
            heading, title = line, outline.path
        if line.strip() or current:
            current.append((number, line))
    close()
    return found


def _divided(lines: list[tuple[int, str]], title: str) -> list[NoteSection]:
    """Return a section, or its parts if it is too long."""
    parts: list[NoteSection] = []
    current: list[tuple[int, str]] = []
    size = 0
    for number, line in lines:
        if current and size + len(line) > MAX_CHARS:
            at = _end(current)
            parts.append(_section(current[:at], title))
            current = current[at:]
            while current and not current[0][1].strip():
                del current[0]
            size = sum(len(line) + 1 for _, line in current)
        if line.strip() or current:
            current.append((number, line))
            size += len(line) + 1
    if any(line.strip() for _, line in current):
        parts.append(_section(current, title))
    return parts


def _end(lines: list[tuple[int, str]]) -> int:
    """Return where to end a part: behind the last blank line of its second half, if any."""
    half = len(lines) // 2
    return next(
        (at for at in range(len(lines) - 1, half, -1) if not lines[at][1].strip()), len(lines)
    )


def _section(lines: list[tuple[int, str]], title: str) -> NoteSection:
    text = "\n".join(line for _, line in lines).strip("\n")
    return NoteSection(lines[0][0], lines[-1][0], text, title)
