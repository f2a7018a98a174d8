"""Notes to forget: whether their files are gone, where a text still is, and their deletion."""

import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.agent.forgotten import stem
from memoryd.api.get import absolute
from memoryd.chunk.provenance import written_entries
from memoryd.errors import RequestFailedError, bad_request, unavailable
from memoryd.fs.safe_open import stat_file, unlink_file
from memoryd.index.queries import files_citing
from memoryd.messages import FileKey
from memoryd.search.query import conversation_of
from memoryd.source.notes.discover import SOURCE, Discovery
from memoryd.source.notes.journal import JournalNote
from memoryd.source.notes.read import read_file
from memoryd_client.wire.protocol import ErrorCode

MAX_LINES = 1_000
"""Maximum number of lines in an answer."""


async def find_note(agent: Agent, path: str, *, may_exist: bool) -> FileKey | None:
    """Return the key of a note to forget, None if the index doesn't know it.

    `may_exist`: its file may exist, and is to be deleted. Raises `RequestFailedError`.
    """
    discovery = agent.notes.discovery
    file = absolute(discovery.workspace, path)
    try:
        found = await agent.look_up(discovery.stat, file, at=file)
        away = await agent.look_up(agent.missing_disk_reason, file, at=file)
    except (OSError, ValueError) as error:
        raise unavailable(f"can't check {path}: {error}", "make its disk available") from error
    if away is not None:
        raise unavailable(f"{path} is unavailable: {away}", "make its disk available and retry")
    key = FileKey(SOURCE, path) if found is None else found[0]
    exists = found is not None and found[1] is not None
    if exists and not may_exist:
        raise bad_request(
            f"{path} still exists, and would be indexed again",
            "delete it, edit its text, or use --delete-source (delete_source) to delete the file",
        )
    return key if exists or key in agent.index.store.catalog.rows else None


async def delete_note(agent: Agent, path: str) -> list[str]:
    """Delete the file of a note, if it exists; return its path. Raises `RequestFailedError`."""
    discovery = agent.notes.discovery
    file = absolute(discovery.workspace, path)
    try:
        return await agent.look_up(_delete, discovery, file, at=file)
    except OSError as error:
        raise RequestFailedError(
            ErrorCode.DENIED,
            f"nothing was forgotten: can't delete {file}: {error.strerror or error}",
            "delete the file, then repeat the command",
        ) from error


async def forget_written(agent: Agent, condition: Callable[[JournalNote], bool]) -> None:
    """Remove notes from the journal of written ones. Raises `RequestFailedError`."""
    try:
        async with agent.note_turn:
            await agent.look_up(agent.note_writer.forget, condition, at=agent.index.store.path)
    except OSError as error:
        raise unavailable(
            f"nothing was forgotten: can't write the journal of notes: {error.strerror or error}",
            "free disk space, or check the folder of the index",
        ) from error


@dataclass(frozen=True, slots=True)
class NotesAbout:
    """Written notes that come from forgotten conversations.

    `places` has their (path, line) by the path of each note file. The files in `whole` have nothing
    else. `in_journal` tells which notes of the journal do.
    """

    places: dict[str, list[tuple[str, int]]]
    whole: list[str]
    in_journal: Callable[[JournalNote], bool]


async def notes_about(
    agent: Agent, session: str | None, transcripts: Collection[str]
) -> NotesAbout:
    """Return the notes that come from a session, or from transcripts by name.

    Raises `RequestFailedError`.
    """
    names = {stem(path) for path in transcripts}

    def in_journal(note: JournalNote) -> bool:
        return note.session in (names if session is None else {*names, session}) or bool(
            _entries_about(note.lines, names)
        )

    try:
        async with agent.note_turn:
            noted = await agent.look_up(agent.note_writer.noted, at=agent.index.store.path)
    except OSError as error:
        raise unavailable(f"can't read the journal of notes: {error.strerror or error}") from error
    written = {note.path for note in noted if in_journal(note)}
    names |= {
        stem(conversation_of(voice.source.conversation))
        for note in noted
        if session is not None and note.session == session
        for voice in written_entries(note.lines).voices.values()
        if voice.source is not None
    }
    for name in names:
        citing = partial(files_citing, conversation=name)
        ids = await agent.index.store.readers.read(citing)
        rows = agent.index.store.catalog.rows.items()
        written |= {key.path for key, row in rows if key.source == SOURCE and row.file_id in ids}
    places, whole = dict[str, list[tuple[str, int]]](), list[str]()
    for path in sorted(written):
        file = agent.notes.discovery.workspace / path
        lines = await agent.look_up(_lines, agent.notes.discovery, file, at=file) or []
        if found := _entries_about(lines, names):
            starts = [at + 1 for at in sorted(found) if at - 1 not in found or _begins(lines[at])]
            places[path] = [(path, line) for line in starts]
            rest = (line for at, line in enumerate(lines) if at not in found)
            if all(not line.strip() or line.startswith("# ") for line in rest):
                whole.append(path)
    return NotesAbout(places, whole, in_journal)


def _entries_about(lines: Sequence[str], names: Collection[str]) -> set[int]:
    """Return the indexes of the lines of written entries that come from these transcripts."""
    return {
        at
        for at, voice in written_entries(lines).voices.items()
        if voice.source is not None and stem(conversation_of(voice.source.conversation)) in names
    }


def _begins(line: str) -> bool:
    return line.startswith("- ")


def _delete(discovery: Discovery, file: Path) -> list[str]:
    found = discovery.stat(file)
    if found is None or found[1] is None:
        return []
    base = discovery.base(str(file))
    there = stat_file(file, base)
    if not stat.S_ISREG(there.st_mode):
        return []
    unlink_file(file, base, (there.st_dev, there.st_ino))
    return [str(file)]


async def lines_with(
    agent: Agent, paths: Collection[str], pattern: re.Pattern[str], fold: Callable[[str], str]
) -> list[tuple[str, int]]:
    """Return (path, line) of each place of a text in these notes, at most `MAX_LINES`.

    A note that can't be read has the line 1.
    """
    found: list[tuple[str, int]] = []
    for path in paths:
        file = agent.notes.discovery.workspace / path
        lines = await agent.look_up(_lines, agent.notes.discovery, file, at=file)
        places = [1] if lines is None else positions(lines, pattern, fold)
        found += [(path, line) for line in places]
        if len(found) >= MAX_LINES:
            break
    return found[:MAX_LINES]


def _lines(discovery: Discovery, file: Path) -> list[str] | None:
    try:
        return read_file(file, discovery.base(str(file))).lines
    except FileNotFoundError:
        return []
    except OSError:
        return None


def positions(
    lines: Sequence[str], pattern: re.Pattern[str], fold: Callable[[str], str]
) -> list[int]:
    """Return the numbers of the lines in which a match of a folded text begins."""
    folded = [" ".join(fold(line).split()) for line in lines]
    starts = list(accumulate((len(line) + 1 for line in folded), initial=0))
    whole = " ".join(folded)
    numbers = (bisect_right(starts, match.start()) for match in pattern.finditer(whole))
    return list(dict.fromkeys(numbers))
