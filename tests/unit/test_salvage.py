"""Salvage of a corrupt index: every readable and plausible row is kept, and no other."""

import asyncio
import os
import random
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from identities import identity

from memoryd.errors import IndexRefusedError
from memoryd.identity import Choice
from memoryd.index import quantize, schema
from memoryd.index.driver import CorruptIndexError, Database, Fault, bundled_extension, fault_of
from memoryd.index.repair import checks
from memoryd.index.repair import recover as repair
from memoryd.index.repair.checks import Problem
from memoryd.index.repair.header import header_problem, seems_ours
from memoryd.index.repair.recover import (
    Corruption,
    FailingDiskError,
    Recovered,
    copies,
    finish,
    inspect,
    recover,
)
from memoryd.index.vec_table import put_vec

WORKSPACE = Path("/home/ann/work")
IDENTITY = identity(dims=64)
VECTORS = 300
TOMBSTONES = 2_000
NOON_S = 1_795_867_200.0
MALFORMED = Corruption(Problem("malformed", "a page is damaged"))


def digest(number: int) -> str:
    return f"{number:064x}"


def vector(number: int) -> bytes:
    numbers = np.random.default_rng(number).standard_normal(64).astype("<f4")
    return bytes((numbers / np.linalg.norm(numbers)).astype("<f4").tobytes())


def stored(number: int) -> bytes:
    return quantize.encode(vector(number), 64, digest(number))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an index with embeddings, tombstones, a batch job and a choice."""
    path = tmp_path_factory.mktemp("sound") / "main.sqlite"
    connection = Database(path)._connect()
    schema.prepare(connection, WORKSPACE, IDENTITY)
    schema.put_choice(connection, Choice("local", "found", "there was no key", "auto"))
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO embedding_cache VALUES (?, 'local', 'use', 'k', ?, 64, ?, 1790000000)",
        ((n, digest(n), stored(n)) for n in range(1, VECTORS + 1)),
    )
    connection.executemany(
        "INSERT INTO forgotten VALUES (?, ?)",
        (("message" if n % 2 else "chunk", digest(n)) for n in range(TOMBSTONES)),
    )
    connection.execute("INSERT INTO forgotten VALUES ('path', 'sessions/a/safe.jsonl')")
    connection.execute(
        "INSERT INTO batch_jobs VALUES ('j', 'openai', 'm', 'k', 1.5, 1, 'b1', ?)",
        (f'["{digest(7)}"]',),
    )
    connection.execute("INSERT INTO set_aside VALUES (?, 'too odd')", (digest(9),))
    connection.executemany(
        "INSERT INTO recalls VALUES (?, 'h', 3, 4, 2, 1.5, 1790000000.5, ?, '[]', NULL)",
        [("memory/2026-11-20.md", '["q"]'), ("memory/2026-11-21.md", "not a list")],
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, sound: bytes) -> Path:
    file = tmp_path / "main.sqlite"
    file.write_bytes(sound)
    file.chmod(0o600)
    return file


def roots(path: Path, table: str) -> list[int]:
    """Return the root pages of a table and its indexes."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as database:
        query = "SELECT rootpage FROM sqlite_schema WHERE tbl_name = ?"
        return [page for (page,) in database.execute(query, (table,))]


def smash(path: Path, *pages: int) -> None:
    with open(path, "r+b") as file:
        for page in pages:
            file.seek((page - 1) * 4096)
            file.write(b"\xa5" * 4096)


def put_right(path: Path, finding: Corruption = MALFORMED, *, at_s: float = NOON_S) -> None:
    asyncio.run(recover(path, WORKSPACE, finding, clock=lambda: at_s))


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def note(path: Path) -> Recovered:
    connection = Database(path)._connect()
    try:
        found = repair.take_note(connection, path)
        assert found is not None
        return found
    finally:
        connection.close()


# --- kept rows

NEW = {"workspace", schema.ERASED, schema.REWRITE_AT}


