"""Notes that a client has memoryd write: written, taken back, restored or dismissed."""

import asyncio
import errno
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from memoryd.agent.agent import Agent
from memoryd.api.handlers import while_writable
from memoryd.chunk.provenance import without_provenance
from memoryd.errors import RequestFailedError, SocketError, bad_request, unavailable
from memoryd.fs.safe_open import LinkError
from memoryd.source.notes.write import NoteRefusedError, PlacedNote
from memoryd_client.schema.notes import NoteBody, NoteResult
from memoryd_client.wire.protocol import ErrorCode

T = TypeVar("T")
SEARCHABLE_S = 10.0
"""Seconds that an answer waits until the note is searchable; it is written before."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


async def note(agent: Agent, body: NoteBody) -> NoteResult:
    """Write a note, or carry out an action on the written ones. Raises `RequestFailedError`."""
    writer = agent.note_writer
    match body.action:
        case "write":
            placed, masked = await run_writer(agent, lambda: writer.write(body))
            result = NoteResult(placed.citation, _text(placed), placed.duplicate, masked)
            return await _searchable(agent, result, [placed])
        case "undo":
            undone = await run_writer(agent, writer.undo)
            if undone is None:
                raise RequestFailedError(ErrorCode.NOT_FOUND, "there is no note to take back")
            result = NoteResult(text=_text(undone), undone=undone.citation)
            return await _searchable(agent, result, [undone])
        case "restore":
            restored = await run_writer(agent, writer.restore)
            result = NoteResult(restored=[placed.citation for placed in restored])
            return await _searchable(agent, result, restored)
        case "dismiss":
            dismissed = await run_writer(agent, writer.dismiss)
            return NoteResult(dismissed=[note.path for note in dismissed])


def _text(placed: PlacedNote) -> str:
    return "\n".join(without_provenance(placed.note.lines))


async def run_writer(agent: Agent, work: Callable[[], T]) -> T:
    """Run work of the writer of notes in a thread. Raises `RequestFailedError`."""
    try:
        async with agent.note_turn:
            return await agent.look_up(work, at=agent.notes.discovery.workspace)
    except NoteRefusedError as error:
        raise bad_request(error.message, error.hint) from error
    except SocketError as error:
        raise unavailable(f"nothing was written: {error.message}", error.hint) from error
    except OSError as error:
        raise _failed(error) from error


def _failed(error: OSError) -> RequestFailedError:
    """Return the error for a file that can't be written."""
    where = f"{error.filename}: " if error.filename else ""
    message = f"nothing was written: {where}{error.strerror or error}"
    if error.errno in _FULL:
        return unavailable(message, "free disk space, then write the note again")
    if error.errno == errno.ESTALE:
        return unavailable(message, "write the note again")
    hint = "check the file and its folder, then write the note again"
    if isinstance(error, LinkError):
        hint = "name a file that is not reached by a link"
    return RequestFailedError(ErrorCode.DENIED, message, hint)


async def _searchable(agent: Agent, result: NoteResult, placed: Iterable[PlacedNote]) -> NoteResult:
    """Wait until the changed files are searchable; say so if they are not."""
    if not result.duplicate:
        result.warnings += await until_searchable(agent, placed)
        result.searchable = not result.warnings
    return result


async def until_searchable(agent: Agent, placed: Iterable[PlacedNote]) -> list[str]:
    """Wait until the changed files are searchable; return why they are not, if so."""
    paths = frozenset[Path](each.path for each in placed)
    if not paths:
        return []
    try:
        async with asyncio.timeout(SEARCHABLE_S):
            sync = agent.sync(vectors=False, paths=paths)
            await while_writable(agent.index.store.outage, sync)
    except TimeoutError:
        return ["not searchable yet: the index is busy"]
    except RequestFailedError as error:
        return [f"not searchable yet: {error.message}"]
    return []
