"""Chunks of the index as a search needs them, kept for the next searches of the same connection.

A question finds the same chunks again and again. Their folded texts, and the positions of words in
them, are kept as long as nothing was written to the index. After a write, a kept chunk is compared
with its row before it is used, without reading its text.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, NamedTuple

import msgspec

from memoryd.index.catalog import decode_properties
from memoryd.index.catalog import named as searched_of
from memoryd.index.driver import Connection
from memoryd.messages import FileKey
from memoryd.search.diversify import LineRuns, line_runs
from memoryd.search.evidence import ChunkText
from memoryd.search.fts_sizes import length_of, read_lengths
from memoryd.search.index_answers import version_of
from memoryd.search.query import SOURCES
from memoryd.search.snippet import TextLines, read_lines
from memoryd.search.text_match import FoldedText, read_folded
from memoryd.text.fold import fold
from memoryd.text.front_matter import names
from memoryd.text.language import language_of
from memoryd.text.voice import NOTE, UNREAD, Voice, decode_voices
from memoryd_client.schema.search import Origin

MOST_BYTES = 5 * 1024 * 1024
"""Memory of the chunks that one connection keeps: about 800 of the usual length."""
MOST_FILES = 1_000
"""Files whose facts one connection keeps."""
_CHUNK_BYTES = 1_500
"""Memory of a chunk besides its texts."""
_VOICE_BYTES = 110
"""Memory of the voice of a line."""
_RUN_BYTES = 6
"""Memory of one of its runs, with the starts of its lines."""
_LANGUAGE_CHARS = 400
"""Characters of a chunk that tell its language, in 0.1 ms."""
NOTES, _ = SOURCES
_TRUSTED = frozenset(Origin) - {Origin.UNTRUSTED}
_NUMBER = re.compile(r"\d+")
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
_FACTS = "row_id, id, file_id, heading, origin, start_line, end_line, line_map, voices"
_SIZES = "(SELECT sz FROM chunks_fts_docsize WHERE chunks_fts_docsize.id = row_id)"


class StoredFile(NamedTuple):
    """The file of chunks. `titles` are its path, its names and its titles, one a line.

    `searched` are its properties that are searched with each chunk; `transcript` is as stored.
    """

    key: FileKey
    title: str
    date: str
    transcript: str | None
    titles: str
    searched: str

    @classmethod
    def of(
        cls, source: str, path: str, title: str, date: str, transcript: str | None, properties: str
    ) -> "StoredFile":
        """Return a file by its row."""
        name = path.rpartition("/")[2]
        stated = names(decode_properties(properties))
        titles = dict.fromkeys([path, name, name.removesuffix(".md"), title, *stated])
        key = FileKey(source, path)
        return cls(key, title, date, transcript, "\n".join(titles), searched_of(properties))


class ChunkFacts(NamedTuple):
    """Columns of a chunk besides its text."""

    id: str
    file_id: int
    heading: str
    origin: str
    start_line: int
    end_line: int
    line_map: str
    voices: str


@dataclass(slots=True, eq=False, kw_only=True)
class StoredChunk(ChunkText):
    """A chunk of the index; `tokens` is 1 where the keyword tables were not read."""

    facts: ChunkFacts
    file: StoredFile
    other_bytes: int
    """Memory of all but the folded text."""
    counted_bytes: int = 0
    _numbers: frozenset[str] | None = None
    _headings: str | None = None
    known_language: str | None = None
    _lines: TextLines | None = None
    _runs: LineRuns | None = None
    _voices: Sequence[Voice] = ()

    @property
    def size_bytes(self) -> int:
        """Return about the memory of the chunk."""
        return self.folded.size_bytes + self.other_bytes

    def count_growth(self) -> int:
        """Return by how many bytes it has grown since it was counted last."""
        size = self.size_bytes
        growth, self.counted_bytes = size - self.counted_bytes, size
        return growth

    def renew(self, facts: ChunkFacts, file: StoredFile) -> None:
        """Take over the columns of its row and its file, which may have changed."""
        if self.facts.voices:
            self.other_bytes -= _VOICE_BYTES * len(self._voices)
        self.facts, self.file, self.titles = facts, file, file.titles
        self._numbers = self._headings = None
        self._voices = ()
        if (context := _context(file, facts.heading)) != self.context:
            self.context, self.above = context, read_folded(context)

    @property
    def lines(self) -> TextLines:
        """Return the lines of the text, which results need."""
        if self._lines is None:
            self._lines = read_lines(self.text)
        return self._lines

    @property
    def runs(self) -> LineRuns:
        """Return the runs of the text, which results are compared by."""
        if self._runs is None:
            self._runs = line_runs(self.text)
            self.other_bytes += _RUN_BYTES * len(self._runs.runs)
        return self._runs

    @property
    def voices(self) -> Sequence[Voice]:
        """Return the voices of its lines by what the index has, only one if it has none."""
        if not self._voices:
            self._voices = _voices_of(self.file.key.source, self.facts)
            if self.facts.voices:
                self.other_bytes += _VOICE_BYTES * len(self._voices)
        return self._voices

    @property
    def language(self) -> str:
        """Return the ISO 639-1 code of its language, "" if it is unknown."""
        if self.known_language is None:
            self.known_language = language_of(self.text[:_LANGUAGE_CHARS])
        return self.known_language

    @property
    def numbers(self) -> frozenset[str]:
        """Return the numbers in the text and the headings."""
        if self._numbers is None:
            self._numbers = frozenset(_NUMBER.findall(f"{self.facts.heading}\n{self.text}"))
        return self._numbers

    @property
    def headings(self) -> str:
        """Return the headings above the text and in it, one a line."""
        if self._headings is None:
            self._headings = "\n".join([self.facts.heading, *_HEADING.findall(self.text)])
        return self._headings

    @property
    def key(self) -> FileKey:
        """Return the key of the file."""
        return self.file.key


def stored_chunk(facts: ChunkFacts, file: StoredFile, text: str) -> StoredChunk:
    """Return a chunk by its row."""
    context = _context(file, facts.heading)
    folded, above = FoldedText(fold(text)), read_folded(context)
    size = getsizeof(text) + _CHUNK_BYTES
    return StoredChunk(
        text, context, folded, above, file.titles, facts=facts, file=file, other_bytes=size
    )


def _voices_of(source: str, facts: ChunkFacts) -> Sequence[Voice]:
    of_lines = [NOTE if source == NOTES else UNREAD]
    if facts.voices:
        try:
            of_lines = decode_voices(facts.voices)
        except msgspec.MsgspecError:
            return [UNREAD]  # corrupt: the checker finds it
    if facts.origin in _TRUSTED:
        return of_lines
    return [voice._replace(origin=Origin.UNTRUSTED) for voice in of_lines]


def _context(file: StoredFile, heading: str) -> str:
    return f"{file.key.path.removesuffix('.md')}\n{heading}\n{file.searched}"


class ChunkCache:
    """The chunks that the searches of one connection have read; not thread-safe."""

    def __init__(self, connection: Connection, most_bytes: int = MOST_BYTES) -> None:
        self._connection = connection
        self._most_bytes = most_bytes
        self._chunks = OrderedDict[int, StoredChunk]()
        self._files: dict[int, StoredFile] = {}
        self._version: tuple[int, int] | None = None
        self._valid: set[int] = set()
        self._sized: set[int] = set()
        self._last: list[StoredChunk] = []
        self.size_bytes = 0

    def read(self, rows: Sequence[int], *, sized: bool) -> dict[int, StoredChunk]:
        """Return those of the chunks that there are; `sized` with their lengths.

        Call it after the rows were found: what was written before that is noticed.
        """
        self._forget_old()
        version = version_of(self._connection)
        if version != self._version:
            self._version = version
            self._valid, self._sized, self._files = set(), set(), {}
        if unknown := [row for row in rows if row not in self._valid]:
            self._compare([row for row in unknown if row in self._chunks])
            self._load([row for row in unknown if row not in self._chunks], sized=sized)
            self._valid.update(unknown)
        found: dict[int, StoredChunk] = {}
        for row in rows:
            if (chunk := self._chunks.get(row)) is not None:
                found[row] = chunk
                self._chunks.move_to_end(row)
        if sized and (without := found.keys() - self._sized):
            for row, tokens in read_lengths(self._connection, list(without)).items():
                found[row].tokens = tokens
            self._sized |= without
        self._last = list(found.values())
        return found

    def _compare(self, rows: Sequence[int]) -> None:
        """Bring kept chunks up to date, without those that are gone or have another text."""
        if not rows:
            return
        read = {row: ChunkFacts(*facts) for row, *facts in self._rows_of(_FACTS, rows)}
        files = self._files_of({facts.file_id for facts in read.values()})
        for row in rows:
            chunk, facts = self._chunks[row], read.get(row)
            file = None if facts is None else files.get(facts.file_id)
            if facts is None or file is None or facts.id != chunk.facts.id:
                self.size_bytes -= chunk.counted_bytes
                self._forget(row)
                continue
            chunk.renew(facts, file)

    def _load(self, rows: Sequence[int], *, sized: bool) -> None:
        if not rows:
            return
        # A statement of its own for the lengths would take as long as reading two chunks.
        read = list(self._rows_of(f"{_FACTS}, text, {_SIZES if sized else 'NULL'}", rows))
        files = self._files_of({columns[2] for columns in read})
        for row, *columns, text, sizes in read:
            facts = ChunkFacts(*columns)
            if (file := files.get(facts.file_id)) is not None:
                chunk = self._chunks[row] = stored_chunk(facts, file, text)
                if sizes is not None:
                    chunk.tokens = length_of(sizes)
                    self._sized.add(row)

    def _rows_of(self, columns: str, rows: Sequence[int]) -> Iterable[Sequence[Any]]:
        return self._connection.execute(
            f"SELECT {columns} FROM chunks WHERE row_id IN (SELECT value FROM json_each(?))",
            (_json(rows),),
        ).fetchall()

    def _files_of(self, ids: Collection[int]) -> dict[int, StoredFile]:
        if len(self._files) > MOST_FILES:
            self._files = {}
        if unknown := [each for each in ids if each not in self._files]:
            read = self._connection.execute(
                "SELECT file_id, source, path, title, date, transcript, properties FROM files"
                " WHERE file_id IN (SELECT value FROM json_each(?))",
                (_json(unknown),),
            )
            self._files |= {file_id: StoredFile.of(*columns) for file_id, *columns in read}
        return self._files

    def _forget_old(self) -> None:
        """Forget the chunks that were not used for longest if all take too much memory.

        One that keeps positions of words loses only these, most of its memory, and gets a second
        turn: reading it again takes longer than looking for words again.
        """
        size_bytes = self.size_bytes
        for chunk in self._last:
            size_bytes += chunk.count_growth()
        self._last = []
        while size_bytes > self._most_bytes:
            row, chunk = next(iter(self._chunks.items()))
            if chunk.folded.positions:
                chunk.folded.forget_positions()
                size_bytes += chunk.count_growth()
                self._chunks.move_to_end(row)
            else:
                size_bytes -= chunk.counted_bytes
                self._forget(row)
        self.size_bytes = size_bytes

    def _forget(self, row: int) -> None:
        del self._chunks[row]
        self._valid.discard(row)
        self._sized.discard(row)


def _json(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()


class _OfThread(threading.local):
    """The cache of each thread's connection: a thread of readers has only one."""

    cache: ChunkCache | None = None
    connection: Connection | None = None


_of_thread = _OfThread()


def read_stored(
    connection: Connection, rows: Sequence[int], *, sized: bool
) -> dict[int, StoredChunk]:
    """Return those of the chunks that there are, from the cache of the connection if it can."""
    if _of_thread.cache is None or _of_thread.connection is not connection:
        _of_thread.cache, _of_thread.connection = ChunkCache(connection), connection
    return _of_thread.cache.read(rows, sized=sized)
