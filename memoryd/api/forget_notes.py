"""Notes to forget: whether their files are gone, where a text still is, and their deletion."""

import re
import stat
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from pathlib import Path

from memoryd.agent.agent import Agent
from memoryd.api.get import absolute
from memoryd.errors import RequestFailedError, bad_request, unavailable
from memoryd.fs.safe_open import stat_file, unlink_file
from memoryd.messages import FileKey
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
