"""The words of chunks in FTS5's table `chunks_fts`, which keeps no copy of the texts.

FTS5 removes only words that it is given again. They are computed again from the chunk and its file,
and a checksum beside the chunk proves that they are those that FTS5 has. `repair.word_proof`
compares all of them.
"""

import unicodedata
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.index.catalog import named
from memoryd.index.driver import Connection, CorruptIndexError, Steps, one_value
from memoryd.index.inserts import insert_rows
from memoryd.text.tokenize import FTS5_TOKENIZE, TOKENIZER, fts_columns

STAMP = f"{TOKENIZER}, {FTS5_TOKENIZE}, Unicode {unicodedata.unidata_version}"
"""All that decides which words FTS5 gets of a text. An index with another stamp is filled anew
before anything is removed from it."""
REPLACED = "words replaced"
"""Note: how often chunks got other words without another row, so that readers forget theirs."""
_STEP_ROWS = 512
"""Rows filled or indexed anew in one step: about 50 ms."""
_DIFFERENT = "SELECT EXISTS (SELECT id FROM chunks_fts_docsize EXCEPT SELECT row_id FROM chunks)"

Columns = tuple[str, str]
"""The body and the context of a chunk, as FTS5 gets them."""


class FileWords(NamedTuple):
    """A file's path and properties, one a line: all its chunks are searched by them."""

    path: str
    named: str

    def columns(self, text: str, heading: str) -> Columns:
        """Return what FTS5 gets of a chunk of this file."""
        return fts_columns(text, self.path, heading, self.named)


def checksum(columns: Columns) -> int:
    """Return the number that is stored beside a chunk for its columns."""
    return zlib.crc32("\0".join(columns).encode())


def add_words(connection: Connection, rows: Sequence[tuple[object, ...]]) -> None:
    """Add the columns of chunks, each behind the id of its row."""
    insert_rows(connection, "chunks_fts (rowid, body, context)", rows)


def remove_words(connection: Connection, row_id: int, columns: Columns, expected: int) -> None:
    """Remove the columns of a chunk, whose stored checksum is `expected`.

    Raises `CorruptIndexError` if they are others: FTS5 would keep words of a chunk that is gone.
    """
    if checksum(columns) != expected:
        raise CorruptIndexError(f"chunk {row_id} has other words than it was indexed with")
    connection.execute(
        "INSERT INTO chunks_fts (chunks_fts, rowid, body, context) VALUES ('delete', ?, ?, ?)",
        (row_id, *columns),
    )


def index_anew(
    connection: Connection, file_id: int, old: FileWords, new: FileWords, *, fts: bool
) -> Steps[None]:
    """Index the chunks of a file with its new words instead of its old ones.

    Leaves chunks alone that have the new words already.
    """
    rows = connection.execute(
        "SELECT row_id, text, heading, words_crc FROM chunks WHERE file_id = ?", (file_id,)
    ).fetchall()
    _note_replaced(connection)
    for number, (row_id, text, heading, crc) in enumerate(rows, start=1):
        columns = new.columns(text, heading)
        if crc != checksum(columns):
            if fts:
                remove_words(connection, row_id, old.columns(text, heading), crc)
                add_words(connection, [(row_id, *columns)])
            _put_checksum(connection, row_id, columns)
        if number % _STEP_ROWS == 0:
            yield


def _note_replaced(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1",
        (REPLACED,),
    )


def prepare_table(connection: Connection, *, anew: bool) -> None:
    """Create and fill FTS5's table, `anew` with other words than before.

    Call it within a transaction. Raises `CorruptIndexError` for a chunk with other words than it
    was indexed with, unless all are filled `anew`.
    """
    exists = one_value(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'chunks_fts'")
    # Words of a chunk that is gone can't be removed, because nobody knows them.
    if exists and (anew or one_value(connection, _DIFFERENT)):
        connection.execute("DROP TABLE IF EXISTS chunks_fts_terms")
        connection.execute("DROP TABLE chunks_fts")
        _note_replaced(connection)
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5"
        f"(body,context,content='',tokenize=\"{FTS5_TOKENIZE}\")"
    )
    # The words of the index: no data of its own.
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts_terms USING fts5vocab(chunks_fts, row)"
    )
    _fill(connection, anew=anew)


def _fill(connection: Connection, *, anew: bool) -> None:
    """Add the words of the chunks that have none."""
    after = 0
    while rows := connection.execute(
        "SELECT row_id, text, path, heading, properties, words_crc"
        " FROM chunks JOIN files USING (file_id) WHERE row_id > ?"
        " AND NOT EXISTS (SELECT 1 FROM chunks_fts_docsize WHERE id = row_id)"
        f" ORDER BY row_id LIMIT {_STEP_ROWS}",
        (after,),
    ).fetchall():
        added: list[tuple[object, ...]] = []
        for row_id, text, path, heading, properties, crc in rows:
            columns = FileWords(path, named(properties)).columns(text, heading)
            if anew:
                _put_checksum(connection, row_id, columns)
            elif crc != checksum(columns):
                raise CorruptIndexError(f"chunk {row_id} has other words than it was indexed with")
            added.append((row_id, *columns))
        add_words(connection, added)
        after = rows[-1][0]


def _put_checksum(connection: Connection, row_id: int, columns: Columns) -> None:
    connection.execute(
        "UPDATE chunks SET words_crc = ? WHERE row_id = ?", (checksum(columns), row_id)
    )
