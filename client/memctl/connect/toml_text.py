"""Edits of TOML text that leave all other bytes as they are. Pure."""

import re
from typing import Any

from msgspec import Struct

from memoryd_client.shared import toml

MARK = "# memoryd: written by `memctl connect`, removed by `memctl disconnect`"
"""Comment above what memoryd adds."""

_PIECE = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"{3,5}'
    r"|'''[\s\S]*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'" + r"|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+|[\s\S]"
)

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class TomlTable(Struct, frozen=True):
    """One table of a document: its header, the comment of memoryd above it, and its keys.

    `name` has the keys of the header. Blank lines and comments after the last key are not part.
    """

    name: tuple[str, ...]
    start: int
    end: int


def tables(text: str) -> list[TomlTable]:
    """Return the tables of a valid document in its order, without those inside of values."""
    found: list[TomlTable] = []
    place, start, end, name = 0, 0, 0, None
    for line, depth in zip(_LINE.findall(text), _depths(text), strict=True):
        bare = line.strip()
        if depth == 0 and bare.startswith("["):
            if name is not None:
                found.append(TomlTable(name, start, end))
            name, start = _name(bare), _with_mark(text, place)
            end = place + len(line)
        elif bare and not (depth == 0 and bare.startswith("#")):
            end = place + len(line)
        place += len(line)
    if name is not None:
        found.append(TomlTable(name, start, end))
    return found


def add(text: str, block: str) -> str:
    """Return the text with tables at its end, below a blank line and the comment of memoryd."""
    newline = "\r\n" if "\r\n" in text else "\n"
    ending = "" if not text or text.endswith("\n") else newline
    blank = newline if text else ""
    lines = [MARK, *block.splitlines(), ""]
    return text + ending + blank + newline.join(lines)


def cut(text: str, found: TomlTable) -> str:
    """Return the text without a table, and without the blank line above it."""
    above = text[: found.start]
    for blank in ("\r\n\r\n", "\n\n"):
        if above.endswith(blank):
            above = above[: len(above) - len(blank) // 2]
            break
    else:
        above = "" if above in ("\n", "\r\n") else above
    return above + text[found.end :]


def _name(header: str) -> tuple[str, ...]:
    table: Any = toml.loads(header.encode())
    name: list[str] = []
    while table:
        [(key, below)] = table.items()
        name.append(key)
        table = below[0] if isinstance(below, list) else below
    return tuple(name)


def _with_mark(text: str, place: int) -> int:
    """Return the start of the comment of memoryd above a line, or of that line."""
    above = text.rfind("\n", 0, max(place - 1, 0)) + 1
    return above if text[above:place].strip() == MARK else place


def _depths(text: str) -> list[int]:
    """Return how deep in brackets and texts each line begins."""
    depths, depth, begins = [], 0, True
    for found in _PIECE.finditer(text):
        piece = found[0]
        if begins:
            depths.append(depth)
            begins = False
        if piece == "\n":
            begins = True
        elif "\n" in piece:
            depths += [1] * piece.count("\n")
        elif piece in "[{":
            depth += 1
        elif piece in "]}":
            depth -= 1
    return depths
