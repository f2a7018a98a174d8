"""The reconcile stage on a real folder, one message at a time."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from descriptors import path_of
from waiting import until

from memoryd.messages import (
    FileChanged,
    FileGone,
    FileKey,
    FileStat,
    Hint,
    MountPoints,
    SyncMarker,
    ToParser,
    ToReconcile,
    ToWriter,
)
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.reconcile import NoteSource, Reconciler
from memoryd.source.notes.walk import Scan


class Stage:
    """A reconciler, its queues, and the assumed state of the index."""

    def __init__(
        self,
        workspace: Path,
        interval_s: float | None = None,
        extra_paths: tuple[str, ...] = (),
        pulse_s: float = 60.0,
    ) -> None:
        self.memory = workspace / "memory"
        self.memory.mkdir()
        self.discovery = Discovery(workspace, extra_paths)
        self.inbox: asyncio.Queue[ToReconcile] = asyncio.Queue()
        self.changes: asyncio.Queue[ToParser] = asyncio.Queue()
        self.writer: asyncio.Queue[ToWriter] = asyncio.Queue()
        self.folders: asyncio.Queue[frozenset[Path]] = asyncio.Queue(1)
        self.mounts = Mounts({}, locate=self.discovery.real_path, workspace=workspace)
        self.known: dict[FileKey, FileStat] = {}
        self.reported: set[FileKey] = set()
        self.threads = ThreadPoolExecutor(1)
        self.reconciler = Reconciler(
            self.inbox,
            self.changes,
            self.writer,
            self.folders,
            NoteSource(
                self.discovery,
                self.mounts,
                known=lambda: dict(self.known),
                reported=lambda: self.reported,
            ),
            thread=self.threads,
            interval_s=interval_s,
            pulse_s=pulse_s,
        )
        self.running = asyncio.create_task(self.reconciler.run())

    async def close(self) -> None:
        self.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.running
        self.threads.shutdown()

    async def sync(self, *before: ToReconcile) -> list[ToParser]:
        """Send messages and a marker; return the output before the marker."""
        marker = SyncMarker()
        for message in (*before, marker):
            self.inbox.put_nowait(message)
        return await self.until(marker)

    async def until(self, marker: SyncMarker) -> list[ToParser]:
        found: list[ToParser] = []
        while (message := await self.changes.get()) is not marker:
            if not isinstance(message, SyncMarker):  # that of the first scan
                found.append(message)
        return found

    def index(self) -> None:
        """Make the index match the disk."""
        scan = self.discovery.scan()
        self.known = {key: stat for key, (_, stat) in scan.files.items()}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path.resolve())
    await made.sync()
    yield made
    await made.close()


def key(name: str) -> FileKey:
    return FileKey("memory", f"memory/{name}")


async def test_many_syncs_share_one_scan(stage: Stage) -> None:
    before = stage.reconciler.stats().scans
    markers = [SyncMarker() for _ in range(50)]
    for marker in markers:
        stage.inbox.put_nowait(marker)
    assert [await stage.changes.get() for _ in markers] == markers
    assert stage.reconciler.stats().scans == before + 1


async def test_a_marker_comes_behind_what_was_found_for_it(stage: Stage) -> None:
    (stage.memory / "a.md").write_text("a")
    assert await stage.sync() == [FileChanged(key("a.md"), stage.memory / "a.md")]
    stage.index()
    assert await stage.sync() == []
    (stage.memory / "a.md").unlink()
    assert await stage.sync() == [FileGone(key("a.md"))]


async def test_a_hint_looks_at_its_paths_alone(stage: Stage) -> None:
    for name in ("a.md", "b.md"):
        (stage.memory / name).write_text(name)
    scans = stage.reconciler.stats().scans
    stage.inbox.put_nowait(Hint(frozenset({stage.memory / "a.md", stage.memory / "gone.md"})))
    found = {await stage.changes.get(), await stage.changes.get()}
    assert found == {FileChanged(key("a.md"), stage.memory / "a.md"), FileGone(key("gone.md"))}
    assert stage.reconciler.stats().scans == scans


async def test_a_new_folder_is_scanned_and_watched(stage: Stage) -> None:
    assert stage.memory in await stage.folders.get()
    folder = stage.memory / "new"
    folder.mkdir()
    (folder / "a.md").write_text("a")
    stage.inbox.put_nowait(Hint(frozenset({folder})))
    assert folder in await stage.folders.get()
    assert await stage.changes.get() == FileChanged(key("new/a.md"), folder / "a.md")


async def test_a_folder_put_in_the_place_of_another_is_watched_anew(stage: Stage) -> None:
    await stage.folders.get()
    stage.memory.rename(stage.memory.with_name("old"))
    stage.memory.mkdir()
    await stage.sync()
    assert stage.memory in await stage.folders.get()


async def test_nothing_below_what_can_not_be_read_is_given_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("open", "locked"):
        (stage.memory / folder).mkdir()
        (stage.memory / folder / "a.md").write_text(folder)
    stage.index()
    (stage.memory / "open" / "a.md").unlink()
    scandir = __import__("os").scandir

    def refuse(path: int) -> object:
        if path_of(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    assert await stage.sync() == [FileGone(key("open/a.md"))]
    assert "locked can't be read" in (stage.reconciler.stats().problem or "")
    monkeypatch.undo()
    await stage.sync()
    assert stage.reconciler.stats().problem is None


async def test_a_workspace_that_is_gone_gives_up_nothing(stage: Stage, tmp_path: Path) -> None:
    (stage.memory / "a.md").write_text("a")
    stage.index()
    away = stage.discovery.workspace.rename(tmp_path.parent / f"{tmp_path.name}-away")
    assert await stage.sync() == []
    assert "can't be read" in (stage.reconciler.stats().problem or "")
    away.rename(stage.discovery.workspace)


async def test_the_timer_looks_everywhere_without_a_hint(tmp_path: Path) -> None:
    stage = Stage(tmp_path.resolve(), interval_s=0.001)
    (stage.memory / "a.md").write_text("found by the timer")
    assert isinstance(await stage.changes.get(), FileChanged)
    await stage.close()


async def test_an_ignore_file_that_comes_changes_or_goes_asks_for_a_scan(stage: Stage) -> None:
    (stage.memory / "a.md").write_text("a")
    stage.index()
    path = stage.memory / ".memoryignore"
    hint = Hint(frozenset({path}))
    path.write_text("a.md")
    stage.inbox.put_nowait(hint)
    assert await stage.changes.get() == FileGone(key("a.md"))
    stage.known.clear()
    path.write_text("b.md")
    stage.inbox.put_nowait(hint)
    assert await stage.changes.get() == FileChanged(key("a.md"), stage.memory / "a.md")
    path.write_text("*")
    await stage.sync()
    path.unlink()
    stage.inbox.put_nowait(hint)
    assert await stage.changes.get() == FileChanged(key("a.md"), stage.memory / "a.md")


async def test_what_was_still_on_its_way_when_it_was_hidden_is_taken_back(stage: Stage) -> None:
    (stage.memory / "a.md").write_text("a")
    assert await stage.sync() == [FileChanged(key("a.md"), stage.memory / "a.md")]
    (stage.memory / ".memoryignore").write_text("a.md")
    assert stage.known == {}, "the index does not contain the file yet"
    assert await stage.sync() == [FileGone(key("a.md"))]
    assert await stage.sync() == []


async def test_what_has_arrived_is_given_up_once(stage: Stage) -> None:
    (stage.memory / "a.md").write_text("a")
    await stage.sync()
    stage.index()
    await stage.sync()
    (stage.memory / "a.md").unlink()
    assert await stage.sync() == [FileGone(key("a.md"))]
    stage.known.clear()
    assert await stage.sync() == []


async def test_a_file_whose_read_met_a_missing_folder_is_given_up(stage: Stage) -> None:
    (stage.memory / "a.md").write_text("a")
    await stage.sync()
    stage.index()
    # It is deleted and written again, and its folder is replaced before the second is read.
    stage.inbox.put_nowait(Hint(frozenset({stage.memory / "a.md"})))
    (stage.memory / "a.md").unlink()
    stage.memory.rename(stage.memory.with_name("old"))
    stage.memory.mkdir()
    assert FileGone(key("a.md")) not in await stage.sync()
    stage.known.clear()  # the writer has removed the first; the read of the second has failed
    (stage.memory / "b.md").write_text("b")
    assert FileGone(key("a.md")) in await stage.sync()


async def test_what_an_event_has_given_up_is_given_up_once_more_by_a_scan(stage: Stage) -> None:
    """The parser may meet the file again behind the event, in a folder that is replaced then."""
    await stage.folders.get()
    stage.inbox.put_nowait(Hint(frozenset({stage.memory / "a.md"})))
    assert await stage.changes.get() == FileGone(key("a.md"))
    assert await stage.sync() == [FileGone(key("a.md"))]
    assert await stage.sync() == []


async def test_a_reported_file_that_is_in_neither_the_index_nor_the_folder_is_given_up(
    stage: Stage,
) -> None:
    stage.reported = {key("a.md"), FileKey("sessions", "sessions/pi/a.jsonl")}
    assert await stage.sync() == [FileGone(key("a.md"))]


async def test_folders_that_can_hold_no_memory_are_no_reason_to_scan(stage: Stage) -> None:
    scans = stage.reconciler.stats().scans
    folders = [stage.memory / ".git", stage.memory.parent / "src"]
    for folder in folders:
        folder.mkdir()
    (stage.memory / "a.md").write_text("a")
    stage.inbox.put_nowait(Hint(frozenset({*folders, stage.memory / "a.md"})))
    assert await stage.changes.get() == FileChanged(key("a.md"), stage.memory / "a.md")
    assert stage.reconciler.stats().scans == scans


@pytest.mark.parametrize("extra", ["../far/.away/notes", "../far/.away/*s"])
async def test_an_extra_path_is_noticed_step_by_step_as_it_comes(
    tmp_path: Path, extra: str
) -> None:
    workspace = tmp_path.resolve() / "work"
    workspace.mkdir()
    stage = Stage(workspace, extra_paths=(extra,))
    await stage.sync()
    folder = workspace.parent
    assert folder in await stage.folders.get()
    for part in ("far", ".away", "notes"):
        folder = folder / part
        folder.mkdir()
        stage.inbox.put_nowait(Hint(frozenset({folder})))
        assert folder in await stage.folders.get()
    path = folder / "a.md"
    path.write_text("a")
    stage.inbox.put_nowait(Hint(frozenset({path})))
    assert await stage.changes.get() == FileChanged(FileKey("memory", str(path)), path)
    await stage.close()


async def test_what_is_no_extra_path_any_more_is_given_up(tmp_path: Path) -> None:
    workspace = tmp_path.resolve() / "work"
    workspace.mkdir()
    outside = FileKey("memory", str(workspace.parent / "outside/a.md"))
    (workspace.parent / "outside").mkdir()
    Path(outside.path).write_text("still there")
    stage = Stage(workspace)
    stage.known[outside] = FileStat(1, 1, 1)
    assert set(await stage.sync()) == {FileGone(outside)}
    await stage.close()


async def test_folders_that_can_not_be_written_as_utf_8_are_not_watched(tmp_path: Path) -> None:
    workspace = tmp_path.resolve() / "caf\udce9"
    try:
        workspace.mkdir()
    except OSError:
        pytest.skip("needs a file system with names that are not UTF-8")
    stage = Stage(workspace)
    (stage.memory / "a.md").write_text("a")
    await stage.sync()
    assert await stage.folders.get() == frozenset()
    assert [why for _, why in stage.reconciler.stats().skipped] == ["its name is not UTF-8"]
    await stage.close()


async def test_a_file_that_comes_back_behind_a_scan_is_not_forgotten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file exists again when its absence would be reported."""
    file = stage.memory / "a.md"
    file.write_text("first")
    await stage.sync()
    stage.index()
    walk = stage.discovery.scan

    def scan_without_it() -> Scan:
        file.unlink()
        found = walk()
        file.write_text("once more")
        return found

    monkeypatch.setattr(stage.discovery, "scan", scan_without_it)
    key = FileKey("memory", "memory/a.md")
    assert await stage.sync() == [FileChanged(key, file)]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_the_other_name_of_a_file_counts_when_the_first_has_another_file_or_none(
    stage: Stage, how: str
) -> None:
    """No event names the second path, because that file did not change."""
    first, second = stage.memory / "a.md", stage.memory / "b.md"
    first.write_text("one file")
    os.link(first, second)
    assert await stage.sync() == [FileChanged(key("a.md"), first)]
    stage.index()
    if how == "deleted":
        first.unlink()
    else:
        (stage.memory / "new").write_text("another file")
        (stage.memory / "new").rename(first)
    stage.inbox.put_nowait(Hint(frozenset({first})))
    async with asyncio.timeout(30):
        found = {await stage.changes.get(), await stage.changes.get()}
    of_first = FileGone(key("a.md")) if how == "deleted" else FileChanged(key("a.md"), first)
    assert found == {of_first, FileChanged(key("b.md"), second)}


