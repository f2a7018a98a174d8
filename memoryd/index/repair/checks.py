"""Checks of an index: whether SQLite can read it, and whether its rows are what memoryd writes.

Flipped bits inside of a text or a vector break no page, so that is looked at too. Pure reading, in
portions, so that it can be done beside other work.
"""

import re
from dataclasses import dataclass

import numpy as np

from memoryd.index.cache import mean_vector
from memoryd.index.driver import Connection, DamagedIndexError, Error, Fault, fault_of
from memoryd.index.statements import chunk_id, text_hash
from memoryd.messages import Chunk, FileKey
from memoryd.text.tokenize import fts_columns

TRUTH = (
    "meta",
    "files",
    "chunks",
    "embedding_cache",
    "set_aside",
    "forgotten",
    "batch_jobs",
)
DERIVED = ("chunks_fts", "chunks_vec")
PORTION_ROWS = 256
"""Read and compared in a few milliseconds."""
_LENGTH_ERROR = 1e-4
"""By which a vector's length may differ from 1; one in float32 differs by 1e-6."""
_MEAN_ERROR = 1e-6
"""Of each number: another release of numpy may round the length of a mean otherwise."""
_HASH = re.compile(r"[0-9a-f]{64}")
_VTAB_CORRUPT = 267
"""SQLITE_CORRUPT_VTAB: the content of FTS5's tables, not their pages."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an index: in a word, for file names, and for people.

    `table` names the derived table that alone is damaged; None: it may be anything.
    """

    word: str
    message: str
    table: str | None = None


def problem_of(error: Exception) -> Problem:
    """Return what an error of a damaged index says about it."""
    table = getattr(error, "table", None)
    if getattr(error, "sqlite_errorcode", None) == _VTAB_CORRUPT or "fts5" in str(error):
        table = "chunks_fts"
    word = "malformed"
    if isinstance(error, DamagedIndexError):
        word = "content" if table is None else "words"
    elif not hasattr(error, "sqlite_errorcode"):
        word = "content"  # a text that is none any more
    return Problem(word, _in_one_line(str(error)), table)


def check_pages(connection: Connection) -> Problem | None:
    """Look at the pages and indexes of the file.

    0.2 s for 10,000 chunks, 2.4 s for 100,000 with SQLite 3.53. From 3.44 on, it checks FTS5's
    tables too; without, it takes half as long.
    """
    pages, words = _check(connection, "")
    if pages:
        return Problem("malformed", pages[0])
    return Problem("words", words[0], "chunks_fts") if words else None


def damaged_tables(connection: Connection) -> set[str]:
    """Return the tables that are damaged, derived ones by the name they have for us.

    `""` stands for what belongs to no table.
    """
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema").fetchall()}
    damaged = {name for name in TRUTH if name not in names or _check(connection, name)[0]}
    for table in DERIVED:
        parts = [name for name in names if name.startswith(f"{table}_")]
        if any(any(_check(connection, part)) for part in parts):
            damaged.add(table)
    pages, words = _check(connection, "")
    if words:
        damaged.add("chunks_fts")
    return {""} if pages and not damaged else damaged


def _check(connection: Connection, table: str) -> tuple[list[str], list[str]]:
    """Return what SQLite says of a table, of all if it is "": of pages, and of FTS5's content."""
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
    """Look at FTS5's index. For the writer: SQLite takes it for a change.

    A sixth of a second for 10,000 chunks, two seconds for 100,000.
    """
    try:
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('integrity-check')")
    except Error as error:
        if fault_of(error) is not Fault.DAMAGED:
            raise
        return Problem("words", _in_one_line(str(error)), "chunks_fts")
    return None


