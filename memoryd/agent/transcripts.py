"""Transcripts of one agent: find, read and show them as its settings say."""

import asyncio
import errno
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from memoryd.agent.factories import DAY_S, redactor
from memoryd.agent.forgotten import ForgottenTalk
from memoryd.agent.kept_transcripts import KeepRules, KeptTranscripts
from memoryd.agent.renaming import present_name
from memoryd.agent.resumed import ResumedSessions, marks_of
from memoryd.agent.transcript_records import TranscriptRecords
from memoryd.config.load import AgentConfig
from memoryd.fs.safe_open import LinkError
from memoryd.identity import Identity
from memoryd.index.store import Store
from memoryd.index.tombstone_key import TombstoneKey
from memoryd.messages import (
    FileChanged,
    FileGone,
    FileKey,
    FileStat,
    ParsedFile,
    TranscriptState,
    Unreadable,
)
from memoryd.source.notes.read import NotMemoryError
from memoryd.source.transcripts.claude import Claude, own_session
from memoryd.source.transcripts.delta import (
    DeltaOptions,
    TranscriptDelta,
    messages,
    read_delta,
    read_records,
)
from memoryd.source.transcripts.detect import by_name, detect, excluded, family
from memoryd.source.transcripts.due import Thresholds
from memoryd.source.transcripts.format import (
    BY_A_PERSON,
    LeftOutError,
    Record,
    Title,
    TranscriptFormat,
)
from memoryd.source.transcripts.kept import KeptCopies, KeptHeader
from memoryd.source.transcripts.locations import (
    SOURCE,
    Found,
    TranscriptLocations,
    is_transcript,
    owner_of,
)
from memoryd.source.transcripts.openclaw_chats import (
    excerpt_of_chat,
    is_chat,
    messages_of_chat,
    read_chat,
)
from memoryd.source.transcripts.openclaw_sessions import SessionKeys
from memoryd.source.transcripts.records import TranscriptExcerpt
from memoryd.source.transcripts.spoken import ReadingRules, Spoken, owner_ids
from memoryd.source.transcripts.stored import is_stored
from memoryd.source.transcripts.stores import StoredTranscripts
from memoryd.source.transcripts.topic import spoken_title, titled
from memoryd_client.schema.memory import GetBody, GetResult


