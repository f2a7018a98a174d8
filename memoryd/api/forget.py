"""Forget notes, transcripts, messages, facts: find them, keep them away, remove them."""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unicodedata import normalize

from msgspec import structs

from memoryd.agent.agent import Agent
from memoryd.agent.facts import forget_facts
from memoryd.agent.forgotten import stem
from memoryd.agent.recall_counter import hash_of_question
from memoryd.agent.transcripts import Transcripts
from memoryd.api.forget_notes import (
    delete_note,
    find_note,
    forget_written,
    lines_with,
    notes_about,
)
from memoryd.api.get import as_named
from memoryd.api.handlers import while_writable
from memoryd.errors import RequestFailedError, bad_request
from memoryd.fs.directories import shown_path
from memoryd.index.driver import Error
from memoryd.index.forget import chunk_hashes
from memoryd.index.queries import find_text
from memoryd.index.recalls import forget_recalls
from memoryd.index.repair.recover import remove_copies
from memoryd.index.tombstone_key import CHUNK
from memoryd.messages import FileKey, Forget, Hint, RecordChange
from memoryd.source.notes.discover import SOURCE as NOTES
from memoryd.source.notes.journal import JournalNote
from memoryd.source.transcripts.locations import SOURCE, is_transcript
from memoryd.source.transcripts.stored import is_stored
from memoryd.source.transcripts.strip import on_one_line
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult
from memoryd_client.shared.humanize import counted
from memoryd_client.wire.protocol import ErrorCode

Tombstones = set[tuple[str, str]]
MAX_NAMED_CHARS = 10_000
"""Maximum length of a text, name or id to forget, because the search time grows with it."""


@dataclass(slots=True)
class _Named:
    """Rows to remove, tombstones, and transcripts that can't be read, as a request names them.

    `notes` are lines that still contain the text, as (path, line).
    """

    keys: list[FileKey] = field(default_factory=list)
    tombstones: Tombstones = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    notes: list[tuple[str, int]] = field(default_factory=list)
    messages: int = 0


async def forget(agent: Agent, body: ForgetBody) -> ForgetResult:
    """Forget notes, transcripts, or messages in them, permanently. Raises `RequestFailedError`."""
    named = [name for name in (body.session, body.path, body.match) if name is not None]
    if len(named) + body.gone != 1 or not all(name.strip() for name in named):
        raise bad_request("give exactly one of session, path, match and gone")
    if named and len(named[0]) > MAX_NAMED_CHARS:
        raise bad_request(
            f"session, path and match may have at most {MAX_NAMED_CHARS} characters",
            "a part of the text is enough",
        )
    of_transcripts = body.gone or body.session is not None or _names_transcript(body.path)
    if of_transcripts and agent.transcripts is None:
        raise bad_request("transcripts are disabled", "the path of a note can be forgotten too")
    return await while_writable(agent.index.store.outage, _forget(agent, body))


