"""The SQL that changes an index, one transaction for each change, on the writer's thread.

Unchanged chunks keep their rows, so an edited line costs one chunk and not the whole file. Files
share a transaction and rows an INSERT, because each commit rewrites the same index pages and adds
an FTS5 segment that has to be merged later.
"""

import hashlib
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.cache import keep_vectors, release_text, take_vectors
from memoryd.index.catalog import encode_properties, encode_remarks, encode_transcript, named
from memoryd.index.driver import Connection, run_at_once, transaction
from memoryd.index.inserts import insert_rows, last_id
from memoryd.index.vec_table import put_vec
from memoryd.index.words import FileWords, add_words, checksum, index_anew, remove_words
from memoryd.messages import Chunk, FileGone, FileKey, FileStat, ParsedFile
from memoryd.text.front_matter import searched

STEP_CHUNKS = 512
"""Chunks inserted or deleted in one step: about 30 ms."""
GROUP_FILES = 128
GROUP_BYTES = 1024 * 1024
"""Maximum bytes of text in one transaction, and `GROUP_FILES` of files: about 50 ms."""


@dataclass(frozen=True, slots=True)
class DerivedTables:
    """The derived tables that a connection maintains, and the identity of its rows."""

    identity: Identity
    fts: bool
    vec: bool

    @property
    def dims(self) -> int:
        """The number of dimensions, which is known once there are vectors."""
        assert self.identity.dims is not None  # noqa: S101 - known from the first
        return self.identity.dims


class MatrixRow(NamedTuple):
    """A chunk's stored embedding, to be added to the matrix."""

    row_id: int
    file_id: int
    embedding: bytes


