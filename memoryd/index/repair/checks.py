"""Checks of an index: its pages by SQLite, and its rows against the hashes that memoryd wrote.

Flipped bits inside a text or a vector break no page, so rows are checked too. The checks only
read. The checker takes the first problem, in portions beside other work; the doctor takes all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from memoryd.index.catalog import named
from memoryd.index.driver import Connection, CorruptIndexError, Error, Fault, fault_of, one_value
from memoryd.index.quantize import is_embedding
from memoryd.index.repair.word_proof import prove_words
from memoryd.index.statements import chunk_id, text_hash
from memoryd.index.vec_table import mean_of
from memoryd.index.words import FileWords, checksum
from memoryd.messages import Chunk, FileKey
from memoryd.text.voice import is_consistent

TRUTH = ("meta", "files", "chunks", "embedding_cache", "set_aside", "forgotten", "batch_jobs")
DERIVED = ("chunks_fts", "chunks_vec")
ALL = 2**63 - 1
"""The highest id: read all rows."""
NO_KEYWORDS = "no keywords"
CORRUPT_VECTOR = "corrupt vectors"
OTHER_COPY = "vectors that differ from their copies in sqlite-vec"
PORTION_ROWS = 256
"""Rows that are read and compared in a few milliseconds."""
_LENGTH_ERROR = 0.03
"""Maximum difference of the length of sqlite-vec's vectors from 1, as of stored ones."""
_LEAST_COSINE = 0.999
_MEAN_ERROR = 1e-6
"""Relative, for each number: another numpy release may round the length of a mean differently."""
_HASH = re.compile(r"[0-9a-f]{64}")
_VTAB_CORRUPT = 267
"""SQLITE_CORRUPT_VTAB: corrupt content of FTS5's tables, not of their pages."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of an index: one word for file names, a message for people.

    `table` names the only corrupt table, a derived one; None: any table may be corrupt. `kind`
    groups the problems of chunks and vectors.
    """

    word: str
    message: str
    table: str | None = None
    kind: str = ""


class ChunkRow(NamedTuple):
    """A chunk beside its file, the hash of its vector's text, and whether FTS5 has its words."""

    row_id: int
    id: str
    source: str
    path: str
    start_line: int
    end_line: int
    hash: str
    model: str
    heading: str
    text: str
    line_map: str
    origin: str
    voices: str
    vector_id: int | None
    vector_hash: str | None
    properties: str
    words_crc: int
    has_words: int


class VectorRow(NamedTuple):
    """A cached embedding beside sqlite-vec's copy of it."""

    vector_id: int
    hash: str
    provider: str
    model: str
    provider_key: str
    dims: int
    embedding: bytes
    copy: bytes | None


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error of a corrupt index reports."""
    table = getattr(error, "table", None)
    if getattr(error, "sqlite_errorcode", None) == _VTAB_CORRUPT or "fts5" in str(error):
        table = "chunks_fts"
    word = "malformed"
    if isinstance(error, CorruptIndexError):
        word = "content" if table is None else "words"
    elif not hasattr(error, "sqlite_errorcode"):
        word = "content"  # a text that is not UTF-8
    return Problem(word, _in_one_line(str(error)), table)


def check_pages(connection: Connection) -> Problem | None:
    """Check the pages and indexes of the file.

    Takes 0.2 s for 10,000 chunks and 2.4 s for 100,000 with SQLite 3.53. Since 3.44, SQLite checks
    FTS5's tables too, which takes half of that time.
    """
    pages, words = _check(connection, "")
    if pages:
        return Problem("malformed", pages[0])
    return Problem("words", words[0], "chunks_fts") if words else None


def corrupt_tables(connection: Connection) -> set[str]:
    """Return the corrupt tables, derived ones by memoryd's name for them.

    `""` stands for pages of no table.
    """
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema").fetchall()}
    corrupt = {name for name in TRUTH if name not in names or _check(connection, name)[0]}
    for table in DERIVED:
        parts = [name for name in names if name.startswith(f"{table}_")]
        if any(any(_check(connection, part)) for part in parts):
            corrupt.add(table)
    pages, words = _check(connection, "")
    if words:
        corrupt.add("chunks_fts")
    return {""} if pages and not corrupt else corrupt


def _check(connection: Connection, table: str) -> tuple[list[str], list[str]]:
    """Return SQLite's findings for a table, for all if it is "": pages, and FTS5's content."""
    try:
        found = connection.execute(
            f"PRAGMA integrity_check('{table}')" if table else "PRAGMA integrity_check"
        ).fetchall()
    except Error as error:
        found = [(str(error),)]
    lines = [_in_one_line(text) for (text,) in found if text != "ok"]
    words = [line for line in lines if "fts5" in line.lower()]
    return [line for line in lines if line not in words], words


def check_words(connection: Connection) -> Problem | None:
    """Compare FTS5's words with the texts, whose chunks have been checked before."""
    try:
        prove_words(connection)
    except Error as error:
        if fault_of(error) is not Fault.CORRUPT:
            raise
        return Problem("words", _in_one_line(str(error)), "chunks_fts")
    return None


def end_of_portion(connection: Connection, table: str, key: str, after: int) -> int | None:
    """Return the last id of the next `PORTION_ROWS` rows, None behind the last row."""
    portion = f"SELECT {key} AS id FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {PORTION_ROWS}"
    last: int | None = one_value(connection, f"SELECT max(id) FROM ({portion})", after)
    return last


