"""Transcripts that stay although their files are gone: what is kept, for how long, and how read."""

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from memoryd.agent.heirs import Heirs
from memoryd.fs.hang import tick
from memoryd.index.catalog import FileRow
from memoryd.index.queries import read_chunks
from memoryd.index.store import Store
from memoryd.messages import FileKey, TranscriptState
from memoryd.source.transcripts.delta import DeltaOptions, TranscriptDelta
from memoryd.source.transcripts.format import LeftOutError
from memoryd.source.transcripts.kept import (
    KeptCopies,
    KeptCopy,
    KeptHeader,
    KeptMessage,
    chunked,
    messages_of,
)
from memoryd.source.transcripts.locations import SOURCE, Found
from memoryd.source.transcripts.records import TranscriptExcerpt
from memoryd.source.transcripts.spoken import Spoken
from memoryd.source.transcripts.strip import on_one_line
from memoryd.source.transcripts.tracker import Keeping
from memoryd.text.voice import ASSISTANT, Voice
from memoryd_client.schema.search import Role

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeepRules:
    """Conditions for a transcript to stay after its file has vanished.

    `keep_s` is the time for which it stays, None: forever. `is_read` tells whether a format is
    enabled, `is_forgotten` whether a transcript of this name and session was forgotten, and
    `is_missing` whether its file is missing from its place. `in_copies` returns the condition for
    messages that were forgotten in the transcript that one has copies of, None if there are none.
    """

    keep_s: float | None
    is_read: Callable[[str], bool]
    is_forgotten: Callable[[str, str], bool]
    in_copies: Callable[[TranscriptState], Callable[[str], bool] | None]
    is_missing: Callable[[FileKey], bool]

    def is_over(self, gone_at: float) -> bool:
        """Return whether a transcript whose file vanished then need not stay."""
        return self.keep_s is not None and time.time() - gone_at >= self.keep_s


class NotKeptYetError(Exception):
    """The file of a transcript is gone, and its copy is not written yet."""

    def __init__(self, key: FileKey) -> None:
        super().__init__(key.path)
        self.key = key


