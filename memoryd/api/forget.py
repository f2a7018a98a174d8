"""Forgets transcripts, or messages in them: finds them, keeps them out, and has them removed."""

import asyncio
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from unicodedata import normalize

from memoryd.agent.agent import Agent
from memoryd.agent.transcripts import Transcripts, stem
from memoryd.errors import RequestFailedError
from memoryd.index.driver import Error
from memoryd.index.forget import chunk_hashes, message_hash
from memoryd.index.queries import find_text
from memoryd.index.repair.recover import remove_copies
from memoryd.messages import FileKey, Forget, Hint, ToWriter
from memoryd.source.transcripts.locations import SOURCE, is_transcript
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult
from memoryd_client.wire.protocol import ErrorCode

Tombstones = set[tuple[str, str]]
MAX_NAMED_CHARS = 10_000
"""Of a text to be forgotten, a name or an id: looking for a longer one takes ever longer."""


async def forget(agent: Agent, transcripts: Transcripts, body: ForgetBody) -> ForgetResult:
    """Carry out a request in which exactly one of its conditions is set.

    From the moment they are known, tombstones keep out what is read; what has been read by then is
    let through first, and then removed with all the rest.
    """
    tombstones, paths, unread = await _named(agent, transcripts, body)
    count = sum(kind == "message" for kind, _ in tombstones)
    result = ForgetResult(paths, count, body.dry_run, unread=unread)
    if body.dry_run or not paths:
        return result
    # Whatever has these names when all is done: only the files that have them now are deleted.
    sources = await agent.look_up(_sources, transcripts, paths)
    digests = await agent.index.store.readers.read(lambda c: chunk_hashes(c, paths))
    transcripts.tombstones |= tombstones
    await agent.sync(vectors=False)
    kept = tombstones | {("chunk", digest) for digest in digests}
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    keys = [FileKey(SOURCE, path) for path in paths]
    message: ToWriter = Forget(keys, sorted(kept), done)
    await agent.queues.write.put(message)
    not_wiped: Exception | None = None
    try:
        await done
    except (Error, OSError) as error:
        not_wiped = error
    # They hold what was in the index when it was damaged.
    await agent.look_up(remove_copies, agent.index.store.path)
    agent.index.recovered = None
    if body.delete_source and body.match is None:
        result.deleted = await agent.look_up(_delete, transcripts, sources)
    if body.match is not None:
        # What is left of them is read again.
        await agent.queues.transcripts.put(Hint(reason="forgotten"))
    if not_wiped is not None:
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE,
            f"it is forgotten, but its bytes may still be in {agent.index.store.path}: {not_wiped}",
            "when there is as much room again as it takes: `memctl index --force`",
        )
    return result


async def _named(
    agent: Agent, transcripts: Transcripts, body: ForgetBody
) -> tuple[Tombstones, list[str], list[str]]:
    """Return what keeps out what is meant, the transcripts it concerns, and which can't be read."""
    known = {
        key.path: row for key, row in agent.index.store.catalog.rows.items() if key.source == SOURCE
    }
    if body.path is not None:
        name = stem(body.path)
        paths = [path for path in known if stem(path) == name]
        return {("path", name)}, sorted(paths or _on_disk(transcripts, name)), []
    if body.session is not None:
        paths = [
            path
            for path, row in known.items()
            if row.transcript is not None and row.transcript.session == body.session
        ]
        return {("session", body.session), *(("path", stem(p)) for p in paths)}, sorted(paths), []
    text = body.match or ""
    if agent.index.store.writable:
        # What is on disk and not in the index yet would come into it later.
        await agent.sync(vectors=False)
    paths = await agent.index.store.readers.read(lambda c: find_text(c, text))
    return await agent.look_up(_messages, transcripts, paths, text)


def _on_disk(transcripts: Transcripts, name: str) -> list[str]:
    return [key.path for key in transcripts.find().files if stem(key.path) == name]


def _messages(
    transcripts: Transcripts, paths: Collection[str], text: str
) -> tuple[Tombstones, list[str], list[str]]:
    """Return the hashes of the messages that have a text, and where as `_named` does."""
    wanted = _wanted(text)
    tombstones: Tombstones = set()
    concerned, unread = [], []
    for path in paths:
        real_path = transcripts.places.real_path(FileKey(SOURCE, path))
        try:
            if real_path is None:
                raise FileNotFoundError(path)
            found = {
                ("message", message_hash(spoken))
                for spoken in transcripts.messages(real_path)
                if wanted.search(_level(spoken))
            }
        except OSError:
            unread.append(path)
        else:
            tombstones |= found
        if path in unread or found:
            concerned.append(path)
    return tombstones, concerned, unread


def _wanted(text: str) -> re.Pattern[str]:
    """Return what matches a text in a message, which is one line.

    A line end stands for a space or for nothing: long lines are shown wrapped.
    """
    lines = [" ".join(_level(line).split()) for line in text.splitlines()]
    return re.compile(" ?".join(re.escape(line) for line in lines if line))


def _level(text: str) -> str:
    """Return a text in no case, its accents composed."""
    return normalize("NFC", normalize("NFC", text).casefold())


def _sources(transcripts: Transcripts, paths: Collection[str]) -> dict[Path, tuple[int, int]]:
    """Return the files of transcripts, with their (device, inode)."""
    sources = {}
    for path in paths:
        real_path = transcripts.places.real_path(FileKey(SOURCE, path))
        if real_path is not None and is_transcript(str(real_path)):
            with suppress(OSError):
                sources[real_path] = transcripts.places.identity(real_path)
    return sources


def _delete(transcripts: Transcripts, sources: dict[Path, tuple[int, int]]) -> list[str]:
    """Delete the files of transcripts; return those that are gone."""
    deleted = []
    for path, identity in sources.items():
        with suppress(OSError):
            transcripts.places.delete(path, identity)
            deleted.append(str(path))
    return deleted