async def _forget(agent: Agent, body: ForgetBody) -> ForgetResult:
    """Carry out a request with exactly one condition.

    Tombstones take effect at once for files that are read. Files that were read before go through
    the data path first and are then removed with the rest.
    """
    if body.path is not None:
        body = structs.replace(body, path=await as_named(agent, body.path))
    store = agent.index.store
    transcripts = None if agent.transcripts is None else agent.transcripts.files
    if not body.dry_run:
        await agent.look_up(store.tombstone_key.create)
    named = await _named(agent, transcripts, body)
    paths = [key.path for key in named.keys]
    result = ForgetResult(paths, named.messages, body.dry_run, unread=named.unread)
    of_note = body.path is not None and not _names_transcript(body.path)
    about = None
    if body.match is None and not of_note:
        about = await notes_about(agent, body.session, paths)
        named.notes = [place for places in about.places.values() for place in places]
    result.notes = [f"{path}:{line}" for path, line in named.notes]
    left_in_facts = list[str]()
    if body.match is not None:
        has = _containing(body.match)
        result.facts, left_in_facts = await forget_facts(agent, has, dry_run=body.dry_run)
    if body.dry_run:
        return result
    is_written = _of_written(body) if about is None else about.in_journal
    if about is not None and body.delete_source:
        named.keys += [FileKey(NOTES, path) for path in about.whole]
        left = [place for path, places in about.places.items() for place in places]
        result.notes = [f"{path}:{line}" for path, line in left if path not in about.whole]
    # Without a transcript, only what notes have left behind is removed.
    if not (named.keys or of_note or body.match is not None):
        await forget_written(agent, is_written)
        return result
    # Other files may have these names in the end: delete only the files that have them now.
    sources = {}
    if transcripts is not None:
        sources = await agent.look_up(_sources, transcripts, paths)
    keys, holders, tombstones = named.keys, list[FileKey](), named.tombstones
    if transcripts is not None and body.match is None and keys:
        find = partial(agent.look_up, transcripts.resumed.forgetting, keys, transcripts.options)
        of_records, holders = await transcripts.kept.when_held(find)
        keys = [*keys, *holders]
        tombstones |= of_records
    digests = await store.readers.read(lambda c: chunk_hashes(c, keys))
    if of_note and body.delete_source:
        result.deleted = await delete_note(agent, body.path or "")
    if about is not None and body.delete_source:
        for path in about.whole:
            result.deleted += await delete_note(agent, path)
    await forget_written(agent, is_written)
    await _forget_recalls(agent, body, named)
    if transcripts is not None:
        transcripts.forgotten.add(tombstones)
    await agent.sync(vectors=False)
    kept = tombstones | {(CHUNK, store.tombstone_key.hashed(d)) for d in digests}
    if transcripts is not None:
        transcripts.resumed.expect(holders if body.match is None else keys)
    message = Forget(keys, sorted(kept))
    await agent.queues.write.put(message)
    not_wiped: Exception | None = None
    try:
        await message.done
    except (Error, OSError) as error:
        not_wiped = error
    agent.backend.forgotten()
    # Copies of a corrupt index hold its texts, and so do those of transcripts.
    await agent.look_up(remove_copies, store.path)
    if transcripts is not None:
        await agent.look_up(_erase, transcripts, [*paths, *(key.path for key in holders)])
    agent.index.recovered = None
    if body.delete_source and body.match is None and transcripts is not None:
        result.deleted += await agent.look_up(_delete, transcripts, sources)
    if transcripts is not None and (body.match is not None or keys != named.keys):
        # The remaining messages of the transcripts are read again.
        await agent.queues.transcripts.put(Hint(reason="forgotten"))
        if not_wiped is None:  # else the disk may be full
            await agent.sync(vectors=False)
    if not_wiped is not None:
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE,
            f"forgotten, but its bytes may remain in {store.path}: {not_wiped}",
            "free as much disk space as the index takes, then run `memctl index --force`",
        )
    result.remains = left_in_facts + _remains(agent)
    if body.delete_source and transcripts is not None:
        result.remains += _in_stores(transcripts, paths)
    return result


async def _forget_recalls(agent: Agent, body: ForgetBody, named: _Named) -> None:
    """Remove what was counted of the notes that a request names, or for its text as a question."""
    if agent.recalls is not None:
        agent.recalls.discard()
    paths = [path for path, _ in named.notes] if body.path is None else [body.path]
    key = agent.index.store.tombstone_key
    questions = [] if body.match is None else [hash_of_question(key, body.match)]
    change = RecordChange(lambda c: forget_recalls(c, paths, questions))
    await agent.queues.write.put(change)
    await change.done


def _in_stores(transcripts: Transcripts, paths: Collection[str]) -> list[str]:
    """Return the stores of agents in which conversations remain."""
    found = (transcripts.places.real_path(FileKey(SOURCE, path)) for path in paths)
    stores = {path.parent for path in found if path is not None and is_stored(path)}
    return [
        f"the conversations are still in {shown_path(store)}, which belongs to the agent;"
        " delete them with the agent"
        for store in sorted(stores)
    ]


def _of_written(body: ForgetBody) -> Callable[[JournalNote], bool]:
    """Return the condition for the notes to remove from the journal."""
    if body.path is not None:
        return lambda note: note.path == body.path
    has = _containing(body.match or "")
    return lambda note: has(note.text)


def _remains(agent: Agent) -> list[str]:
    """Return what may remain outside of this machine."""
    embedding, found = agent.embedding, list[str]()
    provider = embedding.provider
    if provider is not None and provider.route.leaves_machine:
        found.append(
            f"texts were sent to {provider.route.address};"
            f" how long {provider.name} keeps them is up to its terms"
        )
    if embedding.batches is not None and (left := embedding.batches.files.stats()).jobs:
        why = f": {left.last_error}" if left.last_error else ""
        found.append(f"files of {counted(left.jobs, 'batch job')} are not deleted there yet{why}")
    return found


