"""Places for an entry in a note: the end of the note or of a section, and its removal. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memoryd.chunk.markdown import Outline
from memoryd.messages import split_lines
from memoryd.source.notes.entry import find_entry, is_item
from memoryd.text.front_matter import read_front_matter

_LINE_END = re.compile(r"\r\n|\r|\n")


class Insertion(NamedTuple):
    """Text to insert at an offset in characters; the entry's first line will be `first_line`."""

    at: int
    text: str
    first_line: int


def text_of(lines: Iterable[str]) -> str:
    """Return lines as they stand in a file."""
    return "".join(f"{line}\n" for line in lines)


def insertion(content: str, entry: Sequence[str], heading: str | None, title: str) -> Insertion:
    """Return where an entry goes in the content of a note, "" for a new one.

    That is the end of the section below `heading`, which is added if it is missing; without one,
    the end of the note. A note without text gets `title` as its heading, unless that is "".
    """
    lines = split_lines(content)
    end = None if heading is None else _section_end(lines, heading)
    added: list[str] = []
    if title and not content.strip():
        added.append(f"# {title}")
    if heading is not None and end is None:
        added.append(f"## {heading}")
    before, after = (lines, []) if end is None else (lines[:end], lines[end:])
    lead: list[str] = []
    for block in [*added, entry[0]]:
        above = (before + lead)[-1:]
        if above and above[0].strip() and not (block is entry[0] and is_item(above[0])):
            lead.append("")
        if block is not entry[0]:
            lead.append(block)
    tail = [""] if after and after[0].strip() else []
    at = len(content) if end is None else _offset(content, end)
    text = text_of([*lead, *entry, *tail])
    if at and content[at - 1] not in "\r\n":
        text = f"\n{text}"
    if "\r\n" in content:
        text = text.replace("\n", "\r\n")
    return Insertion(at, text, len(before) + len(lead) + 1)


def removal(content: str, entry: Sequence[str], inserted: str) -> str | None:
    """Return the content without an entry, as it was before if nothing follows; None: not there.

    `inserted` is the text that the entry came with.
    """
    if content.endswith(inserted):
        return content[: len(content) - len(inserted)]
    at = find_entry(split_lines(content), entry)
    if at is None:
        return None
    return content[: _offset(content, at)] + content[_offset(content, at + len(entry)) :]


def _section_end(lines: Sequence[str], heading: str) -> int | None:
    """Return the index of the line behind the text of a section; None: no such section."""
    outline, wanted = Outline(), heading.casefold()
    start = read_front_matter(lines).lines
    end: int | None = None
    for number, line in enumerate(lines[start:], start=start):
        if outline.read(line):
            if end is not None:
                break
            path = outline.path.casefold()
            if path == wanted or path.endswith(f" > {wanted}"):
                end = number + 1
        elif end is not None and line.strip():
            end = number + 1
    return end


def _offset(content: str, line: int) -> int:
    """Return the offset at which the line with an index begins, or the end of the content."""
    ends = [0, *(found.end() for found in _LINE_END.finditer(content))]
    return ends[line] if line < len(ends) else len(content)
