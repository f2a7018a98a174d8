"""Many processes write notes into one file, while the daemon is killed and an editor saves."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import Daemon

from memoryd_client.schema.notes import NoteResult

FILE = "memory/a.md"
COMMENT = re.compile(r" <!-- memoryd: [^>]* -->")
WRITER = """
import sys
from memoryd_client.client import Client

socket, writer, notes = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Client(socket, wait_s=60, timeout_s=120) as client:
    for number in range(notes):
        text = f"note {number} of writer {writer}"
        for last in range(100):
            try:
                client.note(text, file="memory/a.md")
                break
            except Exception:
                if last == 99:
                    raise
        print(text, flush=True)
"""
"""Writes notes, each again until it is acknowledged, and prints the acknowledged ones."""


class Writers:
    """The processes, and what the daemon has acknowledged to them so far."""

    def __init__(self, daemon: Daemon, writers: int, notes: int) -> None:
        self.acknowledged: list[str] = []
        self._done = threading.Semaphore(0)
        command = [sys.executable, "-c", WRITER, str(daemon.socket)]
        self._processes = [
            subprocess.Popen(
                [*command, str(writer), str(notes)],
                env=daemon.environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for writer in range(writers)
        ]
        self._threads = [threading.Thread(target=self._read, args=(p,)) for p in self._processes]
        for thread in self._threads:
            thread.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.acknowledged.append(line.rstrip("\n"))
                self._done.release()
        for _ in range(10_000):  # a failed writer must not keep the test waiting
            self._done.release()

    def wait_for(self, notes: int) -> None:
        """Wait until so many more notes are acknowledged."""
        for _ in range(notes):
            self._done.acquire()

    def finish(self) -> None:
        """Wait until all have written everything."""
        for thread in self._threads:
            thread.join()
        assert [process.wait() for process in self._processes] == [0] * len(self._processes)


def check_many_writers(
    daemon: Daemon,
    *,
    writers: int,
    notes: int,
    kills: int,
    beside: Callable[[], None] = lambda: None,
) -> list[str]:
    """Have notes written while the daemon is killed and `beside` is called; return the notes."""
    daemon.start()
    written = Writers(daemon, writers, notes)
    for _ in range(kills):
        written.wait_for(writers * notes // (kills + 1))
        beside()
        daemon.kill()
        daemon.start()
    written.finish()
    assert len(set(written.acknowledged)) == writers * notes
    return written.acknowledged


def items(daemon: Daemon) -> list[str]:
    """Return the list items of the file without comments, in alphabetical order."""
    text = COMMENT.sub("", (daemon.workspace / FILE).read_text())
    return sorted(line.removeprefix("- ") for line in text.splitlines() if line.startswith("- "))


def lost(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        return [line for line in client.status().degraded if "memctl note" in line]


def check_each_once(daemon: Daemon, *, writers: int, notes: int, kills: int) -> None:
    acknowledged = check_many_writers(daemon, writers=writers, notes=notes, kills=kills)
    assert items(daemon) == sorted(acknowledged)
    assert lost(daemon) == []
    daemon.assert_healthy()


def test_each_note_stands_there_once_although_the_daemon_is_killed(daemon: Daemon) -> None:
    check_each_once(daemon, writers=4, notes=8, kills=3)


@pytest.mark.long
def test_each_of_8000_notes_stands_there_once_although_the_daemon_is_killed(
    daemon: Daemon,
) -> None:
    check_each_once(daemon, writers=8, notes=1_000, kills=50)


@pytest.mark.long
def test_what_an_editor_overwrites_meanwhile_is_reported_and_restored(daemon: Daemon) -> None:
    """The editor saves, before each kill, what it has loaded at the kill before."""
    file = daemon.write(FILE, "# A\n\nold text\n")
    with editor(file) as save:
        acknowledged = check_many_writers(daemon, writers=8, notes=125, kills=50, beside=save)
    standing = set(items(daemon))
    missing = sorted(set(acknowledged) - standing)
    assert missing
    (line,) = lost(daemon)
    assert f"memoryd wrote {len(missing):,} notes to {FILE}" in line
    with daemon.client() as client:
        result = client.note(action="restore")
    assert isinstance(result, NoteResult)
    assert len(result.restored) == len(missing)
    assert items(daemon) == sorted(acknowledged)
    assert "old text" in file.read_text()
    assert lost(daemon) == []
    daemon.assert_healthy()


@contextmanager
def editor(file: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that saves an old buffer over the file, and loads the next one."""
    buffer = file.read_bytes()

    def save() -> None:
        nonlocal buffer
        old, buffer = buffer, file.read_bytes()
        part = file.with_name("a.md~")
        part.write_bytes(old)
        part.replace(file)

    yield save