def check_chunks(
    connection: Connection, after: int, *, words: bool
) -> tuple[int | None, Problem | None]:
    """Compare the next chunks with their hashes, and with what FTS5 holds of them if `words`.

    Returns the last row that was looked at, None at the end, and what is wrong: of derived tables
    only if nothing else is.
    """
    rows = connection.execute(
        "SELECT row_id, chunks.id, source, path, start_line, end_line, chunks.hash, chunks.model,"
        f" heading, text, vector_id, e.hash, {'c0, c1' if words else 'NULL, NULL'} FROM chunks"
        " LEFT JOIN files USING (file_id) LEFT JOIN embedding_cache AS e USING (vector_id)"
        + (" LEFT JOIN chunks_fts_content AS words ON words.id = row_id" if words else "")
        + " WHERE row_id > ? ORDER BY row_id LIMIT ?",
        (after, PORTION_ROWS),
    ).fetchall()
    found = None
    for row_id, id_, source, path, start, end, digest, model, heading, text, *more in rows:
        vector_id, of, *kept = more
        problem = None
        if path is None:
            problem = Problem("content", f"chunk {row_id} belongs to no file")
        elif text_hash(text) != digest:
            problem = Problem("content", f"the text of chunk {row_id} of {path} is changed")
        elif chunk_id(FileKey(source, path), Chunk(start, end, "", ""), digest, model) != id_:
            problem = Problem("content", f"the place of chunk {row_id} of {path} is changed")
        elif vector_id is not None and of != digest:
            problem = Problem("content", f"chunk {row_id} of {path} has another text's vector")
        elif words:
            problem = _compare_words(row_id, tuple(kept), fts_columns(text, path, heading))
        if problem is not None and problem.table is None:
            return row_id, problem
        found = found or problem
    return (rows[-1][0] if len(rows) == PORTION_ROWS else None), found


def _compare_words(row_id: int, kept: tuple[str, ...], wanted: tuple[str, str]) -> Problem | None:
    if kept[1] not in (wanted[1], None):
        # Nobody can tell which of both is right.
        return Problem("content", f"the headings of chunk {row_id} are changed")
    if kept != wanted:
        return Problem("words", f"the words of chunk {row_id} are changed", "chunks_fts")
    return None


def check_vectors(
    connection: Connection, after: int, *, vec: bool
) -> tuple[int | None, Problem | None]:
    """Look at the next embeddings, and compare them with those of sqlite-vec if `vec`.

    Returns as `check_chunks` does.
    """
    other = "v.embedding", " LEFT JOIN chunks_vec AS v ON v.rowid = vector_id"
    column, join = other if vec else ("NULL", "")
    rows = connection.execute(
        f"SELECT vector_id, dims, e.embedding, {column} FROM embedding_cache AS e{join}"
        " WHERE vector_id > ? ORDER BY vector_id LIMIT ?",
        (after, PORTION_ROWS),
    ).fetchall()
    found = None
    for vector_id, dims, embedding, other in rows:
        if not is_embedding(embedding, dims):
            return vector_id, Problem("content", f"vector {vector_id} is damaged")
        if other is not None and not is_same(embedding, dims, other):
            if is_embedding(other, dims):
                text = f"vector {vector_id} is not the one of sqlite-vec"
                return vector_id, Problem("content", text)
            text = f"vector {vector_id} of sqlite-vec is damaged"
            found = found or Problem("vectors", text, "chunks_vec")
    return (rows[-1][0] if len(rows) == PORTION_ROWS else None), found


def is_hash(value: object) -> bool:
    """Say whether this is a SHA-256 as hex."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def is_embedding(value: object, dims: object) -> bool:
    """Say whether this is one vector or more of `dims` numbers, each of length 1."""
    if not isinstance(value, bytes) or not isinstance(dims, int) or dims < 1:
        return False
    if not value or len(value) % (4 * dims):
        return False
    with np.errstate(invalid="ignore"):  # one that signals is still to be looked at
        vectors = np.frombuffer(value, "<f4").reshape(-1, dims).astype(np.float64)
    if not np.isfinite(vectors).all():
        return False
    return bool((np.abs(np.linalg.norm(vectors, axis=1) - 1.0) < _LENGTH_ERROR).all())


def is_same(embedding: bytes, dims: int, mean: bytes) -> bool:
    """Say whether sqlite-vec has the mean of an embedding's vectors; of a single one, itself."""
    if len(embedding) == len(mean):
        return embedding == mean
    wanted = np.frombuffer(mean_vector(embedding, dims), "<f4")
    found = np.frombuffer(mean, "<f4")
    return wanted.shape == found.shape and np.allclose(found, wanted, rtol=_MEAN_ERROR, atol=0)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:200]
