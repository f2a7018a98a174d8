"""Copies of records in transcripts of resumed sessions, which are found only once.

Claude Code begins the transcript of a resumed or forked session with copies of the earlier records.
A copy keeps its `uuid`. It names the session that it comes from, or else the two transcripts begin
with the same message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from memoryd.agent.forgotten import ForgottenTalk
from memoryd.agent.transcript_records import TranscriptRecords, goes_on_later, was_resumed
from memoryd.index.catalog import FileRow
from memoryd.index.forget import RECORD, Tombstone
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.transcripts.claude import Claude, own_session, source_sessions
from memoryd.source.transcripts.delta import DeltaOptions
from memoryd.source.transcripts.format import Record, TranscriptFormat, record_id
from memoryd.source.transcripts.locations import SOURCE, TranscriptLocations

Rows = Mapping[FileKey, FileRow]
_ENDING = ".jsonl"
_UNREAD = -1
"""Version of a transcript that is on disk and not read yet."""


@dataclass(slots=True)
class RepeatedRecords:
    """Transcripts that have records of another one, with their versions, as far as known.

    `session` is the transcript's own one and `first_record` the id of its first message, "" if
    unknown.
    """

    session: str = ""
    first_record: str = ""
    repeats: dict[str, int] = field(default_factory=dict)


class ResumedSessions:
    """Finds the transcripts that another one repeats, among those that are indexed or on disk.

    No transcript leaves out what another one has that leaves out what it has itself, also by way of
    further ones. So one at least of those that hold a record keeps it.
    """

    def __init__(
        self,
        places: TranscriptLocations,
        rows: Callable[[], Rows],
        forgotten: ForgottenTalk,
        records: TranscriptRecords,
    ) -> None:
        self._places = places
        self._rows = rows
        self._forgotten = forgotten
        self._is_forgotten = forgotten.has
        self._records = records
        self._on_disk: Collection[FileKey] = frozenset()
        self._under_way: dict[FileKey, TranscriptState] = {}
        self._removed: dict[FileKey, TranscriptState] = {}
        self._failed: set[FileKey] = set()
        self._by_mark: dict[tuple[str, str], set[FileKey]] = {}
        self._has_marks = False

    def look(self, on_disk: Collection[FileKey]) -> None:
        """Take the names of all transcripts on disk."""
        self._on_disk = on_disk
        self._failed.intersection_update(on_disk)
        for states in (self._under_way, self._removed):
            for key in states.keys() - on_disk:
                del states[key]

    def note(self, key: FileKey, state: TranscriptState | None) -> None:
        """Take the state of a transcript that was read, None if it could not be read."""
        self._removed.pop(key, None)
        if state is None:
            self._failed.add(key)
            self._under_way.pop(key, None)
        else:
            self._failed.discard(key)
            if state.first_record:
                self._under_way[key] = state
                self._mark(key, state)

    def is_current(self, key: FileKey, state: TranscriptState) -> bool:
        """Return whether all transcripts are there of which a transcript leaves out copies.

        Of those that leave out each other's records, as earlier versions read some, one is not.
        Without its file, a transcript has only what it had before.
        """
        return state.gone_at is not None or all(
            self._is_forgotten(name)
            or (
                self._has_version(other := FileKey(SOURCE, name), version)
                and not (key.path < name and self._repeats(other, key))
            )
            for name, version in state.repeats.items()
        )

    def with_ids(
        self, path: Path, state: TranscriptState, options: DeltaOptions
    ) -> DeltaOptions | None:
        """Return the options to read a transcript as when it reached `state`.

        None if a transcript that has copies is gone. Blocking.
        """
        others = [FileKey(SOURCE, name) for name in state.repeats]
        found, ids = self._ids(others, path, options)
        if len(found) < len(others):
            return None

        def repeated(fmt: TranscriptFormat, head: Sequence[Record]) -> set[str]:
            marks = marks_of(state) | source_sessions(head, state.session)
            return ids | self._records.forgotten(path, marks, options)

        return replace(options, repeated=repeated)

    def settle(self, rows: Rows) -> None:
        """Forget the states that have arrived in the index."""
        for key in self._under_way.keys() & rows.keys():
            state = rows[key].transcript
            if state is None or state.repeats == self._under_way[key].repeats:
                del self._under_way[key]

    def reading(
        self, path: Path, base: TranscriptState | None, options: DeltaOptions
    ) -> tuple[RepeatedRecords, DeltaOptions]:
        """Return the options to read a transcript, and what the reading finds out."""
        found = RepeatedRecords()
        if base is not None:
            found = RepeatedRecords(base.session, base.first_record, dict(base.repeats))
        key = self._places.key(path)
        if key is None:
            return found, options

        def repeated(fmt: TranscriptFormat, head: Sequence[Record]) -> set[str]:
            sources: set[str] = set()
            if not isinstance(fmt, Claude):
                return set()
            if head:
                found.session = own_session(path.name.partition(_ENDING)[0], head)
                spoken = (record_id(record) for record in head if fmt.message(record) is not None)
                found.first_record = next(spoken, "")
                sources = source_sessions(head, found.session)
            others = self._others(key, found.first_record, sources, [*found.repeats])
            found.repeats, ids = self._ids(others, path, options)
            marks = {found.first_record, found.session, *sources} - {""}
            return ids | self._records.forgotten(path, marks, options)

        return found, replace(options, repeated=repeated)

    def forgetting(
        self, keys: Iterable[FileKey], options: DeltaOptions
    ) -> tuple[set[Tombstone], list[FileKey]]:
        """Return the tombstones of the records that transcripts have in the index. Blocking.

        Also the other transcripts that are to be read again, because they have copies of these or
        left out what they were copied from. If a file is gone, only words can tell its copies.
        """
        self._load_marks()
        keys = list(keys)
        found: set[Tombstone] = set()
        holders: list[FileKey] = []
        for key in keys:
            state = self._state(key)
            if state is None or not state.first_record:
                continue
            others = self._marked(key, marks_of(state))
            times = self._records.times(key, others, options)
            needs_words = self._places.present_path(key) is None
            of_others: set[str] = set()
            for other in others:
                theirs = self._records.times(other, [key], options)
                is_source = self._is_source(other, key, theirs, times, options)
                if is_source and other not in keys:
                    of_others |= theirs.keys()
                # A copy that has the records loses them; a source that left them out reads them.
                if self._state(other) is not None and is_source == self._repeats(other, key):
                    holders.append(other)
                    needs_words |= not is_source and self._places.present_path(other) is None
            # If another one has all of it, it is the one that was resumed.
            ids = times.keys() - of_others or times.keys()
            found |= {(RECORD, id_) for id_ in ids}
            if needs_words:
                texts = self._records.texts(key, ids, options)
                found |= self._forgotten.of_copies(marks_of(state), texts)
        return found, holders

    def _is_source(
        self,
        other: FileKey,
        key: FileKey,
        theirs: Mapping[str, str],
        own: Mapping[str, str],
        options: DeltaOptions,
    ) -> bool:
        """Return whether another transcript was resumed as this one, given their records' times."""
        sessions = [
            "" if (state := self._state(each)) is None else state.session for each in (other, key)
        ]
        if sessions[0] in self._records.sources(key, sessions[1], options):
            return True
        if sessions[1] in self._records.sources(other, sessions[0], options):
            return False
        if (known := was_resumed(theirs, own)) is not None:
            return known
        # Both have gone on, before the copy was made or after it.
        if (copies := self._repeats(key, other)) != self._repeats(other, key):
            return copies
        return goes_on_later(theirs, own)

    def expect(self, keys: Iterable[FileKey]) -> None:
        """Remember the states of transcripts whose rows are removed until they are read again."""
        for key in keys:
            if (state := self._state(key)) is not None:
                self._removed[key] = state

    def _ids(
        self, others: Iterable[FileKey], path: Path, options: DeltaOptions
    ) -> tuple[dict[str, int], set[str]]:
        """Return the readable ones of other transcripts, and the ids of the records they keep."""
        repeats: dict[str, int] = {}
        ids: set[str] = set()
        in_files: dict[FileKey, set[str]] = {}

        def all_of(other: FileKey) -> set[str]:
            if other not in in_files:
                in_files[other] = self._records.ids(other, path, options)
            return in_files[other]

        for other in others:
            version = self._version(other)
            if version is None:
                continue
            # Without them, its records can't be told from new ones.
            with suppress(OSError):
                own = set(all_of(other))
                repeats[other.path] = version
                if self._is_forgotten(other.path):
                    # Earlier versions did not note the records of what they forgot.
                    ids |= own if own.isdisjoint(self._forgotten.records) else set()
                    continue
                state = self._state(other)
                for name in () if state is None else state.repeats:
                    if not self._is_forgotten(name):
                        with suppress(OSError):
                            own -= all_of(FileKey(SOURCE, name))
                ids |= own
        return repeats, ids

    def _others(
        self, key: FileKey, first: str, sessions: Collection[str], before: Iterable[str]
    ) -> set[FileKey]:
        """Return the transcripts beside one that have its first record, or are of its sources.

        `before` are those that were found before.
        """
        self._load_marks()
        folder = key.path.rpartition("/")[0]
        found = {FileKey(key.source, name) for name in before}
        marked = self._marked(key, {first, *sessions} - {""})
        found |= {other for other in marked if not self._repeats(other, key)}
        named = {FileKey(key.source, f"{folder}/{session}{_ENDING}") for session in sessions}
        found |= {other for other in named & set(self._on_disk) if self._state(other) is None}
        if (own := self._state(key)) is not None:
            # What was forgotten there does not come back here.
            found |= {FileKey(key.source, n) for n in own.repeats if self._is_forgotten(n)}
        return found - {key}

    def _load_marks(self) -> None:
        if not self._has_marks:
            for other, row in dict(self._rows()).items():
                if row.transcript is not None:
                    self._mark(other, row.transcript)
            self._has_marks = True

    def _marked(self, key: FileKey, marks: Collection[str]) -> list[FileKey]:
        """Return the other transcripts beside one that have any of these marks now."""
        folder = key.path.rpartition("/")[0]
        found = {other for mark in marks for other in self._by_mark.get((folder, mark), ())}
        states = {other: self._state(other) for other in found - {key}}
        return [o for o, state in states.items() if state and not marks_of(state).isdisjoint(marks)]

    def _mark(self, key: FileKey, state: TranscriptState) -> None:
        if state.first_record:
            folder = key.path.rpartition("/")[0]
            for mark in marks_of(state):
                self._by_mark.setdefault((folder, mark), set()).add(key)

    def _state(self, key: FileKey) -> TranscriptState | None:
        """Return the state of a transcript in the index or on its way there."""
        row = self._rows().get(key)
        if row is not None:
            return row.transcript
        return self._under_way.get(key) or self._removed.get(key)

    def _repeats(self, key: FileKey, other: FileKey) -> bool:
        """Return whether a transcript leaves out what another one has, or what such a one has.

        A rebuild reads it anew, and the index has its earlier state until then: both count.
        """
        seen, ahead = {key.path}, [key.path]
        while ahead:
            key = FileKey(SOURCE, ahead.pop())
            for state in (self._under_way.get(key), self._state(key)):
                new = set() if state is None else state.repeats.keys() - seen
                if other.path in new:
                    return True
                seen |= new
                ahead += new
        return False

    def _has_version(self, key: FileKey, version: int) -> bool:
        """Return whether a transcript keeps the records that it kept when a version was noted.

        Earlier versions of memoryd noted the generation.
        """
        state = self._state(key)
        return version == self._version(key) or (state is not None and version == state.generation)

    def _version(self, key: FileKey) -> int | None:
        """Return a number that differs when a transcript keeps other records.

        None if it is neither indexed nor will be.
        """
        if self._is_forgotten(key.path):
            return 0
        if (state := self._state(key)) is None:
            return _UNREAD if key in self._on_disk and key not in self._failed else None
        return crc32(f"{state.device}:{state.inode}:{sorted(state.repeats)}".encode())


def marks_of(state: TranscriptState) -> set[str]:
    """Return what tells that another transcript may have copies of records."""
    return {state.first_record, state.session} - {""}
