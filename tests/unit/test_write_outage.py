"""State of an index that can't be written: cause, start, and time of the next try."""

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import settle

from memoryd.api.handlers import while_writable
from memoryd.errors import RequestFailedError
from memoryd.index.driver import sqlite
from memoryd.index.write_outage import FIRST_S, MAX_S, Outage, is_full

PATH = Path("/state/main.sqlite")
FULL = OSError(errno.ENOSPC, "No space left on device")
CLOSED = OSError(errno.EROFS, "Read-only file system")


class Time:
    """A clock that `sleep` advances, and that records the durations."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def outage(time: Time) -> Outage:
    return Outage(PATH, sleep=time.sleep, clock=lambda: time.now_s, wall_clock=lambda: 0.0)


async def for_ever(seconds: float) -> None:
    await asyncio.Event().wait()


async def test_tries_become_rarer(outage: Outage, time: Time) -> None:
    for _ in range(8):
        outage.fail(FULL, is_full=False)
        await outage.until_retry()
    assert time.slept == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert (time.slept[0], time.slept[-1]) == (FIRST_S, MAX_S)
    outage.end()
    outage.fail(FULL, is_full=False)
    assert outage.retry_in_s == FIRST_S, "another outage starts with the first delay"


async def test_it_begins_and_ends_once(outage: Outage) -> None:
    assert outage.warning is None
    assert [outage.fail(FULL, is_full=False) for _ in range(3)] == [True, False, False]
    assert outage.warning is not None
    assert [outage.end(), outage.end()] == [True, False]
    assert outage.warning is None


async def test_whoever_asks_has_it_tried_at_once(time: Time) -> None:
    outage = Outage(PATH, sleep=for_ever, clock=lambda: time.now_s)
    outage.retry_now()
    outage.fail(FULL, is_full=False)
    waiting = asyncio.create_task(outage.until_retry())
    await settle()
    assert not waiting.done(), "the request came before the outage"
    outage.retry_now()
    await waiting
    again = asyncio.create_task(outage.until_retry())
    await settle()
    assert not again.done(), "each request causes one try"
    again.cancel()


async def test_who_asks_during_a_try_is_answered_by_it() -> None:
    outage = Outage(PATH, sleep=for_ever)
    outage.fail(FULL, is_full=False)
    outage.retry_now()
    outage.fail(FULL, is_full=False)
    waiting = asyncio.create_task(outage.until_retry())
    await settle()
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.parametrize(
    ("error", "full", "reason", "advice"),
    [
        (FULL, False, "No space left on device", "free some space on its disk"),
        (CLOSED, False, "Read-only file system", "make it and its folder readable and writable"),
        (ValueError("odd"), False, "odd", "check its disk"),
        (ValueError("odd"), True, "the disk is full", "free some space on its disk"),
    ],
)
def test_it_says_why_and_what_to_do(
    outage: Outage, error: Exception, full: bool, reason: str, advice: str
) -> None:
    outage.fail(error, is_full=full)
    assert outage.reason == reason
    assert reason in (outage.warning or "")
    assert outage.advice.startswith(advice)
    assert str(PATH) in outage.advice


def test_what_sqlite_says_is_explained_by_its_code(outage: Outage, tmp_path: Path) -> None:
    connection = sqlite.connect(f"file:{tmp_path / 'x'}?mode=rwc", uri=True)
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite.Error) as full:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    outage.fail(full.value, is_full=False)
    assert outage.reason == "database or disk is full"
    assert outage.advice.startswith("free some space")


def test_a_disk_with_room_is_not_full(tmp_path: Path) -> None:
    assert not is_full(tmp_path)
    assert not is_full(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("blocks", "files", "names", "full"),
    [(1_000, 100, 10, False), (1, 100, 10, True), (1_000, 100, 0, True), (1_000, 0, 0, False)],
)
def test_a_disk_is_full_without_room_or_without_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blocks: int,
    files: int,
    names: int,
    full: bool,
) -> None:
    """Some file systems don't count names: they report 0 of 0."""
    found = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_files=files, f_favail=names)
    monkeypatch.setattr(os, "statvfs", lambda folder: found)
    assert is_full(tmp_path) is full


async def test_a_request_waits_for_its_work_but_not_for_the_disk() -> None:
    outage = Outage(PATH, sleep=for_ever)

    async def work() -> str:
        return "done"

    assert await while_writable(outage, work()) == "done"
    never = asyncio.Event()
    request = asyncio.create_task(while_writable(outage, _wait(never)))
    await settle()
    outage.fail(FULL, is_full=False)
    with pytest.raises(RequestFailedError) as refused:
        await request
    assert refused.value.retryable
    assert "No space left on device" in refused.value.message
    assert "free some space" in refused.value.hint


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_what_its_work_fails_with_is_what_a_request_fails_with() -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await while_writable(Outage(PATH), work())


async def test_a_request_has_it_tried_at_once() -> None:
    outage = Outage(PATH, sleep=for_ever)
    outage.fail(FULL, is_full=False)
    waiting = asyncio.create_task(outage.until_retry())
    request = asyncio.create_task(while_writable(outage, _wait(asyncio.Event())))
    await settle()
    assert waiting.done()
    outage.fail(FULL, is_full=False)
    with pytest.raises(RequestFailedError):
        await request