def test_of_a_sound_file_all_is_kept_but_what_comes_from_files(path: Path) -> None:
    put_right(path)
    assert rows(path, "SELECT count(*) FROM embedding_cache") == [(VECTORS,)]
    assert rows(path, "SELECT count(*) FROM forgotten") == [(TOMBSTONES + 1,)]
    assert rows(path, "SELECT key, remote_id FROM batch_jobs") == [("j", "b1")]
    assert rows(path, "SELECT hash, reason FROM set_aside") == [(digest(9), "too odd")]
    keys = {key for (key,) in rows(path, "SELECT key FROM meta")}
    assert keys == NEW | {"identity", "choice", "recovered"}
    assert rows(path, "PRAGMA user_version") == [(schema.VERSION,)]
    found = note(path)
    assert (found.embeddings, found.tombstones, found.whole) == (VECTORS, TOMBSTONES + 1, True)


def test_the_recalls_that_can_be_right_are_kept(path: Path) -> None:
    put_right(path)
    kept = rows(path, "SELECT path, recalls, questions FROM recalls")
    assert kept == [("memory/2026-11-20.md", 2, '["q"]')]


def test_the_damaged_file_and_its_log_are_for_their_owner_alone(path: Path) -> None:
    log = path.with_name(f"{path.name}-wal")
    log.touch()
    for file in (path, log):
        file.chmod(0o644)
    put_right(path)
    (copy,) = copies(path)
    for file in (copy, copy.with_name(f"{copy.name}-wal"), path):
        assert not file.exists() or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert copy.exists()


def test_a_page_that_cannot_be_read_hides_only_its_own_embeddings(path: Path) -> None:
    before = dict(rows(path, "SELECT hash, embedding FROM embedding_cache"))
    table, *_ = roots(path, "embedding_cache")
    leaf = path.read_bytes().index(stored(150)) // 4096 + 1
    assert leaf != table
    smash(path, leaf)
    put_right(path)
    kept = dict(rows(path, "SELECT hash, embedding FROM embedding_cache"))
    assert digest(150) not in kept
    assert VECTORS - 40 < len(kept) < VECTORS
    assert kept.items() <= before.items()


def test_a_damaged_index_of_a_table_hides_nothing_of_it(path: Path) -> None:
    smash(path, *roots(path, "embedding_cache")[1:])
    put_right(path)
    assert rows(path, "SELECT count(*) FROM embedding_cache") == [(VECTORS,)]


def test_a_page_of_what_was_forgotten_is_lost_and_told(path: Path) -> None:
    leaf = path.read_bytes().index(digest(1001).encode()) // 4096 + 1
    assert leaf not in roots(path, "forgotten")
    smash(path, leaf)
    put_right(path)
    found = note(path)
    assert not found.whole
    assert "forgotten could be read" in found.message
    assert TOMBSTONES - 200 < found.tombstones < TOMBSTONES
    assert ("sessions/a/safe.jsonl",) in rows(path, "SELECT value FROM forgotten")


def told(path: Path) -> bool:
    """Open an index once more; return whether there is a note about the salvage."""
    with closing(Database(path)._connect()) as connection:
        return repair.take_note(connection, path) is not None


def test_what_became_of_it_is_told_until_the_next_start(path: Path) -> None:
    put_right(path)
    assert [told(path), told(path)] == [True, False]


def test_what_may_have_come_back_is_told_until_the_damaged_file_is_removed(path: Path) -> None:
    smash(path, *roots(path, "forgotten"))
    put_right(path)
    assert [told(path), told(path), told(path)] == [True, True, True]
    repair.remove_copies(path)
    assert not told(path)


def test_what_was_forgotten_is_whole_where_it_was_in_memory(path: Path) -> None:
    smash(path, *roots(path, "forgotten"))
    known = frozenset({("path", "sessions/a/safe.jsonl")})
    put_right(path, Corruption(MALFORMED.problem, known))
    assert rows(path, "SELECT * FROM forgotten") == [*known]
    assert note(path).whole


