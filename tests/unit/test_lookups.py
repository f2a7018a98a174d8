"""Looks at a disk that hangs: so many wait, the rest are told, and a search goes on without."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd import searching
from memoryd.flow import FileKey
from memoryd.lookups import MAX_WAITING, THREADS, Lookups
from memoryd.serve.connection import RequestFailedError


@pytest.fixture
def disk() -> Iterator[threading.Event]:
    """A disk that hangs until this is set."""
    answers = threading.Event()
    yield answers
    answers.set()


async def test_what_nobody_waits_for_any_longer_is_still_counted(disk: threading.Event) -> None:
    looks = Lookups("a")
    waiting = [asyncio.create_task(looks.run(disk.wait)) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    with pytest.raises(RequestFailedError) as refused:
        await looks.run(disk.wait)
    assert (refused.value.code, refused.value.retryable) == ("busy", True)
    assert "agent a" in refused.value.message
    disk.set()
    while True:
        try:
            assert await looks.run(lambda: "answered") == "answered"
            break
        except RequestFailedError:
            await asyncio.sleep(0.001)
    looks.close()


async def test_what_goes_wrong_reaches_who_asks(disk: threading.Event) -> None:
    looks = Lookups("a")
    with pytest.raises(FileNotFoundError):
        await looks.run(Path("/nowhere/at/all").lstat)
    looks.close()


async def test_a_search_does_not_wait_for_a_disk_that_hangs(
    disk: threading.Event, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = Lookups("a")
    agent: Any = SimpleNamespace(
        discovery=SimpleNamespace(workspace=tmp_path),
        mounts=SimpleNamespace(away=lambda path: None),
        look_up=looks.run,
    )
    key = FileKey("memory", "gone.md")
    warnings: list[str] = []
    monkeypatch.setattr(searching, "LOOK_S", 60.0)
    assert await searching.gone_from_disk(agent, warnings, {key}) == {key}
    assert warnings == []
    hanging = [asyncio.create_task(looks.run(disk.wait)) for _ in range(THREADS)]
    await asyncio.sleep(0)
    monkeypatch.setattr(searching, "LOOK_S", 0.01)
    assert await searching.gone_from_disk(agent, warnings, {key}) == set()
    assert len(warnings) == 1
    assert "does not answer" in warnings[0]
    disk.set()
    await asyncio.wait(hanging)
    looks.close()
