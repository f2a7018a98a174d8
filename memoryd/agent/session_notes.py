"""Session notes: when a conversation ends, its last messages become a note, once.

A private file beside the index names the conversations that have been dealt with, whatever becomes
of the index. A note is in the journal of notes before it is in its file, and in its file before
its conversation is named there, so a crash between any two neither loses nor repeats a note.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from memoryd.agent.forgotten import stem
from memoryd.errors import HintedError, RequestFailedError
from memoryd.fs.atomic_replace import rename_over
from memoryd.fs.hang import PlaceThreads
from memoryd.index.driver import Error
from memoryd.index.queries import read_last_chunks
from memoryd.index.store import Store
from memoryd.messages import FileKey, Hint, ToReconcile, TranscriptState
from memoryd.source.notes.write import NoteWriter
from memoryd.source.transcripts.endings import ConversationEndings
from memoryd.source.transcripts.format import CHANNEL, GROUP
from memoryd.source.transcripts.kept import messages_of
from memoryd.source.transcripts.locations import SOURCE
from memoryd.source.transcripts.session_note import session_note

log = logging.getLogger(__name__)

T = TypeVar("T")
SUFFIX = ".session-notes"
MAX_CONVERSATIONS = 20_000
"""Maximum conversations that are remembered; no older one becomes a note."""
_LOOK_S = 60.0
"""Seconds between two looks for ended conversations, and until a failed note is tried again."""
_CHUNKS = 120
"""Chunks read for the last messages."""


_FAILURES = (OSError, Error, HintedError, RequestFailedError, msgspec.MsgspecError)
"""Errors of a disk, of the writer, and of a corrupt index."""


class _Marks(msgspec.Struct):
    """Conversations dealt with, each with the Unix time of its last message.

    Conversations whose last message is not later than `since` become no notes; None: not enabled.
    """

    since: float | None = None
    done: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class SessionNoteStats:
    """Notes written since the start, the path of the last one, and what could not be written.

    `failures` has the reasons by the name of the transcript.
    """

    written: int = 0
    last: str = ""
    failures: dict[str, str] = field(default_factory=dict)


class _Ended(NamedTuple):
    """A conversation that may have ended; `at` is the Unix time of its last message."""

    key: FileKey
    state: TranscriptState
    marks: list[str]
    at: float


class SessionNotes:
    """Writes the session notes of one agent. `turn` is held while a thread uses the writer.

    With `of_agent`, conversations of other agents, which this one may not see, become no notes.
    """

    def __init__(
        self,
        store: Store,
        writer: NoteWriter,
        turn: asyncio.Lock,
        endings: ConversationEndings,
        lookups: PlaceThreads,
        to_reconciler: asyncio.Queue[ToReconcile],
        *,
        workspace: Path,
        idle_s: float,
        of_agent: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._writer = writer
        self._turn = turn
        self._endings = endings
        self._lookups = lookups
        self._to_reconciler = to_reconciler
        self._workspace = workspace
        self._idle_s = idle_s
        self._of_agent = of_agent
        self._clock = clock
        self._marks = MarkFile(Path(f"{store.path}{SUFFIX}"))
        self._next = 0.0
        self._empty: dict[FileKey, float] = {}
        self._stats = SessionNoteStats()

    def stats(self) -> SessionNoteStats:
        """Return what was written, and what could not be."""
        return self._stats

    async def look(self, pending: Collection[FileKey], at_once: bool) -> None:
        """Write the notes about conversations that have ended. Never raises for a failing disk.

        `pending` transcripts have messages that are not indexed yet. A look that is not needed
        `at_once` is left out if the last one was a moment ago.
        """
        now = self._clock()
        if not at_once and 0 <= self._next - now <= _LOOK_S:
            return
        self._next = now + _LOOK_S
        failures: dict[str, str] = {}
        try:
            marks = await self._in_thread(self._marks.begin, now)
            ended = await self._in_thread(self._ended, marks, frozenset(pending), now)
        except (OSError, RequestFailedError) as error:
            failures[self._marks.path.name] = _reason(error)
        else:
            for conversation in ended:
                try:
                    await self._write(conversation)
                except _FAILURES as error:
                    failures[conversation.key.path] = _reason(error)
        for name, reason in failures.items():
            if self._stats.failures.get(name) != reason:
                log.warning("no session note about %s: %s", name, reason)
        self._stats = SessionNoteStats(self._stats.written, self._stats.last, failures)

    def _ended(self, marks: _Marks, pending: Collection[FileKey], now: float) -> list[_Ended]:
        """Return the conversations that have ended, oldest first. Blocking. Raises `OSError`."""
        found: dict[str, _Ended] = {}
        for each in self._candidates(marks, now):
            if not _may_be_told(each.state):
                # For good, because its archive may not say any more what kind it was.
                self._marks.add(each.marks, each.at)
                continue
            if each.key in pending or self._empty.get(each.key) == each.at:
                continue
            ending = self._endings.ending(each.key, each.state)
            is_quiet = self._last_change(each.key, each.at, now) + self._idle_s <= now
            if ending == "over" or (ending == "when quiet" and is_quiet):
                known = found.get(each.marks[0])
                if known is None or known.at < each.at:
                    found[each.marks[0]] = each
        return sorted(found.values(), key=lambda each: each.at)

    def _candidates(self, marks: _Marks, now: float) -> Iterator[_Ended]:
        """Yield the conversations that may become notes once they have ended."""
        for key, row in self._store.catalog.copy().items():
            state = row.transcript
            if key.source != SOURCE or state is None or not state.messages:
                continue
            if state.gone_at is not None:
                continue
            if self._of_agent is not None and state.owner not in ("", self._of_agent):
                continue
            at = state.last_at
            if at is None or at > now:  # unknown, or not to be believed
                at = min(row.stat.mtime_ns / 1e9, now)
            if at <= (marks.since or now):
                continue
            if marks.done.keys().isdisjoint(named := _marks_of(key, state)):
                yield _Ended(key, state, named, at)

    def _last_change(self, key: FileKey, at: float, now: float) -> float:
        row = self._store.catalog.rows.get(key)
        changed = at if row is None else row.stat.mtime_ns / 1e9
        return max(at, changed) if changed <= now else at

    async def _write(self, ended: _Ended) -> None:
        """Write the note about a conversation, unless there is nothing to say."""
        chunks = await self._store.readers.read(
            lambda connection: read_last_chunks(connection, ended.key, _CHUNKS)
        )
        messages = messages_of(chunks)
        if len(chunks) == _CHUNKS:
            del messages[:1]  # its beginning may be missing

        def lines(note_id: str, observed: str) -> list[str]:
            return session_note(messages, path=ended.key.path, note_id=note_id, observed=observed)

        async with self._turn:
            placed = await self._in_thread(
                self._writer.write_session, ended.marks[0], ended.at, lines
            )
        if placed is None:
            self._empty[ended.key] = ended.at
            return
        path = placed.note.path
        self._stats = SessionNoteStats(self._stats.written + 1, path, self._stats.failures)
        log.info("session note %s about %s", path, ended.key.path)
        if not self._to_reconciler.full():  # otherwise the watcher or the next scan finds it
            self._to_reconciler.put_nowait(Hint(frozenset({placed.path}), "session note"))
        await self._in_thread(self._marks.add, ended.marks, ended.at)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await self._lookups.run(str(self._workspace), work, *arguments)


class MarkFile:
    """The file that names the conversations dealt with. Blocking; one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._marks: _Marks | None = None
        self._is_saved = True

    def begin(self, now: float) -> _Marks:
        """Return the marks; if session notes were not enabled before, they are from now on.

        Raises `OSError`.
        """
        if self._marks is None:
            self._marks = self._read()
        if self._marks.since is None:
            self._marks.since = now
            self._is_saved = False
        if not self._is_saved:
            self._save(self._marks)
        return self._marks

    def add(self, names: Collection[str], at: float) -> None:
        """Name a conversation by all of its names. Raises `OSError`, and it counts all the same."""
        marks = self._marks or _Marks()
        marks.done.update(dict.fromkeys(names, at))
        while len(marks.done) > MAX_CONVERSATIONS:
            oldest = min(marks.done, key=marks.done.__getitem__)
            marks.since = max(marks.since or 0.0, marks.done.pop(oldest))
        self._is_saved = False
        self._save(marks)

    def disable(self) -> None:
        """Note that session notes are not enabled now. Raises `OSError`."""
        if self.path.exists() and (marks := self._read()).since is not None:
            marks.since = None
            self._save(marks)

    def _read(self) -> _Marks:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _Marks()
        try:
            return msgspec.json.decode(data, type=_Marks)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise OSError(f"{self.path} is damaged ({error}); delete it") from error

    def _save(self, marks: _Marks) -> None:
        part = Path(f"{self.path}.new")
        part.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "wb") as file:
            file.write(msgspec.json.encode(marks))
        rename_over(part, self.path)
        self._is_saved = True


def forget_enabling(index: Path) -> None:
    """Note that session notes are not enabled now, for when they are again. Blocking."""
    try:
        MarkFile(Path(f"{index}{SUFFIX}")).disable()
    except OSError as error:
        log.warning("session notes: %s", _reason(error))


def _may_be_told(state: TranscriptState) -> bool:
    """Return whether only the owner and the agent take part, and a person began it."""
    return state.chat_type not in (GROUP, CHANNEL) and not state.spawned_by


def _marks_of(key: FileKey, state: TranscriptState) -> list[str]:
    """Return the names of a conversation, which its archive and a renamed file have too."""
    if state.session:
        return [state.session]
    # A transcript without an id keeps the time of its first message when it is renamed.
    begun = state.head_hash if state.first_at is None else f"{state.format}:{state.first_at}"
    return [stem(key.path), begun]


def _reason(error: BaseException) -> str:
    if isinstance(error, HintedError | RequestFailedError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error)
