"""Counter of the entries of dated notes that agents were shown: collects, and writes in batches."""

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import NamedTuple

from memoryd.agent.dated_notes import DatedEntry, DatedNotes, day_of_note
from memoryd.errors import RequestFailedError
from memoryd.fs.hang import PlaceThreads
from memoryd.index.driver import Connection, transaction
from memoryd.index.recalls import Recall, count
from memoryd.index.store import Store
from memoryd.index.tombstone_key import TombstoneKey
from memoryd.messages import RecordChange, ToWriter
from memoryd.search.evidence import Question
from memoryd.search.lexical import UNKNOWN
from memoryd.search.overlap import Comparer
from memoryd.text.fold import fold

EVERY_S = 2.0
"""Seconds for which answers are collected before they are counted in one transaction."""
MAX_ANSWERS = 256
"""Answers that wait; more are not counted."""
MAX_CHARS = 2_000
"""Characters of a question that count."""


class ShownLines(NamedTuple):
    """Lines of a note in an answer (1-based, inclusive), and how relevant they are, 0 to 1.

    `text` is what was shown of them, by which lines that have changed meanwhile are recognized.
    """

    path: str
    first: int
    last: int
    text: str
    relevance: float


class _Answer(NamedTuple):
    """Lines that an agent was shown for a question, and the Unix time."""

    question: str
    shown: tuple[ShownLines, ...]
    at: float


class RecallCounter:
    """Counts what agents were shown, after their answers, off the event loop.

    An actor. In: answers. Out: changes of the index, to its writer. What can't be read or written
    now is not counted.
    """

    def __init__(
        self,
        store: Store,
        writer: asyncio.Queue[ToWriter],
        notes: DatedNotes,
        threads: PlaceThreads,
        *,
        place: str,
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`threads` read the notes, whose `place` is the workspace; `zone` is that of days."""
        self._store = store
        self._writer = writer
        self._notes = notes
        self._threads = threads
        self._place = place
        self._zone = zone
        self._clock = clock
        self._waiting = deque[_Answer](maxlen=MAX_ANSWERS)
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()

    def add(self, question: str, shown: Iterable[ShownLines]) -> None:
        """Take what an answer shows; only dated notes count."""
        dated = tuple(lines for lines in shown if day_of_note(lines.path) is not None)
        if dated and len(self._waiting) < MAX_ANSWERS:
            self._waiting.append(_Answer(question[:MAX_CHARS], dated, self._clock()))
            self._wanted.set()

    def discard(self) -> None:
        """Forget what is not counted yet."""
        self._waiting.clear()

    async def run(self) -> None:
        """Count from time to time until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(EVERY_S)
            self._wanted.clear()
            await self.flush()

    async def flush(self) -> None:
        """Count what was shown so far; return when the index has it."""
        async with self._turn:
            answers = list(self._waiting)
            self._waiting.clear()
            if not answers or not self._store.writable:
                return
            with suppress(OSError, RequestFailedError):  # counts are not worth an error
                recalls = await self._threads.run(self._place, self._recalls, answers)
                if recalls:
                    message = RecordChange(lambda connection: self._write(connection, recalls))
                    await self._writer.put(message)
                    await message.done

    def _write(self, connection: Connection, recalls: list[Recall]) -> None:
        with transaction(connection):
            self._store.tombstone_key.adopt(connection)
            count(connection, recalls)

    def _recalls(self, answers: Iterable[_Answer]) -> list[Recall]:
        """Return the entries of notes in some answers. Blocking."""
        key = self._store.tombstone_key
        if not key.is_there:
            if key.problem is not None:
                return []  # its record waits for its own key
            key.create()
        read: dict[str, list[DatedEntry]] = {}
        found: list[Recall] = []
        for answer in answers:
            at = datetime.fromtimestamp(answer.at, self._zone)
            question = Question.read(answer.question)
            comparer = Comparer(answer.question, question, UNKNOWN)
            hashed = hash_of_question(key, answer.question)
            best: dict[str, Recall] = {}
            for lines in answer.shown:
                if lines.path not in read:
                    read[lines.path] = self._read(lines.path)
                if (entry := _entry_of(lines, read[lines.path], comparer)) is None:
                    continue
                recall = Recall(
                    entry.path,
                    hash_of_entry(key, entry),
                    entry.first_line,
                    entry.last_line,
                    hashed,
                    lines.relevance,
                    answer.at,
                    at.date().isoformat(),
                )
                known = best.get(recall.hash)
                if known is None or known.relevance < recall.relevance:
                    best[recall.hash] = recall
            found += best.values()
        return found

    def _read(self, path: str) -> list[DatedEntry]:
        with suppress(OSError):
            return self._notes.entries(path)
        return []


def _entry_of(
    lines: ShownLines, entries: Iterable[DatedEntry], comparer: Comparer
) -> DatedEntry | None:
    """Return the entry for which lines were shown: that with most of the question's words.

    If no entry has one, only an entry that was shown alone is known to be meant.
    """
    within = [
        entry
        for entry in entries
        if entry.first_line <= lines.last
        and lines.first <= entry.last_line
        and _is_shown(entry, lines.text)
    ]
    shared = [comparer.compare(entry.text, "").words for entry in within]
    if most := max(shared, default=0.0):
        return within[shared.index(most)]
    return next((entry for entry in within if _is_alone(entry, lines)), None)


def _is_alone(entry: DatedEntry, lines: ShownLines) -> bool:
    """Return whether nothing but an entry and headings was shown."""
    return not any(
        line.strip() and not line.startswith("#")
        for number, line in enumerate(lines.text.split("\n"), start=lines.first)
        if not entry.first_line <= number <= entry.last_line
    )


def _is_shown(entry: DatedEntry, text: str) -> bool:
    """Return whether a text has a line of an entry, or of a long line a part."""
    shown = [line for each in text.split("\n") if (line := each.strip(" \t…"))]
    own = [line for each in entry.text.split("\n") if (line := each.strip())]
    return any(line in other or other in line for line in own for other in shown)


def hash_of_entry(key: TombstoneKey, entry: DatedEntry) -> str:
    """Return the name of an entry, made of its note and its text, wherever it stands there."""
    return _hash(key, "entry", f"{entry.path}\n{' '.join(entry.text.split())}")


def hash_of_question(key: TombstoneKey, question: str) -> str:
    """Return the name of a question, by which it is the same in any case and spacing."""
    return _hash(key, "question", " ".join(fold(question[:MAX_CHARS]).split()))


def _hash(key: TombstoneKey, kind: str, text: str) -> str:
    # The kind is part of what is hashed: no hash equals that of a forgotten text.
    digest = hashlib.sha256(f"recall {kind}\n{text}".encode("utf-8", "replace")).hexdigest()
    return key.hashed(digest)[:32]
