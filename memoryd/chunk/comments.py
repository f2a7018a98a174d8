"""HTML comments of a note, which are not shown and may steer recall. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.chunk.fences import Fences

_OPEN, _CLOSE = "<!--", "-->"
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


class Uncommented(NamedTuple):
    """Lines without comments, and the comments: the line on which each begins, and its text.

    Both count from 0. A line of nothing but a comment is None.
    """

    lines: list[str | None]
    comments: list[tuple[int, str]]


def without_comments(lines: Sequence[str]) -> Uncommented:
    """Return the lines of a note without its comments; code keeps its own.

    A comment that is not closed hides everything to the end, as CommonMark has it.
    """
    shown: list[str | None] = []
    comments: list[tuple[int, str]] = []
    inside: list[str] | None = None
    fences = Fences()
    for number, line in enumerate(lines):
        if inside is None and (_OPEN not in line or fences.is_open):
            fences.read(line)
            shown.append(line)
            continue
        kept, at, hid = "", 0, inside is not None
        while True:
            if inside is None:
                begin = _begin(line, at)
                if begin < 0:
                    kept += line[at:]
                    break
                kept, at, hid, inside = kept + line[at:begin], begin + len(_OPEN), True, []
                comments.append((number, ""))
            end = line.find(_CLOSE, at)
            inside.append(line[at:] if end < 0 else line[at:end])
            comments[-1] = comments[-1][0], "\n".join(inside).strip()
            if end < 0:
                break
            at, inside = end + len(_CLOSE), None
        if inside is None:
            fences.read(kept)
        shown.append(None if hid and not kept.strip() else kept.rstrip() if hid else kept)
    return Uncommented(shown, comments)


def _begin(line: str, at: int) -> int:
    """Return where the next comment begins, outside of code; -1 if none does."""
    spans = [code.span() for code in _CODE.finditer(line)] if "`" in line else []
    begin = line.find(_OPEN, at)
    while begin >= 0 and any(first <= begin < last for first, last in spans):
        begin = line.find(_OPEN, begin + 1)
    return begin
