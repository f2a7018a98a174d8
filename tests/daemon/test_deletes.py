"""Deleted files leave the index, whatever was in progress."""

import os
import random
from collections.abc import Iterator

import pytest
from crash_world import check_integrity, contents
from gate import Gate
from harness import Daemon
from serving import serving
from vendors import OpenAiDouble
from waiting import eventually

from memoryd_client.schema.status import StatusResult

KEY = "sk-double-Zq7Zq7Zq7Zq7"
STORMS = 150
NOTES = 20


@pytest.fixture
def openai() -> Iterator[OpenAiDouble]:
    with serving(OpenAiDouble(key=KEY)) as double:
        yield double
        if isinstance(double.gate, Gate):
            double.gate.open_up()


@pytest.fixture
def asking(daemon: Daemon, openai: OpenAiDouble) -> Daemon:
    daemon.provider = "openai"
    daemon.settings += "\nchunking = { tokens = 40, overlap = 0 }\n"
    daemon.settings += f'[defaults.remote]\nbase_url = "{openai.url}"\n'
    daemon.variables["OPENAI_API_KEY"] = KEY
    return daemon


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def keywords(daemon: Daemon, query: str) -> list[str]:
    return sorted(set(daemon.paths(query, mode="keyword", max_results=50)))


def assert_whole(daemon: Daemon) -> None:
    """Check that no table and no vector in memory refers to a deleted file."""
    daemon.sync()
    rows = contents(daemon.database)
    for what in rows:
        if "without" in what:
            assert rows[what] == [], what
    shown = status(daemon)
    assert (shown.files, shown.chunks) == (len(rows["files"]), len(rows["chunks"]))
    assert shown.vector.in_memory == shown.chunks
    check_integrity(daemon.database)


@pytest.mark.parametrize("what", ["deleted", "renamed", "changed", "shorter", "a folder now"])
def test_what_happens_to_a_file_while_it_is_embedded_stays(
    asking: Daemon, openai: OpenAiDouble, what: str
) -> None:
    asking.start().sync()
    gate = openai.gate = Gate()
    text = "".join(f"line {n} of a note of wombats\n" * 5 for n in range(10))
    note = asking.write("memory/a.md", text)
    eventually(lambda: any("wombats" in text for texts in openai.inputs for text in texts))
    there: list[str] = []
    if what == "deleted":
        note.unlink()
    elif what == "renamed":
        note.rename(note.with_name("b.md"))
        there = ["memory/b.md"]
    elif what == "changed":
        note.write_text("a note of numbats\n")
    elif what == "shorter":
        note.write_text("line 0 of a note of wombats\n")
        there = ["memory/a.md"]
    else:
        note.unlink()
        asking.write("memory/a.md/inside.md", "a note of wombats in a folder\n")
        there = ["memory/a.md/inside.md"]
    with asking.client() as client:
        client.sync(vectors=False)
    assert keywords(asking, "wombats") == there
    gate.open_up()
    eventually(lambda: status(asking).pending_vectors == 0)
    assert_whole(asking)
    found = asking.search("line of a note of wombats", max_results=50)
    assert {hit.path for hit in found.results} <= {*there, "memory/a.md"}
    assert keywords(asking, "wombats") == there
    assert keywords(asking, "numbats") == (["memory/a.md"] if what == "changed" else [])
    assert (len(contents(asking.database)["chunks"]) == 1) is (what not in ("deleted", "renamed"))
    asking.kill()
    asking.start()
    assert_whole(asking)
    assert keywords(asking, "wombats") == there


def test_a_file_that_becomes_a_folder_and_a_file_again(hybrid: Daemon) -> None:
    note = hybrid.write("memory/x.md", "a note of quokkas\n")
    hybrid.start().sync()
    for _ in range(3):
        note.unlink()
        hybrid.write("memory/x.md/y.md", "a note of dingos\n")
        eventually(lambda: keywords(hybrid, "dingos") == ["memory/x.md/y.md"])
        eventually(lambda: keywords(hybrid, "quokkas") == [])
        (note / "y.md").unlink()
        note.rmdir()
        hybrid.write("memory/x.md", "a note of quokkas\n")
        eventually(lambda: keywords(hybrid, "quokkas") == ["memory/x.md"])
        eventually(lambda: keywords(hybrid, "dingos") == [])
    assert_whole(hybrid)


