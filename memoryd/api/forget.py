"""Forget transcripts or messages: find them, keep them from coming back, remove them."""

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from unicodedata import normalize

from memoryd.agent.agent import Agent
from memoryd.agent.transcripts import Transcripts, stem
from memoryd.api.handlers import while_writable
from memoryd.errors import RequestFailedError, bad_request
from memoryd.index.driver import Error
from memoryd.index.forget import chunk_hashes, message_hash
from memoryd.index.queries import find_text
from memoryd.index.repair.recover import remove_copies
from memoryd.messages import FileKey, Forget, Hint
from memoryd.source.transcripts.locations import SOURCE, is_transcript
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult
from memoryd_client.wire.protocol import ErrorCode

Tombstones = set[tuple[str, str]]
MAX_NAMED_CHARS = 10_000
"""Maximum length of a text, name or id to forget, because the search time grows with it."""


async def forget(agent: Agent, body: ForgetBody) -> ForgetResult:
    """Forget transcripts, or messages in them, permanently. Raises `RequestFailedError`."""
    named = [name for name in (body.session, body.path, body.match) if name is not None]
    if len(named) != 1 or not named[0].strip():
        raise bad_request("give exactly one of session, path and match")
    if len(named[0]) > MAX_NAMED_CHARS:
        raise bad_request(
            f"session, path and match may have at most {MAX_NAMED_CHARS} characters",
            "a part of the text is enough",
        )
    if agent.transcripts is None:
        raise bad_request(
            "transcripts are disabled", "to forget a note, delete it or edit its text"
        )
    work = _forget(agent, agent.transcripts.files, body)
    return await while_writable(agent.index.store.outage, work)


async def _forget(agent: Agent, transcripts: Transcripts, body: ForgetBody) -> ForgetResult:
    """Carry out a request with exactly one condition.

    Tombstones take effect at once for files that are read. Files that were read before go through
    the data path first and are then removed with the rest.
    """
    tombstones, paths, unread = await _named(agent, transcripts, body)
    count = sum(kind == "message" for kind, _ in tombstones)
    result = ForgetResult(paths, count, body.dry_run, unread=unread)
    if body.dry_run or not paths:
        return result
    # Other files may have these names in the end: delete only the files that have them now.
    sources = await agent.look_up(_sources, transcripts, paths)
    digests = await agent.index.store.readers.read(lambda c: chunk_hashes(c, paths))
    transcripts.tombstones |= tombstones
    await agent.sync(vectors=False)
    kept = tombstones | {("chunk", digest) for digest in digests}
    message = Forget([FileKey(SOURCE, path) for path in paths], sorted(kept))
    await agent.queues.write.put(message)
    not_wiped: Exception | None = None
    try:
        await message.done
    except (Error, OSError) as error:
        not_wiped = error
    # Copies of a corrupt index hold its texts.
    await agent.look_up(remove_copies, agent.index.store.path)
    agent.index.recovered = None
    if body.delete_source and body.match is None:
        result.deleted = await agent.look_up(_delete, transcripts, sources)
    if body.match is not None:
        # The remaining messages of the transcripts are read again.
        await agent.queues.transcripts.put(Hint(reason="forgotten"))
    if not_wiped is not None:
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE,
            f"forgotten, but its bytes may remain in {agent.index.store.path}: {not_wiped}",
            "free as much disk space as the index takes, then run `memctl index --force`",
        )
    return result


async def _named(
    agent: Agent, transcripts: Transcripts, body: ForgetBody
) -> tuple[Tombstones, list[str], list[str]]:
    """Return the tombstones, the transcripts concerned, and the unreadable ones among them."""
    rows = agent.index.store.catalog.rows
    known = {key.path: row for key, row in rows.items() if key.source == SOURCE}
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
        # Files on disk that are not indexed yet would be indexed later.
        await agent.sync(vectors=False)
    paths = await agent.index.store.readers.read(lambda c: find_text(c, text))
    return await agent.look_up(_messages, transcripts, paths, text)


def _on_disk(transcripts: Transcripts, name: str) -> list[str]:
    return [key.path for key in transcripts.find().files if stem(key.path) == name]


def _messages(
    transcripts: Transcripts, paths: Collection[str], text: str
) -> tuple[Tombstones, list[str], list[str]]:
    """Return the tombstones of the messages that contain a text, and the rest as `_named` does."""
    pattern = _pattern(text)
    tombstones: Tombstones = set()
    concerned, unread = [], []
    for path in paths:
        real_path = transcripts.places.real_path(FileKey(SOURCE, path))
        try:
            if real_path is None:
                raise FileNotFoundError(path)
            found = {
                ("message", message_hash(said.name))
                for said in transcripts.messages(real_path)
                if pattern.search(_fold(said.text))
            }
        except OSError:
            unread.append(path)
        else:
            tombstones |= found
        if path in unread or found:
            concerned.append(path)
    return tombstones, concerned, unread


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text in a message, which is one line.

    A line end matches a space or nothing, because long lines are displayed wrapped.
    """
    lines = [" ".join(_fold(line).split()) for line in text.splitlines()]
    return re.compile(" ?".join(re.escape(line) for line in lines if line))


def _fold(text: str) -> str:
    """Return a text case-folded, with composed accents."""
    return normalize("NFC", normalize("NFC", text).casefold())


def _sources(transcripts: Transcripts, paths: Collection[str]) -> dict[Path, tuple[int, int]]:
    """Return the files of transcripts with their (device, inode)."""
    sources = {}
    for path in paths:
        real_path = transcripts.places.real_path(FileKey(SOURCE, path))
        if real_path is not None and is_transcript(str(real_path)):
            with suppress(OSError):
                sources[real_path] = transcripts.places.identity(real_path)
    return sources


def _delete(transcripts: Transcripts, sources: dict[Path, tuple[int, int]]) -> list[str]:
    """Delete the files of transcripts; return the deleted ones."""
    deleted = []
    for path, identity in sources.items():
        with suppress(OSError):
            transcripts.places.delete(path, identity)
            deleted.append(str(path))
    return deleted
