"""The SQL that changes an index: the result always equals an index built from scratch."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from identities import identity

from memoryd.index import cache, queries, schema, statements, vec_table
from memoryd.index.catalog import load_catalog
from memoryd.index.driver import (
    Connection,
    Database,
    bundled_extension,
    load_extension,
    run_at_once,
    sqlite,
)
from memoryd.index.quantize import encode
from memoryd.index.rebuild import carry_over
from memoryd.index.repair.word_proof import prove_words
from memoryd.index.statements import DerivedTables, RowChanges
from memoryd.messages import Chunk, FileGone, FileKey, FileStat, ParsedFile

IDENTITY = identity(dims=2)
LEGS = DerivedTables(IDENTITY, fts=True, vec=True)
STAT = FileStat(1, 2, 3)
TEXTS = ["boiler", "valve", "今天玩", "gasket\nvalve", "", "İ x"]

Matrix = dict[int, tuple[int, bytes]]


def write(connection: Connection, change: statements.FileChange) -> RowChanges:
    return run_at_once(statements.write_files(connection, LEGS, [change]))[0]


def parsed(path: str, *chunks: Chunk, source: str = "memory") -> ParsedFile:
    digest = statements.text_hash(repr(chunks))
    return ParsedFile(FileKey(source, path), STAT, digest, list(chunks))


class Index:
    """An index file, with the vectors in memory as updated by the deltas."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.matrix: Matrix = {}

    def apply(self, delta: RowChanges) -> RowChanges:
        for row_id in delta.removed:
            self.matrix.pop(row_id, None)
        for row in delta.added:
            self.matrix[row.row_id] = row.file_id, row.embedding
        return delta

    def put(
        self, path: str, *chunks: Chunk, legs: DerivedTables = LEGS, source: str = "memory"
    ) -> RowChanges:
        file = parsed(path, *chunks, source=source)
        return self.apply(run_at_once(statements.write_files(self.connection, legs, [file]))[0])

    def delete(self, path: str, *, source: str = "memory") -> RowChanges:
        return self.apply(write(self.connection, FileGone(FileKey(source, path))))

    def write_together(self, group: dict[str, list[Chunk] | None]) -> None:
        """Write files, or delete those that are None, in one transaction."""
        changes = [
            FileGone(FileKey("memory", path)) if chunks is None else parsed(path, *chunks)
            for path, chunks in group.items()
        ]
        for delta in run_at_once(statements.write_files(self.connection, LEGS, changes)):
            self.apply(delta)

    def give(self, *texts: str) -> RowChanges:
        vectors = [(statements.text_hash(text), vector(text)) for text in texts]
        return self.apply(statements.put_vectors(self.connection, LEGS, vectors))

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        return self.connection.execute(statement, parameters).fetchall()

    def one(self, statement: str, *parameters: object) -> object:
        return self.sql(statement, *parameters)[0][0]

    def row_of(self, text: str) -> object:
        return self.one("SELECT row_id FROM chunks WHERE text = ?", text)

    def content(self) -> dict[str, list[tuple[object, ...]]]:
        """Return the visible content of the tables and of memory, without row numbers."""
        place = "path, source, start_line, end_line, text, chunks.hash, heading"
        joined = "chunks JOIN files USING (file_id)"
        matrix = {
            row_id: self.one("SELECT id FROM chunks WHERE row_id = ?", row_id)
            for row_id in self.matrix
        }
        return {
            "files": self.sql("SELECT path, source, hash FROM files ORDER BY 1, 2"),
            "chunks": self.sql(
                f"SELECT id, {place}, embedding FROM {joined}"
                " LEFT JOIN embedding_cache USING (vector_id) ORDER BY id"
            ),
            "fts": self.sql(
                "SELECT chunks.id, sz FROM chunks_fts_docsize AS words"
                " LEFT JOIN chunks ON row_id = words.id ORDER BY chunks.id"
            ),
            "vec": self.sql(
                "SELECT hash, v.embedding FROM chunks_vec v"
                " LEFT JOIN embedding_cache ON vector_id = v.rowid ORDER BY hash"
            ),
            "memory": sorted(
                (str(matrix[row_id]), embedding) for row_id, (_, embedding) in self.matrix.items()
            ),
            "memory's files": sorted(
                {
                    (str(self.one("SELECT path FROM files WHERE file_id = ?", file_id)),)
                    for file_id, _ in self.matrix.values()
                }
            ),
        }

    def check(self) -> None:
        prove_words(self.connection)
        assert self.one("PRAGMA integrity_check") == "ok"
        assert self.sql("PRAGMA foreign_key_check") == []


