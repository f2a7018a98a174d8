"""Many files, folders and changes, and a machine that cannot watch them all."""

import contextlib
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from harness import Daemon
from waiting import eventually

from memoryd_client import StatusResult

pytestmark = pytest.mark.own_process

BROKEN_NOTIFIER = '''
"""Takes the place of watchfiles' notifier as long as a file says how it fails."""
import os
from watchfiles import _rust_notify

real = _rust_notify.RustNotify


def notifier(*arguments):
    how = os.environ["NOTIFIER_FAILS"]
    if os.path.exists(how):
        raise eval(open(how).read(), vars(_rust_notify) | {"OSError": OSError})
    return real(*arguments)


_rust_notify.RustNotify = notifier
'''

OWN_NOTIFIER = '''
"""Replaces watchfiles' notifier: needs a descriptor too, but no inotify instance.

All programs of a user share the instances, so that others may leave none for the test.
"""
import os
from watchfiles import _rust_notify


class Notifier:
    def __init__(self, *arguments):
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        os.close(self.descriptor)

    def watch(self, group_ms, step_ms, timeout_ms, stop):
        stop.wait(timeout_ms / 1000)
        return "timeout"


_rust_notify.RustNotify = Notifier
'''


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def pid(daemon: Daemon) -> int:
    assert daemon.process is not None
    return daemon.process.pid


