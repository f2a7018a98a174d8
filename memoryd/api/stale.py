"""Entries of MEMORY.md that newer notes contradict, for a person to decide. Nothing is changed."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memoryd.agent.agent import Agent
from memoryd.agent.note_texts import NoteText
from memoryd.api.context import read_notes
from memoryd.chunk.entries import Entry
from memoryd.search.contradiction import agree, disagree
from memoryd.search.recall import NoteChunk, Recaller
from memoryd.source.filenames import ROOT_FILES
from memoryd.text.fold import fold
from memoryd.text.language import most_function_words
from memoryd.text.periods import read_period
from memoryd_client.schema.memory import Empty
from memoryd_client.schema.stale import NewerStatement, StaleEntry, StaleResult
from memoryd_client.shared.citation import cite

MAX_ENTRIES = 500
"""Entries that are compared, the first ones of the file: each takes a search."""
SHOWN = 3
"""Lines that are shown for an entry."""
_MARKER = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?")


class _Line(NamedTuple):
    """A line of a dated note: its text, the folded text, and the last day of the note."""

    citation: str
    text: str
    folded: str
    date: str


async def stale(agent: Agent, body: Empty) -> StaleResult:
    """Compare MEMORY.md with the dated notes, by words alone. Raises `RequestFailedError`."""
    notes, warnings = await read_notes(agent, ROOT_FILES)
    result = StaleResult([], warnings=warnings)
    own = frozenset(note.key for note in notes)
    recaller = Recaller(agent.index.store, None, agent.notes.discovery.origin)
    for note in notes:
        if note.key.path == ROOT_FILES[-1]:
            continue
        if note.too_large:
            result.warnings.append(f"{note.key.path} is too large to be compared")
        for entry in note.entries:
            if result.compared == MAX_ENTRIES:
                result.warnings.append(f"only the first {MAX_ENTRIES} entries were compared")
                return result
            result.compared += 1
            _, chunks = await recaller.read(entry.text, None, without=own)
            found = await asyncio.to_thread(_contradicted, note, entry, chunks)
            if found is not None:
                result.entries.append(found)
    return result


def _contradicted(note: NoteText, entry: Entry, chunks: Sequence[NoteChunk]) -> StaleEntry | None:
    """Return an entry with the lines that contradict it, None without any. Blocking: CPU.

    A line counts if it is newer than the entry, as far as that is dated, and than each line that
    agrees with it.
    """
    lines = list(_lines(chunks))
    date = note.observed_on(entry)
    against: dict[str, _Line] = {}
    for own in fold(entry.text).split("\n"):
        language = most_function_words(own)
        latest = max(
            (line.date for line in lines if agree(own, line.folded, language)), default=date
        )
        since = max(date, latest)
        against |= {
            line.citation: line
            for line in lines
            if line.date > since and disagree(own, line.folded, language)
        }
    if not against:
        return None
    newest = sorted(against.values(), key=lambda line: (line.date, line.citation), reverse=True)
    return StaleEntry(
        cite(note.key.path, entry.first_line, entry.last_line),
        _MARKER.sub("", entry.text, count=1),
        [NewerStatement(line.citation, line.text, line.date) for line in newest[:SHOWN]],
        date,
    )


def _lines(chunks: Sequence[NoteChunk]) -> Iterator[_Line]:
    """Yield the lines of dated chunks; those that two chunks share come twice."""
    for chunk in chunks:
        period = read_period(chunk.date)
        if period is None:
            continue
        date = period.last.isoformat()
        texts = zip(chunk.text.split("\n"), fold(chunk.text).split("\n"), strict=False)
        for number, (text, folded) in enumerate(texts, start=chunk.start_line):
            if shown := _MARKER.sub("", text, count=1).rstrip():
                yield _Line(cite(chunk.key.path, number, number), shown, folded, date)