async def test_a_file_that_stays_away_is_to_be_looked_at_once_more(stage: Stage) -> None:
    file = stage.memory / "a.md"
    file.write_text("first")
    await stage.sync()
    stage.index()
    file.unlink()
    (gone,) = await stage.sync()
    assert isinstance(gone, FileGone)
    assert gone.absent == file


async def test_a_file_that_comes_back_behind_a_look_at_it_is_looked_at_once_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stage.memory / "a.md"
    look = stage.discovery.stat

    def look_and_write(path: Path) -> tuple[FileKey, FileStat | None] | None:
        found = look(path)
        file.write_text("once more")
        return found

    stage.known = {key("a.md"): FileStat(1, 2, 3)}
    monkeypatch.setattr(stage.discovery, "stat", look_and_write)
    (gone,) = await stage.sync()
    assert isinstance(gone, FileGone)
    assert gone.absent == file


async def test_a_hint_below_a_workspace_that_is_gone_gives_up_nothing(stage: Stage) -> None:
    file = stage.memory / "a.md"
    file.write_text("a")
    await stage.sync()
    stage.index()
    away = stage.discovery.workspace.rename(stage.discovery.workspace.with_name("away"))
    assert await stage.sync(Hint(frozenset({file}))) == []
    assert "can't be read" in (stage.reconciler.stats().problem or "")
    away.rename(stage.discovery.workspace)


