"""The watcher with a controlled notifier."""

import asyncio
import errno
import queue
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any

import pytest
from waiting import until
from watchfiles._rust_notify import WatchfilesRustInternalError

from memoryd.messages import Hint, ToReconcile
from memoryd.source.notes import watch
from memoryd.source.notes.watch import (
    MANY_PATHS,
    OVERFLOW_EVENTS,
    Watcher,
    check_watches,
    explained,
)

FOLDERS = frozenset({Path("/memory"), Path("/memory/sub")})
ADDED, MODIFIED, DELETED = 1, 2, 3


class FakeNotify:
    """A replacement for watchfiles' RustNotify that reads event sets and errors from a queue."""

    armed: list[list[str]]
    scripts: "queue.Queue[set[tuple[int, str]] | Exception]"
    refusals: list[Exception]

    def __init__(self, paths: list[str], *options: Any) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.armed.append(sorted(paths))

    def __enter__(self) -> "FakeNotify":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def watch(self, debounce: int, step: int, timeout: int, stop: Event) -> Any:
        while not stop.is_set():
            try:
                event = self.scripts.get(timeout=0.01)
            except queue.Empty:
                continue
            if isinstance(event, Exception):
                raise event
            return event
        return "stop"


class Stage:
    def __init__(self, quiet_s: float = 0.0) -> None:
        self.folders: asyncio.Queue[frozenset[Path]] = asyncio.Queue(1)
        self.hints: asyncio.Queue[ToReconcile] = asyncio.Queue()
        self.watcher = Watcher(self.folders, self.hints, quiet_s=quiet_s, clock=lambda: self.now)
        self.now = 100.0
        self.running = asyncio.create_task(self.watcher.run())

    async def hint(self) -> Hint:
        message = await self.hints.get()
        assert isinstance(message, Hint)
        return message

    async def arm(self, folders: frozenset[Path] = FOLDERS) -> None:
        await self.folders.put(folders)
        assert (await self.hint()).paths is None

    async def close(self) -> None:
        self.running.cancel()
        await asyncio.wait({self.running})


@pytest.fixture(autouse=True)
def notify(monkeypatch: pytest.MonkeyPatch) -> type[FakeNotify]:
    FakeNotify.armed, FakeNotify.scripts, FakeNotify.refusals = [], queue.Queue(), []
    monkeypatch.setattr(watch, "RustNotify", FakeNotify)
    monkeypatch.setattr(watch, "RETRY_S", 0.01)
    return FakeNotify


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.close()


async def test_each_folder_is_watched_by_itself_and_a_scan_follows(
    stage: Stage, notify: type[FakeNotify]
) -> None:
    await stage.arm()
    assert notify.armed == [["/memory", "/memory/sub"]]
    assert (stage.watcher.stats().armed, stage.watcher.stats().folders) == (True, 2)


async def test_events_become_hints_of_what_may_be_memory(
    stage: Stage, notify: type[FakeNotify], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / ".git").mkdir()
    await stage.arm()
    names = ("a.md", "b.txt", ".c.md", "folder", ".git", "gone", ".memoryignore")
    events = {(MODIFIED, str(tmp_path / name)) for name in names}
    notify.scripts.put(events | {(DELETED, "/memory/sub")})
    hint = await stage.hint()
    expected = (tmp_path / "a.md", tmp_path / "folder", tmp_path / ".memoryignore")
    assert hint.paths == frozenset({*expected, Path("/memory/sub")})


async def test_a_hidden_folder_that_comes_may_be_an_extra_path(
    stage: Stage, notify: type[FakeNotify], tmp_path: Path
) -> None:
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".file").touch()
    await stage.arm()
    notify.scripts.put({(ADDED, str(tmp_path / name)) for name in (".notes", ".file", ".gone")})
    assert (await stage.hint()).paths == frozenset({tmp_path / ".notes"})