@pytest.mark.parametrize(
    "change",
    [
        "embedding = zeroblob(256)",
        "embedding = substr(embedding, 1, 103)",
        "embedding = x''",
        "dims = 63",
        "hash = 'no hash'",
    ],
)
def test_an_embedding_that_cannot_be_right_is_left_out(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE embedding_cache SET {change} WHERE vector_id = 7")
        database.commit()
    put_right(path)
    kept = {value for (value,) in rows(path, "SELECT hash FROM embedding_cache")}
    assert kept == {digest(n) for n in range(1, VECTORS + 1) if n != 7}


def test_of_two_vectors_that_differ_none_is_kept(path: Path) -> None:
    extension = bundled_extension()

    def open_index() -> Any:
        return Database(path, extension=extension)._connect()

    with closing(open_index()) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE chunks_vec"
            " USING vec0 (embedding float[64] distance_metric=cosine)"
        )
        for number, of in ((7, 8), (9, 9)):
            put_vec(connection, number, stored(of), 64)
    asyncio.run(recover(path, WORKSPACE, MALFORMED, extension=extension, clock=lambda: NOON_S))
    kept = {value for (value,) in rows(path, "SELECT hash FROM embedding_cache")}
    assert kept == {digest(n) for n in range(1, VECTORS + 1) if n != 7}


def test_what_was_forgotten_in_another_order_is_not_taken_for_all(path: Path) -> None:
    """A flipped digit may have created an invalid mark in place of a valid one."""
    data = path.read_bytes()
    at = data.index(b"message" + digest(1001).encode()) + len("message")
    assert data[at : at + 1] == b"0"
    path.write_bytes(data[:at] + b"f" + data[at + 1 :])
    put_right(path)
    assert not note(path).whole