async def test_a_hint_below_a_folder_that_may_not_be_entered_gives_up_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stage.memory / "a.md"
    file.write_text("a")
    await stage.sync()
    stage.index()
    scans = stage.reconciler.stats().scans

    def refuse(path: Path, below: str) -> object:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("memoryd.source.notes.discover.stat_file", refuse)
        stage.inbox.put_nowait(Hint(frozenset({file})))
        await until(lambda: stage.reconciler.stats().scans > scans)
    assert await stage.sync() == [FileChanged(key("a.md"), file)]


async def test_a_change_that_hides_its_time_is_found_by_a_scan(stage: Stage) -> None:
    file = stage.memory / "a.md"
    file.write_text("old")
    os.utime(file, ns=(1, 1))
    stage.index()
    before = stage.known[key("a.md")]
    stage.known[key("a.md")] = before._replace(ctime_ns=before.ctime_ns - 1)
    assert await stage.sync() == [FileChanged(key("a.md"), file)]


async def test_a_file_of_an_event_is_read_even_with_the_same_stat(stage: Stage) -> None:
    for name in ("a.md", "b.md"):
        (stage.memory / name).write_text(name)
    stage.index()
    hint = Hint(frozenset({stage.memory / "a.md"}))
    wanted = FileChanged(key("a.md"), stage.memory / "a.md")
    stage.inbox.put_nowait(hint)
    assert await stage.changes.get() == wanted
    assert await stage.sync(hint) == [wanted]  # a scan reads it, too
    assert await stage.sync() == []


