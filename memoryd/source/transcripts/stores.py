"""Stores of the agents' conversations, among the locations of transcripts.

A conversation of a store is like a file whose path is that of the store and the quoted id, and
whose lines are the numbers of its records.
"""

import errno
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from memoryd.chunk.transcript import Position, TranscriptChunker
from memoryd.fs.directories import shown_path
from memoryd.fs.hang import tick
from memoryd.messages import FileKey, FileStat, TranscriptState
from memoryd.source.transcripts.delta import (
    DeltaOptions,
    TranscriptDelta,
)
from memoryd.source.transcripts.foreign_sqlite import (
    ForeignDatabase,
    StoreBusyError,
    StoreVersion,
    reading,
    version,
)
from memoryd.source.transcripts.format import LeftOutError, chat_type_of
from memoryd.source.transcripts.locations import SOURCE, Found, TranscriptLocations
from memoryd.source.transcripts.records import TranscriptExcerpt, decoded, excerpt, shown
from memoryd.source.transcripts.spoken import Spoken, spoken
from memoryd.source.transcripts.stored import (
    STORE_FILES,
    StoredConversation,
    StoredRecord,
    TranscriptStore,
    conversation_id,
    conversation_path,
)
from memoryd.source.transcripts.times import Times
from memoryd.source.transcripts.topic import TopicReader

BATCH_BYTES = 4 * 1024 * 1024
"""Bytes read in one transaction, because its program can't shorten its log meanwhile."""


@dataclass(slots=True)
class _Listing:
    """The conversations of a store when it had this version."""

    version: StoreVersion
    conversations: dict[str, StoredConversation] = field(default_factory=dict)


