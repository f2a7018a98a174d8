"""What stands between `<private>` and `</private>` in a note is for nobody: it is taken out.

Tags count in any case and anywhere, code blocks included, and may be nested; one directly between
backticks is only talked about, unless it opens a block within another. Opening ones may have
attributes.
"""

import re
from typing import NamedTuple

NOT_CLOSED = "a <private> block is not closed: hidden to the end"
MAX_ATTRIBUTES = 1_000
"""Characters: else a text full of openings without an end would be searched again for each."""

_TAG = re.compile(
    rf"<(private)(?:\s[^<>]{{0,{MAX_ATTRIBUTES}}}?)?(?:(/)?>|$)|</private\s{{0,{MAX_ATTRIBUTES}}}>",
    re.IGNORECASE,
)
"""Groups: 1 is there for an opening tag, 2 for one that is closed at once. One that a line end cuts
counts, since what is private by mistake does less harm than what is not."""


class _Tag(NamedTuple):
    start: int
    end: int
    depth: int
    """What it adds to the depth: 1, -1, or 0 for one that is empty."""
    quoted: bool


def mask_private(lines: list[str], *, placeholder: str = "") -> tuple[list[str], str | None]:
    """Replace what is private, tags included, by the placeholder: once on each line that it is on.

    Lines stay as many as they were. The second is a remark on the text, if there is any.
    """
    masked = lines
    depth = 0
    for number, line in enumerate(lines):
        if depth or "<" in line:
            shown, depth = _mask(line, depth, placeholder)
            if shown != line:
                if masked is lines:
                    masked = lines.copy()
                masked[number] = shown
    return masked, NOT_CLOSED if depth else None


def _mask(line: str, depth: int, placeholder: str) -> tuple[str, int]:
    """Return a line without its private parts, and the depth at its end."""
    shown: list[str] = [placeholder] if depth else []
    at = 0
    for tag in _tags(line):
        # Within a block, an opening tag that is only talked about counts: better hide too much.
        if tag.quoted and not (depth and tag.depth > 0):
            continue
        if depth == 0 and tag.depth >= 0:
            shown += (line[at : tag.start], placeholder)
        if depth or tag.depth >= 0:
            depth += tag.depth
            at = tag.end
    if depth == 0:
        shown.append(line[at:])
    return "".join(shown), depth


def _tags(line: str) -> list[_Tag]:
    found: list[_Tag] = []
    at = line.find("<")
    while at >= 0:
        if match := _TAG.match(line, at):
            depth = -1 if match[1] is None else 0 if match[2] else 1
            found.append(_Tag(at, match.end(), depth, _is_quoted(line, match)))
        at = line.find("<", at + 1)
    return found


def _is_quoted(line: str, tag: re.Match[str]) -> bool:
    return line[tag.start() - 1 : tag.start()] == "`" == line[tag.end() : tag.end() + 1]
