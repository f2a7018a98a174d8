"""What threads wait for is told, and looks that take too long are given up."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoryd.fs.hang import HUNG_S, MAX_GIVEN_UP, DiskWaits, waiting_for, within


class Disk:
    """A disk that hangs, threads that wait for it, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0  # the same month in every time zone
        self.answers = threading.Event()
        self.waits = DiskWaits(clock=lambda: self.now, wall_clock=lambda: self.now)
        self.threads = ThreadPoolExecutor(2, initializer=self.waits.adopt)
        self.waiting = threading.Semaphore(0)

    def read(self, *paths: str) -> None:
        """Wait for the last path, which is below the others."""
        if not paths:
            self.waiting.release()
            assert self.answers.wait(60)
            return
        with waiting_for(paths[0]):
            self.read(*paths[1:])

    def close(self) -> None:
        self.answers.set()
        self.threads.shutdown()


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.close()


def test_it_is_told_which_path_is_waited_for_and_since_when(disk: Disk) -> None:
    reading = [disk.threads.submit(disk.read, "/net/folder", "/net/folder/a.md")]
    disk.waiting.acquire()
    disk.now += HUNG_S - 1
    reading.append(disk.threads.submit(disk.read, "/net/b.md"))
    disk.waiting.acquire()
    assert (disk.waits.overdue(), disk.waits.count_overdue()) == ({}, 0)
    disk.now += 1
    assert disk.waits.overdue() == {"/net/folder/a.md": HUNG_S}
    disk.now += HUNG_S
    assert disk.waits.count_overdue() == 2
    assert disk.waits.overdue(2 * HUNG_S) == {"/net/folder/a.md": 2 * HUNG_S}
    first, second = disk.waits.warnings()
    assert "/net/folder/a.md has not answered since 1970-01-1" in first
    assert "(10 s)" in first
    assert "/net/b.md" in second
    disk.answers.set()
    for read in reading:
        read.result(60)
    assert disk.waits.warnings() == []


def test_what_comes_back_is_progress_of_what_is_around_it(disk: Disk) -> None:
    def walk() -> None:
        with waiting_for("/net"):
            disk.now += HUNG_S
            with waiting_for("/net/a"):
                pass
            assert disk.waits.overdue() == {}
            disk.now += HUNG_S
            assert disk.waits.overdue() == {"/net": HUNG_S}

    disk.threads.submit(walk).result(60)
    assert disk.waits.overdue() == {}


def test_a_name_that_is_not_utf8_is_told_in_a_way_that_can_be_shown(disk: Disk) -> None:
    disk.threads.submit(disk.read, "/net/\udcff.md")
    disk.waiting.acquire()
    disk.now += HUNG_S
    assert list(disk.waits.overdue()) == ["/net/\\xff.md"]


def test_threads_that_nobody_asked_for_are_not_noted() -> None:
    with waiting_for("/net"):
        pass


def test_a_look_is_given_up(tmp_path: Path) -> None:
    answers = threading.Event()
    assert within(60, tmp_path.is_dir)
    with pytest.raises(FileNotFoundError):
        within(60, (tmp_path / "nothing").stat)
    for _ in range(MAX_GIVEN_UP):
        with pytest.raises(TimeoutError, match="does not answer"):
            within(0, answers.wait)
    # So many threads wait by now, that no more are begun.
    with pytest.raises(TimeoutError, match="does not answer"):
        within(60, tmp_path.is_dir)
    answers.set()
    while True:
        try:
            assert within(60, tmp_path.is_dir)
            break
        except TimeoutError:
            continue