def test_two_names_that_differ_in_case_are_two_files(hybrid: Daemon) -> None:
    upper = hybrid.write("memory/Plan.md", "the plan in capitals\n")
    hybrid.write("memory/plan.md", "the plan in small letters\n")
    hybrid.start().sync()
    assert keywords(hybrid, "plan") == ["memory/Plan.md", "memory/plan.md"]
    upper.unlink()
    eventually(lambda: keywords(hybrid, "plan") == ["memory/plan.md"])
    (hybrid.workspace / "memory/plan.md").rename(hybrid.workspace / "memory/PLAN.md")
    eventually(lambda: keywords(hybrid, "plan") == ["memory/PLAN.md"])
    (hybrid.workspace / "memory/PLAN.md").rename(hybrid.workspace / "memory/Plan.md")
    eventually(lambda: keywords(hybrid, "plan") == ["memory/Plan.md"])
    assert_whole(hybrid)
    with hybrid.client() as client:
        assert client.get("memory/Plan.md").text == "the plan in small letters"


@pytest.mark.parametrize("removed", ["a.md", "b.md"])
def test_a_file_with_two_names_counts_once_and_stays_as_long_as_one(
    hybrid: Daemon, removed: str
) -> None:
    first = hybrid.write("memory/a.md", "a note of echidnas\n")
    hybrid.start().sync()
    second = first.with_name("b.md")
    os.link(first, second)
    hybrid.sync()
    assert keywords(hybrid, "echidnas") == ["memory/a.md"]
    assert status(hybrid).files == 1
    first.with_name(removed).unlink()
    left = {"a.md": "memory/b.md", "b.md": "memory/a.md"}[removed]
    eventually(lambda: keywords(hybrid, "echidnas") == [left])
    assert status(hybrid).files == 1
    (hybrid.workspace / left).unlink()
    eventually(lambda: keywords(hybrid, "echidnas") == [])
    assert_whole(hybrid)
    assert len([text for text in hybrid.embedded() if "echidnas" in text]) <= 2  # and a query


def test_a_storm_of_renames_leaves_each_file_once(hybrid: Daemon) -> None:
    dice = random.Random(5)
    for number in range(NOTES):
        hybrid.write(f"memory/n{number}.md", f"note storm{number} about bilbies\n")
    hybrid.start().sync()
    memory = hybrid.workspace / "memory"
    for step in range(STORMS):
        names = sorted(memory.rglob("*.md"))
        file = dice.choice(names)
        target = memory / f"f{dice.randrange(3)}" / f"{dice.choice('nN')}{step % 7}.md"
        target.parent.mkdir(exist_ok=True)
        if dice.random() < 0.2:
            other = dice.choice(names)
            spare = memory / "spare"
            file.rename(spare)
            other.rename(file) if other != file else None
            spare.rename(other)
        elif not target.exists():
            file.rename(target)
    hybrid.sync()
    on_disk = {p.relative_to(hybrid.workspace).as_posix(): p for p in memory.rglob("*.md")}
    assert len(on_disk) == NOTES
    for path, file in on_disk.items():
        word = file.read_text().split()[1]
        assert keywords(hybrid, f'"{word}"') == [path]
    assert_whole(hybrid)
    texts = [text for text in hybrid.embedded() if "bilbies" in text]
    assert len(texts) == len(set(texts)) == NOTES


def test_what_is_deleted_during_a_rebuild_is_not_in_the_new_index(
    asking: Daemon, openai: OpenAiDouble
) -> None:
    notes = [
        asking.write(f"memory/{n}.md", "".join(f"line {m} of note{n}\n" for m in range(30)))
        for n in range(NOTES)
    ]
    asking.start().sync()
    assert asking.stop() == 0
    asking.settings = asking.settings.replace("tokens = 40", "tokens = 20")
    asked = len(openai.inputs)
    gate = openai.gate = Gate()
    asking.start()
    eventually(lambda: len(openai.inputs) > asked)
    notes[3].unlink()
    notes[4].rename(notes[4].with_name("moved.md"))
    notes[5].write_text("note5 is short now\n")
    gate.open_up()
    eventually(lambda: status(asking).custom.index_identity.status == "valid")
    asking.sync()
    eventually(lambda: status(asking).pending_vectors == 0)
    assert keywords(asking, "note3") == []
    assert keywords(asking, "note4") == ["memory/moved.md"]
    assert keywords(asking, "note5") == ["memory/5.md"]
    assert_whole(asking)
    assert status(asking).files == NOTES - 1