class Transcripts:
    """The transcripts of one agent. `known` needs the index, the rest does not."""

    def __init__(self, config: AgentConfig, identity: Identity, index: Store | None = None) -> None:
        """Read the settings. Raises `ConfigError` for an invalid pattern of `redact`."""
        self._index = index
        self._formats = config.settings.sessions.formats
        sessions, sync = config.settings.sessions, config.settings.sync.sessions
        redact = redactor(config.settings)
        self.places = TranscriptLocations(
            sessions.paths, sessions.formats, agent=config.agent, environ=os.environ
        )
        self.open_file = self.places.open_file
        self.forgotten = ForgottenTalk(
            TombstoneKey(Path()) if index is None else index.tombstone_key,
            redact,
            config.settings.redact.patterns,
            self.places.names,
        )
        self.thresholds = Thresholds(sync.delta_bytes, sync.delta_messages, sync.idle_seconds)
        self.options = DeltaOptions(
            detect=partial(self._detect, enabled=sessions.formats),
            by_name=by_name,
            rules=ReadingRules(redact, owner_ids(sessions.owners), self.forgotten.has_message),
            base=self.places.base,
            unpack_in=config.db_path.parent,
            tokens=identity.chunk_tokens,
            max_bytes=identity.max_input_bytes,
        )
        self.reading = self.options.rules.reading
        self._session_keys = SessionKeys(self.places.base)
        records = TranscriptRecords(self.places, lambda name: self.kept.texts(name), self.forgotten)
        self.first_record = records.first
        self.resumed = ResumedSessions(
            self.places,
            lambda: {} if index is None else index.catalog.rows,
            self.forgotten,
            records,
        )
        self.stored = StoredTranscripts(self.places)
        self._without_people: frozenset[FileKey] = frozenset()
        keep_s = None if sessions.keep_days is None else sessions.keep_days * DAY_S
        rules = KeepRules(
            keep_s,
            self._is_read,
            self.forgotten.has,
            lambda state: self.forgotten.in_copies(marks_of(state)),
            self._is_missing,
        )
        self.kept = KeptTranscripts(KeptCopies(config.db_path), index, self.options, rules)
        self.keep = self.kept.keep

    def find(self) -> Found:
        """Return all transcripts on disk, and kept ones, except forgotten ones. Blocking."""
        found = self.places.find()
        self.stored.add_to(found)
        if self.forgotten.has_paths:
            for key in [key for key in found.files if self.forgotten.has(key.path)]:
                del found.files[key]
        self.kept.add_to(found)
        self.resumed.look(found.files.keys())
        self._without_people = frozenset(
            key for key, (path, _) in found.files.items() if self._session_keys.facts(path).reason
        )
        return found

    def known(self) -> dict[FileKey, tuple[FileStat, TranscriptState | None]]:
        """Return the stat and the reading state of each transcript in the index.

        One of a format that is no longer enabled, that was read by other rules, or that has turned
        out to be without people looks changed, so that it is read again.
        """
        if self._index is None:
            return {}
        self.resumed.settle(self._index.catalog.rows)
        return {
            key: (row.stat, row.transcript)
            if row.transcript is not None
            and key not in self._without_people
            and self._is_current(key, row.transcript)
            else (FileStat(-1, 0, 0), None)
            for key, row in self._index.catalog.rows.items()
            if key.source == SOURCE
        }

    def _is_current(self, key: FileKey, state: TranscriptState) -> bool:
        return (
            state.reading == self.reading
            and self._is_read(state.format)
            and self.resumed.is_current(key, state)
        )

    def _is_read(self, format_name: str) -> bool:
        return family(format_name) in ("", *self._formats)

    def accepts(self, header: KeptHeader) -> bool:
        """Return whether an imported transcript may be kept: neither forgotten nor disabled."""
        return self._is_read(header.state.format) and not self.forgotten.has(
            header.name, header.state.session
        )

    def _is_missing(self, key: FileKey) -> bool:
        """Return whether a transcript's file is missing from its place, which is still read."""
        return self.places.real_path(key) is not None and self.places.present_path(key) is None

    def path_of(self, key: FileKey) -> Path | None:
        """Return the path of a transcript, or of its copy if the file is gone. Blocking.

        None for an invalid name.
        """
        if (path := self.places.present_path(key)) is not None:
            return path
        copy = self.kept.copies.path(key.path)
        return copy if copy.exists() else self.places.real_path(key)

    def present_name(self, path: str) -> str:
        """Return the name by which a transcript is indexed, given one of an earlier version."""
        rows = {} if self._index is None else self._index.catalog.rows
        return present_name(path, self.places, rows.keys())

    def read(self, path: Path, base: TranscriptState | None) -> TranscriptDelta:
        """Read the records of a transcript added since `base`. Blocking. Raises `OSError`."""
        if self.kept.copies.holds(path):
            return self.kept.read(path)
        key = None if is_stored(path) else self.places.key(path)
        try:
            delta = self._read(path, base)
        except OSError:
            if key is not None:
                self.resumed.note(key, None)
            raise
        if key is not None:
            self.resumed.note(key, delta.state)
        return delta

    async def read_in(
        self, thread: Executor, path: Path, base: TranscriptState | None
    ) -> TranscriptDelta:
        """Read as `read` does, in a thread. Raises `OSError`."""
        run = partial(asyncio.get_running_loop().run_in_executor, thread)
        return await self.kept.when_held(lambda: run(self.read, path, base))

    def read_as(self, path: Path, state: TranscriptState | None) -> TranscriptDelta | None:
        """Read a whole transcript as it was when it reached a state. Blocking.

        None if copies of records can't be told from others any more. Raises as `read` does.
        """
        if self.kept.copies.holds(path):
            return self.kept.read(path)
        if state is None or not state.repeats:
            return self._read(path, None)
        options = self.resumed.with_ids(path, state, self._options_for(path))
        return None if options is None else read_delta(path, base=None, options=options)

    def _read(self, path: Path, base: TranscriptState | None) -> TranscriptDelta:
        if is_chat(path):
            return read_chat(path, self._options_for(path), self.forgotten.check)
        if is_stored(path):
            self.forgotten.check(self.stored.session(path))
            return self.stored.read(path, base, self._options_for(path))
        session = self._session_keys.facts(path)
        if session.reason is not None:
            raise LeftOutError(errno.EILSEQ, f"a {session.reason}")
        copies, options = self.resumed.reading(path, base, self._options_for(path))
        delta = read_delta(path, base=base, options=options)
        topic = titled(delta.state.topic, Title(session.label, BY_A_PERSON), self.options.rules)
        state = msgspec.structs.replace(
            delta.state,
            topic=topic,
            session=copies.session or delta.state.session,
            first_record=copies.first_record,
            repeats=copies.repeats,
            chat_type=session.chat_type or delta.state.chat_type,
            spawned_by=session.spawned_by,
        )
        digest = f"{delta.hash}:{sorted(copies.repeats)}" if copies.repeats else delta.hash
        return replace(delta, state=state, hash=digest)

    def messages(self, path: Path) -> Iterator[Spoken]:
        """Yield the messages of a transcript as indexed, and titles. Blocking. Raises `OSError`."""
        if self.kept.copies.holds(path):
            yield from self.kept.messages(path)
        elif is_chat(path):
            yield from messages_of_chat(path, self.options)
        elif is_stored(path):
            yield from self.stored.messages(path, self.options)
        else:
            if label := self._session_keys.facts(path).label:
                yield spoken_title(Title(label, BY_A_PERSON), self.options.rules)
            yield from messages(path, self.options)

    def _excerpt(
        self, path: Path, body: GetBody, max_lines: int, max_chars: int
    ) -> TranscriptExcerpt:
        if is_chat(path):
            read = excerpt_of_chat
        else:
            read = self.stored.excerpt if is_stored(path) else read_records
        return read(
            path,
            options=self.options,
            start_line=body.start_line,
            max_lines=max_lines,
            max_chars=max_chars,
            raw=body.raw,
        )

    def parse(self, change: FileChanged) -> ParsedFile | Unreadable | FileGone:
        """Read a whole transcript for a rebuild. Blocking; unreadable files don't raise."""
        try:
            delta = self.read(change.real_path, None)
        except (FileNotFoundError, LeftOutError):
            return FileGone(change.key)
        except OSError as error:
            return Unreadable(change.key, error.strerror or str(error))
        return ParsedFile(
            change.key,
            delta.stat,
            delta.hash,
            delta.chunks,
            transcript=delta.state,
            facts=delta.facts,
        )

    def _detect(
        self, head: Sequence[Record], enabled: Collection[str], name: str = ""
    ) -> TranscriptFormat | None:
        """Return the format of a transcript. Raises `LeftOutError` for an excluded one."""
        if (reason := excluded(head)) is not None:
            raise LeftOutError(errno.EILSEQ, f"a {reason}")
        found = detect(head, enabled)
        session = "" if found is None else found.session(head)
        if isinstance(found, Claude) and name:
            session = own_session(name, head)
        self.forgotten.check(session)
        return found

    def is_name(self, path: str) -> bool:
        """Return whether a path of a request is the name of a transcript."""
        return path.startswith(f"{SOURCE}/")

    def place_of(self, path: str) -> str:
        """Return the start of a transcript's name, which identifies its location."""
        return "/".join(path.split("/", 2)[:2])

    def get(self, body: GetBody, max_lines: int, max_chars: int) -> GetResult:
        """Return messages or raw records of a transcript. Blocking.

        Raises `NotMemoryError`, `FileNotFoundError` or another `OSError`.
        """
        key = FileKey(SOURCE, self.present_name(body.path))
        path = self.path_of(key)
        if path is None:
            self.find()  # a store may be new
            path = self.path_of(key)
        is_kept = path is not None and self.kept.copies.holds(path)
        if (
            path is None
            or not (is_kept or is_stored(path) or is_transcript(str(path)))
            or self.forgotten.has(body.path)
        ):
            raise NotMemoryError("it is not the name of a transcript")
        if is_kept and body.raw:
            raise NotMemoryError("its file is gone; its messages are kept, and its records are not")
        gone_at: float | None = None
        kept = partial(self.kept.excerpt, start_line=body.start_line)
        copy = self.kept.copies.path(key.path)
        try:
            if is_kept:
                excerpt, gone_at = kept(path, max_lines=max_lines, max_chars=max_chars)
            else:
                excerpt = self._excerpt(path, body, max_lines, max_chars)
        except LinkError as error:
            raise NotMemoryError("symbolic links are not followed") from error
        except OSError:
            # What has come back may be damaged.
            if is_kept or body.raw or not copy.exists():
                raise
            excerpt, gone_at = kept(copy, max_lines=max_lines, max_chars=max_chars)
        return GetResult(
            path=body.path,
            text="\n".join(excerpt.lines),
            start_line=body.start_line,
            lines=len(excerpt.lines),
            total_lines=excerpt.total_lines,
            truncated=excerpt.next_line is not None and len(excerpt.lines) < max_lines,
            next_from=excerpt.next_line,
            gone_at=gone_at,
        )

    def _options_for(self, path: Path) -> DeltaOptions:
        detect = partial(self._detect, enabled=self._formats, name=path.name.split(".jsonl")[0])
        return replace(self.options, owner=owner_of(path), detect=detect)
