"""Missing files count as deleted only if their disk is mounted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.messages import FileKey
from memoryd.source.mounts import Mounts, cannot_be_seen, identity_of
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.read import NoteReader
from memoryd.source.notes.walk import Scan


class Stage:
    def __init__(self, workspace: Path, recorded: dict[str, tuple[int, int]] | None = None) -> None:
        self.workspace = workspace
        self.discovery = Discovery(workspace, ())
        self.mounts = Mounts(
            recorded or {}, locate=self.discovery.real_path, workspace=self.workspace
        )
        self.known: set[FileKey] = set()

    def scan(self, *, meant: bool = False) -> list[Path]:
        scan = self.discovery.scan()
        verdict = self.mounts.judge(scan, self.known, meant=meant)
        self.mounts.record(verdict)
        self.known |= scan.stats.keys()
        return list(verdict.away)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path.resolve())
    (made.workspace / "memory").mkdir()
    (made.workspace / "memory" / "a.md").write_text("a")
    assert made.scan() == []
    return made


def replace(folder: Path) -> None:
    """Replace a folder by an empty one."""
    folder.rename(folder.with_name("old"))
    folder.mkdir()


def test_an_empty_folder_in_the_place_of_the_one_recorded(stage: Stage) -> None:
    memory = stage.workspace / "memory"
    replace(memory)
    assert stage.mounts.moved()
    assert stage.mounts.away(memory / "a.md")
    assert stage.scan() == [memory]
    assert stage.scan() == [memory], "the folder stays unavailable"
    assert not stage.mounts.moved(), "the change has been handled"
    assert Stage(stage.workspace, stage.mounts.recorded()).mounts.away(memory / "a.md")
    assert stage.scan(meant=True) == []
    assert stage.scan() == []
    assert not stage.mounts.away(memory / "a.md")


def test_another_folder_with_notes_in_it_is_the_one_from_now_on(stage: Stage) -> None:
    memory = stage.workspace / "memory"
    replace(memory)
    (memory / "b.md").write_text("b")
    assert stage.scan() == []
    assert stage.mounts.recorded()[str(memory)] == identity_of(memory)


def test_the_same_folder_emptied_was_emptied(stage: Stage) -> None:
    (stage.workspace / "memory" / "a.md").unlink()
    assert stage.scan() == []
    assert not stage.mounts.away(stage.workspace / "memory" / "a.md")


def test_a_folder_that_is_missing_from_its_file_system_was_deleted(stage: Stage) -> None:
    (stage.workspace / "memory" / "a.md").unlink()
    (stage.workspace / "memory").rmdir()
    assert not stage.mounts.away(stage.workspace / "memory" / "a.md")
    assert stage.scan() == []
    assert str(stage.workspace / "memory") not in stage.mounts.recorded()


def test_a_folder_that_is_missing_along_with_its_file_system(stage: Stage) -> None:
    memory = stage.workspace / "memory"
    device, inode = stage.mounts.recorded()[str(memory)]
    other = Stage(stage.workspace, stage.mounts.recorded() | {str(memory): (device + 1, inode)})
    other.known = set(stage.known)
    (memory / "a.md").unlink()
    memory.rmdir()
    assert other.scan() == [memory]
    assert other.mounts.away(memory / "a.md")


def test_a_disk_that_goes_while_it_is_looked_at(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = stage.workspace / "memory"
    (memory / "b.md").write_text("b")
    stage.scan()
    walk = stage.discovery.scan

    def half() -> Scan:
        found = walk()
        found.stats.pop(FileKey("memory", "memory/b.md"))  # it disappeared during the scan
        replace(memory)
        return found

    monkeypatch.setattr(stage.discovery, "scan", half)
    assert stage.scan() == [memory]
    assert stage.mounts.moved(), "the folders must be checked again"


def test_nothing_is_judged_where_the_workspace_is_missing(stage: Stage) -> None:
    recorded = stage.mounts.recorded()
    away = stage.workspace.rename(stage.workspace.with_name("elsewhere"))
    assert stage.scan(meant=True) == []
    assert stage.mounts.away(stage.workspace / "memory" / "a.md")
    assert stage.mounts.recorded() == recorded
    away.rename(stage.workspace)


def test_a_file_that_goes_with_its_disk_before_it_is_read_is_not_gone(stage: Stage) -> None:
    path = stage.workspace / "memory" / "a.md"
    read = NoteReader(stage.discovery, None, stage.mounts)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(path)
    replace(path.parent)
    with pytest.raises(OSError, match="its folder is not there"):
        read(path)


def test_what_cannot_be_seen_may_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "a.jsonl"
    assert cannot_be_seen(file) is None
    assert cannot_be_seen(folder / "deep" / "a.jsonl") is None
    scandir: Callable[[Path], object] = __import__("os").scandir

    def refuse(path: Path) -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    assert f"{folder} can't be read: Permission denied" in str(cannot_be_seen(file))
    assert f"{folder} can't be read" in str(cannot_be_seen(folder / "deep" / "a.jsonl"))
