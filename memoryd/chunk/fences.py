"""Reader of fenced code in Markdown (CommonMark 0.31, 4.5), line by line. Pure."""

import re

MAY_BEGIN = frozenset(" \t`~")
"""First characters of a line that may begin fenced code."""
_MARKER = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)", re.DOTALL)
_PLAIN_INDENT = 3
"""Maximum indent of a fence that is in no list item."""
_LEAST_CONTENT_INDENT = 2
"""Least indent of what is in a list item."""


class Fences:
    """Reader of fenced code, also in list items, whose fences are indented further.

    `is_open`: the next line is code, unless a list item ends before it. Only then, or if it begins
    with one of `MAY_BEGIN`, the next line must be read.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._count = 0
        self._fence = ""
        self._is_deep = False

    def read(self, line: str) -> int:
        """Read the next line; return the number of its code, fences included; 0 if it is none."""
        if self.is_open and self._is_deep and _ends_item(line):
            self.is_open = False
        found = _MARKER.match(line) if line[:1] in MAY_BEGIN else None
        if found is None:
            return self._count if self.is_open else 0
        indent, fence, rest = found.groups()
        is_deep = _width(indent) > _PLAIN_INDENT
        if not self.is_open:
            if fence[0] == "`" and "`" in rest:
                return 0
            self.is_open, self._fence, self._is_deep = True, fence, is_deep
            self._count += 1
        elif fence.startswith(self._fence) and not rest.strip() and is_deep <= self._is_deep:
            self.is_open = False
        return self._count


def _ends_item(line: str) -> bool:
    return bool(line.strip()) and _width(line[:_LEAST_CONTENT_INDENT]) < _LEAST_CONTENT_INDENT


def _width(blanks: str) -> int:
    """Return the columns of the blanks that a text begins with."""
    expanded = blanks.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
