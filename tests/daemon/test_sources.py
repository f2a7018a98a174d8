"""Memory files, and the arrival of their changes."""

import os
import shutil

import pytest
from harness import Daemon
from waiting import eventually


def test_everything_that_is_memory_is_found_and_nothing_else(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "durable kumquat")
    daemon.write("memory/2026-11-28.md", "daily kumquat")
    daemon.write("memory/deep/er/note.md", "nested kumquat")
    daemon.write("memory/not.txt", "kumquat in plain text")
    daemon.write("memory/.hidden.md", "hidden kumquat")
    daemon.write("elsewhere/note.md", "kumquat outside the memory")
    for tool in (".git", "node_modules", ".venv", "__pycache__"):
        daemon.write(f"memory/{tool}/note.md", "kumquat of a tool")
    daemon.start().sync()
    assert sorted(daemon.paths("kumquat")) == [
        "MEMORY.md",
        "memory/2026-11-28.md",
        "memory/deep/er/note.md",
    ]


def test_extra_paths_are_files_and_folders_and_what_is_skipped_has_a_reason(
    daemon: Daemon,
) -> None:
    outside = daemon.folder / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("an extra persimmon")
    (outside / "b.txt").write_text("a persimmon that is no Markdown")
    (daemon.folder / "single.md").write_text("a single persimmon")
    (outside / "link.md").symlink_to(daemon.folder / "single.md")
    daemon.settings = (
        'extra_paths = ["~/outside", "../single.md", "../outside/b.txt", "../nowhere", '
        '"../outside/../outside/a.md"]'
    )
    daemon.start().sync()
    assert sorted(daemon.paths("persimmon")) == [
        str(outside / "a.md"),
        str(daemon.folder / "single.md"),
    ]
    with daemon.client() as client:
        skipped = {s.path: s.reason for s in client.status().skipped_paths}
    assert skipped == {
        str(outside / "link.md"): "a symbolic link; links are not followed",
        str(outside / "b.txt"): "not a Markdown file (.md)",
        str(daemon.folder / "nowhere"): "missing",
    }


def test_edits_renames_and_deletes_leave_nothing_behind(daemon: Daemon) -> None:
    note = daemon.write("memory/a.md", "the first quince")
    daemon.write("memory/folder/b.md", "the second quince")
    daemon.start().sync()
    note.write_text("the edited medlar")
    (daemon.workspace / "memory/folder").rename(daemon.workspace / "memory/renamed")
    daemon.sync()
    assert daemon.paths("quince") == ["memory/renamed/b.md"]
    assert daemon.paths("medlar") == ["memory/a.md"]
    note.unlink()
    shutil.rmtree(daemon.workspace / "memory/renamed")
    daemon.sync()
    assert daemon.paths("quince medlar") == []
    with daemon.client() as client:
        status = client.status()
    assert (status.files, status.chunks) == (0, 0)


@pytest.mark.parametrize("where", ["memory/new.md", "MEMORY.md", "memory/a/b/c/new.md"])
def test_the_watcher_notices_by_itself(daemon: Daemon, where: str) -> None:
    daemon.write("memory/old.md", "old")
    daemon.start().sync()
    with daemon.client() as client:
        eventually(lambda: client.status().watch.armed)
    file = daemon.write(where, "a noticed loquat")
    eventually(lambda: daemon.paths("loquat") == [where])
    file.write_text("a noticed sapodilla")
    eventually(lambda: daemon.paths("sapodilla") == [where])
    file.unlink()
    eventually(lambda: daemon.paths("sapodilla") == [])


def test_a_memory_folder_that_comes_later_is_watched(daemon: Daemon) -> None:
    daemon.start().sync()
    daemon.write("memory/first.md", "a late jujube")
    eventually(lambda: daemon.paths("jujube") == ["memory/first.md"])
    daemon.write("memory/second.md", "another jujube")
    eventually(lambda: len(daemon.paths("jujube")) == 2)


def test_a_search_takes_what_is_still_in_its_quiet_period(daemon: Daemon) -> None:
    daemon.settings = "sync = { watch_debounce_ms = 600_000 }"
    daemon.write("memory/a.md", "old")
    daemon.start().sync()
    with daemon.client() as client:
        eventually(lambda: client.status().watch.armed)
        daemon.write("memory/a.md", "a hurried tamarind")
        eventually(lambda: [h.path for h in client.search("tamarind").results] == ["memory/a.md"])


def test_other_files_of_the_workspace_make_nothing_stale(daemon: Daemon) -> None:
    daemon.settings = "sync = { watch_debounce_ms = 600_000, on_search = false }"
    daemon.write("memory/a.md", "a calm kinkajou")
    daemon.start().sync()
    with daemon.client() as client:
        eventually(lambda: client.status().watch.armed)
        for number in range(20):
            daemon.write(f"agent{number}.log", "busy")
            daemon.write("memory/state.json", str(number))
        daemon.write("memory/b.md", "noticed after all of these")
        eventually(lambda: client.search("kinkajou").stale)
        assert client.search("kinkajou").pending_files == 1


