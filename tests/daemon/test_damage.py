"""Corrupt indexes: detected, moved aside, and rebuilt from the files and the salvaged rows."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import stat
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crash_steps
import pytest
from crash_world import check_integrity, contents
from damaging import PAGE_BYTES, flip, patiently, replace, smash, smash_root, text
from harness import Daemon
from waiting import PATIENCE_S

from memoryd.index.tombstone_key import SUFFIX
from memoryd_client.errors import UnavailableError

Contents = dict[str, list[tuple[Any, ...]]]
FILES = 40
SEEDS = 1
SEEDS_LONG = 40
SAFE = "sessions/chats/safe.jsonl"
SETTINGS = (
    "sync = { watch_debounce_ms = 20, sessions = { idle_seconds = 3600 } }"
    '\nsessions = { enabled = true, paths = ["~/chats"] }'
)


@pytest.fixture(scope="module")
def template() -> Iterator[Daemon]:
    """A stopped daemon with notes and two transcripts, one of them forgotten.

    Each test copies its index.
    """
    daemon = Daemon(provider="local", settings=SETTINGS)
    try:
        chats = daemon.folder / "chats"
        chats.mkdir()
        for name, said in (("train", "The train leaves at 7."), ("safe", "It is tamarind.")):
            (chats / f"{name}.jsonl").write_text(f'{{"role": "user", "content": "{said}"}}\n')
        dice = random.Random(7)
        for number in range(FILES):
            daemon.write(f"memory/{number}.md", f"# Note {number}\n\n{text(dice)}")
        daemon.start()
        with daemon.client() as client:
            client.sync(vectors=True)
            client.forget(path=SAFE)
            client.sync(vectors=True)
        assert daemon.stop() == 0
        yield daemon
    finally:
        daemon.__exit__(None, None, None)


@pytest.fixture
def filled(template: Daemon, hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, with a copy of the template's index."""
    hybrid.settings = SETTINGS
    for name in ("workspace", "chats"):
        shutil.copytree(template.folder / name, hybrid.folder / name, dirs_exist_ok=True)
    hybrid.database.parent.mkdir(parents=True, mode=0o700)
    for suffix in ("", SUFFIX):
        shutil.copy(f"{template.database}{suffix}", f"{hybrid.database}{suffix}")
    with contextlib.closing(sqlite3.connect(hybrid.database)) as database:
        query = "UPDATE meta SET value = ? WHERE key = 'workspace'"
        database.execute(query, (str(hybrid.workspace),))
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return hybrid


def long(case: object) -> object:
    """Exclude a case from the quick tests."""
    return pytest.param(case, marks=pytest.mark.long)


def copies(daemon: Daemon) -> list[str]:
    found = daemon.database.parent.glob("main.sqlite.damaged-*")
    return sorted(path.name for path in found if not path.name.endswith(("-wal", "-shm")))


def log_since_ready(daemon: Daemon) -> str:
    return daemon.log().rpartition(f"index {daemon.database}")[2]


def checked(daemon: Daemon) -> bool:
    """Return whether the open index has been checked and is intact."""
    return "is intact" in log_since_ready(daemon)


def start_and_settle(daemon: Daemon) -> None:
    daemon.start(wait=False)
    settle(daemon)


def settle(daemon: Daemon) -> None:
    """Wait until the index is repaired, filled and checked."""

    def done() -> bool:
        with daemon.client() as client:
            client.sync(vectors=True)
            return checked(daemon)

    patiently(done)


def embedded_since(daemon: Daemon, before: int) -> set[str]:
    return {literal_eval(line) for line in daemon.embedded()[before:]}


