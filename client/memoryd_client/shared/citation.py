"""Citations of lines of a file: `memory/a.md#L3-L7`, as in results, and `memory/a.md:3-7`."""

import re
from typing import NamedTuple

_LINES = re.compile(r"(?:#L(\d{1,9})(?:-L?(\d{1,9}))?|:(\d{1,9})(?:-(\d{1,9})|:\d{1,9})?)\Z")
"""Behind a colon, a second number after another colon is a column."""


class Citation(NamedTuple):
    """A path and its cited lines, 1-based and inclusive."""

    path: str
    first: int
    last: int


def cite(path: str, first: int, last: int) -> str:
    """Return the citation of some lines."""
    return f"{path}#L{first}" + (f"-L{last}" if last != first else "")


def read_citation(text: str) -> Citation | None:
    """Return the citation that a text is; None if it names no lines."""
    found = _LINES.search(text)
    if found is None or not found.start():
        return None
    first = int(found[1] or found[3])
    last = int(found[2] or found[4] or first)
    return Citation(text[: found.start()], first, last) if 1 <= first <= last else None
