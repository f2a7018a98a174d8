"""Content from outside that OpenClaw has marked as such: mails, web pages, files. Pure.

    <<<EXTERNAL_UNTRUSTED_CONTENT id="0123456789abcdef">>>
    Source: Email
    From: ana@example.org
    Subject: Monday
    ---
    …
    <<<END_EXTERNAL_UNTRUSTED_CONTENT id="0123456789abcdef">>>

Earlier versions have marks without an id. A mark can only lower trust: whole lines count, an end
mark needs the id of its opening mark, the last one that fits counts, and without one, everything to
the end is outside content.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_HINT = "EXTERNAL_UNTRUSTED_CONTENT"
_MARK = re.compile(r'<<<(END_)?EXTERNAL_UNTRUSTED_CONTENT(?: id="([^"\n]{0,200})")?>>>')
_FIELD = re.compile(r"(Source|From|Subject): ?(.{0,1000})")
_HEAD_LINES = 8
"""Maximum lines of a head, which ends with `---`."""


class OutsideLines(NamedTuple):
    """Lines `first` to `last` (0-based, inclusive, with the marks), and what their head says.

    The content begins at line `content`, after the head; the last line may hold the end mark.
    """

    first: int
    last: int
    content: int
    source: str = ""
    sender: str = ""
    subject: str = ""


class _Mark(NamedTuple):
    line: int
    is_end: bool
    id: str | None


def outside_lines(lines: Sequence[str]) -> list[OutsideLines]:
    """Return the runs of lines with outside content, in order and without overlap."""
    if not any(_HINT in line for line in lines):  # most notes
        return []
    marks = [mark for number, line in enumerate(lines) for mark in _marks(number, line)]
    ends = {mark.id: at for at, mark in enumerate(marks) if mark.is_end}
    found: list[OutsideLines] = []
    done = -1
    for at, mark in enumerate(marks):
        if mark.is_end or at <= done:
            continue
        end = ends.get(mark.id, -1)
        done = end if end > at else len(marks)
        last = marks[done].line if end > at else len(lines) - 1
        run = _with_head(lines, mark.line, last)
        if found and found[-1].last == run.first:
            # It begins on the line on which the one before ends.
            run = found.pop()._replace(last=last)
        found.append(run)
    return found


def without_marks(lines: Iterable[str]) -> list[str]:
    """Return lines with the marks cut out."""
    return [_MARK.sub("", line) if _HINT in line else line for line in lines]


def _marks(number: int, line: str) -> list[_Mark]:
    if _HINT not in line:
        return []
    return [_Mark(number, found[1] is not None, found[2]) for found in _MARK.finditer(line)]


def _with_head(lines: Sequence[str], first: int, last: int) -> OutsideLines:
    """Return a run with the fields of its head, if it has one."""
    fields: dict[str, str] = {}
    for number in range(first + 1, min(first + 1 + _HEAD_LINES, last + 1)):
        if lines[number].strip() == "---":
            return OutsideLines(
                first,
                last,
                number + 1,
                fields.get("Source", ""),
                fields.get("From", ""),
                fields.get("Subject", ""),
            )
        if found := _FIELD.match(lines[number]):
            fields.setdefault(found[1], found[2].strip())
    return OutsideLines(first, last, first)