def stop_and_compare(daemon: Daemon, wanted: Contents) -> None:
    """Compare with an index from scratch; check integrity, leftovers and the log."""
    assert daemon.stop() == 0
    assert contents(daemon.database) == wanted
    check_integrity(daemon.database)
    suffixes = ("", "-wal", "-shm", ".lock", SUFFIX)
    allowed = {f"main.sqlite{suffix}" for suffix in suffixes}
    names = {path.name for path in daemon.database.parent.iterdir()}
    assert {
        name for name in names - allowed if ".damaged-" not in name and "other" not in name
    } == set()
    for path in daemon.database.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert "Traceback" not in daemon.log()


# --- random corruption


def damage_at_random(daemon: Daemon, seed: int) -> None:
    dice = random.Random(seed)
    wanted = contents(daemon.database)
    if dice.random() < 0.5:
        flip(daemon.database, dice, bits=1)
    else:
        smash(daemon.database, dice, pages=1)
    start_and_settle(daemon)
    assert daemon.paths('"tamarind"', sources=["sessions"]) == []
    judged = daemon.memctl_json("doctor")
    assert [found for found in judged["findings"] if found["level"] == "error"] == []
    stop_and_compare(daemon, wanted)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_damaged_anywhere_it_equals_an_index_from_scratch(filled: Daemon, seed: int) -> None:
    damage_at_random(filled, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_LONG))
def test_damaged_anywhere_many_times(filled: Daemon, seed: int) -> None:
    damage_at_random(filled, seed)


# --- corruption by table, and the kept rows


def test_a_damaged_text_has_the_index_moved_aside_and_nothing_is_paid_twice(
    filled: Daemon,
) -> None:
    wanted = contents(filled.database)
    replace(filled.database, b"# Note 7\n", b"# Nope 7\n")
    before = len(filled.embedded())
    start_and_settle(filled)
    (copy,) = copies(filled)
    assert copy.startswith("main.sqlite.damaged-2")
    assert copy.endswith("Z-content")
    with filled.client() as client:
        (told,) = client.status().degraded
        assert filled.memctl("search", "train").returncode == 0
    assert copy in told
    assert "has a changed text" in told
    stop_and_compare(filled, wanted)
    texts = {chunk[7] for chunk in wanted["chunks"]}
    assert embedded_since(filled, before) & texts == set()
    with filled.start().client() as client:
        assert client.status().degraded == [], "the report ends with the next start"


def test_a_damaged_name_of_a_column_is_noticed_before_it_is_read(filled: Daemon) -> None:
    wanted = contents(filled.database)
    with contextlib.closing(sqlite3.connect(filled.database)) as database:
        database.execute("ALTER TABLE batch_jobs RENAME COLUMN provider_key TO qrovider_key")
    start_and_settle(filled)
    (copy,) = copies(filled)
    assert copy.endswith("Z-content")
    assert "there is no column batch_jobs.provider_key" in filled.log()
    stop_and_compare(filled, wanted)


@pytest.mark.parametrize("table", ["files", *map(long, ("chunks", "sqlite_autoindex_chunks_1"))])
def test_damaged_tables_that_come_from_files_cost_no_embedding(filled: Daemon, table: str) -> None:
    wanted = contents(filled.database)
    smash_root(filled.database, table)
    before = len(filled.embedded())
    start_and_settle(filled)
    assert len(copies(filled)) == 1
    stop_and_compare(filled, wanted)
    texts = {chunk[7] for chunk in wanted["chunks"]}
    assert embedded_since(filled, before) & texts == set()


@pytest.mark.parametrize(
    "table", ["chunks_fts_data", *map(long, ("chunks_fts_docsize", "chunks_fts_config"))]
)
def test_damaged_keywords_are_filled_again_in_place(filled: Daemon, table: str) -> None:
    wanted, rows = contents(filled.database), row_ids(filled)
    smash_root(filled.database, table)
    start_and_settle(filled)
    assert filled.paths("Note 7", mode="keyword")
    assert copies(filled) == []
    stop_and_compare(filled, wanted)
    assert row_ids(filled) == rows


def row_ids(daemon: Daemon) -> list[tuple[int, str]]:
    with contextlib.closing(sqlite3.connect(daemon.database)) as database:
        return database.execute("SELECT row_id, id FROM chunks ORDER BY row_id").fetchall()


