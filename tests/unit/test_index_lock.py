"""The thread that waits for the disk of an index: a late result does not affect later holders."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from waiting import until

from memoryd.agent import index_lock
from memoryd.agent.index_lock import IndexLock
from memoryd.config.load import AgentConfig
from memoryd.config.settings import Settings
from memoryd.fs.hang import DiskWaits
from memoryd.fs.lockfile import locked_index
from memoryd_client.shared.lock_holder import Holder, is_held, this_process


def config(folder: Path) -> AgentConfig:
    index = folder / "i.sqlite"
    return AgentConfig("main", folder, index, Settings(), {}, (), "configuration")


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_lock, "DISK_LIMIT_S", 0.01)


class Disk:
    """A disk that hangs until `answers`; `asked` and `left` mark the begin and end of a wait."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()

    def look(self) -> None:
        self.asked.set()
        assert self.answers.wait(60)


async def give_up(work: "asyncio.Task[object]", disk: Disk) -> None:
    assert await asyncio.to_thread(disk.asked.wait, 60)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_a_lock_taken_after_it_was_given_up_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, was_held = Disk(), []
    lock = f"{tmp_path}/i.sqlite.lock"

    @contextmanager
    def late(path: Path, holder: Holder) -> Iterator[Callable[[], bool]]:
        disk.look()
        with locked_index(path, holder) as is_found:
            was_held.append(is_held(lock))
            yield is_found

    monkeypatch.setattr(index_lock, "locked_index", late)

    async def start() -> None:
        async with IndexLock(config(tmp_path), this_process(), DiskWaits()) as kept:
            await kept.lock()

    await give_up(asyncio.create_task(start()), disk)
    threads = [t for t in threading.enumerate() if t.name.startswith("index of main")]
    disk.answers.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
    assert was_held == [True]
    assert not is_held(lock)


async def test_a_lock_is_held_as_long_as_its_thread_looks_at_the_index(tmp_path: Path) -> None:
    disk, lock = Disk(), f"{tmp_path}/i.sqlite.lock"
    waits = DiskWaits()

    async def start() -> None:
        async with IndexLock(config(tmp_path), this_process(), waits) as kept:
            is_found = await kept.lock()
            assert is_found()
            await kept.run(disk.look)

    await give_up(asyncio.create_task(start()), disk)
    assert is_held(lock)
    assert list(waits.overdue(0.0)) == [f"{tmp_path}/i.sqlite"]
    disk.answers.set()
    await until(lambda: not is_held(lock))


async def test_what_was_to_be_done_after_it_was_given_up_is_not_begun(tmp_path: Path) -> None:
    disk = Disk()
    done = []
    async with IndexLock(config(tmp_path), this_process(), DiskWaits()) as kept:
        hangs = asyncio.create_task(kept.run(disk.look))
        later = asyncio.create_task(kept.run(lambda: done.append(True)))
        await give_up(hangs, disk)
        later.cancel()
        with suppress(asyncio.CancelledError):
            await later
        disk.answers.set()
        await kept.run(lambda: None)
    assert done == []