@dataclass(slots=True)
class RowChanges:
    """The rows that a transaction changed in one file, for the matrix and the catalog.

    `chunks` counts those of the file, `replaced` those that they replace: with `from_line`, both
    count only chunks that begin there or later. `erased`: traces of a deleted text may remain until
    `Erasure` has removed them.
    """

    file_id: int = 0
    chunks: int = 0
    replaced: int = 0
    pending: bool = False
    reused: int = 0
    removed: list[int] = field(default_factory=list)
    erased: bool = False
    added: list[MatrixRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Touched:
    """A file with unchanged content but a new stat or new remarks."""

    key: FileKey
    stat: FileStat
    remarks: tuple[str, ...]


FileChange = ParsedFile | FileGone | Touched


class _FileRow(NamedTuple):
    """A file that the index has: its id, and what its chunks are indexed with."""

    file_id: int
    words: FileWords


class _OldRow(NamedTuple):
    row_id: int
    heading: str
    origin: str
    voices: str


_Rows = dict[str, _OldRow]
"""The values that may change in a file's chunks without another id, by chunk id."""


def size(change: FileChange) -> int:
    """Return the approximate number of bytes of text that a change writes."""
    return change.stat.size if isinstance(change, ParsedFile) else 0


def text_hash(text: str) -> str:
    """Return the cache key of a text: its SHA-256 as hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def chunk_id(key: FileKey, chunk: Chunk, digest: str, model: str) -> str:
    """Return a chunk's stable id: SHA-256 of `source:path:start:end:text-hash:model`, as hex."""
    name = f"{key.source}:{key.path}:{chunk.start_line}:{chunk.end_line}:{digest}:{model}"
    return hashlib.sha256(name.encode()).hexdigest()


def write_files(
    connection: Connection, tables: DerivedTables, files: Sequence[FileChange]
) -> Generator[None, None, list[RowChanges]]:
    """Bring the rows of some files, each given once, up to date in one transaction.

    A generator, so that a large file keeps the thread for a moment at a time: each step writes a
    bounded number of rows; the last one commits and returns the changes of each file. If it fails
    or is closed before that, nothing changes.
    """
    changes = [RowChanges() for _ in files]
    with transaction(connection):
        known = _file_rows(connection, files)
        ids = {key: row.file_id for key, row in known.items()}
        ids |= _put_file_rows(connection, files, known)
        inserts = _Inserts(connection, tables)
        for change, changed in zip(files, changes, strict=True):
            changed.file_id = ids.get(change.key, 0)
            match change:
                case ParsedFile():
                    before = known[change.key].words if change.key in known else None
                    yield from _replace(connection, tables, change, before, changed, inserts)
                case FileGone():
                    yield from _delete(connection, tables, changed)
                case Touched(key=key, stat=stat, remarks=remarks):
                    connection.execute(
                        "UPDATE files SET mtime_ns = ?, size = ?, inode = ?, ctime_ns = ?,"
                        " remarks = ?"
                        " WHERE path = ? AND source = ?",
                        (*stat, encode_remarks(remarks), key.path, key.source),
                    )
            # An addition to a transcript replaces its last chunk by one with more text.
            grows = isinstance(change, ParsedFile) and change.extends is not None
            changed.erased |= bool(changed.removed) and not grows
        inserts.flush()
        if any(changed.erased for changed in changes):
            note_erased(connection, True)
    return changes


def note_erased(connection: Connection, erased: bool) -> None:
    """Record whether traces of deleted texts may remain, within the caller's transaction."""
    schema.put_note(connection, schema.ERASED, str(int(erased)))


def _file_rows(connection: Connection, files: Sequence[FileChange]) -> dict[FileKey, _FileRow]:
    paths = msgspec.json.encode([change.key.path for change in files]).decode()
    found = connection.execute(
        "SELECT source, path, file_id, properties FROM files"
        " WHERE path IN (SELECT value FROM json_each(?))",
        (paths,),
    )
    return {
        FileKey(source, path): _FileRow(file_id, FileWords(path, named(properties)))
        for source, path, file_id, properties in found.fetchall()
    }


def _put_file_rows(
    connection: Connection, files: Sequence[FileChange], known: dict[FileKey, _FileRow]
) -> dict[FileKey, int]:
    """Update the rows of known files and insert the new ones. Return the ids of new files."""
    last = last_id(connection, "files")
    new: dict[FileKey, int] = {}
    inserted: list[tuple[object, ...]] = []
    for change in files:
        if not isinstance(change, ParsedFile):
            continue
        notes = encode_remarks(change.remarks), encode_transcript(change.transcript)
        facts = change.facts.title, change.facts.date, encode_properties(change.facts.properties)
        content = change.hash, *change.stat, *notes, *facts
        if change.key in known:
            connection.execute(
                "UPDATE files SET hash = ?, mtime_ns = ?, size = ?, inode = ?, ctime_ns = ?,"
                " remarks = ?, transcript = ?, title = ?, date = ?, properties = ?"
                " WHERE file_id = ?",
                (*content, known[change.key].file_id),
            )
        else:
            last = new[change.key] = last + 1
            inserted.append((last, *change.key, *content))
    columns = (
        "file_id, source, path, hash, mtime_ns, size, inode, ctime_ns, remarks, transcript, title,"
        " date, properties"
    )
    insert_rows(connection, f"files ({columns})", inserted)
    return new


def _rows_of(connection: Connection, file_id: int, from_line: int = 1) -> _Rows:
    found = connection.execute(
        "SELECT id, row_id, heading, origin, voices FROM chunks"
        " WHERE file_id = ? AND start_line >= ?",
        (file_id, from_line),
    )
    return {id_: _OldRow(*columns) for id_, *columns in found.fetchall()}


def _replace(
    connection: Connection,
    tables: DerivedTables,
    parsed: ParsedFile,
    before: FileWords | None,
    changed: RowChanges,
    inserts: "_Inserts",
) -> Generator[None, None, None]:
    """Bring the chunks of a file up to date; `before` are the words of those that it has."""
    file_id, words = changed.file_id, FileWords(parsed.key.path, searched(parsed.facts.properties))
    old = {} if before is None else _rows_of(connection, file_id, parsed.from_line)
    changed.replaced = len(old)
    before = before or words
    seen: set[str] = set()
    for number, chunk in enumerate(parsed.chunks, start=1):
        digest = text_hash(chunk.text)
        id_ = chunk_id(parsed.key, chunk, digest, tables.identity.model)
        if id_ not in seen:  # parts of an overlong line may be equal
            seen.add(id_)
            row = old.pop(id_, None)
            # The heading above an unchanged chunk may change, and is searched too.
            if row is not None and row.heading != chunk.heading:
                _delete_chunk(connection, tables, row.row_id, before, changed)
                row = None
            if row is None:
                inserts.waiting.append((words, changed, id_, digest, chunk))
            elif (row.origin, row.voices) != (chunk.origin, chunk.voices):
                connection.execute(
                    "UPDATE chunks SET origin = ?, voices = ? WHERE row_id = ?",
                    (str(chunk.origin), chunk.voices, row.row_id),
                )
        if number % STEP_CHUNKS == 0:
            inserts.flush()
            yield
    changed.chunks = len(seen)
    yield from _delete_chunks(connection, tables, old, before, changed)
    if before != words:
        changed.erased = True
        yield from index_anew(connection, file_id, before, words, fts=tables.fts)


def _delete(
    connection: Connection, tables: DerivedTables, changed: RowChanges
) -> Generator[None, None, None]:
    query = "SELECT path, properties FROM files WHERE file_id = ?"
    for path, properties in connection.execute(query, (changed.file_id,)).fetchall():
        words, rows = FileWords(path, named(properties)), _rows_of(connection, changed.file_id)
        yield from _delete_chunks(connection, tables, rows, words, changed)
    connection.execute("DELETE FROM files WHERE file_id = ?", (changed.file_id,))


def put_vectors(
    connection: Connection,
    tables: DerivedTables,
    vectors: Sequence[tuple[str, bytes]],
    bad: Iterable[tuple[str, str]] = (),
) -> RowChanges:
    """Store embeddings by text hash and assign them to the chunks without a vector.

    A text whose chunk is gone by now is cached all the same: it has been paid for. `bad` are texts
    that can't be embedded, by hash, with the reason.
    """
    changed = RowChanges()
    with transaction(connection):
        # An existing embedding wins, because disk and memory must agree.
        for digest, vector_id, embedding in keep_vectors(connection, tables.identity, vectors):
            waiting = connection.execute(
                "UPDATE chunks SET vector_id = ? WHERE hash = ? AND vector_id IS NULL"
                " RETURNING row_id, file_id",
                (vector_id, digest),
            ).fetchall()
            changed.added += [MatrixRow(row, file, embedding) for row, file in waiting]
            if waiting and tables.vec:
                put_vec(connection, vector_id, embedding, tables.dims)
        connection.executemany("INSERT OR REPLACE INTO set_aside VALUES (?, ?)", bad)
    return changed


class _Inserts:
    """Collects the new chunks of one or more files and inserts them together.

    `waiting` has the words of the file, its changes, the id and the text hash of each chunk.
    """

    def __init__(self, connection: Connection, tables: DerivedTables) -> None:
        self._connection = connection
        self._tables = tables
        self.waiting: list[tuple[FileWords, RowChanges, str, str, Chunk]] = []
        self._last_row = last_id(connection, "chunks")

    def flush(self) -> None:
        """Insert the collected chunks with their cached vectors and record the changes."""
        if not self.waiting:
            return
        connection, tables, model = self._connection, self._tables, self._tables.identity.model
        now = int(time.time())
        digests = [digest for *_, digest, _ in self.waiting]
        cached = take_vectors(connection, tables.identity, digests)
        chunks: list[tuple[object, ...]] = []
        added: list[tuple[object, ...]] = []
        for words, changed, id_, digest, chunk in self.waiting:
            self._last_row = row_id = self._last_row + 1
            vector_id = None
            if digest in cached:
                vector_id, embedding = cached[digest]
                changed.reused += 1
                changed.added.append(MatrixRow(row_id, changed.file_id, embedding))
            else:
                changed.pending = True
            place = changed.file_id, chunk.start_line, chunk.end_line
            content = digest, model, chunk.heading, chunk.text, chunk.line_map
            whose = str(chunk.origin), chunk.voices
            columns = words.columns(chunk.text, chunk.heading)
            added.append((row_id, *columns))
            crc = checksum(columns)
            chunks.append((row_id, id_, *place, *content, *whose, crc, vector_id, now))
        insert_rows(
            connection,
            "chunks (row_id, id, file_id, start_line, end_line, hash, model, heading, text,"
            " line_map, origin, voices, words_crc, vector_id, updated_at)",
            chunks,
        )
        if tables.fts:
            add_words(connection, added)
        if tables.vec:
            for vector_id, embedding in cached.values():
                put_vec(connection, vector_id, embedding, tables.dims)
        self.waiting.clear()


def _delete_chunks(
    connection: Connection,
    tables: DerivedTables,
    old: _Rows,
    words: FileWords,
    changed: RowChanges,
) -> Generator[None, None, None]:
    for number, row in enumerate(old.values(), start=1):
        _delete_chunk(connection, tables, row.row_id, words, changed)
        if number % STEP_CHUNKS == 0:
            yield


def _delete_chunk(
    connection: Connection,
    tables: DerivedTables,
    row_id: int,
    words: FileWords,
    changed: RowChanges,
) -> None:
    """Delete a chunk of a file that it was indexed with the `words` of."""
    query = (
        "DELETE FROM chunks WHERE row_id = ? RETURNING vector_id, hash, text, heading, words_crc"
    )
    for vector_id, digest, text, heading, crc in connection.execute(query, (row_id,)).fetchall():
        release_text(connection, digest, vector_id)
        if vector_id is not None and tables.vec:
            connection.execute(
                "DELETE FROM chunks_vec WHERE rowid = ?"
                " AND NOT EXISTS (SELECT 1 FROM chunks WHERE vector_id = ?)",
                (vector_id, vector_id),
            )
        if tables.fts:
            remove_words(connection, row_id, words.columns(text, heading), crc)
    changed.removed.append(row_id)


def delete_rows(connection: Connection, tables: DerivedTables, file_id: int) -> RowChanges:
    """Remove a file and all its rows within the caller's transaction."""
    changed = RowChanges(file_id, erased=True)
    run_at_once(_delete(connection, tables, changed))
    return changed
