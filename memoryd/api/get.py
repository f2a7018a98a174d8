"""Lines of a note or a transcript for clients, or the reason why they are unavailable."""

import errno
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from memoryd.agent.agent import Agent
from memoryd.api.visibility import check_note, check_transcript, is_direct
from memoryd.errors import ECHO_CHARS, RequestFailedError, bad_request, unavailable
from memoryd.messages import FileKey
from memoryd.source.notes.read import NoteExcerpt, NotMemoryError, read_lines
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.text.normal_form import composed
from memoryd_client.schema.memory import GetBody, GetResult
from memoryd_client.shared.citation import read_citation
from memoryd_client.wire.protocol import ErrorCode

LINES = 120
MAX_LINES = 5_000
MAX_CHARS = 12_000
DISK_ERRNOS = frozenset(
    {errno.EIO, errno.ENXIO, errno.ENODEV, errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT}
)
"""Errors of the disk, not of the file."""
HINT = (
    "make its disk available and retry; `memctl search` shows its indexed text; to remove it"
    " from the index, run `memctl index`"
)


async def get(agent: Agent, body: GetBody) -> GetResult:
    """Return lines of a note, or messages of a transcript. Raises `RequestFailedError`."""
    if not body.path:
        raise bad_request(
            "the path is empty",
            "use a path from the search results; `memctl files` lists all files",
        )
    if body.start_line < 1 or (body.lines is not None and not 1 <= body.lines <= MAX_LINES):
        raise bad_request(f"start_line must be at least 1, and lines from 1 to {MAX_LINES}")
    is_direct(body.chat_type)  # refuses an unknown one, whatever the path
    shown = body.path[:ECHO_CHARS]
    try:
        return await _read_cited(agent, body)
    except NotMemoryError as error:
        raise RequestFailedError(
            ErrorCode.DENIED,
            f"can't read {shown}: {error}",
            "memory is MEMORY.md, USER.md, memory/**/*.md and the configured extra_paths",
        ) from error
    except FileNotFoundError as error:
        if (reason := await _missing_disk_reason(agent, body.path)) is not None:
            raise unavailable(f"{shown} is unavailable: {reason}", HINT) from error
        if (kept := await _kept(agent, body)) is not None:
            return kept
        raise RequestFailedError(ErrorCode.NOT_FOUND, f"not in memory: {shown}") from error
    except (OSError, ValueError) as error:
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or reason
            if error.errno in DISK_ERRNOS:
                raise unavailable(f"{shown} is unavailable: {reason}", HINT) from error
        raise RequestFailedError(ErrorCode.DENIED, f"can't read {shown}: {reason}") from error


async def _read_cited(agent: Agent, body: GetBody) -> GetResult:
    """Read a file, or the lines that a citation names. A file may have a name like a citation."""
    cited = read_citation(body.path)
    if cited is None:
        return await _read(agent, body)
    try:
        return await _read(agent, body)
    except (NotMemoryError, FileNotFoundError):
        start = cited.first if body.start_line == 1 else body.start_line
        lines = min(MAX_LINES, cited.last - cited.first + 1) if body.lines is None else body.lines
        named = replace(body, path=cited.path, start_line=start, lines=lines)
        return await _read(agent, named)


async def _kept(agent: Agent, body: GetBody) -> GetResult | None:
    """Read a transcript whose file has just vanished; None if it is not kept."""
    cited = read_citation(body.path)
    name = body.path if cited is None else cited.path
    if body.raw or agent.transcripts is None or not agent.transcripts.files.is_name(name):
        return None
    files = agent.transcripts.files
    await files.kept.restore(FileKey(SESSIONS, files.present_name(name)))
    with suppress(OSError, NotMemoryError):
        return await _read_cited(agent, body)
    return None


async def _read(agent: Agent, body: GetBody) -> GetResult:
    wanted = LINES if body.lines is None else body.lines
    body = replace(body, path=await as_named(agent, agent.backend.path_of(body.path)))
    if agent.transcripts is not None and agent.transcripts.files.is_name(body.path):
        check_transcript(agent, body)
        transcripts = agent.transcripts.files
        place = transcripts.place_of(body.path)
        return await agent.look_up(transcripts.get, body, wanted, MAX_CHARS, at=place)
    check_note(agent, body.path, body.chat_type)
    read = partial(
        read_lines,
        agent.notes.discovery,
        body.path,
        start_line=body.start_line,
        max_lines=wanted,
        max_chars=MAX_CHARS,
    )
    path = absolute(agent.notes.discovery.workspace, body.path)
    return _result(body, await agent.look_up(read, at=path))


def _result(body: GetBody, excerpt: NoteExcerpt) -> GetResult:
    after = body.start_line + len(excerpt.lines)
    more = bool(excerpt.lines) and after <= excerpt.total_lines
    return GetResult(
        path=excerpt.path,
        text="\n".join(excerpt.lines),
        start_line=body.start_line,
        lines=len(excerpt.lines),
        total_lines=excerpt.total_lines,
        truncated=excerpt.cut,
        next_from=after if more else None,
    )


async def _missing_disk_reason(agent: Agent, path: str) -> str | None:
    """Return why a missing file may be on a missing disk; None: the file is deleted."""
    real_path: Path | None = absolute(agent.notes.discovery.workspace, path)
    if agent.transcripts is not None and agent.transcripts.files.is_name(path):
        real_path = agent.transcripts.files.places.real_path(FileKey(SESSIONS, path))
    with suppress(OSError):
        if real_path is not None:
            return await agent.look_up(agent.missing_disk_reason, real_path)
    return None


async def as_named(agent: Agent, path: str) -> str:
    """Return the path of a file in the normal form of Unicode in which its name is stored."""
    if path.isascii():
        return path
    discovery = agent.notes.discovery
    file = absolute(discovery.workspace, path)
    with suppress(OSError, ValueError):
        found = await agent.look_up(discovery.stat, file, at=file)
        if found is not None and found[1] is not None:
            return path
    workspace = composed(f"{str(discovery.workspace).rstrip('/')}/")
    key = composed(str(file)).removeprefix(workspace)
    rows = agent.index.store.catalog
    return rows.spelled(discovery.key(file).path) or rows.spelled(key) or path


def absolute(workspace: Path, path: str) -> Path:
    """Return the absolute path of one that may be relative to the workspace."""
    return Path(os.path.normpath(workspace / path))