def test_without_watching_a_status_sees_changes_and_a_sync_takes_them(daemon: Daemon) -> None:
    daemon.settings = "sync = { watch = false, interval_minutes = 0 }"
    daemon.write("memory/a.md", "one")
    daemon.start().sync()
    with daemon.client() as client:
        assert not client.status().dirty
        daemon.write("memory/b.md", "a cherimoya")
        status = client.status()
        assert status.dirty
        assert status.dirty_reasons == ["1 changed file not indexed yet"]
        assert client.search("cherimoya").results == []
        client.sync()
        assert not client.status().dirty
        assert len(client.search("cherimoya").results) == 1


def test_a_workspace_that_vanishes_does_not_empty_the_index(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "a lasting feijoa")
    daemon.start().sync()
    away = daemon.workspace.rename(daemon.folder / "away")
    daemon.sync()
    with daemon.client() as client:
        status = client.status()
    assert len(daemon.paths("feijoa")) == 1
    assert any("can't be read" in reason for reason in status.degraded)
    away.rename(daemon.workspace)
    daemon.sync()
    with daemon.client() as client:
        assert client.status().degraded == []


def test_names_that_are_not_utf_8_are_skipped_with_a_reason(daemon: Daemon) -> None:
    memory = os.fsencode(daemon.workspace / "memory")
    os.mkdir(memory)
    os.symlink(b"/nowhere", memory + b"/\xff.md")
    with open(memory + b"/\xfe.md", "w") as file:
        file.write("unnamed")
    os.mkdir(memory + b"/\xfd")
    os.mkfifo(memory + b"/pipe.md")
    daemon.write("memory/emoji 🦊 \n%_'\".md", "a named caracal")
    daemon.start().sync()
    assert daemon.paths("caracal unnamed") == ["memory/emoji 🦊 \n%_'\".md"]
    with daemon.client() as client:
        skipped = {s.path.rpartition("/")[2]: s.reason for s in client.status().skipped_paths}
    assert skipped == {
        "\\xff.md": "a symbolic link; links are not followed",
        "\\xfe.md": "its name is not UTF-8",
        "\\xfd": "its name is not UTF-8",
        "pipe.md": "not a regular file",
    }
    with open(memory + b"/\xfe.md", "a") as file:
        file.write(" still")
    eventually(lambda: daemon.paths("caracal") != [])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_citations_count_lines_as_an_editor_does(daemon: Daemon, end: str) -> None:
    lines = ["# Trees", "<private>", "the code", "</private>"]
    lines += [f"birch number{line}" for line in range(5, 406)]
    daemon.write("memory/a.md", "\ufeff" + end.join(lines))
    daemon.start().sync()
    with daemon.client() as client:
        for line in (5, 200, 405):
            hit = client.search(f"number{line}").results[0]
            assert hit.start_line <= hit.snippet_start_line <= line
            assert line <= hit.snippet_end_line <= hit.end_line
            cited = lines[hit.snippet_start_line - 1 : hit.snippet_end_line]
            assert f"birch number{line}" in cited
            assert hit.snippet.split("\n")[-1] == cited[-1]
            shown = client.get("memory/a.md", start_line=line, lines=1)
            assert (shown.text, shown.total_lines) == (lines[line - 1], 405)


def test_touching_a_file_changes_nothing(hybrid: Daemon) -> None:
    note = hybrid.write("memory/a.md", "a touched carambola")
    hybrid.start().sync()
    os.utime(note)
    hybrid.sync()
    assert len(hybrid.embedded()) == 1
    with hybrid.client() as client:
        eventually(lambda: not client.status().dirty)
    assert len(hybrid.embedded()) == 1


def test_one_edited_line_costs_one_chunk(hybrid: Daemon) -> None:
    lines = [f"paragraph {n}: {'lorem ipsum ' * 30}\n" for n in range(200)]
    note = hybrid.write("memory/long.md", "".join(lines))
    hybrid.start().sync()
    before = len(hybrid.embedded())
    lines[-1] = "the last line is another one now\n"
    note.write_text("".join(lines))
    hybrid.sync()
    assert before > 40
    assert len(hybrid.embedded()) - before <= 2 * 5  # a chunk has five windows at most


def test_the_counts_of_files_are_of_one_moment(daemon: Daemon) -> None:
    notes = [daemon.write(f"memory/{number}.md", f"note {number}\n") for number in range(3)]
    daemon.start().sync()
    with daemon.client() as client:

        def counts() -> tuple[int, int]:
            status = client.status()
            assert status.files <= status.total_files
            return status.files, status.total_files

        for number in range(3, 33):  # the watcher finds them: no scan runs
            notes.append(daemon.write(f"memory/{number}.md", f"note {number}\n"))
        eventually(lambda: counts()[0] == 33)
        assert counts() == (33, 33)
        for note in notes[1:]:
            note.unlink()
        eventually(lambda: counts()[0] == 1)
        assert counts() == (1, 1)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_files_at_once(daemon: Daemon, count: int) -> None:
    daemon.start().sync()
    for number in range(count):
        folder = daemon.workspace / "memory" / str(number % 100)
        if number < 100:
            folder.mkdir(parents=True)
        (folder / f"{number}.md").write_text(f"note number{number} of many")
    daemon.sync()
    with daemon.client() as client:
        status = client.status()
    assert status.files == status.total_files == count
    assert daemon.paths(f"number{count - 1}") == [f"memory/99/{count - 1}.md"]