# --- nothing is left of a deleted text


WORDS = ("mulberry", "quincunx", "zephyrs", "kohlrabi", "sassafras")


def state_remains(daemon: Daemon, *words: str) -> list[tuple[str, str]]:
    """Return each word with the name of a file of the state folder that contains it."""
    files = [file for file in daemon.database.parent.rglob("*") if file.is_file()]
    read = [(file.name, file.read_bytes().lower()) for file in files]
    return [(word, name) for word in words for name, data in read if word.encode() in data]


def test_a_deleted_word_is_nowhere_in_the_state_folder_after_a_sync(hybrid: Daemon) -> None:
    filling = " ".join(f"walk{n} along the river" for n in range(60))
    notes = [
        hybrid.write(f"memory/{number}.md", f"# About\n\nthe {word} affair\n")
        for number, word in enumerate(WORDS)
    ]
    for number in range(40):
        hybrid.write(f"memory/other{number}.md", f"{filling} note{number}\n")
    hybrid.start().sync()
    assert {word for word, _ in state_remains(hybrid, *WORDS)} == set(WORDS)
    notes[0].unlink()
    notes[1].write_text("# About\n\nan innocent fig\n")
    hybrid.sync()
    assert state_remains(hybrid, *WORDS[:2]) == [], "while it is running"
    assert state_remains(hybrid, "innocent")
    with hybrid.client() as client:
        client.index(force=True)
    notes[2].unlink()
    hybrid.sync()
    assert state_remains(hybrid, *WORDS[:3]) == [], "in a rebuilt index"
    assert hybrid.stop() == 0
    assert state_remains(hybrid, *WORDS[:3]) == [], "after a stop"
    notes[3].unlink()
    hybrid.start().sync()
    assert state_remains(hybrid, *WORDS[:4]) == [], "deleted while it was not running"
    (hybrid.workspace / "memory/.memoryignore").write_text("4.md\n")
    hybrid.sync()
    assert state_remains(hybrid, *WORDS) == [], "hidden from memoryd"
    assert_whole(hybrid)
    hybrid.assert_healthy()


def test_a_deletion_right_before_a_kill_is_made_good_by_the_next_sync(hybrid: Daemon) -> None:
    note = hybrid.write("memory/a.md", "the mulberry affair\n")
    hybrid.write("memory/b.md", "a fig\n")
    hybrid.start().sync()
    note.unlink()
    eventually(lambda: keywords(hybrid, "mulberry") == [])
    hybrid.kill()
    hybrid.start().sync()
    assert state_remains(hybrid, "mulberry") == []
    assert_whole(hybrid)


def test_an_idle_daemon_removes_a_deleted_word_without_a_sync(hybrid: Daemon) -> None:
    note = hybrid.write("memory/a.md", "the mulberry affair\n")
    hybrid.write("memory/b.md", "a fig\n")
    hybrid.start().sync()
    note.unlink()
    eventually(lambda: keywords(hybrid, "mulberry") == [])
    eventually(lambda: state_remains(hybrid, "mulberry") == [])
    assert_whole(hybrid)


def test_the_vector_of_a_deleted_text_leaves_the_cache_after_its_time(hybrid: Daemon) -> None:
    hybrid.settings += "\ncache = { deleted_days = 0 }\n"
    note = hybrid.write("memory/a.md", "the mulberry affair\n")
    hybrid.write("memory/b.md", "a fig\n")
    hybrid.start().sync()
    assert status(hybrid).cache.entries == 2
    note.unlink()
    hybrid.sync()
    assert hybrid.stop() == 0
    hybrid.start().sync()  # the first look is soon after the start, the next ones are hourly
    eventually(lambda: status(hybrid).cache.entries == 1)
    assert_whole(hybrid)