def change_words(daemon: Daemon) -> None:
    with contextlib.closing(sqlite3.connect(daemon.database)) as database:
        database.execute("INSERT INTO chunks_fts (rowid, body) VALUES (7, 'other words')")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.long
def test_a_vector_that_is_damaged_is_embedded_again_and_no_other(filled: Daemon) -> None:
    wanted = contents(filled.database)
    with contextlib.closing(sqlite3.connect(filled.database)) as database:
        query = (
            "SELECT c.hash, embedding FROM chunks c JOIN embedding_cache USING (vector_id)"
            " WHERE text LIKE '# Note 7\n%'"
        )
        digest, embedding = database.execute(query).fetchone()
        damaged = embedding[:100] + bytes([embedding[100] ^ 0x40]) + embedding[101:]
        database.execute(
            "UPDATE embedding_cache SET embedding = ? WHERE hash = ?", (damaged, digest)
        )
        database.commit()
    before = len(filled.embedded())
    start_and_settle(filled)
    assert len(copies(filled)) == 1
    stop_and_compare(filled, wanted)
    texts = {chunk[7]: chunk[5] for chunk in wanted["chunks"]}
    again = embedded_since(filled, before)
    assert {texts[t] for t in again if t in texts} <= {digest}


def test_what_was_forgotten_and_cannot_be_read_is_told_loudly(filled: Daemon) -> None:
    smash_root(filled.database, "forgotten")
    smash_root(filled.database, "chunks")
    start_and_settle(filled)
    for _ in range(2):
        with filled.client() as client:
            (told,) = client.status().degraded
        assert "Not everything that was forgotten could be read" in told
        assert filled.stop() == 0
        filled.start().sync()
    assert "not all tombstones could be read" in filled.log()
    with filled.client() as client:
        client.forget(path=SAFE)
        assert client.status().degraded == []
    assert copies(filled) == [], "a copy would keep the text to forget"


# --- corruption at run time


def test_damaged_while_it_runs_it_answers_again_and_disturbs_no_other_agent(
    filled: Daemon,
) -> None:
    wanted = contents(filled.database)
    filled.add_agent("other")
    filled.start().sync()
    with filled.client("other") as other:
        pid = other.ping().pid
        with filled.client() as client:
            smash_all(filled.database)

            def found() -> bool:
                with contextlib.suppress(UnavailableError):
                    client.search("word1", mode="keyword")
                    client.files()
                assert [hit.path for hit in other.search("note of other").results]
                return bool(copies(filled))

            patiently(found)
            patiently(lambda: bool(client.search("Note 7").results))
        assert other.ping().pid == pid
    settle(filled)
    assert "memoryd.daemon.agents: agent main: " not in filled.log(), "the agent never failed"
    # The file was unreadable; the tombstones in memory keep transcripts out.
    wanted["tombstones"] = [("path", SAFE)]
    with filled.client() as client:
        assert "forgotten could be read" not in client.status().degraded[0]
    stop_and_compare(filled, wanted)


def smash_all(file: Path) -> None:
    """Leave only the first page; connections may cache other pages, and the log may have some."""
    size = file.stat().st_size
    replace_at(file, PAGE_BYTES, random.Random(1).randbytes(size - PAGE_BYTES))


# --- the file as a whole


def header(daemon: Daemon) -> None:
    replace_at(daemon.database, 0, b"SQLIte")


def format_number(daemon: Daemon) -> None:
    replace_at(daemon.database, 18, b"\7")


def replace_at(file: Path, at: int, data: bytes) -> None:
    with open(file, "r+b") as opened:
        opened.seek(at)
        opened.write(data)


