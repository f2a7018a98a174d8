"""Renaming of files in an index: their rows, ids of chunks, and searched words stay one file's."""

from collections.abc import Mapping

from memoryd.index.catalog import named
from memoryd.index.driver import Connection, run_at_once, transaction
from memoryd.index.statements import DerivedTables, chunk_id, note_erased
from memoryd.index.words import FileWords, index_anew
from memoryd.messages import Chunk, FileKey


def rename_files(
    connection: Connection, tables: DerivedTables, names: Mapping[FileKey, FileKey]
) -> None:
    """Rename files in one transaction. All chunks keep their rows and vectors.

    A file is left alone if there is another one of its new name.
    """
    with transaction(connection):
        for old, new in names.items():
            where = (new.path, new.source, old.path, old.source)
            renamed = connection.execute(
                "UPDATE OR IGNORE files SET path = ?, source = ? WHERE path = ? AND source = ?"
                " RETURNING file_id, properties",
                where,
            ).fetchall()
            for file_id, properties in renamed:
                before, words = (FileWords(key.path, named(properties)) for key in (old, new))
                _rename_chunks(connection, file_id, new)
                run_at_once(index_anew(connection, file_id, before, words, fts=tables.fts))
        note_erased(connection, True)


def _rename_chunks(connection: Connection, file_id: int, key: FileKey) -> None:
    chunks = connection.execute(
        "SELECT row_id, start_line, end_line, hash, model, heading FROM chunks WHERE file_id = ?",
        (file_id,),
    ).fetchall()
    for row_id, start, end, digest, model, heading in chunks:
        id_ = chunk_id(key, Chunk(start, end, "", heading), digest, model)
        connection.execute("UPDATE chunks SET id = ? WHERE row_id = ?", (id_, row_id))
