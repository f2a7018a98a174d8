"""Copies of records in transcripts of resumed sessions, which are found only once.

Claude Code begins the transcript of a resumed or forked session with copies of the earlier records.
A copy keeps its `uuid`. It names the session that it comes from, or else the two transcripts begin
with the same message.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from memoryd.agent.forgotten import ForgottenTalk
from memoryd.index.catalog import FileRow
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.transcripts.claude import Claude, own_session, source_sessions
from memoryd.source.transcripts.delta import DeltaOptions, record_ids, spoken_records
from memoryd.source.transcripts.format import Record, TranscriptFormat, record_id
from memoryd.source.transcripts.locations import SOURCE, TranscriptLocations

Rows = Mapping[FileKey, FileRow]
_ENDING = ".jsonl"


@dataclass(slots=True)
class RepeatedRecords:
    """Transcripts that have records of another one, with their generations, as far as known.

    `session` is the transcript's own one and `first_record` the id of its first message, "" if
    unknown.
    """

    session: str = ""
    first_record: str = ""
    repeats: dict[str, int] = field(default_factory=dict)


class ResumedSessions:
    """Finds the transcripts that another one repeats, among those that are indexed or on disk.

    Of two transcripts, one at most leaves out what the other one has.
    """

    def __init__(
        self,
        places: TranscriptLocations,
        rows: Callable[[], Rows],
        forgotten: ForgottenTalk,
        kept_texts: Callable[[str], list[str]],
    ) -> None:
        """`kept_texts` returns the messages of a transcript by its name, if its file is gone.

        It raises `OSError` if there is no copy.
        """
        self._places = places
        self._rows = rows
        self._is_forgotten = forgotten.has
        self._forgotten_records = forgotten.records
        self._kept_texts = kept_texts
        self._on_disk: Collection[FileKey] = frozenset()
        self._under_way: dict[FileKey, TranscriptState] = {}
        self._failed: set[FileKey] = set()
        self._by_mark: dict[tuple[str, str], set[FileKey]] = {}
        self._has_marks = False

    def look(self, on_disk: Collection[FileKey]) -> None:
        """Take the names of all transcripts on disk."""
        self._on_disk = on_disk
        self._failed.intersection_update(on_disk)

    def note(self, key: FileKey, state: TranscriptState | None) -> None:
        """Take the state of a transcript that was read, None if it could not be read."""
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

        Of two that leave out each other's records, as earlier versions read some, one is not.
        """
        return all(
            self._is_forgotten(name)
            or (
                self._generation(other := FileKey(SOURCE, name)) == generation
                and not (key.path < name and self._repeats(other, key))
            )
            for name, generation in state.repeats.items()
        )

    def with_ids(
        self, path: Path, state: TranscriptState, options: DeltaOptions
    ) -> DeltaOptions | None:
        """Return the options to read a transcript as when it reached `state`.

        None if a transcript that has copies is gone. Blocking.
        """
        ids = set(self._forgotten_records)
        for name in state.repeats:
            try:
                ids |= self._ids_of(FileKey(SOURCE, name), path, options)
            except OSError:
                return None
        return replace(options, repeated=lambda fmt, head: ids)

    def settle(self, rows: Rows) -> None:
        """Forget the states that have arrived in the index."""
        for key in self._under_way.keys() & rows.keys():
            state = rows[key].transcript
            if state is None or state.repeats == self._under_way[key].repeats:
                del self._under_way[key]

    def reading(
        self, path: Path, base: TranscriptState | None, options: DeltaOptions
    ) -> tuple[RepeatedRecords, DeltaOptions]:
        """Return the options to read a transcript, and what the reading finds out.

        New records follow the copies, so that nothing is looked up for additions to them.
        """
        found = RepeatedRecords()
        if base is not None:
            found = RepeatedRecords(base.session, base.first_record, dict(base.repeats))
        key = self._places.key(path)
        if key is None or (base is not None and base.messages):
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
            return ids | self._forgotten_records

        return found, replace(options, repeated=repeated)

    def forgetting(
        self, keys: Iterable[FileKey], options: DeltaOptions
    ) -> tuple[set[str], list[FileKey], list[FileKey]]:
        """Return the ids of the records that transcripts have in the index. Blocking.

        Also the other transcripts in which copies of these are indexed, and those of `keys` of
        which no file is there to tell the ids, neither their own nor one that has copies.
        """
        self._load_marks()
        ids: set[str] = set()
        holders: list[FileKey] = []
        without_ids: list[FileKey] = []
        for key in keys:
            state = self._state(key)
            if state is None or not state.first_record:
                continue
            others = self._marked(key, _marks(state))
            path = self._places.present_path(key)
            own: set[str] = set()
            for other in [path] if path is not None else map(self._places.present_path, others):
                with suppress(OSError):
                    own |= self._ids_of(key, other or Path(), options)
            if others and not own:
                without_ids.append(key)
            copied: set[str] = set()
            for name in state.repeats if path is not None else ():
                with suppress(OSError):
                    copied |= self._ids_of(FileKey(SOURCE, name), path or Path(), options)
            # If another one has all of it, it is the one that was resumed.
            ids |= own - copied or own
            holders += [o for o in others if self._state(o) and not self._repeats(o, key)]
        return ids, holders, without_ids

    def _ids(
        self, others: Iterable[FileKey], path: Path, options: DeltaOptions
    ) -> tuple[dict[str, int], set[str]]:
        """Return the readable ones of other transcripts, and the ids of their records."""
        repeats: dict[str, int] = {}
        ids: set[str] = set()
        for other in others:
            generation = self._generation(other)
            if generation is not None:
                # Without them, its records can't be told from new ones.
                with suppress(OSError):
                    ids |= self._ids_of(other, path, options)
                    repeats[other.path] = generation
        return repeats, ids

    def _ids_of(self, other: FileKey, path: Path, options: DeltaOptions) -> set[str]:
        """Return the ids of the records of another transcript. Raises `OSError`.

        If its file is gone, only its words are known: they are compared with those at `path`.
        """
        try:
            return record_ids(self._places.real_path(other) or Path(), options)
        except OSError:
            kept = [_squeezed(text) for text in self._kept_texts(other.path)]
        records = [(id_, _squeezed(text)) for id_, text in spoken_records(path, options)]
        common = {text for _, text in records}
        ids: set[str] = set()
        expected = iter([text for text in kept if text in common])
        word = next(expected, None)
        for id_, text in records:
            if text == word:
                ids.add(id_)
                word = next(expected, None)
        return ids - {""}

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
        return [o for o, state in states.items() if state and not _marks(state).isdisjoint(marks)]

    def _mark(self, key: FileKey, state: TranscriptState) -> None:
        if state.first_record:
            folder = key.path.rpartition("/")[0]
            for mark in _marks(state):
                self._by_mark.setdefault((folder, mark), set()).add(key)

    def _state(self, key: FileKey) -> TranscriptState | None:
        """Return the state of a transcript in the index or on its way there."""
        row = self._rows().get(key)
        return self._under_way.get(key) if row is None else row.transcript

    def _repeats(self, key: FileKey, other: FileKey) -> bool:
        """Return whether a transcript leaves out what another one has, in the index or soon.

        A rebuild reads it anew, and the index has its earlier state until then.
        """
        row = self._rows().get(key)
        states = (self._under_way.get(key), None if row is None else row.transcript)
        return any(state is not None and other.path in state.repeats for state in states)

    def _generation(self, key: FileKey) -> int | None:
        """Return the generation of a transcript, None if it is neither indexed nor will be."""
        if self._is_forgotten(key.path):
            return 0
        if (state := self._state(key)) is not None:
            return state.generation
        return 0 if key in self._on_disk and key not in self._failed else None


def _squeezed(text: str) -> str:
    """Return a text without white space, because long lines are kept wrapped."""
    return "".join(text.split())


def _marks(state: TranscriptState) -> set[str]:
    """Return what tells that another transcript may have copies of records."""
    return {state.first_record, state.session} - {""}
