"""Takes files out of the index for good: rows, words, vectors, and their bytes on disk.

What is kept of them are tombstones, so that they don't come back: hashes of texts, and names.
"""

import hashlib
from collections.abc import Iterable

from memoryd.index import schema
from memoryd.index.driver import Connection, empty_log, transaction
from memoryd.index.statements import DerivedTables, RowChanges, delete_rows
from memoryd.messages import FileKey

Tombstone = tuple[str, str]
"""(kind, value). `path`: the name of a transcript, without what an archive adds to it; `session`:
an id; `message`, `chunk`: the SHA-256 of a text."""
HASHED_KINDS = ("message", "chunk")
KINDS = ("path", "session", *HASHED_KINDS)


def message_hash(text: str) -> str:
    """Return the hash that stands for a message, as it is spoken."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def load_tombstones(connection: Connection) -> set[Tombstone]:
    """Return all that was forgotten, but the chunks."""
    found = connection.execute("SELECT kind, value FROM forgotten WHERE kind <> 'chunk'")
    return set(found.fetchall())


def chunk_hashes(connection: Connection, paths: Iterable[str]) -> list[str]:
    """Return the hashes of all chunks of some transcripts."""
    return [
        digest
        for path in paths
        for (digest,) in connection.execute(
            "SELECT chunks.hash FROM chunks JOIN files USING (file_id)"
            " WHERE source = 'sessions' AND path = ?",
            (path,),
        )
    ]


def forget(
    connection: Connection,
    tables: DerivedTables,
    keys: Iterable[FileKey],
    tombstones: Iterable[tuple[str, str]],
) -> list[RowChanges]:
    """Remove files and everything made of them, in one transaction; `wipe` is to follow."""
    with transaction(connection):
        changes = [_remove(connection, tables, key) for key in keys]
        connection.executemany("INSERT OR IGNORE INTO forgotten VALUES (?, ?)", tombstones)
        # Vectors of earlier chunks too, as nothing tells what they were made of, and what vendors
        # said of texts that they refused.
        for table in ("embedding_cache", "set_aside"):
            connection.execute(f"DELETE FROM {table} WHERE hash NOT IN (SELECT hash FROM chunks)")
        if tables.fts:
            # Deleted words stay in their segments until these are merged.
            connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
        if tables.vec:
            # vec0 only marks a deleted vector, and its rows have no numbers that VACUUM keeps.
            connection.execute("DROP TABLE chunks_vec")
    return changes


def wipe(connection: Connection) -> None:
    """Write the file anew.

    Only so are the bytes gone, of what was deleted earlier too: pages that are free keep theirs.
    Raises `OSError` while somebody reads the old ones.
    """
    connection.execute("VACUUM")
    empty_log(connection)


def complete(connection: Connection, tables: DerivedTables) -> None:
    """Make the table again that had to go before the file was written anew."""
    if tables.vec and tables.identity.dims is not None:
        schema.ensure_vec(connection, tables.identity.dims)


def _remove(connection: Connection, tables: DerivedTables, key: FileKey) -> RowChanges:
    row = connection.execute(
        "SELECT file_id FROM files WHERE path = ? AND source = ?", (key.path, key.source)
    ).fetchone()
    if row is None:
        return RowChanges()
    return delete_rows(connection, tables, row[0])
