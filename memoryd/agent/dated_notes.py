"""Entries of dated notes that may be promoted to MEMORY.md: the owner's and the agent's words."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from memoryd.agent.note_texts import MAX_BYTES, trusted_lines
from memoryd.chunk.entries import entries
from memoryd.chunk.provenance import written_entries
from memoryd.messages import FileContent, FileKey, FileStat
from memoryd.source.filenames import MEMORY_FOLDER, is_session_note
from memoryd.source.notes.discover import SOURCE, Discovery
from memoryd.text.voice import least_trusted
from memoryd_client.schema.search import Origin

KEPT = 32
"""Notes whose entries are kept."""
_DATED = re.compile(rf"{MEMORY_FOLDER}/(\d{{4}}-\d{{2}}-\d{{2}})(?!\d)[^/]*\.md", re.IGNORECASE)
_BLOCK = re.compile(r"\s*<!--\s*openclaw:dreaming:(\S+):(start|end)\s*-->\s*")
"""Marks around what OpenClaw itself writes into a dated note about other notes."""


class DatedEntry(NamedTuple):
    """An entry of a dated note: its lines (1-based, inclusive), its text, whose words it has."""

    path: str
    day: str
    first_line: int
    last_line: int
    text: str
    origin: Origin


def day_of_note(path: str) -> str | None:
    """Return the day of a dated note, `memory/YYYY-MM-DD*.md`; None for any other file.

    A session note is a conversation, whose words nobody has chosen to keep.
    """
    if (found := _DATED.fullmatch(path)) is None or is_session_note(path):
        return None
    try:
        date.fromisoformat(found[1])
    except ValueError:
        return None
    return found[1]


class DatedNotes:
    """Reads dated notes, without private text and secrets. Threads may share it.

    The entries of the notes read last are kept while these are unchanged.
    """

    def __init__(self, discovery: Discovery, read: Callable[[Path], FileContent]) -> None:
        self._discovery = discovery
        self._read = read
        self._kept: OrderedDict[str, tuple[FileStat, Origin, list[DatedEntry]]] = OrderedDict()

    def entries(self, path: str) -> list[DatedEntry]:
        """Return the entries that may be promoted, in order. Blocking. Raises `OSError`.

        There are none in a file that is not a dated note, is missing, hidden, too large or not
        trusted.
        """
        day, file = day_of_note(path), self._discovery.workspace / path
        found = None if day is None else self._discovery.stat(file)
        if day is None or found is None or found[0] != FileKey(SOURCE, path):
            return []
        origin, stat = self._discovery.origin(found[0]), found[1]
        if origin is Origin.UNTRUSTED or stat is None or stat.size > MAX_BYTES:
            return []
        kept = self._kept.get(path)
        if kept is not None and kept[:2] == (stat, origin):
            return kept[2]
        try:
            lines = self._read(file).lines
        except FileNotFoundError:
            return []
        read = list(_entries(path, day, lines, origin))
        self._kept[path] = stat, origin, read
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return read


def _entries(path: str, day: str, lines: list[str], origin: Origin) -> Iterator[DatedEntry]:
    voices = written_entries(lines).voices
    for entry in entries(_without_blocks(trusted_lines(lines))):
        of_lines = (voices.get(at) for at in range(entry.first_line - 1, entry.last_line))
        trust = least_trusted([origin, *(each.origin for each in of_lines if each is not None)])
        if trust is not Origin.UNTRUSTED:
            yield DatedEntry(path, day, entry.first_line, entry.last_line, entry.text, trust)


def _without_blocks(lines: Sequence[str]) -> list[str]:
    """Return the lines with those of blocks made empty; a block without an end ends the note."""
    shown, block = list[str](), ""
    for line in lines:
        mark = _BLOCK.fullmatch(line)
        if mark is not None and mark[2] == "start" and not block:
            block = mark[1]
        shown.append("" if block else line)
        if mark is not None and mark[2] == "end" and mark[1] == block:
            block = ""
    return shown