def read_chunks(
    connection: Connection, *, words: bool, after: int = 0, last: int = ALL
) -> Iterator[ChunkRow]:
    """Yield chunks in the order of their ids; look for their words if `words`."""
    cursor = connection.execute(
        "SELECT row_id, chunks.id, source, path, start_line, end_line, chunks.hash, chunks.model,"
        " heading, text, line_map, origin, voices, vector_id, e.hash, properties, words_crc,"
        f" {'words.id IS NOT NULL' if words else 0}"
        " FROM chunks LEFT JOIN files USING (file_id)"
        " LEFT JOIN embedding_cache AS e USING (vector_id)"
        + (" LEFT JOIN chunks_fts_docsize AS words ON words.id = row_id" if words else "")
        + " WHERE row_id > ? AND row_id <= ? ORDER BY row_id",
        (after, last),
    )
    while rows := cursor.fetchmany(PORTION_ROWS):
        yield from map(ChunkRow._make, rows)


def chunk_problems(chunk: ChunkRow, *, words: bool) -> Iterator[Problem]:
    """Compare a chunk with its hashes and its vector's hash and, if `words`, look for its words."""

    def problem(kind: str, table: str | None = None) -> Problem:
        word = "content" if table is None else "words"
        of = "" if chunk.path is None else f" of {chunk.path}"
        return Problem(word, f"chunk {chunk.row_id}{of} has {kind}", table, kind)

    if chunk.path is None:
        yield problem("no file")
        return
    if text_hash(chunk.text) != chunk.hash:
        yield problem("a changed text")
        return
    place = Chunk(chunk.start_line, chunk.end_line, "", "")
    if chunk_id(FileKey(chunk.source, chunk.path), place, chunk.hash, chunk.model) != chunk.id:
        yield problem("an id of another place")
    if not is_consistent(chunk.origin, chunk.voices, chunk.text.count("\n") + 1):
        yield problem("an impossible origin")
    if chunk.vector_id is not None and chunk.vector_hash != chunk.hash:
        yield problem("no vector" if chunk.vector_hash is None else "the vector of another text")
    if words:
        try:
            columns = FileWords(chunk.path, named(chunk.properties)).columns(
                chunk.text, chunk.heading
            )
        except msgspec.MsgspecError:
            yield problem("unreadable properties of its file")
            return
        if checksum(columns) != chunk.words_crc:
            yield problem("a changed heading")
        elif not chunk.has_words:
            yield problem(NO_KEYWORDS, "chunks_fts")


def read_vectors(
    connection: Connection, *, vec: bool, after: int = 0, last: int = ALL
) -> Iterator[VectorRow]:
    """Yield the cached embeddings in the order of their ids, with sqlite-vec's copy if `vec`."""
    copy, join = "v.embedding", " LEFT JOIN chunks_vec AS v ON v.rowid = vector_id"
    cursor = connection.execute(
        "SELECT vector_id, hash, provider, model, provider_key, dims, e.embedding,"
        f" {copy if vec else 'NULL'} FROM embedding_cache AS e{join if vec else ''}"
        " WHERE vector_id > ? AND vector_id <= ? ORDER BY vector_id",
        (after, last),
    )
    while rows := cursor.fetchmany(PORTION_ROWS):
        yield from map(VectorRow._make, rows)


def vector_problems(vector: VectorRow) -> Iterator[Problem]:
    """Check an embedding, and compare it with sqlite-vec's copy if there is one."""
    number, dims, copy = vector.vector_id, vector.dims, vector.copy
    if not is_embedding(vector.embedding, dims, vector.hash):
        yield Problem("content", f"vector {number} is corrupt", kind=CORRUPT_VECTOR)
    elif copy is not None and not is_same(vector.embedding, dims, copy):
        if is_unit_vector(copy, dims):
            text = f"vector {number} differs from its copy in sqlite-vec"
            yield Problem("content", text, kind=OTHER_COPY)
        else:
            text = f"the copy of vector {number} in sqlite-vec is corrupt"
            yield Problem("vectors", text, "chunks_vec", OTHER_COPY)


def is_hash(value: object) -> bool:
    """Return whether this is a SHA-256 in hex."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def is_unit_vector(copy: object, dims: int) -> bool:
    """Return whether this is a vector of `dims` float32 of length 1."""
    if not isinstance(copy, bytes) or len(copy) != 4 * dims:
        return False
    with np.errstate(all="ignore"):
        length = np.linalg.norm(np.frombuffer(copy, "<f4").astype(np.float64))
    return bool(abs(length - 1.0) < _LENGTH_ERROR)


def is_same(embedding: bytes, dims: int, copy: bytes) -> bool:
    """Return whether sqlite-vec has a stored embedding's mean vector, or its only vector."""
    expected, found = np.frombuffer(mean_of(embedding, dims), "<f4"), np.frombuffer(copy, "<f4")
    return expected.shape == found.shape and np.allclose(found, expected, rtol=_MEAN_ERROR, atol=0)


def is_near(embedding: bytes, dims: int, copy: bytes) -> bool:
    """Return whether sqlite-vec's copy was made of the same embedding, before it was rounded."""
    cosine = np.dot(np.frombuffer(mean_of(embedding, dims), "<f4"), np.frombuffer(copy, "<f4"))
    return bool(cosine > _LEAST_COSINE)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:200]
