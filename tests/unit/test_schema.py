"""New, foreign and mismatched index files, and outdated derived tables."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from identities import identity

from memoryd.errors import IndexRefusedError
from memoryd.identity import Identity
from memoryd.index import cache, quantize, schema, statements, vec_table
from memoryd.index.catalog import load_catalog
from memoryd.index.driver import (
    Connection,
    CorruptIndexError,
    Database,
    Error,
    bundled_extension,
    run_at_once,
)
from memoryd.index.rename import rename_files
from memoryd.index.repair.word_proof import prove_words
from memoryd.index.statements import DerivedTables
from memoryd.messages import (
    NO_FACTS,
    Chunk,
    FileFacts,
    FileGone,
    FileKey,
    FileStat,
    MountPoints,
    ParsedFile,
)
from memoryd.search.postings import read_state
from memoryd.text.tokenize import FTS5_TOKENIZE, fts_columns

IDENTITY = identity(dims=4)
WORKSPACE = Path("/home/ann/work")
VERSION_1 = Path(__file__).with_name("index_version_1.sql")
VERSION_2 = Path(__file__).with_name("index_version_2.sql")
VERSION_3 = Path(__file__).parents[1] / "fixtures/index/version_3.sql"
VERSION_4 = VERSION_3.with_name("version_4.sql")
VERSION_7 = VERSION_3.with_name("version_7.sql")
BOTH = DerivedTables(IDENTITY, fts=True, vec=True)
NEITHER = DerivedTables(IDENTITY, fts=False, vec=False)


@contextmanager
def opened(path: Path) -> Iterator[Connection]:
    """Open as the writer does, on this thread."""
    database = Database(path, extension=bundled_extension())
    connection = database._connect()
    try:
        assert database.extension_error is None
        yield connection
    finally:
        connection.close()


@contextmanager
def index(path: Path, identity: Identity = IDENTITY) -> Iterator[Connection]:
    """Open and prepare an index."""
    with opened(path) as connection:
        schema.prepare(connection, WORKSPACE, identity)
        ensure(connection)
        yield connection


def ensure(connection: Connection, dims: int = 4) -> None:
    assert schema.ensure_fts(connection) is None
    assert vec_table.ensure_vec(connection, dims) is None


def put(connection: Connection, legs: DerivedTables, path: str, *texts: str) -> None:
    chunks = [Chunk(n, n, text, "") for n, text in enumerate(texts, start=1)]
    parsed = ParsedFile(FileKey("memory", path), FileStat(1, 1, 1), str(texts), chunks)
    run_at_once(statements.write_files(connection, legs, [parsed]))


def give(connection: Connection, legs: DerivedTables, *texts: str) -> None:
    statements.put_vectors(connection, legs, [(statements.text_hash(t), vector(t)) for t in texts])


def vector(text: str) -> bytes:
    numbers = np.frombuffer(statements.text_hash(text).encode()[:4], np.uint8).astype("<f4")
    return bytes((numbers / np.linalg.norm(numbers)).astype("<f4").tobytes())


def rounded(text: str) -> bytes:
    """Return the vector as float32 of its stored form."""
    return vec_table.mean_of(quantize.encode(vector(text), 4, statements.text_hash(text)), 4)


def words(connection: Connection, word: str) -> list[str]:
    return [
        text
        for (text,) in connection.execute(
            "SELECT text FROM chunks WHERE row_id IN"
            " (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?)",
            (f'"{word}"',),
        )
    ]


def vectors(connection: Connection) -> dict[str, bytes]:
    """Return the content of `chunks_vec`, by text."""
    found = connection.execute(
        "SELECT text, v.embedding FROM chunks_vec v JOIN chunks ON vector_id = v.rowid"
    )
    return {text: bytes(embedding) for text, embedding in found}


def pragma(connection: Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def make_foreign(path: Path, *, user_version: int = 0) -> bytes:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (id INTEGER, name TEXT)")
    connection.execute("INSERT INTO photos VALUES (1, 'sea')")
    connection.execute(f"PRAGMA user_version = {user_version}")
    connection.commit()
    connection.close()
    return path.read_bytes()


def test_a_fresh_file(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        assert pragma(connection, "auto_vacuum") == 2, "incremental"
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "synchronous") == 1, "normal"
        assert pragma(connection, "user_version") == schema.VERSION
        assert pragma(connection, "busy_timeout") == 5000
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    with opened(path) as connection:
        assert pragma(connection, "auto_vacuum") == 2
        assert pragma(connection, "journal_mode") == "wal"


def test_its_tables(tmp_path: Path) -> None:
    with index(tmp_path / "main.sqlite") as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    assert {
        *("meta", "files", "chunks", "embedding_cache", "set_aside", "chunks_fts", "chunks_vec")
    } <= tables


def test_the_identity_is_that_of_the_first_opening(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path):
        pass
    wanted = msgspec.structs.replace(IDENTITY, model="newer", dims=8)
    with opened(path) as connection:
        assert schema.prepare(connection, WORKSPACE, wanted) == IDENTITY
        schema.put_identity(connection, wanted)
        assert schema.prepare(connection, WORKSPACE, IDENTITY) == wanted


def test_another_workspaces_index_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path):
        pass
    before = path.read_bytes()
    with opened(path) as connection, pytest.raises(IndexRefusedError) as refused:
        schema.prepare(connection, Path("/home/ann/other"), IDENTITY)
    message = str(refused.value)
    assert str(WORKSPACE) in message
    assert "/home/ann/other" in message
    assert "store.path" in message
    assert path.read_bytes() == before


# --- an index of version 1


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    path = tmp_path / "main.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    connection.close()
    return path


def test_an_index_of_version_1_is_taken_over_as_it_is(version_1: Path) -> None:
    with opened(version_1) as connection:
        before = contents(connection)
        identity = schema.prepare(connection, WORKSPACE, IDENTITY)
        ensure(connection, identity.dims or 0)
        assert identity.model == "use"
        assert pragma(connection, "user_version") == schema.VERSION
        assert contents(connection) == before
        assert words(connection, "boiler") == ["boiler", "boiler"]
        assert set(vectors(connection)) == {"boiler", "gasket"}


def test_its_files_are_read_once_more_and_their_chunks_stay(version_1: Path) -> None:
    """Version 1 did not record the remarks on files."""
    with opened(version_1) as connection:
        identity = schema.prepare(connection, WORKSPACE, IDENTITY)
        known = load_catalog(connection)
        assert {key.path for key in known} == {"MEMORY.md", "memory/heat.md"}
        assert {row.hash for row in known.values()} == {""}
        assert {row.stat.mtime_ns for row in known.values()} == {-1}
        ensure(connection, identity.dims or 0)
        before = contents(connection)
        chunks = [Chunk(1, 1, "boiler", "House"), Chunk(2, 2, "valve", "House")]
        key, remarks = FileKey("memory", "MEMORY.md"), ("not UTF-8",)
        parsed = ParsedFile(key, FileStat(1, 9, 9), "new", chunks, remarks)
        delta = run_at_once(
            statements.write_files(
                connection, DerivedTables(identity, fts=True, vec=True), [parsed]
            )
        )[0]
        assert (delta.added, delta.removed, delta.pending) == ([], [], False)
        assert contents(connection) == before
        assert load_catalog(connection)[key].remarks == remarks


def test_one_of_another_workspace_stays_of_version_1(version_1: Path) -> None:
    before = version_1.read_bytes()
    with opened(version_1) as connection, pytest.raises(IndexRefusedError, match="belongs to"):
        schema.prepare(connection, Path("/home/ann/other"), IDENTITY)
    assert version_1.read_bytes() == before


def test_its_tables_are_those_of_a_new_index(version_1: Path, tmp_path: Path) -> None:
    with opened(version_1) as old, opened(tmp_path / "new.sqlite") as new:
        for connection in (old, new):
            schema.prepare(connection, WORKSPACE, IDENTITY)
        assert columns(old) == columns(new)


def test_an_older_index_finds_the_last_chunks_of_a_file_without_reading_the_others(
    version_1: Path, tmp_path: Path
) -> None:
    with opened(version_1) as old, opened(tmp_path / "new.sqlite") as new:
        for connection in (old, new):
            before = pragma(connection, "user_version")
            schema.prepare(connection, WORKSPACE, IDENTITY)
            for what in ("id, row_id", "count(*)"):
                plan = connection.execute(
                    f"EXPLAIN QUERY PLAN SELECT {what} FROM chunks"
                    " WHERE file_id = 1 AND start_line >= 9"
                ).fetchall()
                (step,) = plan
                assert "INDEX chunks_place (file_id=? AND start_line>?)" in step[3], before
            names = "SELECT name FROM sqlite_schema WHERE type = 'index'"
            assert ("chunks_file",) not in connection.execute(names).fetchall()


def test_a_migration_that_fails_half_way_leaves_the_file_as_it_was(
    version_1: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(version_1) as connection:
        before = pragma(connection, "schema_version"), columns(connection)
        monkeypatch.setitem(schema._MIGRATIONS, 2, "CREATE TABLE half (x); NO SQL")
        with pytest.raises(Error):
            schema.prepare(connection, WORKSPACE, IDENTITY)
        assert not connection.in_transaction
        assert (pragma(connection, "schema_version"), columns(connection)) == before
        assert pragma(connection, "user_version") == 1
        monkeypatch.undo()
        schema.prepare(connection, WORKSPACE, IDENTITY)
        assert pragma(connection, "user_version") == schema.VERSION


# --- an index of version 2


def test_an_index_of_version_2_is_taken_over_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_2.read_text(encoding="utf-8"))
    connection.close()
    with opened(path) as old, opened(tmp_path / "new.sqlite") as new:
        before = contents(old)
        for opened_one in (old, new):
            schema.prepare(opened_one, WORKSPACE, IDENTITY)
        assert pragma(old, "user_version") == schema.VERSION
        assert contents(old) == before
        assert columns(old) == columns(new)
        assert old.execute("SELECT value FROM forgotten").fetchall() == [("ffff",)]


# --- an index of version 3


def test_of_version_3_transcripts_and_notes_with_marks_are_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_3.read_text().replace("@WORKSPACE@", str(WORKSPACE)))
    marked = "UPDATE chunks SET text = '<<<EXTERNAL_UNTRUSTED_CONTENT>>>' WHERE row_id = 3"
    connection.execute(marked)
    connection.commit()
    connection.close()
    with opened(path) as old:
        before = contents(old)
        schema.prepare(old, WORKSPACE, IDENTITY)
        assert contents(old) == before
        # Nobody is trusted before memoryd knows who spoke.
        found = old.execute("SELECT row_id FROM chunks WHERE origin = 'untrusted'").fetchall()
        assert found == [(3,), (5,)]


# --- an index of version 4


def test_of_version_4_all_files_are_read_again_for_their_titles(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_4.read_text().replace("@WORKSPACE@", str(WORKSPACE)))
    connection.close()
    with opened(path) as old, opened(tmp_path / "new.sqlite") as new:
        before = contents(old)
        for connection in (old, new):
            schema.prepare(connection, WORKSPACE, IDENTITY)
        assert contents(old) == before
        assert {row.hash for row in load_catalog(old).values()} == {""}
        assert all(row.facts == NO_FACTS for row in load_catalog(old).values())
        assert columns(old) == columns(new)


def test_words_of_chunks_that_stay_follow_the_properties_of_their_file(tmp_path: Path) -> None:
    with opened(tmp_path / "main.sqlite") as connection:
        identity = schema.prepare(connection, WORKSPACE, IDENTITY)
        ensure(connection, identity.dims or 0)
        tables = DerivedTables(identity, fts=True, vec=True)
        key, chunks = FileKey("memory", "a.md"), [Chunk(4, 4, "boiler", "")]
        for number, title in enumerate(("first", "second", "")):
            facts = FileFacts(title, "2026-03-23", {"title": (title,)} if title else {})
            parsed = ParsedFile(key, FileStat(1, 1, number), title, chunks, facts=facts)
            changed = run_at_once(statements.write_files(connection, tables, [parsed]))[0]
            assert (len(changed.removed), changed.erased) == (0, number > 0)
            found = [word for word in ("first", "second") if words(connection, word)]
            assert found == ([title] if title else [])
            assert read_state(connection).replaced == (str(number) if number else "")
            assert load_catalog(connection)[key].facts == facts


# --- an index of version 7


def test_of_version_7_words_stay_without_their_copy_of_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with opened(path) as connection:
        connection.executescript(VERSION_7.read_text().replace("@WORKSPACE@", str(WORKSPACE)))
        connection.execute(
            "CREATE VIRTUAL TABLE chunks_fts USING fts5"
            f'(body, context, tokenize = "{FTS5_TOKENIZE}")'
        )
        connection.execute("INSERT INTO chunks_fts (rowid, body) VALUES (99, 'of no chunk')")
        before = contents(connection)
        identity = schema.prepare(connection, WORKSPACE, IDENTITY)
        assert contents(connection) == before
        # A daemon that is killed here leaves the words for the next start.
        assert schema.get_note(connection, schema.WORDS) is None
        tables = DerivedTables(identity, fts=True, vec=False)
        assert schema.ensure_fts(connection) is None
        prove_words(connection)
        assert schema.get_note(connection, schema.REWRITE_AT) == "0"
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert "chunks_fts_content" not in names
        (key, *_) = load_catalog(connection)
        run_at_once(statements.write_files(connection, tables, [FileGone(key)]))
        prove_words(connection)


def test_words_that_another_memoryd_computed_are_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another(text: str, path: str, heading: str, named: str = "") -> tuple[str, str]:
        return "of another memoryd", heading

    path = tmp_path / "main.sqlite"
    with monkeypatch.context() as other:
        other.setattr("memoryd.index.words.STAMP", "other")
        other.setattr("memoryd.index.words.fts_columns", of_another)
        with index(path) as connection:
            put(connection, BOTH, "a.md", "boiler", "valve")
            assert len(words(connection, "another")) == 2
    with index(path) as connection:
        prove_words(connection)
        assert words(connection, "another") == []
        put(connection, BOTH, "a.md", "boiler")
        prove_words(connection)


def test_words_that_were_wrong_without_fts5_are_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler")
    with monkeypatch.context() as without, opened(path) as connection:
        without.setattr(schema, "has_module", lambda connection, name: False)
        assert schema.ensure_fts(connection) == "this SQLite was built without FTS5"
        rename_files(connection, NEITHER, {FileKey("memory", "a.md"): FileKey("memory", "b.md")})
    with index(path) as connection:
        prove_words(connection)


def test_words_are_not_removed_by_others(tmp_path: Path) -> None:
    """FTS5 would keep the words of a chunk that is gone."""
    with index(tmp_path / "main.sqlite") as connection:
        put(connection, BOTH, "a.md", "boiler", "valve")
        connection.execute("UPDATE chunks SET heading = 'House' WHERE row_id = 1")
        with pytest.raises(CorruptIndexError, match="chunk 1 has other words"):
            put(connection, BOTH, "a.md", "valve")
        assert words(connection, "boiler") == ["boiler"]
        connection.execute("DROP TABLE chunks_fts")
        with pytest.raises(CorruptIndexError, match="chunk 1 has other words"):
            schema.ensure_fts(connection)


def vectors_in_cache(connection: Connection) -> Iterator[tuple[object, ...]]:
    """Yield the hash and the rounded first numbers of each cached embedding, of any version."""
    found = connection.execute("SELECT hash, dims, embedding FROM embedding_cache ORDER BY 1")
    for digest, dims, embedding in found.fetchall():
        if pragma(connection, "user_version") in (7, schema.VERSION):
            numbers = quantize.decode(embedding, dims)[0]
        else:
            numbers = np.frombuffer(embedding, "<f4")[:dims]
        yield digest, *(round(float(number), 2) for number in numbers[:9])


def contents(connection: Connection) -> list[tuple[object, ...]]:
    """Return everything that a vendor was paid for."""
    cached = "vector_id, provider, model, provider_key, hash, dims, used_at"
    columns = "row_id, id, file_id, start_line, end_line, hash, model, heading, text, vector_id"
    return [
        *connection.execute(f"SELECT {columns} FROM chunks ORDER BY row_id"),
        *connection.execute(f"SELECT {cached} FROM embedding_cache ORDER BY vector_id"),
        *vectors_in_cache(connection),
        *connection.execute("SELECT * FROM set_aside"),
        *connection.execute("SELECT file_id, path, source, size, inode FROM files"),
    ]


def columns(connection: Connection) -> list[tuple[object, ...]]:
    """Return name, type, NOT NULL, default and key of every column, by table."""
    return connection.execute(
        'SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_schema m,'
        " pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_stat%'"
        " ORDER BY m.name, c.cid"
    ).fetchall()


# --- refused files


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with opened(path) as connection, pytest.raises(IndexRefusedError, match="upgrade memoryd"):
        schema.prepare(connection, WORKSPACE, IDENTITY)


@pytest.mark.parametrize("user_version", [0, 1, schema.VERSION, 7])
def test_a_foreign_file_is_refused(tmp_path: Path, user_version: int) -> None:
    path = tmp_path / "photos.sqlite"
    make_foreign(path, user_version=user_version)
    with opened(path) as connection, pytest.raises(IndexRefusedError):
        schema.prepare(connection, WORKSPACE, IDENTITY)


def test_a_foreign_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "photos.sqlite"
    before = make_foreign(path)
    with opened(path) as connection, pytest.raises(IndexRefusedError):
        schema.prepare(connection, WORKSPACE, IDENTITY)
    assert path.read_bytes() == before


def test_what_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    with pytest.raises(Error), opened(path) as connection:
        schema.prepare(connection, WORKSPACE, IDENTITY)
    assert path.read_text() == "not a database at all\n" * 100


@pytest.mark.parametrize("identity", [None, "{}", "no json"])
def test_an_index_without_an_identity_is_damaged(tmp_path: Path, identity: str | None) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, NEITHER, "a.md", "boiler")
        if identity is None:
            connection.execute("DELETE FROM meta WHERE key = 'identity'")
        else:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'identity'", (identity,))
        with pytest.raises(CorruptIndexError):
            schema.prepare(connection, WORKSPACE, IDENTITY)


def test_one_without_files_yet_takes_the_identity_that_is_wanted(tmp_path: Path) -> None:
    """A salvaged index is in this state; the dims are those of its embeddings."""
    unknown = msgspec.structs.replace(IDENTITY, dims=None)
    with index(tmp_path / "main.sqlite") as connection:
        give(connection, BOTH, "boiler")
        connection.execute("DELETE FROM meta WHERE key = 'identity'")
        assert schema.prepare(connection, WORKSPACE, unknown) == IDENTITY
        assert schema.get_identity(connection) == IDENTITY


def test_a_refusal_leaves_no_transaction_open(tmp_path: Path) -> None:
    with index(tmp_path / "main.sqlite") as connection:
        with pytest.raises(IndexRefusedError):
            schema.prepare(connection, Path("/other"), IDENTITY)
        assert not connection.in_transaction


def test_words_written_without_fts_are_there_after_the_next_opening(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler", "valve")
    with opened(path) as connection:
        put(connection, NEITHER, "a.md", "boiler", "gasket")
        put(connection, NEITHER, "b.md", "garden")
    with index(path) as connection:
        assert words(connection, "boiler") == ["boiler"]
        assert words(connection, "gasket") == ["gasket"]
        assert words(connection, "garden") == ["garden"]
        assert words(connection, "valve") == []


def test_the_last_chunk_rewritten_without_fts_has_its_new_words(tmp_path: Path) -> None:
    """A reused row id would keep the old words, and no check would notice."""
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler")
    with opened(path) as connection:
        put(connection, NEITHER, "a.md", "valve")
    with index(path) as connection:
        assert words(connection, "valve") == ["valve"]
        assert words(connection, "boiler") == []


def test_the_last_vector_made_anew_without_the_extension_is_the_new_one(tmp_path: Path) -> None:
    """The same applies to the ids of vectors."""
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler")
        give(connection, BOTH, "boiler")
    with opened(path) as connection:
        put(connection, NEITHER, "a.md", "valve")
        cache.prune_cache(connection, 0)
        give(connection, NEITHER, "valve")
    with index(path) as connection:
        assert vectors(connection) == {"valve": rounded("valve")}


def test_vectors_written_without_the_extension_are_there_after_the_next_opening(
    tmp_path: Path,
) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler", "valve")
        give(connection, BOTH, "boiler", "valve")
    with opened(path) as connection:
        put(connection, NEITHER, "a.md", "boiler", "gasket", "garden")
        give(connection, NEITHER, "gasket")
    with index(path) as connection:
        assert vectors(connection) == {text: rounded(text) for text in ("boiler", "gasket")}


def test_derived_tables_that_are_gone_are_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with index(path) as connection:
        put(connection, BOTH, "a.md", "boiler", "valve")
        give(connection, BOTH, "boiler", "valve")
        connection.execute("DROP TABLE chunks_fts")
        connection.execute("DROP TABLE chunks_vec")
    with index(path) as connection:
        assert words(connection, "boiler") == ["boiler"]
        assert vectors(connection) == {text: rounded(text) for text in ("boiler", "valve")}


def test_a_vector_table_of_other_dims_is_made_anew(tmp_path: Path) -> None:
    with index(tmp_path / "main.sqlite") as connection:
        ensure(connection, dims=8)
        connection.execute("INSERT INTO chunks_vec (rowid, embedding) VALUES (1, ?)", (b"\0" * 32,))
        with pytest.raises(Error):
            connection.execute(
                "INSERT INTO chunks_vec (rowid, embedding) VALUES (2, ?)", (b"\0" * 16,)
            )


def test_vectors_of_other_dims_are_a_reason_and_no_crash(tmp_path: Path) -> None:
    with index(tmp_path / "main.sqlite") as connection:
        put(connection, BOTH, "a.md", "boiler")
        give(connection, BOTH, "boiler")
        reason = vec_table.ensure_vec(connection, 8)
        assert reason is not None
        assert not connection.in_transaction
        assert vec_table.ensure_vec(connection, 4) is None
        assert vectors(connection) == {"boiler": rounded("boiler")}


def test_without_the_extension_there_is_a_reason(tmp_path: Path) -> None:
    connection = Database(tmp_path / "main.sqlite")._connect()
    try:
        schema.prepare(connection, WORKSPACE, IDENTITY)
        assert "vec0" in str(vec_table.ensure_vec(connection, 4))
        assert not connection.in_transaction
    finally:
        connection.close()


def test_an_extension_that_cannot_be_loaded_is_a_reason(tmp_path: Path) -> None:
    database = Database(tmp_path / "main.sqlite", extension=str(tmp_path / "nowhere"))
    database._connect().close()
    assert "nowhere" in str(database.extension_error)


def test_segments_are_merged_bit_by_bit(tmp_path: Path) -> None:
    def segments() -> int:
        found = connection.execute("SELECT count(DISTINCT segid) FROM chunks_fts_idx")
        return int(found.fetchone()[0])

    with index(tmp_path / "main.sqlite") as connection:
        for number in range(schema.AUTOMERGE - 1):
            put(connection, BOTH, f"{number}.md", f"boiler number{number}")
        before = segments()
        assert before == schema.AUTOMERGE - 1, "each commit adds a segment"
        while schema.merge_segments(connection):
            assert not connection.in_transaction
        assert segments() < before
        assert len(words(connection, "boiler")) == schema.AUTOMERGE - 1
        assert words(connection, "number3") == ["boiler number3"]
        assert not schema.merge_segments(connection)


def test_the_path_is_searchable_without_its_suffix() -> None:
    body, context = fts_columns("今天", "memory/boiler.md", "House > Cellar")
    assert body.split() == ["今天", "天"]
    assert context == "memory/boiler\nHouse > Cellar"


def test_which_folder_is_at_each_place_is_kept_by_source(tmp_path: Path) -> None:
    with index(tmp_path / "index.sqlite") as connection:
        assert schema.get_places(connection, "memory") == {}
        places = {"/home/ann/work": (2**63 + 1, 7), "/media/disk": (3, 2**64 - 1)}
        schema.put_places(connection, MountPoints("memory", places))
        schema.put_places(connection, MountPoints("sessions", {}))
        assert schema.get_places(connection, "memory") == places
        assert schema.get_places(connection, "sessions") == {}
        connection.execute("UPDATE meta SET value = '[1]' WHERE key = 'places of memory'")
        assert schema.get_places(connection, "memory") == {}
