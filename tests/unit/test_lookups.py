"""Lookups on a hung disk are bounded and refused; a search continues without them."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd.api import search
from memoryd.errors import RequestFailedError
from memoryd.fs import hang
from memoryd.fs.hang import HUNG_S, MAX_PLACES, MAX_WAITING, THREADS, DiskWaits, PlaceThreads, tick
from memoryd.messages import FileKey


@pytest.fixture
def disk() -> Iterator[threading.Event]:
    """A disk that hangs until this is set."""
    answers = threading.Event()
    yield answers
    answers.set()


async def test_what_nobody_waits_for_any_longer_is_still_counted(disk: threading.Event) -> None:
    looks = PlaceThreads("a")
    waiting = [asyncio.create_task(looks.run("a", disk.wait)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    with pytest.raises(RequestFailedError) as refused:
        await looks.run("a", disk.wait)
    assert (refused.value.code, refused.value.retryable) == ("busy", True)
    assert "agent a" in refused.value.message
    # The disk of another location answers.
    assert await looks.run("b", lambda: "answered") == "answered"
    disk.set()
    while True:
        try:
            assert await looks.run("a", lambda: "answered") == "answered"
            break
        except RequestFailedError:
            await asyncio.sleep(0.001)
    looks.close()


async def test_what_goes_wrong_reaches_who_asks(disk: threading.Event) -> None:
    looks = PlaceThreads("a")
    with pytest.raises(FileNotFoundError):
        await looks.run("a", Path("/nowhere/at/all").lstat)
    looks.close()


async def test_the_late_error_of_an_abandoned_lookup_is_not_logged(
    disk: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        disk.wait()
        raise FileNotFoundError

    looks = PlaceThreads("a")
    abandoned = asyncio.create_task(looks.run("a", fail))
    await asyncio.sleep(0)
    abandoned.cancel()
    await asyncio.wait({abandoned})
    disk.set()
    # They meet only when each has a thread, so after the failure has reached the loop.
    both = threading.Barrier(THREADS)
    await asyncio.gather(*(looks.run("a", both.wait) for _ in range(THREADS)))
    del abandoned  # asyncio logs when nothing refers to the lookup any more
    gc.collect()
    assert not caplog.records
    looks.close()


async def test_a_search_does_not_wait_for_a_disk_that_hangs(
    disk: threading.Event, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = PlaceThreads("a")
    agent: Any = SimpleNamespace(
        notes=SimpleNamespace(
            discovery=SimpleNamespace(
                workspace=tmp_path,
                real_path=lambda key: tmp_path / key.path,
                hidden_among=lambda paths: set(),
            ),
            mounts=SimpleNamespace(away=lambda path: None),
        ),
        look_up=lambda look, at: looks.run(str(at), look),
        places=lambda: [(f"{tmp_path}/", tmp_path)],
    )
    key = FileKey("memory", "gone.md")
    warnings: list[str] = []
    monkeypatch.setattr(search, "DELETED_LIMIT_S", 60.0)
    assert await search.gone_from_disk(agent, warnings, {key}) == {key}
    assert warnings == []
    hanging = [asyncio.create_task(looks.run(str(tmp_path), disk.wait)) for _ in range(THREADS)]
    await asyncio.sleep(0)
    monkeypatch.setattr(search, "DELETED_LIMIT_S", 0.01)
    assert await search.gone_from_disk(agent, warnings, {key}) == set()
    assert len(warnings) == 1
    assert "does not answer" in warnings[0]
    disk.set()
    await asyncio.wait(hanging)
    looks.close()


async def test_places_have_threads_of_their_own_and_there_is_an_end_to_it(
    disk: threading.Event,
) -> None:
    looks = PlaceThreads("many")  # threads of other tests may not have ended yet
    waiting = [
        asyncio.create_task(looks.run(f"place {number}", disk.wait))
        for number in range(2 * MAX_PLACES)
        for _ in range(THREADS)
    ]
    await asyncio.sleep(0)
    names = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("lookups of many") for name in names) == THREADS * (MAX_PLACES + 1)
    disk.set()
    await asyncio.gather(*waiting)
    looks.close()


async def test_a_place_that_hangs_is_told_of_at_once(
    disk: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(name: str) -> None:
        tick(f"/net/{name}")
        started.release()
        disk.wait()

    now = 100.0
    monkeypatch.setattr(hang, "DiskWaits", partial(DiskWaits, clock=lambda: now))
    started = threading.Semaphore(0)
    looks = PlaceThreads("a")
    waiting = [asyncio.create_task(looks.run("/net", read, str(number))) for number in range(2)]
    for _ in waiting:
        await asyncio.to_thread(started.acquire)
    now += HUNG_S - 0.1
    assert looks.warnings() == []
    now += 0.1
    assert [line.split(" has ")[0] for line in sorted(looks.warnings())] == [
        "the disk of /net/0",
        "the disk of /net/1",
    ]
    with pytest.raises(RequestFailedError) as refused:
        await looks.run("/net", str)
    assert (refused.value.code, refused.value.retryable) == ("unavailable", True)
    assert "/net/" in refused.value.message
    disk.set()
    await asyncio.gather(*waiting)
    assert looks.warnings() == []
    assert await looks.run("/net", str) == ""
    looks.close()
