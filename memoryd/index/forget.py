"""Permanent removal of files from the index: rows, words, vectors, and their bytes on disk.

Only tombstones remain, so that the files don't come back: hashes of texts, and names.
"""

import hashlib
from collections.abc import Iterable

from memoryd.index import schema, statements
from memoryd.index.driver import Connection, empty_log, one_value, transaction
from memoryd.index.statements import DerivedTables, RowChanges, delete_rows
from memoryd.index.tombstone_key import CHUNK, MASKED_MESSAGE, MESSAGE, PLAIN, TombstoneKey
from memoryd.index.vec_table import ensure_vec
from memoryd.messages import FileKey

Tombstone = tuple[str, str]
"""(kind, value). `path`: the name of a transcript without an archive's suffix; `session`, `record`:
the id of one; `words-hmac`, `chunk-hmac`: the HMAC-SHA-256 of the SHA-256 of a text. Earlier
versions wrote `message-hmac`, the same of a masked text, and `message`, `chunk`, the SHA-256
itself."""
RECORD = "record"
HASHED_KINDS = (MESSAGE, MASKED_MESSAGE, CHUNK, *PLAIN)
KINDS = ("path", "session", RECORD, *HASHED_KINDS)


def message_hash(text: str) -> str:
    """Return the hash of a message's text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def load_tombstones(connection: Connection) -> set[Tombstone]:
    """Return all tombstones except those of chunks."""
    found = connection.execute("SELECT kind, value FROM forgotten WHERE kind <> ?", (CHUNK,))
    return set(found.fetchall())


def chunk_hashes(connection: Connection, keys: Iterable[FileKey]) -> list[str]:
    """Return the hashes of all chunks of the given files."""
    return [
        digest
        for source, path in keys
        for (digest,) in connection.execute(
            "SELECT chunks.hash FROM chunks JOIN files USING (file_id)"
            " WHERE source = ? AND path = ?",
            (source, path),
        )
    ]


def forget(
    connection: Connection,
    tables: DerivedTables,
    keys: Iterable[FileKey],
    tombstones: Iterable[tuple[str, str]],
    key: TombstoneKey,
) -> list[RowChanges]:
    """Remove files and everything derived from them in one transaction. Call `wipe` next.

    `key` is that of the hashed tombstones.
    """
    tombstones = list(tombstones)
    with transaction(connection):
        if any(kind in HASHED_KINDS for kind, _ in tombstones):
            key.adopt(connection)
        changes = [_remove(connection, tables, key) for key in keys]
        statements.note_erased(connection, True)
        connection.executemany("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", tombstones)
        # Also the vectors of earlier chunks, whose texts are unknown, and the vendors' messages
        # about texts that they refused.
        for table in ("embedding_cache", "set_aside"):
            connection.execute(f"DELETE FROM {table} WHERE hash NOT IN (SELECT hash FROM chunks)")
        if tables.fts:
            # Deleted words stay in their segments until a merge.
            connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
        if tables.vec:
            # vec0 only marks vectors as deleted, and VACUUM doesn't keep its row ids.
            connection.execute("DROP TABLE chunks_vec")
    return changes


def wipe(connection: Connection) -> None:
    """Rewrite the file, because free pages keep the bytes of deleted rows.

    Raises `OSError` while the old pages are being read.
    """
    connection.execute("VACUUM")
    with transaction(connection):
        statements.note_erased(connection, False)
        schema.put_note(connection, schema.REWRITE_AT, "")
    empty_log(connection)


def complete(connection: Connection, tables: DerivedTables) -> None:
    """Recreate the vector table that `forget` dropped."""
    if tables.vec and tables.identity.dims is not None:
        ensure_vec(connection, tables.identity.dims)


def _remove(connection: Connection, tables: DerivedTables, key: FileKey) -> RowChanges:
    query = "SELECT file_id FROM files WHERE path = ? AND source = ?"
    file_id = one_value(connection, query, key.path, key.source)
    return RowChanges() if file_id is None else delete_rows(connection, tables, file_id)