class KeptTranscripts:
    """The kept transcripts of one agent: rows in the index, and copies beside it."""

    def __init__(
        self, copies: KeptCopies, index: Store | None, options: DeltaOptions, rules: KeepRules
    ) -> None:
        self.copies = copies
        self._index = index
        self._options = options
        self._rules = rules
        self._held: dict[FileKey, list[KeptMessage]] = {}

    def add_to(self, found: Found) -> None:
        """Add the copies that stand for missing files to those on disk. Blocking."""
        self._held.clear()
        for copy in self.copies.all():
            key = FileKey(SOURCE, copy.header.name)
            if key not in found.files and self._counts(key, copy):
                found.files[key] = copy.path, copy.stat

    def _counts(self, key: FileKey, copy: KeptCopy) -> bool:
        """Return whether a copy is neither older than the index nor to be removed."""
        if self._is_stale(copy):
            return False
        row = self._rows().get(key)
        known = None if row is None else row.transcript
        return known is None or known.gone_at is not None or _same(known, copy.header.state)

    def _is_stale(self, copy: KeptCopy) -> bool:
        header, rules = copy.header, self._rules
        return rules.is_over(header.gone_at) or rules.is_forgotten(
            header.name, header.state.session
        )

    def _rows(self) -> Mapping[FileKey, FileRow]:
        return {} if self._index is None else self._index.catalog.rows

    async def keep(
        self,
        gone: Collection[FileKey],
        found: Found,
        thread: Executor,
        *,
        unread: bool = False,
    ) -> Keeping:
        """Write copies of transcripts whose files are gone, and remove those that need not stay.

        A transcript that is in the index under another name too, as an archive, need not stay, nor
        one in a place that is no longer read. `unread`: a renamed one need not have been read.
        """
        in_thread = asyncio.get_running_loop().run_in_executor
        keeping = Keeping()
        held = [key for key, (path, _) in found.files.items() if self.copies.holds(path)]
        if not (gone or held or self.copies.listed() or self.copies.problems):
            return keeping
        rows = {} if self._index is None else self._index.catalog.copy()
        heirs = await in_thread(thread, partial(Heirs, rows, found, self.copies, unread=unread))
        for key in gone:
            row = rows.get(key)
            state = None if row is None else row.transcript
            if (
                row is None
                or state is None
                or not row.chunks
                or not self._stays(key, state)
                or heirs.of(key, state)
                or not await in_thread(thread, self._rules.is_missing, key)
            ):
                keeping.removed.append(key)
            else:
                await self._keep(key, row, state, keeping, thread)
        inherited = [
            key
            for key in held
            if (row := rows.get(key)) is not None
            and row.transcript is not None
            and heirs.of(key, row.transcript)
        ]
        keeping.removed += inherited
        keeping.problems += await in_thread(thread, self._tidy, set(inherited), found)
        return keeping

    async def restore(self, key: FileKey, thread: Executor | None = None) -> str | None:
        """Write the copy of a transcript from its rows, if it has any and is to stay.

        Returns why that failed.
        """
        row, keeping = self._rows().get(key), Keeping()
        state = None if row is None else row.transcript
        if row is not None and row.chunks and state is not None and self._stays(key, state):
            await self._keep(key, row, state, keeping, thread)
        return next(iter(keeping.problems), None)

    async def when_held(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of work that needs the messages of transcripts whose files are gone.

        Those without a copy yet are read from their rows.
        """
        while True:
            try:
                return await work()
            except NotKeptYetError as error:
                assert self._index is not None  # noqa: S101 - it has the row
                chunks = await self._index.readers.read(partial(read_chunks, key=error.key))
                self._held[error.key] = messages_of(chunks)

    def _stays(self, key: FileKey, state: TranscriptState) -> bool:
        gone_at = time.time() if state.gone_at is None else state.gone_at
        return (
            not self._rules.is_over(gone_at)
            and self._rules.is_read(state.format)
            and not self._rules.is_forgotten(key.path, state.session)
        )

    async def _keep(
        self,
        key: FileKey,
        row: FileRow,
        state: TranscriptState,
        keeping: Keeping,
        thread: Executor | None,
    ) -> None:
        assert self._index is not None  # noqa: S101 - it has the row
        chunks = await self._index.readers.read(lambda c: read_chunks(c, key))
        loop = asyncio.get_running_loop()
        try:
            messages = await loop.run_in_executor(thread, messages_of, chunks)
            gone_at = time.time() if state.gone_at is None else state.gone_at
            state = replace(state, gone_at=None)
            header = KeptHeader(key.path, state, row.facts, gone_at, len(messages))
            copy = await loop.run_in_executor(thread, self.copies.write, header, messages)
        except OSError as error:
            why = error.strerror or str(error)
            keeping.problems.append(
                f"can't write copies of transcripts whose files are gone to {self.copies.folder}:"
                f" {why}; their text stays in the index, and memoryd tries again"
            )
        else:
            keeping.copies[key] = copy.path, copy.stat

    def _tidy(self, inherited: Collection[FileKey], found: Found) -> list[str]:
        """Remove copies that are expired, forgotten or superseded. Returns the problems."""
        rows = self._rows()
        problems = list(self.copies.problems.values())
        for copy in self.copies.listed():
            key = FileKey(SOURCE, copy.header.name)
            row, place = rows.get(key), found.files.get(key)
            is_back = (
                place is not None
                and place[0] != copy.path
                and row is not None
                and row.transcript is not None
                and row.transcript.gone_at is None
            )
            if is_back or key in inherited or self._is_stale(copy):
                try:
                    self.copies.remove(key.path)
                except OSError as error:
                    problems.append(f"can't remove {copy.path}: {error.strerror or error}")
        return problems

    def read(self, path: Path) -> TranscriptDelta:
        """Read a copy as a transcript. Blocking. Raises `OSError`."""
        header, messages, stat, digest = self.copies.read(path)
        if not self._rules.is_read(header.state.format):
            raise LeftOutError(errno.EILSEQ, f"the format {header.state.format} is not enabled")
        if self._rules.is_forgotten(header.name, header.state.session):
            raise LeftOutError(errno.EILSEQ, "it was forgotten")
        options, state = self._options, header.state
        messages = list(self._remaining(messages, state))
        state = self._without_forgotten(state, messages)
        chunks, tail = chunked(messages, tokens=options.tokens, max_bytes=options.max_bytes)
        if tail != state.tail_line:
            state = replace(state, inode=0)  # cut in another way: nothing may be appended
        reading = options.rules.reading
        state = replace(state, gone_at=header.gone_at, reading=reading)
        return TranscriptDelta(
            *(stat, f"{digest}:{reading}", state, chunks),
            from_line=1,
            bytes_read=stat.size,
            facts=header.facts,
        )

    def messages(self, path: Path) -> Iterator[Spoken]:
        """Yield the words of a copy that were not forgotten. Blocking. Raises `OSError`."""
        header, messages, *_ = self.copies.read(path)
        if title := header.state.topic.title:
            yield _title(title)
        for message in self._remaining(messages, header.state):
            yield from (self._spoken(text, voice) for text, voice in message.parts)

    def texts(self, name: str) -> list[str]:
        """Return the messages of a transcript whose file is gone. Blocking.

        Raises `OSError`. Without a copy yet, raises `NotKeptYetError`, which `when_held` handles.
        """
        key = FileKey(SOURCE, name)
        try:
            header, messages, *_ = self.copies.read(self.copies.path(name))
            state = header.state
        except FileNotFoundError:
            row = self._rows().get(key)
            if row is None or row.transcript is None:
                raise
            if (held := self._held.get(key)) is None:
                if row.chunks and self._stays(key, row.transcript) and self._rules.is_missing(key):
                    raise NotKeptYetError(key) from None
                raise
            messages, state = held, row.transcript
        return [_text(message.parts) for message in self._remaining(messages, state)]

    def excerpt(
        self, path: Path, start_line: int, max_lines: int, max_chars: int
    ) -> tuple[TranscriptExcerpt, float]:
        """Return messages of a copy, and when its file was missed. Blocking. Raises `OSError`."""
        header, messages, *_ = self.copies.read(path)
        lines: list[str] = []
        room, next_line = max_chars, None
        for message in self._remaining(messages, header.state):
            if message.line < start_line:
                continue
            text = _text(message.parts)
            room -= len(text) + 1
            if len(lines) == max_lines or (room < 0 and lines):
                next_line = message.line
                break
            lines.append(text[:max_chars])
        last = messages[-1].line if messages else 0
        return TranscriptExcerpt(lines, max(header.state.lines, last), next_line), header.gone_at

    def adopt(self, header: KeptHeader, messages: list[KeptMessage]) -> None:
        """Write the copy of a transcript from another machine. Blocking. Raises `OSError`."""
        if not (rest := list(self._remaining(messages, header.state))):
            return
        gone_at = time.time() if self._rules.keep_s is not None else header.gone_at
        # No file here is the one that was read there.
        state = self._without_forgotten(header.state, rest)
        state = replace(state, device=0, inode=0, gone_at=None)
        header = replace(header, state=state, gone_at=gone_at, messages=len(rest))
        self.copies.write(replace(header, version=1, after=0), rest)

    def takes(self, header: KeptHeader) -> bool:
        """Return whether a part continues the copy of its transcript. Blocking.

        Raises `OSError`.
        """
        copy = self.copies.find(header.name) if header.after else None
        return copy is not None and copy.header.until == header.after

    def extend(self, header: KeptHeader, messages: list[KeptMessage]) -> None:
        """Add a part to the copy of its transcript. Blocking. Raises `OSError`."""
        before, first, *_ = self.copies.read(self.copies.path(header.name))
        whole = [*first, *self._remaining(messages, before.state)]
        self.copies.write(replace(before, messages=len(whole), until=header.until), whole)

    def erase(self, name: str) -> None:
        """Remove forgotten messages from the copy of a transcript, or all of it.

        Blocking. Raises `OSError`.
        """
        try:
            copy = self.copies.find(name)
            if copy is None:
                return
            header, messages, *_ = self.copies.read(copy.path)
        except OSError:
            self.copies.remove(name)  # it can't be searched, and what is forgotten must go
            return
        rest = list(self._remaining(messages, header.state))
        if not rest or self._rules.is_forgotten(name, header.state.session):
            self.copies.remove(name)
        else:
            state = self._without_forgotten(header.state, rest)
            if (state, rest) != (header.state, messages):
                self.copies.write(replace(header, state=state, messages=len(rest)), rest)

    def _remaining(
        self, messages: Collection[KeptMessage], state: TranscriptState
    ) -> Iterator[KeptMessage]:
        """Yield messages without the forgotten parts, masked by the present rules."""
        rules, is_forgotten = self._options.rules, self._rules.in_copies(state)
        for message in messages:
            tick()
            parts = [
                (rules.redact(text), voice)
                for text, voice in message.parts
                if not rules.forgotten(self._spoken(text, voice).name)
            ]
            if parts and not (is_forgotten and is_forgotten(_text(parts))):
                yield KeptMessage(message.line, parts)

    def _without_forgotten(
        self, state: TranscriptState, rest: Collection[KeptMessage]
    ) -> TranscriptState:
        """Return the state without a title and a question that were forgotten."""
        topic, rules = state.topic, self._options.rules
        if topic.title and rules.forgotten(_title(topic.title).name):
            topic = replace(topic, title="", rank=0)
        words = on_one_line(topic.question.rstrip("….")).removesuffix("...")
        if words and not any(
            words in on_one_line(text) for message in rest for text, _ in message.parts
        ):
            topic = replace(topic, question="", is_outside=False)
        return replace(state, topic=topic)

    def _spoken(self, text: str, voice: Voice) -> Spoken:
        role = "Assistant" if voice.role is Role.ASSISTANT else "User"
        words = on_one_line(text.removeprefix(f"{voice.label}: "))
        return Spoken(text, f"{role}: {words}", voice)


def _text(parts: Iterable[tuple[str, Voice]]) -> str:
    return "\n".join(text for text, _ in parts)


def _title(title: str) -> Spoken:
    return Spoken(title, f"Title: {on_one_line(title)}", ASSISTANT)


def _same(known: TranscriptState, kept: TranscriptState) -> bool:
    """Return whether a copy was made from the rows that the index has."""
    return replace(known, gone_at=None, reading="") == replace(kept, gone_at=None, reading="")