async def test_another_folder_in_a_place_is_noticed_without_a_hint(tmp_path: Path) -> None:
    stage = Stage(tmp_path.resolve(), pulse_s=0.001)
    (stage.memory / "a.md").write_text("a")
    assert isinstance(await stage.changes.get(), FileChanged)
    stage.index()
    stage.memory.rename(stage.memory.with_name("old"))
    stage.memory.mkdir()
    await until(lambda: stage.reconciler.stats().away)
    assert await stage.sync() == []
    marker = SyncMarker(meant=True)
    stage.inbox.put_nowait(marker)
    assert await stage.until(marker) == [FileGone(key("a.md"))]
    await stage.close()


async def test_which_folder_is_at_each_place_is_written_down_when_it_changes(stage: Stage) -> None:
    written = stage.writer.get_nowait()
    assert isinstance(written, MountPoints)
    assert set(written.folders) == {str(stage.discovery.workspace), str(stage.memory)}
    await stage.sync()
    assert stage.writer.empty()
    stage.memory.rename(stage.memory.with_name("old"))
    await stage.sync()
    written = stage.writer.get_nowait()
    assert isinstance(written, MountPoints)
    assert set(written.folders) == {str(stage.discovery.workspace)}


async def test_a_large_file_that_goes_on_changing_waits_for_its_turn(stage: Stage) -> None:
    file = stage.memory / "large.md"
    file.touch()
    # Sparse files: writing real data may take as long on a slow disk as the file has to rest.
    os.truncate(file, 50_000_000)
    hint = Hint(frozenset({file}))
    stage.inbox.put_nowait(hint)
    assert await stage.changes.get() == FileChanged(key("large.md"), file)
    for number in range(10):
        os.truncate(file, 50_000_001 + number)
        stage.inbox.put_nowait(hint)
    await until(lambda: stage.inbox.empty() and stage.reconciler.stats().waiting > 0)
    assert stage.changes.empty()
    assert await stage.sync() == [FileChanged(key("large.md"), file)], "a client waits for the sync"
    assert stage.reconciler.stats().waiting == 0


async def test_large_files_come_last(stage: Stage) -> None:
    (stage.memory / "a.md").write_bytes(b"x" * 5_000_000)
    (stage.memory / "b.md").write_bytes(b"x")
    found = await stage.sync()
    assert found == [FileChanged(key(name), stage.memory / name) for name in ("b.md", "a.md")]