@pytest.mark.parametrize("mark", [("message", "no hash"), ("nonsense", digest(1)), ("path", "")])
def test_a_mark_that_cannot_be_right_is_left_out_and_told(
    path: Path, mark: tuple[str, str]
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO forgotten VALUES (?, ?)", mark)
        database.commit()
    put_right(path)
    found = note(path)
    assert (found.tombstones, found.whole) == (TOMBSTONES + 1, False)
    assert mark not in rows(path, "SELECT kind, value FROM forgotten")


@pytest.mark.parametrize("hashes", ["[", '["no hash"]', "[1]", '{"a": 1}'])
def test_a_batch_job_that_cannot_be_right_is_left_out(path: Path, hashes: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "INSERT INTO batch_jobs VALUES ('bad', 'openai', 'm', 'k', 1.5, 1, 'b2', ?)", (hashes,)
        )
        database.commit()
    put_right(path)
    assert rows(path, "SELECT key FROM batch_jobs") == [("j",)]


def test_batch_jobs_before_a_last_page_that_cannot_be_read_are_kept(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executemany(
            "INSERT INTO batch_jobs VALUES (?, 'openai', 'm', 'k', 1.5, 1, ?, ?)",
            ((f"j{n}", f"remote{n}", f'["{digest(n)}"]') for n in range(1_000)),
        )
        database.commit()
    smash(path, path.read_bytes().rindex(b"remote999") // 4096 + 1)
    put_right(path)
    kept = {key for (key,) in rows(path, "SELECT key FROM batch_jobs")}
    assert {"j", "j0", "j500", "j900"} <= kept
    assert "j999" not in kept


def test_in_an_index_from_before_anything_could_be_forgotten_nothing_is_missing(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE forgotten")
        database.execute("PRAGMA user_version = 1")
        database.commit()
    put_right(path)
    assert note(path).whole


def test_a_choice_that_cannot_be_read_is_left_out(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = '?' WHERE key IN ('choice', 'identity')")
        database.commit()
    put_right(path)
    assert {key for (key,) in rows(path, "SELECT key FROM meta")} == NEW | {"recovered"}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), bits=st.integers(1, 400), cut=st.booleans())
def test_whatever_is_damaged_nothing_wrong_is_kept(
    tmp_path: Path, sound: bytes, seed: int, bits: int, cut: bool
) -> None:
    dice = random.Random(seed)
    data = bytearray(sound)
    for _ in range(bits):
        data[dice.randrange(4096, len(data))] ^= 1 << dice.randrange(8)
    path = tmp_path / f"{seed}-{bits}-{cut}.sqlite"
    path.write_bytes(data[: dice.randrange(8192, len(data))] if cut else data)
    refused = False
    try:
        put_right(path)
    except IndexRefusedError:
        refused = True
    repair.remove_copies(path)
    if refused:
        return
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    for embedding in rows(path, "SELECT embedding, dims, hash FROM embedding_cache"):
        assert quantize.is_embedding(*embedding)
    path.unlink()


# --- ownership


def test_another_workspaces_damaged_index_is_refused_and_stays(path: Path) -> None:
    smash(path, *roots(path, "files"))
    before = path.read_bytes()
    with pytest.raises(IndexRefusedError, match="belongs to the workspace"):
        asyncio.run(recover(path, Path("/home/ann/other"), MALFORMED))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir() if "-" not in file.name] == [path.name]


def test_a_newer_damaged_index_is_refused_and_stays(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    smash(path, *roots(path, "files"))
    before = path.read_bytes()
    with pytest.raises(IndexRefusedError, match="upgrade memoryd"):
        put_right(path)
    assert path.read_bytes() == before


def test_a_damaged_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photos.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE photos (name TEXT)")
        database.executemany("INSERT INTO photos VALUES (?)", [("sea" * 500,)] * 50)
        database.commit()
    smash(path, 3, 4)
    assert not seems_ours(path)
    with pytest.raises(IndexRefusedError, match=r"store\.path"):
        put_right(path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "log is a pipe"])
def test_what_is_no_file_is_refused_and_never_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "main.sqlite"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path if kind == "pipe" else f"{path}-wal")
    with pytest.raises(IndexRefusedError, match="not a file"):
        inspect(path)


def test_headers_that_no_index_has(path: Path, sound: bytes) -> None:
    assert header_problem(path) is None
    for at in (0, 16, 18, 19, 21, 22, 23, 44, 56, 60):
        data = bytearray(sound)
        data[at] ^= 0x40
        path.write_bytes(data)
        assert header_problem(path) is not None, at
        assert seems_ours(path)
        finding = inspect(path)
        assert finding is not None
        put_right(path, finding, at_s=NOON_S + at * 7200)
        assert rows(path, "SELECT count(*) FROM embedding_cache") == [(VECTORS,)], at
        assert note(path).whole, at


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
def test_headers_of_other_databases_are_no_problem(tmp_path: Path, page_bytes: int) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA page_size = {page_bytes}")
        database.execute("CREATE TABLE t (x)")
    assert header_problem(path) is None


def test_no_file_and_an_empty_one_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    assert inspect(path) is None
    path.touch()
    assert inspect(path) is None


def test_what_only_the_log_holds_is_salvaged_though_the_file_is_empty(
    path: Path, tmp_path: Path
) -> None:
    held = Database(path)._connect()
    held.execute("UPDATE embedding_cache SET used_at = 5")
    held.execute("VACUUM")
    kept = tmp_path / "other.sqlite"
    kept.touch()
    Path(f"{kept}-wal").write_bytes(Path(f"{path}-wal").read_bytes())
    held.close()
    finding = inspect(kept)
    assert finding is not None
    put_right(kept, finding)
    assert rows(kept, "SELECT count(*) FROM embedding_cache") == [(VECTORS,)]


# --- file names


def test_a_copy_says_when_and_why_and_is_private(path: Path) -> None:
    path.chmod(0o640)
    put_right(path)
    (copy,) = copies(path)
    assert copy.name == "main.sqlite.damaged-20261128T120000Z-malformed"
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_last_three_are_kept_with_their_logs(path: Path, sound: bytes) -> None:
    for day in range(5):
        Path(f"{path}-wal").write_bytes(b"")
        put_right(path, at_s=NOON_S + day * 86_400)
    assert [copy.name[20:28] for copy in copies(path)] == ["20261130", "20261201", "20261202"]
    left = {file.name[20:28] for file in path.parent.iterdir() if "damaged" in file.name}
    assert left == {"20261130", "20261201", "20261202"}
    repair.remove_copies(path)
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []


def test_twice_in_a_second_are_two_copies(path: Path) -> None:
    put_right(path)
    put_right(path)
    assert len(copies(path)) == 2


def test_the_third_time_within_an_hour_is_a_failing_disk(path: Path) -> None:
    put_right(path)
    put_right(path, at_s=NOON_S + 1_000)
    before = path.read_bytes()
    with pytest.raises(FailingDiskError, match="disk may be failing"):
        put_right(path, at_s=NOON_S + 3_000)
    assert path.read_bytes() == before
    assert fault_of(FailingDiskError("x")) is Fault.SURROUNDINGS
    put_right(path, at_s=NOON_S + 10_000)
    assert len(copies(path)) == 3


def test_a_clock_that_was_wrong_once_blocks_nothing(path: Path) -> None:
    put_right(path, at_s=NOON_S + 10 * 365 * 86_400)
    put_right(path, at_s=NOON_S + 10 * 365 * 86_400 + 5)
    put_right(path)
    assert len(copies(path)) == 3


# --- the note


def test_it_is_told_until_the_next_start(path: Path) -> None:
    put_right(path)
    found = note(path)
    assert found.copy in found.message
    connection = Database(path)._connect()
    assert repair.take_note(connection, path) is None
    connection.close()


# --- interruption


def test_a_salvaged_file_is_put_in_place_by_the_next_start(path: Path, sound: bytes) -> None:
    """The crash may come after any of the three renames."""
    for moved in range(4):
        folder = path.parent / str(moved)
        folder.mkdir()
        index = folder / "main.sqlite"
        names = ["-wal", "-shm", ""]
        for suffix in names:
            Path(f"{index}{suffix}").write_text("damaged")
        Path(f"{index}.salvaged-20261128T120000Z-malformed").write_bytes(sound)
        Path(f"{index}.salvaging").write_text("half")
        Path(f"{index}.salvaging-copy-wal").write_text("half")
        for suffix in names[:moved]:
            copy = f"{index}.damaged-20261128T120000Z-malformed{suffix}"
            os.rename(f"{index}{suffix}", copy)
        finish(index)
        assert index.read_bytes() == sound
        stem = "main.sqlite.damaged-20261128T120000Z-malformed"
        assert sorted(file.name for file in folder.iterdir()) == sorted(
            ["main.sqlite", *(f"{stem}{suffix}" for suffix in names)]
        )


def test_nothing_is_moved_when_the_new_file_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    smash(path, *roots(path, "files"))
    before = path.read_bytes()
    monkeypatch.setattr(repair, "_commit", full)
    with pytest.raises(sqlite3.OperationalError):
        put_right(path)
    assert path.read_bytes() == before
    names = {file.name for file in path.parent.iterdir()}
    assert {name for name in names if name not in ("main.sqlite-wal", "main.sqlite-shm")} == {
        "main.sqlite"
    }


# --- corrupt texts


@pytest.fixture
def undecodable(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'choice'")
        yield database


def test_a_text_that_is_no_utf_8_any_more_is_damage(undecodable: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError) as raised:
        undecodable.execute("SELECT value FROM meta").fetchall()
    assert fault_of(raised.value) is Fault.CORRUPT
    assert checks.problem_of(raised.value).word == "content"
    assert fault_of(CorruptIndexError("x")) is Fault.CORRUPT
