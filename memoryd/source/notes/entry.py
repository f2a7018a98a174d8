"""Entries that memoryd writes: list items whose text can't change what is around them. Pure."""

import re
from collections.abc import Sequence

from memoryd.chunk.comments import without_comments
from memoryd.chunk.fences import Fences
from memoryd.messages import split_lines
from memoryd.source.notes.read import mask_private
from memoryd_client.schema.notes import NoteKind

INDENT = "  "
_PREFIXES: dict[NoteKind | None, str] = {
    None: "",
    "fact": "",
    "decision": "Decision: ",
    "preference": "Preference: ",
    "todo": "[ ] ",
}
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, those of writing direction included: they show a text in another order."""
_COMMENT = re.compile(r"<(?=!--)|(?<=--)>")
_OUTSIDE = re.compile(r"<(?=<<(?:END_)?EXTERNAL_UNTRUSTED_CONTENT)")
"""A mark of outside content, which would apply to the lines behind it."""
_MARKERS = r"\A([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)"
"""Indent and markers of list items at the start of a line."""
_HEADING = re.compile(_MARKERS + r"(?=#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$)")
"""Start of a line that is a heading, or makes one of the line before it."""
_FENCE = re.compile(_MARKERS + r"(?=```|~~~)")
_MAY_STAY_OPEN = re.compile(r"```|~~~|private|<!--(?![^\n]*-->)", re.IGNORECASE)
"""A part that every block has that does not end on its line."""
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")


def entry_lines(text: str, kind: NoteKind | None = None) -> list[str]:
    """Return the lines of a list item with a text; none if nothing of the text can be shown.

    Private parts are left out. Control characters go, and what would be a heading, a comment, a
    fence without an end or a mark of outside content is escaped.
    """
    lines, _ = mask_private(split_lines(_LINE_ENDS.sub("\n", text)))
    lines = [_CONTROLS.sub("", line.replace("\t", "    ")).rstrip() for line in lines]
    lines = [_COMMENT.sub(_entity, _OUTSIDE.sub(_entity, line)) for line in lines]
    lines = _without_blank_runs(lines)
    if not lines:
        return []
    lines = _escaped(lines)
    first, *rest = lines
    shown = [f"- {_PREFIXES[kind]}{first.lstrip()}"]
    return shown + [INDENT + line if line else "" for line in rest]


def with_comment(entry: Sequence[str], comment: str) -> list[str]:
    """Return an entry with a comment at its end, on a line of its own behind fenced code."""
    *before, last = entry
    if "```" in last or "~~~" in last:
        return [*entry, INDENT + comment]
    return [*before, f"{last} {comment}"]


def heading_line(text: str) -> str:
    """Return the title of a heading on one line, "" if nothing of it can be shown."""
    title = _CONTROLS.sub("", _LINE_ENDS.sub(" ", text).replace("\t", " ").replace("\n", " "))
    return " ".join(_COMMENT.sub(_entity, _OUTSIDE.sub(_entity, title)).split()).strip("# ")


def open_block(lines: Sequence[str]) -> str | None:
    """Return what is still open at the end of a note and would swallow an entry; None: nothing."""
    if not _MAY_STAY_OPEN.search("\n".join(lines)):
        return None  # without reading a long note line by line each time
    if mask_private(list(lines))[1] is not None:
        return "a <private> block"
    if without_comments([*lines, "-"]).lines[-1] is None:
        return "a comment"
    fences = Fences()
    for line in lines:
        fences.read(line)
    fences.read("- ")  # a list item ends code in the one before it
    return "fenced code" if fences.is_open else None


def find_entry(lines: Sequence[str], entry: Sequence[str]) -> int | None:
    """Return the index of the last place where the lines of an entry stand; None: nowhere."""
    for at in range(len(lines) - len(entry), -1, -1):
        if lines[at] == entry[0] and list(lines[at : at + len(entry)]) == list(entry):
            return at
    return None


def is_item(line: str) -> bool:
    """Return whether a line begins or continues a list item."""
    return line.startswith((INDENT, "\t")) or _ITEM.match(line) is not None


def _entity(found: re.Match[str]) -> str:
    return "&lt;" if found[0] == "<" else "&gt;"


def _without_blank_runs(lines: Sequence[str]) -> list[str]:
    """Return the lines without blank ones at both ends, and at most one between two others."""
    shown: list[str] = []
    for line in lines:
        if line or (shown and shown[-1]):
            shown.append(line)
    return shown[:-1] if shown and not shown[-1] else shown


def _escaped(lines: Sequence[str]) -> list[str]:
    """Return the lines with headings escaped outside of code, and fences unless all are closed."""
    fences, plain = Fences(), list[bool]()
    for number, line in enumerate(lines):
        # The first line stands behind the marker of the item, where a fence may begin too.
        plain.append(not fences.read((INDENT if number else "") + line))
    if fences.is_open or not plain[0]:
        lines = [_FENCE.sub(r"\1\\", line) for line in lines]
        plain = [True] * len(lines)
    return [
        _HEADING.sub(r"\1\\", line) if is_plain else line
        for line, is_plain in zip(lines, plain, strict=True)
    ]
