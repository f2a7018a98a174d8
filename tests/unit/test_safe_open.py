"""Files are opened below a folder, name by name: no symbolic links, and only regular files."""

import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from descriptors import path_of
from swapping import swapping

from memoryd.fs import safe_open
from memoryd.fs.safe_open import Descent, LinkError, open_file, stat_file, unlink_file

ROUNDS = 3_000
PATIENCE_S = 60.0


@pytest.fixture(params=["O_PATH", "without O_PATH", "without /proc"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Provide a folder with files, for each kind of system."""
    if request.param == "without O_PATH":
        monkeypatch.setattr(safe_open, "_O_PATH", 0)
        on_the_way = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        monkeypatch.setattr(safe_open, "_ON_THE_WAY", on_the_way)
        monkeypatch.setattr(safe_open, "_THROUGH", on_the_way | os.O_NOFOLLOW)
    elif request.param == "without /proc":
        real = os.open

        def no_proc(path: str, flags: int, *more: int, **options: int) -> int:
            if str(path).startswith("/proc/"):
                raise FileNotFoundError(2, "No such file or directory", path)
            return real(path, flags, *more, **options)

        monkeypatch.setattr(os, "open", no_proc)
    root = tmp_path / "place"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/note.md").write_text("note")
    (root / "top.md").write_text("top")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/note.md").write_text("secret")
    (tmp_path / "outside/b/note.md").write_text("secret")
    before = set(os.listdir("/dev/fd"))
    yield root
    # The garbage collector may have closed descriptors of other tests meanwhile.
    assert set(os.listdir("/dev/fd")) <= before, "a descriptor was left open"


def read(path: Path, below: Path) -> str:
    with open(open_file(path, below)) as file:
        return file.read()


def test_a_file_is_opened_below_its_place(place: Path) -> None:
    assert read(place / "a/b/note.md", place) == "note"
    assert read(place / "top.md", place) == "top"
    assert stat_file(place / "a/b/note.md", place) == os.stat(place / "a/b/note.md")


def test_the_place_itself_may_be_reached_through_links(place: Path) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    assert read(link / "a/b/note.md", link) == "note"
    with closing(Descent(link)) as descent:
        assert os.listdir(descent.enter(str(link / "a/b"))) == ["note.md"]


@pytest.mark.parametrize("linked", ["a", "a/b", "a/b/note.md"])
def test_no_link_below_it_is_followed(place: Path, linked: str) -> None:
    (place / linked).rename(place.parent / "moved")
    (place / linked).symlink_to(place.parent / "moved")
    with pytest.raises(LinkError, match="links are not followed"):
        open_file(place / "a/b/note.md", place)
    if linked != "a/b/note.md":
        with pytest.raises(LinkError), closing(Descent(place)) as descent:
            descent.enter(str(place / "a/b"))


@pytest.mark.parametrize("path", ["../outside/note.md", "a/../../outside/note.md", "a//b/note.md"])
def test_a_path_that_does_not_simply_lead_down_is_refused(place: Path, path: str) -> None:
    for below in (place, place / "a"):
        with pytest.raises(OSError, match="not a path below its directory"):
            open_file(f"{place}/{path}", below)
    with pytest.raises(OSError, match="not a path below its directory"):
        open_file(place.parent / "outside/note.md", place)


def test_what_is_missing_is_named_whole(place: Path) -> None:
    for path in (place / "a/none/note.md", place / "a/b/none.md"):
        with pytest.raises(FileNotFoundError):
            open_file(path, place)
    with pytest.raises(FileNotFoundError) as missing:
        open_file(place / "a/none/note.md", place)
    assert missing.value.filename == str(place / "a/none/note.md")
    with pytest.raises(NotADirectoryError):
        open_file(place / "top.md/x.md", place)


def test_a_pipe_is_never_opened(place: Path) -> None:
    """Opening a pipe for reading would unblock its writer."""
    os.mkfifo(place / "pipe.md")
    opened = threading.Event()

    def write() -> None:
        descriptor = os.open(place / "pipe.md", os.O_WRONLY)
        opened.set()
        os.close(descriptor)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(500):
        with pytest.raises(OSError, match="not a regular file"):
            open_file(place / "pipe.md", place)
    assert not opened.is_set()
    reader = os.open(place / "pipe.md", os.O_RDONLY | os.O_NONBLOCK)
    writer.join()
    os.close(reader)


def test_neither_sockets_nor_devices_nor_folders_are_opened(place: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{name}/s.md")
        with pytest.raises(OSError, match="not a regular file"):
            open_file(f"{name}/s.md", name)
    with pytest.raises(OSError, match="not a regular file"):
        open_file("/dev/null", "/dev")
    with pytest.raises(OSError, match="not a regular file"):
        open_file(place / "a", place)


def test_only_the_file_that_is_meant_is_removed(place: Path) -> None:
    path = place / "a/b/note.md"
    found = path.stat()
    path.rename(place / "kept.md")
    path.write_text("another")
    with pytest.raises(OSError, match="replaced by another file"):
        unlink_file(path, place, (found.st_dev, found.st_ino))
    path.unlink()
    path.symlink_to(place / "kept.md")
    with pytest.raises(LinkError):
        unlink_file(path, place, (found.st_dev, found.st_ino))
    (place / "kept.md").rename(path)
    unlink_file(path, place, (found.st_dev, found.st_ino))
    assert not path.exists()


def test_a_descent_goes_anywhere_below_and_holds_no_more_than_the_way(place: Path) -> None:
    folders = [place / name for name in ("a", "a/b", "c", "c/d/e", "c/d", "a/b")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    before = len(os.listdir("/dev/fd"))
    with closing(Descent(place)) as descent:
        for folder in [place, *folders, *reversed(folders), place, folders[1]]:
            for listed in (True, False):
                descriptor = descent.enter(str(folder), listed=listed)
                assert path_of(descriptor) == folder
                assert len(os.listdir("/dev/fd")) - before <= 4
        with pytest.raises(FileNotFoundError):
            descent.enter(str(place / "a/none"))
        assert path_of(descent.enter(str(place / "a/b"))) == place / "a/b"


def test_a_folder_that_turns_into_a_link_at_any_moment_is_not_followed(place: Path) -> None:
    """A check of the path followed by an open would lose this race."""
    seen: set[str] = set()
    with swapping(place / "a", place.parent / "outside"):
        deadline = time.monotonic() + PATIENCE_S
        rounds = 0
        while rounds < ROUNDS or not {"note", "refused"} <= seen:
            assert time.monotonic() < deadline, seen
            assert "secret" not in seen, seen
            rounds += 1
            try:
                seen.add(read(place / "a/b/note.md", place))
            except LinkError:
                seen.add("refused")
            except (FileNotFoundError, NotADirectoryError):
                continue
    assert seen == {"note", "refused"}