def descriptors(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{pid(daemon)}/fd"))


def watches(daemon: Daemon) -> int:
    found = 0
    for info in Path(f"/proc/{pid(daemon)}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            found += info.read_text().count("inotify wd:")
    return found


def indexed(daemon: Daemon) -> dict[str, int | None]:
    with daemon.client() as client:
        return {entry.path: entry.size_bytes for entry in client.files()}


def on_disk(daemon: Daemon) -> dict[str, int | None]:
    files = (daemon.workspace / "memory").rglob("*.md")
    return {str(f.relative_to(daemon.workspace)): f.stat().st_size for f in files}


def is_indexed(daemon: Daemon, expected: dict[str, int | None]) -> bool:
    return indexed(daemon) == expected


def finds(daemon: Daemon, query: str, count: int) -> bool:
    return len(daemon.paths(query)) == count


def git(folder: Path, *arguments: str) -> None:
    # A git hook around the tests sets variables that name its own repository.
    environment = {name: v for name, v in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "gc.auto=0"]
    command = ["git", "-C", str(folder), *who, *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def make_commits(folder: Path, files: int) -> None:
    """Commit notes as `first`, and as `second` with all of them changed, moved, deleted or new."""
    notes = [folder / f"{n % 97}" / f"{n % 11}" / f"note{n}.md" for n in range(files)]
    for number, note in enumerate(notes):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"the first word{number}\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    git(folder, "tag", "first")
    for number, note in enumerate(notes):
        match number % 10:
            case 0:
                note.unlink()
            case 1:
                moved = folder / "moved" / str(number) / "elsewhere.md"
                moved.parent.mkdir(parents=True)
                note.rename(moved)
            case 2:
                note.with_name(f"new{number}.md").write_text(f"a new word{number}\n")
            case _:
                note.write_text(f"the second and other word{number}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "second")
    git(folder, "tag", "second")
    git(folder, "checkout", "--quiet", "first")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("files", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_checkout_that_changes_everything_is_taken_by_itself(daemon: Daemon, files: int) -> None:
    make_commits(daemon.workspace / "memory", files)
    daemon.start().sync()
    assert indexed(daemon) == on_disk(daemon)
    for commit in ("second", "first"):
        git(daemon.workspace / "memory", "checkout", "--quiet", commit)
        expected = on_disk(daemon)
        eventually(partial(is_indexed, daemon, expected))
        eventually(lambda: not status(daemon).dirty)
    daemon.assert_healthy()


@pytest.mark.long
def test_descriptors_are_few_and_watches_are_as_many_as_folders(daemon: Daemon) -> None:
    for number in range(900):
        daemon.write(f"memory/{number % 300}/{number}.md", f"a note word{number}")
    daemon.start().sync()
    folders = 302  # the workspace and `memory` too
    eventually(lambda: watches(daemon) == folders)
    before = descriptors(daemon)
    assert before < 80
    for turn in range(3):
        for number in range(300):
            daemon.write(f"memory/{number}/{number}.md", f"turn{turn} word{number}")
        daemon.write(f"memory/new{turn}/a.md", "in a folder that comes and goes")
        daemon.sync()
        eventually(lambda: watches(daemon) == folders + 1)
        for _ in range(20):
            assert daemon.paths(f"turn{turn}") != []
        shutil.rmtree(daemon.workspace / f"memory/new{turn}")
        daemon.sync()
        eventually(lambda: watches(daemon) == folders)
    eventually(lambda: descriptors(daemon) <= before + 2)
    assert status(daemon).degraded == []


def test_trees_that_come_move_and_go_as_a_whole(daemon: Daemon) -> None:
    daemon.start().sync()
    outside = daemon.folder / "outside"
    deep = outside.joinpath(*(f"level{n}" for n in range(60)))
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("an axolotl far below")
    for number in range(100):
        (outside / f"{number}.md").write_text(f"an axolotl number{number}")
    memory = daemon.workspace / "memory"
    memory.mkdir()
    outside.rename(memory / "moved in")
    eventually(lambda: indexed(daemon) == on_disk(daemon))
    assert len(indexed(daemon)) == 101
    # Renames in sequence, of parent folders and of files.
    names = ["a", "b", "c", "d"]
    (memory / "moved in").rename(memory / "a")
    for turn in range(60):
        here, there = names[turn % 4], names[(turn + 1) % 4]
        (memory / here).rename(memory / there)
        file = memory / there / f"{turn}.md"
        file.rename(memory / there / f"renamed{turn}.md")
    eventually(lambda: indexed(daemon) == on_disk(daemon))
    shutil.rmtree(memory)
    eventually(lambda: indexed(daemon) == {})
    daemon.write("memory/again.md", "an axolotl in a new folder of that name")
    eventually(lambda: daemon.paths("axolotl") == ["memory/again.md"])
    assert status(daemon).degraded == []
    assert "watching failed" not in daemon.log()


def start_with_few_watches(daemon: Daemon, limit: int) -> None:
    """Start the daemon in a user namespace that allows only a few watches."""
    script = f'echo {limit} > /proc/sys/user/max_inotify_watches && exec "$@"'
    unshare = ["unshare", "--user", "--map-root-user", "bash", "-c", script, "-"]
    done = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs a user namespace with limits of its own: {done.stderr.strip()}")
    daemon.start(before=unshare)


def raise_the_limit(daemon: Daemon, limit: int) -> None:
    namespace = ["nsenter", f"--user=/proc/{pid(daemon)}/ns/user", "--preserve-credentials"]
    script = f"echo {limit} > /proc/sys/user/max_inotify_watches"
    done = subprocess.run([*namespace, "bash", "-c", script], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs root: to go into a namespace: {done.stderr.strip()}")


def assert_scanned(daemon: Daemon, what_to_raise: str) -> None:
    """Check that memoryd reports once that it does not watch, and still finds changes."""
    eventually(lambda: status(daemon).watch.error is not None)
    assert not status(daemon).watch.armed
    (told,) = [line for line in status(daemon).degraded if "watching is off" in line]
    assert what_to_raise in told
    daemon.write("memory/7/late.md", "a late quoll")
    daemon.sync()
    found = daemon.search("quoll")
    assert [hit.path for hit in found.results] == ["memory/7/late.md"]
    (warning,) = [line for line in found.warnings if "watching is off" in line]
    assert what_to_raise in warning
    assert re.search(r"changes of the last \d+ s may be missing; `memctl sync`", warning)
    assert found.stale
    assert daemon.log().count("watching failed") == 1


def test_a_limit_of_watches_that_is_reached(daemon: Daemon) -> None:
    for number in range(40):
        daemon.write(f"memory/{number}/{number}.md", f"a note number{number}")
    start_with_few_watches(daemon, 20)
    assert_scanned(daemon, "sysctl fs.inotify.max_user_watches")
    assert len(daemon.paths("note", max_results=50)) > 20


@pytest.mark.long
def test_past_the_limit_of_watches_it_looks_by_itself_until_it_is_raised(daemon: Daemon) -> None:
    for number in range(40):
        daemon.write(f"memory/{number}/{number}.md", f"a note number{number}")
    start_with_few_watches(daemon, 20)
    assert_scanned(daemon, "sysctl fs.inotify.max_user_watches")
    for number in range(3):  # each within the 10 s between two scans
        daemon.write(f"memory/{number}/more.md", f"a bettong number{number}")
        eventually(partial(finds, daemon, "bettong", number + 1))
    assert daemon.log().count("watching failed") == 1, "a repeated failure is logged once"
    raise_the_limit(daemon, 1_000)
    eventually(lambda: status(daemon).watch.armed)
    assert status(daemon).degraded == []
    daemon.write("memory/39/watched.md", "a numbat")
    eventually(lambda: daemon.paths("numbat") == ["memory/39/watched.md"])


@pytest.mark.parametrize(
    ("how", "what_to_raise"),
    [
        (
            "WatchfilesRustInternalError('Error creating recommended watcher: Too many open files"
            " (os error 24)')",
            "sysctl fs.inotify.max_user_instances",
        ),
        ("OSError(28, 'No space left on device')", "sysctl fs.inotify.max_user_watches"),
    ],
)
def test_no_watcher_can_be_made(daemon: Daemon, how: str, what_to_raise: str) -> None:
    (daemon.folder / "model" / "sitecustomize.py").write_text(BROKEN_NOTIFIER)
    fails = daemon.folder / "how it fails"
    fails.write_text(how)
    daemon.variables["NOTIFIER_FAILS"] = str(fails)
    daemon.write("memory/7/a.md", "a note")
    daemon.start()
    assert_scanned(daemon, what_to_raise)
    fails.unlink()
    # memoryd tries again with the next set of folders, or after 10 s.
    daemon.write("memory/8/a.md", "another folder")
    daemon.sync()
    eventually(lambda: status(daemon).watch.armed)
    assert status(daemon).degraded == []


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
def test_without_descriptors_nothing_is_given_up(daemon: Daemon) -> None:
    """Files that can't be opened for lack of descriptors are not deleted files."""
    (daemon.folder / "model" / "sitecustomize.py").write_text(OWN_NOTIFIER)
    daemon.write("memory/.memoryignore", "hidden.md\n")
    daemon.write("memory/hidden.md", "a hidden potoroo")
    for number in range(50):
        daemon.write(f"memory/{number}/{number}.md", f"a potoroo number{number}")
    daemon.start().sync()
    before = indexed(daemon)
    assert len(before) == 50
    # The check of the index has its own connections, which it closes.
    eventually(lambda: "is intact" in daemon.log())
    with daemon.client() as client:
        client.ping()
        limit = ["prlimit", "--pid", str(pid(daemon))]
        taken = {int(name) for name in os.listdir(f"/proc/{pid(daemon)}/fd")}
        free = min(set(range(len(taken) + 1)) - taken)
        for room in range(5):  # for example enough for the folder, but not for its ignore file
            subprocess.run([*limit, f"--nofile={free + room}:4096"], check=True)
            client.sync(vectors=False)
            if room == 0:
                assert any("Too many open files" in line for line in client.status().degraded)
            assert {entry.path for entry in client.files()} == before.keys()
            assert client.search("hidden").results == []
        subprocess.run([*limit, "--nofile=4096:4096"], check=True)
        client.sync(vectors=False)
        assert client.status().degraded == []
    assert indexed(daemon) == before


@pytest.mark.long
def test_a_large_file_that_never_rests_is_read_now_and_then(daemon: Daemon) -> None:
    log = daemon.write("memory/log.md", "a numbat at the start\n" + "x y z\n" * 2_000_000)
    daemon.start().sync()
    with daemon.client() as client:
        for number in range(20):
            with log.open("a") as file:
                file.write(f"a bilby number{number}\n")
            client.search("bilby")  # a search triggers pending reads
        found = client.search("bilby")
        assert found.stale, "the file was read recently"
        assert found.pending_files >= 1
        client.sync()
        assert not client.search("bilby").stale
        assert client.search("number19").results != []


@pytest.mark.long
def test_a_file_of_100_megabytes_keeps_no_request_waiting_and_is_found_to_its_last_line(
    daemon: Daemon,
) -> None:
    daemon.write("memory/small.md", "what was there before")
    daemon.start().sync()
    lines = 2_000_000
    line = "a common word and much else that takes some room\n"
    large = daemon.write("memory/large.md", line * lines + "the very last walrus\n")
    assert large.stat().st_size > 90_000_000
    with daemon.client() as client:
        eventually(lambda: client.status().pending_files > 0)
        answered = 0
        while client.status().pending_files:
            assert [hit.path for hit in client.search("before").results] == ["memory/small.md"]
            answered += 1
        assert answered > 5
        client.sync()
        (found,) = client.search("walrus").results
        assert (found.path, found.end_line) == ("memory/large.md", lines + 1)
        large.write_text("only this gnu is left\n")
        client.sync()
        assert client.search("walrus").results == []
    daemon.assert_healthy()


@pytest.mark.long
def test_fifteen_thousand_files_in_three_thousand_folders(daemon: Daemon) -> None:
    for folder in range(3_000):
        for number in range(5):
            daemon.write(f"memory/{folder // 60}/{folder}/{number}.md", f"note {folder}-{number}")
    daemon.start().sync()
    found = status(daemon)
    assert (found.files, found.total_files, found.degraded) == (15_000, 15_000, [])
    folders = 3_000 + 50 + 2
    eventually(lambda: watches(daemon) == folders)
    before = descriptors(daemon)
    assert before < 80
    for turn in range(10):
        daemon.write(f"memory/new{turn}/a.md", f"one more turn{turn}")
        eventually(partial(finds, daemon, f"turn{turn}", 1))
    eventually(lambda: descriptors(daemon) <= before + 2)  # a scan holds some