@contextmanager
def opened(path: Path | None = None) -> Iterator[Index]:
    """Open an index as the writer does, on this thread; without a path, in memory."""
    connection = in_memory() if path is None else on_disk(path)
    connection.create_function("keyed", 1, str)
    try:
        schema.prepare(connection, Path("/w"), IDENTITY)
        assert schema.ensure_fts(connection) is None
        assert vec_table.ensure_vec(connection, 2) is None
        yield Index(connection)
    finally:
        connection.close()


def in_memory() -> Connection:
    connection: Connection = sqlite.connect(":memory:", isolation_level=None)
    load_extension(connection, bundled_extension())
    return connection


def on_disk(path: Path) -> Connection:
    return Database(path, extension=bundled_extension())._connect()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with opened(tmp_path / "main.sqlite") as index:
        yield index


def chunk(text: str, line: int = 1, heading: str = "") -> Chunk:
    return Chunk(line, line + text.count("\n"), text, heading)


def vector(text: str) -> bytes:
    return struct.pack("<2f", 1.0, len(text) + 1.0)


# --- kept and shared rows


def test_unchanged_chunks_keep_their_rows(index: Index) -> None:
    index.put("a.md", chunk("boiler", 1), chunk("valve", 2), chunk("gasket", 3))
    before = {text: index.row_of(text) for text in ("boiler", "gasket")}
    delta = index.put("a.md", chunk("boiler", 1), chunk("garden", 2), chunk("gasket", 3))
    assert {text: index.row_of(text) for text in ("boiler", "gasket")} == before
    assert (len(delta.removed), delta.chunks, delta.pending) == (1, 3, True)


def test_a_heading_that_changes_above_an_unchanged_chunk_is_taken_over(index: Index) -> None:
    index.put("a.md", chunk("# House", 1, "House"), chunk("boiler", 2, "House > Cellar"))
    index.give("boiler")
    index.put("a.md", chunk("# Shed", 1, "Shed"), chunk("boiler", 2, "Shed > Cellar"))
    assert index.one("SELECT heading FROM chunks WHERE text = 'boiler'") == "Shed > Cellar"
    found = "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?"
    assert index.one(found, "house") == 0
    assert index.one(found, "shed") == 2
    assert len(index.matrix) == 1, "the vector is still valid"