class StoredTranscripts:
    """Conversations in the stores of an agent. All methods are blocking; any thread may call."""

    def __init__(self, places: TranscriptLocations) -> None:
        """Take the locations in which the stores are."""
        self._places = places
        self._listings: dict[Path, _Listing] = {}

    def add_to(self, found: Found) -> None:
        """Add the conversations of all stores to what was found.

        Those of the last reading are added while a store can't be read.
        """
        conversations: dict[Path, FileStat] = {}
        for store in found.stores:
            try:
                listing = self._listing(store)
            except OSError as error:
                reason = error.strerror or str(error)
                found.skipped[shown_path(store)] = reason
                if store not in self._listings:
                    found.unreadable[store] = f"{shown_path(store)} can't be read: {reason}"
                    continue
                listing = self._listings[store]
            for name, conversation in listing.conversations.items():
                conversations[conversation_path(store, name)] = conversation.stat
        names = self._places.stored
        names.assign(found.stores, conversations)
        for path, stat in conversations.items():
            found.files[FileKey(SOURCE, names.name(path))] = path, stat

    def is_over(self, path: Path) -> bool:
        """Return whether a conversation had been reset at the last reading of its store."""
        listing = self._listings.get(path.parent)
        known = None if listing is None else listing.conversations.get(conversation_id(path))
        return known is not None and known.is_over

    def session(self, path: Path) -> str:
        """Return the session id of a conversation. Raises `OSError` as `read` does."""
        return self._conversation(path).id

    def read(
        self, path: Path, base: TranscriptState | None, options: DeltaOptions
    ) -> TranscriptDelta:
        """Read the records added since `base`, or everything if earlier ones changed.

        Raises `OSError` as `read_delta` does.
        """
        store = _kind(path.parent)
        first = self._conversation(path)
        if first.left_out:
            raise LeftOutError(errno.EILSEQ, first.left_out)
        generation = 0 if base is None else base.generation
        if base is not None and not self._is_same(base, first, path):
            base = None
            generation += 1
        start = 0 if base is None else base.tail_offset
        end, messages, malformed = start, 0, 0
        times = Times.of(base)
        topics = TopicReader(None if base is None else base.topic, None, options.rules)
        kinds = [first.chat_type, "" if base is None else base.chat_type]
        chunker = TranscriptChunker(tokens=options.tokens, max_bytes=options.max_bytes)
        for number, data in self._records(path, start, first):
            end = number + 1
            is_new = base is None or number >= base.offset
            record = decoded(data)
            if record is None:
                malformed += is_new
            elif (message := store.message(record, first)) is not None:
                messages += is_new
                times = times.with_message(message)
                said = list(spoken(message, options.rules))
                topics.hear(said)
                kinds.append(message.chat_type)
                at = Position(number, number)
                chunker.add(at, [(part.text, part.voice) for part in said])
        end = max(end, first.stat.size)
        chunks, tail = chunker.finish(Position(end, end))
        head_hash = self._head_hash(path, first, end)
        state = TranscriptState(
            format=store.format,
            device=0,
            inode=first.stat.inode,
            generation=generation,
            offset=end,
            lines=max(0, end - 1),
            head_bytes=0,
            head_hash=head_hash,
            tail_offset=tail.offset,
            tail_line=tail.line,
            messages=messages + (0 if base is None else base.messages),
            malformed=malformed + (0 if base is None else base.malformed),
            session=first.id,
            owner=options.owner,
            reading=options.rules.reading,
            first_at=times.first,
            last_at=times.last,
            topic=topics.topic,
            chat_type=chat_type_of(*kinds),
            spawned_by=first.spawned_by,
        )
        content = f"{head_hash}:{generation}:{end}:{state.reading}"
        return TranscriptDelta(
            first.stat,
            hashlib.sha256(content.encode()).hexdigest(),
            state,
            chunks,
            from_line=max(1, start),
            bytes_read=end - start,
            facts=times.facts(),
        )

    def excerpt(
        self,
        path: Path,
        options: DeltaOptions,
        *,
        start_line: int,
        max_lines: int,
        max_chars: int,
        raw: bool,
    ) -> TranscriptExcerpt:
        """Return messages or raw records as `read_records` does. Raises `OSError`."""
        store = _kind(path.parent)
        conversation = self._conversation(path)

        def show(data: bytes | None) -> str | None:
            return shown(data, lambda r: store.message(r, conversation), options.rules, raw=raw)

        return excerpt(
            self._records(path, 0, conversation),
            show,
            start_line=start_line,
            max_lines=max_lines,
            max_chars=max_chars,
        )

    def messages(self, path: Path, options: DeltaOptions) -> Iterator[Spoken]:
        """Yield every message of a conversation as `spoken` does. Raises `OSError`."""
        store = _kind(path.parent)
        conversation = self._conversation(path)
        for _, data in self._records(path, 0, conversation):
            record = decoded(data)
            message = None if record is None else store.message(record, conversation)
            if message is not None:
                yield from spoken(message, options.rules)

    def _is_same(self, base: TranscriptState, now: StoredConversation, path: Path) -> bool:
        """Return whether records were only added since `base`."""
        return (
            base.format == _kind(path.parent).format
            and base.inode == now.stat.inode
            and base.offset <= now.stat.size
            and base.head_hash == self._head_hash(path, now, base.offset)
        )

    def _head_hash(self, path: Path, now: StoredConversation, end: int) -> str:
        store = path.parent
        with reading(store, self._base(store)) as connection:
            records = _kind(store).fingerprint(connection, conversation_id(path), end)
        return f"{now.stat.inode:x}:{records}"

    def _base(self, store: Path) -> Path:
        return self._places.base(store)

    def _listing(self, store: Path) -> _Listing:
        now = version(store, self._base(store))
        known = self._listings.get(store)
        if known is not None and known.version == now:
            return known
        before = {} if known is None else known.conversations
        with reading(store, self._base(store)) as connection:
            # Of a change in the meantime, the next poll notices that it is newer.
            found = _kind(store).conversations(connection, before)
        self._listings[store] = known = _Listing(now, found)
        return known

    def _conversation(self, path: Path) -> StoredConversation:
        """Return a conversation as it is now. Raises `FileNotFoundError` or another `OSError`."""
        found = self._listing(path.parent).conversations.get(conversation_id(path))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "not in the store any more", str(path))
        return found

    def _records(
        self, path: Path, start: int, expected: StoredConversation
    ) -> Iterator[StoredRecord]:
        """Yield records in batches, each from a transaction of its own.

        Raises `StoreBusyError` if earlier records change meanwhile, or another `OSError`.
        """
        store = path.parent
        while start < expected.stat.size:
            tick(path)
            with reading(store, self._base(store)) as connection:
                batch = self._batch(connection, path, start, expected)
            for record in batch:
                if record.number < expected.stat.size:
                    yield record
            if not batch:
                return
            start = batch[-1].number + 1

    def _batch(
        self,
        connection: ForeignDatabase,
        path: Path,
        start: int,
        expected: StoredConversation,
    ) -> list[StoredRecord]:
        store, name = path.parent, conversation_id(path)
        kind, listing = _kind(store), self._listings[store]
        now = listing.conversations.get(name)
        if version(store, self._base(store)) != listing.version:
            now = kind.conversations(connection, listing.conversations).get(name)
        if now is None or now.stat.inode != expected.stat.inode:
            raise StoreBusyError(errno.EAGAIN, "it changed meanwhile; memoryd tries again")
        batch: list[StoredRecord] = []
        taken = 0
        for record in kind.records(connection, store, name, start):
            batch.append(record)
            taken += len(record.data or b"")
            if taken >= BATCH_BYTES:
                break
        return batch


def _kind(store: Path) -> TranscriptStore:
    return _kinds()[STORE_FILES[store.name]]


@cache
def _kinds() -> dict[str, TranscriptStore]:
    """Return the readers of stores by format. Most machines have no store, so they load late."""
    from memoryd.source.transcripts.openclaw_store import OpenClawStore
    from memoryd.source.transcripts.opencode_store import OpenCodeStore

    return {kind.format: kind for kind in (OpenClawStore(), OpenCodeStore())}