async def _named(agent: Agent, transcripts: Transcripts | None, body: ForgetBody) -> _Named:
    """Return what a request names."""
    rows = agent.index.store.catalog.rows
    known = {key.path: row for key, row in rows.items() if key.source == SOURCE}
    if body.path is not None and _names_transcript(body.path) and transcripts is not None:
        name = stem(transcripts.present_name(body.path))
        paths = [path for path in known if stem(path) == name]
        paths = paths or await agent.look_up(_on_disk, transcripts, name)
        return _Named(_keys(paths), {("path", name)})
    if body.path is not None:
        key = await find_note(agent, body.path, may_exist=body.delete_source)
        return _Named([] if key is None else [key])
    if body.gone:
        paths = [
            path
            for path, row in known.items()
            if row.transcript is not None and row.transcript.gone_at is not None
        ]
        return _Named(_keys(paths), {("path", stem(path)) for path in paths})
    if body.session is not None:
        paths = [
            path
            for path, row in known.items()
            if row.transcript is not None and row.transcript.session == body.session
        ]
        return _Named(
            _keys(paths), {("session", body.session), *(("path", stem(p)) for p in paths)}
        )
    text = body.match or ""
    if agent.index.store.writable:
        # Files on disk that are not indexed yet would be indexed later.
        await agent.sync(vectors=False)
    find = partial(find_text, text=text)
    named = _Named()
    if transcripts is not None:
        paths = await agent.index.store.readers.read(partial(find, source=SOURCE))
        names, paths, unread = await agent.look_up(_messages, transcripts, paths, text)
        tombstones = set[tuple[str, str]]().union(*map(transcripts.forgotten.of_message, names))
        named = _Named(_keys(paths), tombstones, unread, messages=len(names))
    notes = await agent.index.store.readers.read(partial(find, source=NOTES))
    named.notes = await lines_with(agent, notes, _pattern(text), _fold)
    return named


def _names_transcript(path: str | None) -> bool:
    return path is not None and path.startswith(f"{SOURCE}/")


def _keys(paths: Collection[str]) -> list[FileKey]:
    return [FileKey(SOURCE, path) for path in sorted(paths)]


def _on_disk(transcripts: Transcripts, name: str) -> list[str]:
    return [key.path for key in transcripts.find().files if stem(key.path) == name]


def _messages(
    transcripts: Transcripts, paths: Collection[str], text: str
) -> tuple[set[str], list[str], list[str]]:
    """Return the names of the messages that contain a text, and the rest as `_named` does."""
    pattern = _pattern(text)
    names = set[str]()
    concerned, unread = [], []
    for path in paths:
        real_path = transcripts.path_of(FileKey(SOURCE, path))
        try:
            if real_path is None:
                raise FileNotFoundError(path)
            found = {
                said.name
                for said in transcripts.messages(real_path)
                if pattern.search(_fold(on_one_line(said.text)))
            }
        except OSError:
            unread.append(path)
        else:
            names |= found
        if path in unread or found:
            concerned.append(path)
    return names, concerned, unread


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text in a message on one line.

    A line end matches a space or nothing, because long lines are displayed wrapped.
    """
    lines = [" ".join(_fold(line).split()) for line in text.splitlines()]
    return re.compile(" ?".join(re.escape(line) for line in lines if line))


def _containing(text: str) -> Callable[[str], bool]:
    """Return the condition for the texts to forget."""
    pattern = _pattern(text)
    return lambda written: pattern.search(_fold(on_one_line(written))) is not None


def _fold(text: str) -> str:
    """Return a text case-folded, with composed accents."""
    return normalize("NFC", normalize("NFC", text).casefold())


def _sources(transcripts: Transcripts, paths: Collection[str]) -> dict[Path, tuple[int, int]]:
    """Return the files of transcripts with their (device, inode)."""
    sources = {}
    for path in paths:
        real_path = transcripts.places.real_path(FileKey(SOURCE, path))
        if real_path is not None and is_transcript(str(real_path)) and not is_stored(real_path):
            with suppress(OSError):
                sources[real_path] = transcripts.places.identity(real_path)
    return sources


def _erase(transcripts: Transcripts, paths: Collection[str]) -> None:
    """Remove what was forgotten from the copies of transcripts."""
    for path in paths:
        transcripts.kept.erase(path)


def _delete(transcripts: Transcripts, sources: dict[Path, tuple[int, int]]) -> list[str]:
    """Delete the files of transcripts; return the deleted ones."""
    deleted = []
    for path, identity in sources.items():
        with suppress(OSError):
            transcripts.places.delete(path, identity)
            deleted.append(str(path))
    return deleted