def test_the_same_text_in_two_files_shares_one_vector(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    index.put("b.md", chunk("boiler"))
    delta = index.give("boiler")
    assert len(delta.added) == 2
    assert index.one("SELECT count(*) FROM embedding_cache") == 1
    assert index.one("SELECT count(*) FROM chunks_vec") == 1
    index.delete("a.md")
    assert index.one("SELECT count(*) FROM chunks_vec") == 1
    assert len(index.matrix) == 1
    index.delete("b.md")
    assert index.one("SELECT count(*) FROM chunks_vec") == 0
    assert index.matrix == {}
    assert index.one("SELECT count(*) FROM embedding_cache") == 1, "the vector has been paid for"


def test_a_text_that_comes_back_has_its_vector_at_once(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    index.give("boiler")
    index.delete("a.md")
    delta = index.put("b.md", chunk("boiler", 7))
    assert (delta.reused, delta.pending) == (1, False)
    stored = encode(vector("boiler"), 2, statements.text_hash("boiler"))
    assert [bytes(row.embedding) for row in delta.added] == [stored]
    assert index.sql("SELECT embedding FROM chunks_vec") == [(vec_table.mean_of(stored, 2),)]


def test_a_moved_chunk_keeps_its_vector(index: Index) -> None:
    index.put("a.md", chunk("boiler", 1))
    index.give("boiler")
    delta = index.put("a.md", chunk("new", 1), chunk("boiler", 2))
    assert (delta.reused, delta.pending, len(index.matrix)) == (1, True, 1)
    assert index.one("SELECT count(*) FROM chunks_vec") == 1


def test_identical_chunks_of_one_file_are_one(index: Index) -> None:
    delta = index.put("a.md", chunk("boiler"), chunk("boiler"))
    assert (delta.chunks, index.one("SELECT count(*) FROM chunks")) == (1, 1)


def test_the_same_text_at_two_places_of_a_file_is_two_chunks(index: Index) -> None:
    index.put("a.md", chunk("boiler", 1), chunk("boiler", 9))
    assert len(index.give("boiler").added) == 2


def test_one_path_in_two_sources_is_two_files(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    index.put("a.md", chunk("boiler"), source="sessions")
    index.delete("a.md", source="sessions")
    assert index.sql("SELECT source FROM files") == [("memory",)]
    assert index.one("SELECT count(*) FROM chunks") == 1


def test_names_that_differ_in_case_are_two_files(index: Index) -> None:
    index.put("MEMORY.md", chunk("boiler"))
    index.put("memory.md", chunk("valve"))
    assert index.one("SELECT count(*) FROM files") == 2


def test_an_empty_file_has_a_row_and_no_chunks(index: Index) -> None:
    assert index.put("a.md").chunks == 0
    assert index.one("SELECT count(*) FROM files") == 1


def test_a_file_that_was_never_there_is_deleted_without_a_word(index: Index) -> None:
    assert index.delete("a.md") == RowChanges()


def test_a_row_is_never_used_for_another_chunk(index: Index) -> None:
    """A search holds row numbers between two reads; a reused number would show the wrong text."""
    index.put("a.md", chunk("boiler"))
    old = index.row_of("boiler")
    index.delete("a.md")
    index.put("b.md", chunk("valve"))
    assert index.row_of("valve") != old


def test_a_touched_file_has_its_new_stat_alone(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    row = index.row_of("boiler")
    touched = statements.Touched(FileKey("memory", "a.md"), FileStat(7, 8, 9), ())
    write(index.connection, touched)
    assert index.sql("SELECT mtime_ns, size, inode FROM files") == [(7, 8, 9)]
    assert index.row_of("boiler") == row


def test_chunk_ids_name_place_text_and_model() -> None:
    def id_of(path: str = "a.md", line: int = 1, text: str = "x", model: str = "m") -> str:
        return statements.chunk_id(
            FileKey("memory", path), chunk(text, line), statements.text_hash(text), model
        )

    assert id_of() == id_of()
    assert len({id_of(), id_of(path="b.md"), id_of(line=2), id_of(text="y"), id_of(model="n")}) == 5


# --- vectors


def test_waiting_chunks_are_told_in_order_and_once(index: Index) -> None:
    index.put("a.md", chunk("boiler", 1), chunk("valve", 2), chunk("boiler", 3))
    waiting = queries.read_pending(index.connection, 0, 10)
    assert [text for _, _, text in waiting] == ["boiler", "valve", "boiler"]
    assert queries.read_pending(index.connection, waiting[0][0], 1) == waiting[1:2]
    assert queries.count_pending(index.connection) == 2
    index.give("boiler")
    assert [text for _, _, text in queries.read_pending(index.connection, 0, 10)] == ["valve"]


def test_a_text_that_cannot_be_embedded_is_asked_for_no_more(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    statements.put_vectors(
        index.connection, LEGS, [], [(statements.text_hash("boiler"), "too odd")]
    )
    assert queries.read_pending(index.connection, 0, 10) == []
    assert queries.count_pending(index.connection) == 0
    assert index.one("SELECT reason FROM set_aside") == "too odd"


def test_a_vector_whose_chunk_is_gone_is_kept_in_the_cache_alone(index: Index) -> None:
    assert index.give("boiler").added == []
    assert index.one("SELECT count(*) FROM embedding_cache") == 1
    assert index.one("SELECT count(*) FROM chunks_vec") == 0


def test_vectors_of_another_model_are_not_taken(index: Index) -> None:
    other = msgspec.structs.replace(IDENTITY, model="other")
    vectors = [(statements.text_hash("boiler"), vector("boiler"))]
    statements.put_vectors(index.connection, DerivedTables(other, fts=True, vec=True), vectors)
    delta = index.put("a.md", chunk("boiler"))
    assert (delta.reused, delta.pending) == (0, True)


def test_memory_and_disk_hold_the_same_vector_when_one_comes_twice(
    index: Index, tmp_path: Path
) -> None:
    """It was copied from another file during the request; providers are not deterministic."""
    index.put("a.md", chunk("boiler"))
    with opened(tmp_path / "other.sqlite") as other:
        other.give("boiler")
    carry_over.copy_cache(index.connection, tmp_path / "other.sqlite")
    jitter = struct.pack("<2f", 1.0, 7.5)
    index.apply(
        statements.put_vectors(index.connection, LEGS, [(statements.text_hash("boiler"), jitter)])
    )
    on_disk = index.one("SELECT embedding FROM chunks JOIN embedding_cache USING (vector_id)")
    assert isinstance(on_disk, bytes)
    assert index.one("SELECT embedding FROM chunks_vec") == vec_table.mean_of(on_disk, 2)
    assert [embedding for _, embedding in index.matrix.values()] == [on_disk]


# --- the cache


def test_pruning_never_takes_a_vector_in_use(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    index.give("boiler", "valve", "gasket")
    assert cache.prune_cache(index.connection, 0) == 2
    assert index.sql("SELECT hash FROM embedding_cache") == [(statements.text_hash("boiler"),)]
    assert cache.prune_cache(index.connection, 0) == 0


def test_pruning_takes_the_least_recently_used_down_to_the_bound(index: Index) -> None:
    index.give("boiler", "valve", "gasket")
    for used_at, text in enumerate(("valve", "gasket", "boiler")):
        index.sql(
            "UPDATE embedding_cache SET used_at = ? WHERE hash = ?",
            used_at,
            statements.text_hash(text),
        )
    assert cache.prune_cache(index.connection, 2) == 1
    left = {hash_ for (hash_,) in index.sql("SELECT hash FROM embedding_cache")}
    assert left == {statements.text_hash("gasket"), statements.text_hash("boiler")}


def test_without_a_bound_nothing_is_pruned(index: Index) -> None:
    index.give("boiler", "valve")
    assert cache.prune_cache(index.connection, None) == 0
    assert cache.prune_cache(index.connection, 2) == 0


def test_the_embeddings_of_another_file_are_taken_over(index: Index, tmp_path: Path) -> None:
    with opened(tmp_path / "other.sqlite") as other:
        other.give("boiler", "valve")
    index.give("valve")
    assert carry_over.copy_cache(index.connection, tmp_path / "other.sqlite") == 1
    assert index.put("a.md", chunk("boiler")).reused == 1


def test_a_file_that_cannot_be_taken_over_leaves_no_trace(index: Index, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    index.give("boiler")
    with pytest.raises(Exception, match="not a database"):
        carry_over.copy_cache(index.connection, damaged)
    assert not index.connection.in_transaction
    assert [name for _, name, _ in index.sql("PRAGMA database_list")] == ["main"]


# --- many rows


def test_a_file_of_many_chunks_has_them_in_order(index: Index) -> None:
    count = 2 * statements.STEP_CHUNKS + 77
    delta = index.put("a.md", *(chunk(f"number{n}", n) for n in range(1, count + 1)))
    assert delta.chunks == count
    found = index.sql("SELECT start_line, text FROM chunks ORDER BY row_id")
    assert found == [(n, f"number{n}") for n in range(1, count + 1)]
    assert index.one("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'number1077'") == 1
    index.check()


def test_a_large_file_is_written_and_removed_a_step_at_a_time(index: Index) -> None:
    """The connection serves others in between; readers do not see partial changes."""
    large = parsed("a.md", *(chunk(f"number{n}", n) for n in range(1, 3 * statements.STEP_CHUNKS)))
    for change in (large, FileGone(large.key)):
        before = index.content()
        steps = statements.write_files(index.connection, LEGS, [change])
        assert [next(steps) for _ in range(2)] == [None, None]
        assert index.connection.in_transaction
        steps.close()
        assert not index.connection.in_transaction
        assert index.content() == before
        index.apply(write(index.connection, change))
        assert index.content() != before
    assert index.one("SELECT count(*) FROM chunks") == 0


def test_several_files_share_a_transaction(index: Index) -> None:
    index.put("old.md", chunk("boiler"))
    index.put("gone.md", chunk("garden"))
    index.give("boiler", "valve")
    changes: list[statements.FileChange] = [
        parsed("new.md", chunk("valve"), chunk("boiler", 2)),
        FileGone(FileKey("memory", "gone.md")),
        parsed("old.md", chunk("gasket"), chunk("boiler", 2)),
        FileGone(FileKey("memory", "never.md")),
        statements.Touched(FileKey("memory", "never.md"), FileStat(1, 1, 1), ()),
        parsed("empty.md"),
    ]
    began: list[str] = []
    index.connection.set_trace_callback(began.append)
    deltas = run_at_once(statements.write_files(index.connection, LEGS, changes))
    index.connection.set_trace_callback(None)
    assert [sql for sql in began if sql.startswith(("BEGIN", "COMMIT"))] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ]
    for delta in deltas:
        index.apply(delta)
    assert [(d.chunks, d.reused, d.pending, len(d.removed)) for d in deltas] == [
        *[(2, 2, False, 0), (0, 0, False, 1), (2, 1, True, 1)],
        *[(0, 0, False, 0), (0, 0, False, 0), (0, 0, False, 0)],
    ]
    with opened() as scratch:
        scratch.give("boiler", "valve")
        scratch.put("new.md", chunk("valve"), chunk("boiler", 2))
        scratch.put("old.md", chunk("gasket"), chunk("boiler", 2))
        scratch.put("empty.md")
        assert index.content() == scratch.content()


def test_what_is_remarked_on_a_file_stays_with_it(index: Index) -> None:
    key = FileKey("memory", "a.md")

    def remarks() -> object:
        return load_catalog(index.connection)[key].remarks

    write(index.connection, replace(parsed("a.md"), remarks=("not UTF-8", "1 NUL")))
    assert remarks() == ("not UTF-8", "1 NUL")
    write(index.connection, statements.Touched(key, STAT, ("something else",)))
    assert remarks() == ("something else",)
    write(index.connection, parsed("a.md", chunk("boiler")))
    assert remarks() == ()


# --- one transaction


def test_a_change_that_fails_leaves_everything_as_it_was(index: Index) -> None:
    index.put("a.md", chunk("boiler"))
    index.give("boiler")
    before = index.content()
    with pytest.raises(UnicodeEncodeError):
        index.put("a.md", chunk("valve", 1), chunk("\ud800", 2))
    assert not index.connection.in_transaction
    assert index.content() == before


# --- arbitrary changes

CHUNKS = st.lists(
    st.builds(
        chunk, st.sampled_from(TEXTS), st.integers(1, 4), st.sampled_from(["", "House", "Shed"])
    ),
    max_size=4,
)
PATHS = st.sampled_from(["a.md", "b.md", "memory/ÄÖ.md"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PATHS, CHUNKS),
        st.tuples(st.just("delete"), PATHS),
        st.tuples(st.just("together"), st.dictionaries(PATHS, st.none() | CHUNKS)),
        st.tuples(st.just("give"), st.lists(st.sampled_from(TEXTS), max_size=3)),
        st.tuples(st.just("prune"), st.integers(0, 3)),
    ),
    max_size=14,
)


@settings(max_examples=150)
@given(STEPS)
def test_any_changes_leave_what_building_from_scratch_gives(
    steps: list[tuple[str, object, object]],
) -> None:
    files: dict[str, list[Chunk]] = {}
    with opened() as changed, opened() as scratch:
        for step in steps:
            match step:
                case ("put", str(path), list(chunks)):
                    changed.put(path, *chunks)
                    files[path] = chunks
                case ("delete", str(path)):
                    changed.delete(path)
                    files.pop(path, None)
                case ("together", dict(group)):
                    changed.write_together(group)
                    files |= group
                    files = {path: chunks for path, chunks in files.items() if chunks is not None}
                case ("give", list(texts)):
                    changed.give(*texts)
                case ("prune", int(bound)):
                    cache.prune_cache(changed.connection, bound)
        changed.check()
        known = {str(hash_) for (hash_,) in changed.sql("SELECT hash FROM embedding_cache")}
        scratch.give(*(text for text in TEXTS if statements.text_hash(text) in known))
        for path, chunks in files.items():
            scratch.put(path, *chunks)
        assert changed.content() == scratch.content()
