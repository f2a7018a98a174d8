"""Lock files: their holders, foreign files, and an index with two names."""

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import AlreadyRunningError, SocketError
from memoryd.fs import lockfile as locking
from memoryd.fs.lockfile import locked, locked_index
from memoryd_client.shared.lock_holder import Holder, is_held, read, this_process

HOLD = """
import sys
from pathlib import Path
from memoryd.fs.lockfile import locked
with locked(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name).resolve()


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock `folder/x.lock` until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder / "x.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def named(lock: Path) -> Holder:
    found = read(str(lock))
    assert found is not None
    return found


def test_a_lock_held_by_another_process_names_it(
    folder: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(AlreadyRunningError) as refused, locked(folder / "x.lock", "the index"):
        pass
    assert str(refused.value) == f"the index is in use by another memoryd (process {holder.pid})"


def test_the_lock_of_a_killed_process_is_free(folder: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with locked(folder / "x.lock", "the index"):
        assert is_held(str(folder / "x.lock"))
        assert named(folder / "x.lock").pid == os.getpid()


def test_the_lock_names_who_it_is_told(folder: Path) -> None:
    me = Holder(pid=os.getpid(), cwd="/\udc80", log_path="/log", options={"agent": "a"})
    with locked(folder / "x.lock", "the index", me):
        assert named(folder / "x.lock") == me
    assert named(folder / "x.lock") == me
    assert not is_held(str(folder / "x.lock"))


@pytest.mark.parametrize(("line", "process"), [("4321\n", "4321"), ("rubbish", "unknown")])
def test_who_is_named_in_another_way_is_told_too(folder: Path, line: str, process: str) -> None:
    with locked(folder / "x.lock", "it"):
        (folder / "x.lock").write_text(line)
        second = locked(folder / "x.lock", "it")
        with pytest.raises(AlreadyRunningError, match=rf"\(process {process}\)"), second:
            pass


def test_who_only_asks_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "x.lock"
    path.touch()
    waits: list[float] = []
    with open(path, "rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                fcntl.flock(asking, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", sleep)
        with locked(path, "it"):
            assert named(path).pid == os.getpid()
    assert len(waits) == 3


def test_who_asks_for_ever_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "x.lock"
    path.touch()
    monkeypatch.setattr(locking, "_LOCK_PAUSE_S", 0.0)
    with open(path, "rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        with pytest.raises(AlreadyRunningError), locked(path, "it"):
            pass


def test_a_lock_is_exclusive_within_a_process_and_free_afterwards(folder: Path) -> None:
    with locked(folder / "x.lock", "it"):
        second = locked(folder / "x.lock", "it")
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()}"), second:
            pass
    with locked(folder / "x.lock", "it"):
        pass


def test_a_longer_number_left_behind_is_overwritten(folder: Path) -> None:
    (folder / "x.lock").write_text("9" * 5_000)
    with locked(folder / "x.lock", "it"):
        assert named(folder / "x.lock").pid == os.getpid()
        assert (folder / "x.lock").read_text().endswith("}\n")


def test_the_lock_is_private_and_so_is_its_folder(folder: Path) -> None:
    with locked(folder / "run/x.lock", "it"):
        assert mode(folder / "run") == 0o700
        assert mode(folder / "run/x.lock") == 0o600


def test_a_lock_is_not_inherited(folder: Path) -> None:
    with locked(folder / "x.lock", "it"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with locked(folder / "x.lock", "it"):
            pass
    finally:
        child.communicate(b"\n")


def other_user(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: changes the owner of a file")
    os.chown(path, 65534, 65534, follow_symlinks=False)


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "fifo", "hard link"])
def test_what_is_no_lock_file_is_refused_and_left(folder: Path, kind: str) -> None:
    victim, path = folder / "victim", folder / "x.lock"
    victim.write_text("precious")
    match kind:
        case "link":
            path.symlink_to(victim)
        case "dangling link":
            path.symlink_to(folder / "nowhere")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case _:
            os.link(victim, path)
    with pytest.raises(SocketError, match=r"x\.lock can't be used as a lock: "), locked(path, "it"):
        pass
    assert victim.read_text() == "precious"
    assert sorted(p.name for p in folder.iterdir()) == ["victim", "x.lock"]


def test_the_lock_file_of_another_user_is_refused(folder: Path) -> None:
    path = folder / "x.lock"
    path.write_text("theirs")
    other_user(path)
    with pytest.raises(SocketError, match=r"another user \(uid 65534\)"), locked(path, "it"):
        pass
    assert path.read_text() == "theirs"


def test_nobody_else_can_open_a_lock_file_that_was_open_to_all(folder: Path) -> None:
    path = folder / "x.lock"
    path.touch()
    path.chmod(0o666)
    with locked(path, "it"):
        assert mode(path) == 0o600


def test_a_lock_file_that_is_replaced_while_it_is_taken_counts_for_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = folder / "x.lock", folder / "old"
    real = fcntl.flock
    calls: list[int] = []

    def flock(descriptor: int, operation: int) -> None:
        if not calls:
            path.rename(old)
        calls.append(operation)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(path, "it"):
        assert is_held(str(path))
        assert not is_held(str(old))


def test_a_client_that_looks_at_a_lock_follows_no_link_and_waits_for_no_fifo(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "target")
    (folder / "target").touch()
    os.mkfifo(folder / "fifo")
    for look in (read, is_held):
        with pytest.raises(PermissionError, match="is a symbolic link"):
            look(str(folder / "link"))
        with pytest.raises(PermissionError, match="is not a regular file"):
            look(str(folder / "fifo"))


# --- the index


def test_an_index_by_another_name_of_its_folder_is_the_same(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    second = locked_index(folder / "link/i.sqlite", this_process())
    with (
        locked_index(folder / "real/i.sqlite", this_process()),
        pytest.raises(AlreadyRunningError, match=rf"i\.sqlite .* \(process {os.getpid()}\)"),
        second,
    ):
        pass


def test_an_index_with_two_names_is_refused_with_what_to_do(folder: Path) -> None:
    index, other = folder / "i.sqlite", folder / "copy.sqlite"
    index.touch()
    with locked_index(index, this_process()):
        pass
    os.link(index, other)
    for path in (index, other):
        refused = locked_index(path, this_process())
        with pytest.raises(SocketError, match=r"2 names .*find / -samefile"), refused:
            pass
        assert not is_held(f"{path}.lock")