async def test_a_disk_that_hangs_keeps_nobody_from_ending_the_watcher(
    stage: Stage, notify: type[FakeNotify], monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.arm()
    hanging, go_on = Event(), Event()

    def is_dir(path: Path) -> bool:
        hanging.set()
        return not go_on.wait()

    monkeypatch.setattr(Path, "is_dir", is_dir)
    notify.scripts.put({(ADDED, "/slow/folder")})
    while not hanging.is_set():
        await asyncio.sleep(0)
    try:
        await stage.close()
        assert stage.running.cancelled()
    finally:
        go_on.set()


async def test_a_new_set_of_folders_arms_anew(stage: Stage, notify: type[FakeNotify]) -> None:
    await stage.arm()
    await stage.arm(frozenset({Path("/other")}))
    assert notify.armed == [["/memory", "/memory/sub"], ["/other"]]


async def test_many_events_at_once_ask_for_a_scan(stage: Stage, notify: type[FakeNotify]) -> None:
    await stage.arm()
    notify.scripts.put({(MODIFIED, f"/memory/{n}.txt") for n in range(OVERFLOW_EVENTS)})
    assert await stage.hint() == Hint(reason="many changes")


async def test_many_paths_that_wait_become_one_scan_after_their_quiet_period(
    notify: type[FakeNotify],
) -> None:
    stage = Stage(quiet_s=10.0)
    await stage.arm()
    for part in range(4):
        names = (f"/memory/{part}-{n}.md" for n in range(MANY_PATHS // 2))
        notify.scripts.put({(MODIFIED, name) for name in names})
    await until(lambda: stage.watcher.stats().waiting == 1 and notify.scripts.empty())
    notify.scripts.put({(MODIFIED, "/memory/one-more.md")})
    await until(notify.scripts.empty)
    assert (stage.watcher.stats().waiting, stage.hints.empty()) == (1, True)
    stage.watcher.flush_now()
    assert await stage.hint() == Hint(reason="many changes")
    await stage.close()


async def test_when_it_can_not_watch_it_scans_and_tries_again(
    stage: Stage, notify: type[FakeNotify], caplog: pytest.LogCaptureFixture
) -> None:
    notify.refusals[:] = [OSError(28, "No space left on device (inotify watch limit)")] * 3
    await stage.folders.put(FOLDERS)
    assert [(await stage.hint()).reason for _ in range(3)] == ["watching failed"] * 3
    assert (await stage.hint()).reason == "watching began"
    assert stage.watcher.stats().error is None
    (told,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "sysctl fs.inotify.max_user_watches" in told


async def test_an_error_while_watching_is_survived(stage: Stage, notify: type[FakeNotify]) -> None:
    await stage.arm()
    notify.scripts.put(OSError(24, "Too many open files"))
    assert (await stage.hint()).reason == "watching failed"
    assert (await stage.hint()).reason == "watching began"


async def test_a_hurry_ends_the_quiet_period(notify: type[FakeNotify]) -> None:
    stage = Stage()
    stage.watcher._quiet.period_s = 10_000.0
    await stage.arm()
    notify.scripts.put({(MODIFIED, "/memory/a.md")})
    while stage.watcher.stats().waiting == 0:
        await asyncio.sleep(0)
    stage.watcher.flush_now()
    assert (await stage.hint()).paths == frozenset({Path("/memory/a.md")})
    await stage.close()


async def test_what_goes_over_the_limit_of_watches_is_noticed(
    stage: Stage, notify: type[FakeNotify], monkeypatch: pytest.MonkeyPatch
) -> None:
    """watchfiles omits such folders silently."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(watch, "check_watches", full)
        await stage.folders.put(FOLDERS)
        assert (await stage.hint()).reason == "watching failed"
        assert not stage.watcher.stats().armed
        assert "max_user_watches" in (stage.watcher.stats().error or "")
    while (await stage.hint()).reason != "watching began":
        pass
    assert stage.watcher.stats().armed


async def test_a_folder_that_went_before_it_was_watched_is_no_failure(
    stage: Stage, notify: type[FakeNotify], caplog: pytest.LogCaptureFixture
) -> None:
    notify.refusals[:] = [FileNotFoundError(2, "No such file or directory")]
    await stage.folders.put(FOLDERS)
    assert [(await stage.hint()).reason for _ in range(2)] == ["watching failed", "watching began"]
    assert [r for r in caplog.records if r.levelname == "WARNING"] == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "sysctl fs.inotify.max_user_watches"),
        (OSError(errno.EMFILE, "Too many open files"), "LimitNOFILE"),
        (
            WatchfilesRustInternalError("Error creating: Too many open files (os error 24)"),
            "sysctl fs.inotify.max_user_instances",
        ),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_errors_of_watching_say_what_to_do(error: Exception, told: str) -> None:
    assert told in explained(error)


def test_where_there_is_room_for_watches_nothing_is_said() -> None:
    try:
        check_watches()
    except OSError as full:
        if full.errno != errno.ENOSPC:
            raise
        pytest.skip("other programs of this user hold all watches")
