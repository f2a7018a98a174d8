"""`kill -9` at any point, then a new start: nothing lost, nothing twice, nothing left over."""

import random
import sqlite3
from pathlib import Path

import pytest
from harness import PATIENCE_S, Daemon

ROUNDS = 4
ROUNDS_LONG = 60


def contents(daemon: Daemon) -> dict[str, object]:
    """Everything in the index that does not depend on the order in which it was made."""
    database = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    try:
        (check,) = database.execute("PRAGMA integrity_check").fetchone()
        return {
            "integrity": check,
            "files": database.execute(
                "SELECT source, path, hash FROM files ORDER BY path"
            ).fetchall(),
            "chunks": database.execute(
                "SELECT id, path, start_line, end_line, chunks.hash, heading, text, embedding"
                " FROM chunks JOIN files USING (file_id) LEFT JOIN embedding_cache"
                " USING (vector_id) ORDER BY id"
            ).fetchall(),
            "words": database.execute(
                "SELECT count(*) FROM chunks_fts_docsize WHERE id IN (SELECT row_id FROM chunks)"
            ).fetchone(),
            "orphans": database.execute(
                "SELECT count(*) FROM chunks_fts_docsize WHERE id NOT IN"
                " (SELECT row_id FROM chunks)"
            ).fetchone(),
            "vectors": database.execute(
                "SELECT count(*) FROM chunks_vec_rowids WHERE rowid IN"
                " (SELECT vector_id FROM chunks)"
            ).fetchone(),
            "stray vectors": database.execute(
                "SELECT count(*) FROM chunks_vec_rowids WHERE rowid NOT IN"
                " (SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL)"
            ).fetchone(),
        }
    finally:
        database.close()


def change_something(daemon: Daemon, dice: random.Random) -> None:
    memory = daemon.workspace / "memory"
    files = sorted(memory.rglob("*.md")) if memory.exists() else []
    action = dice.choice(["write", "write", "edit", "delete", "rename", "same text"])
    if action == "write" or not files:
        number = dice.randrange(1_000)
        daemon.write(f"memory/{number % 7}/{number}.md", text(dice))
    elif action == "edit":
        dice.choice(files).write_text(text(dice))
    elif action == "delete":
        dice.choice(files).unlink()
    elif action == "rename":
        file = dice.choice(files)
        file.rename(file.with_name(f"renamed{dice.randrange(1_000)}.md"))
    else:
        daemon.write(f"memory/copy{dice.randrange(50)}.md", dice.choice(files).read_bytes())


def text(dice: random.Random) -> str:
    return "\n".join(f"word{dice.randrange(500)} " * 40 for _ in range(dice.randrange(1, 60)))


def run_rounds(daemon: Daemon, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        change_something(daemon, dice)
    for _ in range(rounds):
        daemon.start()
        for _ in range(dice.randrange(1, 40)):
            change_something(daemon, dice)
            if dice.random() < 0.2:
                daemon.search(f"word{dice.randrange(500)}")
        if dice.random() < 0.5:
            with daemon.client() as client:
                client.sync(vectors=dice.random() < 0.5)
        daemon.kill()
    daemon.start().sync()
    assert daemon.stop() == 0
    left_over = [path.name for path in Path(daemon.database.parent).glob("*")]
    assert sorted(left_over) == ["main.sqlite", "main.sqlite.lock"]
    survived = contents(daemon)
    for path in daemon.database.parent.glob("main.sqlite*"):
        path.unlink()
    daemon.start().sync()
    daemon.stop()
    assert survived == contents(daemon)
    assert survived["integrity"] == "ok"
    assert survived["orphans"] == survived["stray vectors"] == (0,)


def test_killed_at_random_it_equals_an_index_from_scratch(hybrid: Daemon) -> None:
    run_rounds(hybrid, ROUNDS, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_killed_at_random_many_times(hybrid: Daemon, seed: int) -> None:
    run_rounds(hybrid, ROUNDS_LONG, seed)


def test_killed_while_embedding_it_goes_on_where_it_was(hybrid: Daemon) -> None:
    for number in range(400):
        hybrid.write(f"memory/{number}.md", f"text number {number}\n" * 20)
    hybrid.start()
    with hybrid.client() as client:
        while client.status().vector.in_memory < 100:
            pass
    hybrid.kill()
    hybrid.start().sync()
    texts = [text for text in hybrid.embedded() if "number" in text]
    assert len(set(texts)) == 400
    # The jobs under way at the kill had not been answered; nothing that was committed is repeated.
    assert len(texts) - len(set(texts)) <= 128


def test_a_full_disk_ends_it_with_a_line_and_loses_nothing(hybrid: Daemon) -> None:
    for number in range(200):
        hybrid.write(f"memory/{number}.md", f"text number{number}\n" * 100)
    hybrid.start(wait=False, file_blocks=600)
    assert hybrid.process is not None
    assert hybrid.process.wait(PATIENCE_S) == 1
    assert "Traceback" not in hybrid.log()
    last = hybrid.log().splitlines()[-1]
    assert last.startswith("memoryd: ")
    assert "disk" in last
    hybrid.start().sync()
    with hybrid.client() as client:
        status = client.status()
    assert (status.files, status.vector.in_memory, status.dirty) == (200, 200, False)
    hybrid.stop()
    assert contents(hybrid)["integrity"] == "ok"