def cut_in_the_middle_of_a_page(daemon: Daemon) -> None:
    os.truncate(daemon.database, daemon.database.stat().st_size // 2 + 1000)


def cut_before_the_last_page(daemon: Daemon) -> None:
    os.truncate(daemon.database, daemon.database.stat().st_size - PAGE_BYTES)


@pytest.mark.parametrize(
    "damage",
    [header, *map(long, (format_number, cut_in_the_middle_of_a_page, cut_before_the_last_page))],
)
def test_a_file_of_which_a_part_is_lost_is_salvaged(
    filled: Daemon, damage: Callable[[Daemon], None]
) -> None:
    wanted = contents(filled.database)
    damage(filled)
    start_and_settle(filled)
    assert len(copies(filled)) == 1
    with filled.client() as client:
        (told,) = client.status().degraded
        if "forgotten could be read" in told:
            client.forget(path=SAFE)
            client.sync(vectors=True)
    stop_and_compare(filled, wanted)


def cut_to_a_header(daemon: Daemon) -> None:
    os.truncate(daemon.database, 1000)


def empty(daemon: Daemon) -> None:
    os.truncate(daemon.database, 0)


def zeros(daemon: Daemon) -> None:
    size = daemon.database.stat().st_size
    os.truncate(daemon.database, 0)
    os.truncate(daemon.database, size)


@pytest.mark.parametrize("damage", [zeros, *map(long, (cut_to_a_header, empty))])
def test_a_file_that_is_lost_is_built_anew(
    filled: Daemon, damage: Callable[[Daemon], None]
) -> None:
    damage(filled)
    start_and_settle(filled)
    with filled.client() as client:
        status = client.status()
    assert (status.files, status.pending_vectors) == (FILES + 2, 0)
    told = [line for line in status.degraded if "forgotten could be read" in line]
    assert len(told) == len(copies(filled)) == (0 if damage is empty else 1)
    filled.stop()
    check_integrity(filled.database)


def noise(daemon: Daemon) -> None:
    daemon.database.write_bytes(random.Random(1).randbytes(100))


def foreign(daemon: Daemon) -> None:
    daemon.database.write_text("a letter to Ann\n" * 1000)


def folder(daemon: Daemon) -> None:
    daemon.database.unlink()
    daemon.database.mkdir()


def pipe(daemon: Daemon) -> None:
    daemon.database.unlink()
    os.mkfifo(daemon.database)


def journal(daemon: Daemon) -> None:
    os.mkfifo(f"{daemon.database}-journal")


@pytest.mark.parametrize("damage", [pipe, *map(long, (noise, foreign, folder, journal))])
def test_what_is_no_index_is_refused_and_left_as_it_is(
    daemon: Daemon, damage: Callable[[Daemon], None]
) -> None:
    daemon.start().stop()
    damage(daemon)
    before = daemon.database.lstat()
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(PATIENCE_S) == 78
    last = daemon.log().splitlines()[-1]
    assert str(daemon.database) in last
    assert "store.path" in last
    assert "Traceback" not in daemon.log()
    after = daemon.database.lstat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert copies(daemon) == []


# --- the write-ahead log


def no_log(daemon: Daemon, older: Path) -> None:
    Path(f"{daemon.database}-wal").unlink()


def cut_log(daemon: Daemon, older: Path) -> None:
    log = Path(f"{daemon.database}-wal")
    os.truncate(log, log.stat().st_size // 2 + 11)


def log_of_an_older_copy(daemon: Daemon, older: Path) -> None:
    shutil.copy(f"{older}-wal", f"{daemon.database}-wal")


def older_database(daemon: Daemon, older: Path) -> None:
    shutil.copy(older, daemon.database)


@pytest.mark.long
@pytest.mark.parametrize("damage", [no_log, cut_log, log_of_an_older_copy, older_database])
def test_with_a_wrong_log_after_a_crash_it_equals_an_index_from_scratch(
    filled: Daemon, damage: Callable[[Daemon, Path], None]
) -> None:
    filled.start().sync()
    older = filled.folder / "older.sqlite"
    filled.write("memory/late.md", "# Late\n\nwritten before the copy\n")
    filled.sync()
    for suffix in ("", "-wal"):
        shutil.copy(f"{filled.database}{suffix}", f"{older}{suffix}")
    for number in range(FILES, 2 * FILES):
        filled.write(f"memory/{number}.md", text(random.Random(number)))
    with filled.client() as client:
        client.sync(vectors=True)
    filled.kill()
    damage(filled, older)
    start_and_settle(filled)
    assert filled.stop() == 0
    survived = contents(filled.database)
    check_integrity(filled.database)
    for path in filled.database.parent.glob("main.sqlite*[!y]"):  # all but the tombstones' key
        path.unlink()
    start_and_settle(filled)
    with filled.client() as client:
        client.forget(path=SAFE)
    filled.stop()
    assert survived == contents(filled.database)
    assert "Traceback" not in filled.log()


# --- killed during the repair


@dataclass(frozen=True)
class Kill:
    """The step and call at which the daemon is killed, and the table that is corrupt then."""

    at: str
    nth: int = 1
    table: str = "files"


@pytest.mark.parametrize(
    "kill",
    [
        Kill("os:rename:after"),
        *map(
            long,
            (
                Kill("memoryd.index.repair.checks:corrupt_tables:after"),
                Kill("memoryd.index.repair.salvage:read_span:after"),
                Kill("memoryd.index.repair.salvage:insert_tombstones:after"),
                Kill("memoryd.index.repair.recover:_commit:before"),
                Kill("memoryd.index.repair.recover:_commit:after"),
                Kill("memoryd.index.repair.recover:finish:before", 2),
                Kill("os:replace:before"),
                Kill("os:replace:after"),
                Kill("os:rename:before"),
                Kill("os:rename:after", 2),
                Kill("os:rename:after", 3),
                Kill("os:replace:before", 2),
                Kill("os:replace:after", 2),
                Kill("memoryd.index.repair.recover:finish:after", 2),
                Kill("memoryd.index.repair.recover:take_note:after"),
                Kill("memoryd.index.repair.recover:_drop_corrupt:before", table="words"),
                Kill("memoryd.index.repair.recover:_drop_corrupt:after", table="words"),
                Kill("memoryd.index.repair.recover:_cut_out:before", table="chunks_fts_data"),
                Kill("memoryd.index.repair.recover:_cut_out:after", table="chunks_fts_data"),
            ),
        ),
    ],
    ids=str,
)
def test_killed_while_it_is_put_right_the_next_start_goes_on(filled: Daemon, kill: Kill) -> None:
    wanted = contents(filled.database)
    if kill.table == "words":
        change_words(filled)
    else:
        smash_root(filled.database, kill.table)
    filled.variables = crash_steps.install(filled, kill.at, kill.nth)
    filled.start(wait=False)
    assert filled.process is not None
    assert filled.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert crash_steps.note(filled).read_text() == kill.at
    filled.variables = {}
    before = len(filled.embedded())
    start_and_settle(filled)
    stop_and_compare(filled, wanted)
    texts = {chunk[7] for chunk in wanted["chunks"]}
    assert embedded_since(filled, before) & texts == set()


# --- repeated corruption


@pytest.mark.long
def test_a_disk_that_damages_it_again_and_again_ends_in_a_clear_reason(filled: Daemon) -> None:
    for count in (1, 2):
        smash_root(filled.database, "chunks")
        start_and_settle(filled)
        filled.stop()
        assert len(copies(filled)) == count
    smash_root(filled.database, "chunks")
    before = filled.database.read_bytes()
    filled.start(wait=False)
    assert filled.process is not None
    assert filled.process.wait(PATIENCE_S) == 1
    last = filled.log().splitlines()[-1]
    assert "the disk may be failing" in last
    assert filled.database.read_bytes() == before
    for copy in copies(filled):
        (filled.database.parent / copy).unlink()
    start_and_settle(filled)
    assert filled.paths("Note 7")
