"""Whole notes for prompts, in sections and entries, kept while a note is unchanged."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from memoryd.chunk.entries import Entry, entries
from memoryd.chunk.facts import date_of_note
from memoryd.chunk.provenance import observed_days, written_entries
from memoryd.chunk.sections import NoteSection, sections
from memoryd.messages import FileContent, FileKey, FileStat
from memoryd.source.notes.discover import Discovery
from memoryd.text.front_matter import read_front_matter
from memoryd.text.outside import outside_lines
from memoryd_client.schema.search import Origin

MAX_BYTES = 1024 * 1024
"""Maximum size of a note that is read as a whole for a prompt."""
_KEPT = 32
"""Notes whose parts are kept."""


class NoteText(NamedTuple):
    """The parts of one note, apart from untrusted ones. Too large a note has none.

    `observed` are the days of written entries by the index of their last line.
    """

    key: FileKey
    stat: FileStat
    date: str
    origin: Origin
    sections: tuple[NoteSection, ...] = ()
    entries: tuple[Entry, ...] = ()
    too_large: bool = False
    observed: Mapping[int, str] = {}

    def observed_on(self, entry: Entry) -> str:
        """Return the last day on which an entry was observed, "" if it does not say."""
        lines = range(entry.first_line - 1, entry.last_line)
        return max((self.observed.get(line, "") for line in lines), default="")


class NoteTexts:
    """Reads whole notes, private text and secrets left out. Threads may share it."""

    def __init__(self, discovery: Discovery, read: Callable[[Path], FileContent]) -> None:
        self._discovery = discovery
        self._read = read
        self._kept: OrderedDict[FileKey, NoteText] = OrderedDict()

    def get(self, name: str) -> NoteText | None:
        """Return a note, None if it is missing, hidden or untrusted. Blocking. Raises `OSError`."""
        path = self._discovery.workspace / name
        found = self._discovery.stat(path)
        if found is None or (stat := found[1]) is None:
            return None
        key = found[0]
        if (origin := self._discovery.origin(key)) is Origin.UNTRUSTED:
            return None
        kept = self._kept.get(key)
        if kept is not None and kept.stat == stat and kept.origin is origin:
            return kept
        if stat.size > MAX_BYTES:
            return NoteText(key, stat, date_of_note(key.path, {}), origin, too_large=True)
        try:
            content = self._read(path)
        except FileNotFoundError:
            return None
        note = _parsed(key, stat, content.lines, origin)
        self._kept[key] = note
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return note


def trusted_lines(lines: list[str]) -> list[str]:
    """Return the lines of a note with those of front matter and of untrusted text made empty."""
    own = lines.copy()
    front = read_front_matter(lines)
    own[: front.lines] = [""] * front.lines
    for run in outside_lines(lines):
        own[run.first : run.last + 1] = [""] * (run.last + 1 - run.first)
    for number, voice in written_entries(lines).voices.items():
        if not voice.trusted:
            own[number] = ""
    return own


def _parsed(key: FileKey, stat: FileStat, lines: list[str], origin: Origin) -> NoteText:
    own = trusted_lines(lines)
    return NoteText(
        key,
        stat,
        date_of_note(key.path, read_front_matter(lines).properties),
        origin,
        tuple(sections(own)),
        tuple(entries(own)),
        observed=observed_days(lines),
    )
