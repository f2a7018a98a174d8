"""Disk jobs record the paths that they reach; checks that take too long are abandoned."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.fs.hang import HUNG_S, MAX_ABANDONED, DiskThreads, DiskWaits, idle, tick, within


class Disk:
    """A disk that hangs, the threads that wait for it, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0  # the same month in every time zone
        self.answers = threading.Event()
        self.waits = DiskWaits(clock=lambda: self.now, wall_clock=lambda: self.now)
        self.threads = DiskThreads(2, "disk", self.waits, "/net")
        self.waiting = threading.Semaphore(0)

    def read(self, *paths: str) -> None:
        """Wait for the last path."""
        for path in paths:
            tick(path)
        self.waiting.release()
        assert self.answers.wait(60)

    def close(self) -> None:
        self.answers.set()
        self.threads.shutdown()


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.close()


def test_a_hung_path_is_reported_with_its_start(disk: Disk) -> None:
    reading = [disk.threads.submit(disk.read, "/net/folder", "/net/folder/a.md")]
    disk.waiting.acquire()
    disk.now += HUNG_S - 1
    reading.append(disk.threads.submit(disk.read))
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
    assert "the disk of /net has" in second
    disk.answers.set()
    for read in reading:
        read.result(60)
    assert disk.waits.warnings() == []


def test_a_job_that_ticks_or_is_idle_is_not_hung(disk: Disk) -> None:
    def walk() -> None:
        disk.now += HUNG_S
        assert disk.waits.overdue() == {"/net": HUNG_S}
        tick("/net/a")
        disk.now += HUNG_S - 1
        tick()
        disk.now += HUNG_S - 1
        assert disk.waits.overdue() == {}
        disk.now += 1
        assert disk.waits.overdue() == {"/net/a": HUNG_S}
        idle()
        tick()
        disk.now += HUNG_S
        assert disk.waits.overdue() == {}
        tick("/net/b")
        disk.now += HUNG_S
        assert disk.waits.overdue() == {"/net/b": HUNG_S}

    disk.threads.submit(walk).result(60)
    assert disk.waits.overdue() == {}


def test_a_job_without_a_place_is_idle_until_it_ticks() -> None:
    waits = DiskWaits()

    def check() -> list[str]:
        paths = [*waits.overdue(0.0)]
        tick("/net")
        return [*paths, *waits.overdue(0.0)]

    with DiskThreads(1, "disk", waits) as threads:
        assert threads.submit(check).result(60) == ["/net"]


def test_a_name_that_is_not_utf8_is_shown_escaped(disk: Disk) -> None:
    disk.threads.submit(disk.read, "/net/\udcff.md")
    disk.waiting.acquire()
    disk.now += HUNG_S
    assert list(disk.waits.overdue()) == ["/net/\\xff.md"]


def test_other_threads_may_tick() -> None:
    tick("/net")
    tick()
    idle()


def test_a_slow_check_is_abandoned(tmp_path: Path) -> None:
    answers = threading.Event()
    assert within(60, tmp_path.is_dir)
    with pytest.raises(FileNotFoundError):
        within(60, (tmp_path / "nothing").stat)
    for _ in range(MAX_ABANDONED):
        with pytest.raises(TimeoutError, match="does not answer"):
            within(0, answers.wait)
    # All threads are waiting, so no more are started.
    with pytest.raises(TimeoutError, match="does not answer"):
        within(60, tmp_path.is_dir)
    answers.set()
    while True:
        try:
            assert within(60, tmp_path.is_dir)
            break
        except TimeoutError:
            continue
