"""The socket's owner: the lock, what lies at the path, and who is at the other end."""

import fcntl
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.serve import socket as sockets
from memoryd.serve.socket import (
    AlreadyRunningError,
    SocketError,
    check_path,
    inherited_or_listening,
    listening,
    locked,
    peer_uid,
    private_folder,
)
from memoryd_client.background.holder import Holder, is_held, read

HOLD = """
import sys
from pathlib import Path
from memoryd.serve.socket import locked
with locked(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a socket has 107 bytes at most."""
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


def stale(path: Path) -> None:
    """Leave a socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


# --- the lock


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
    me = Holder(pid=os.getpid(), argv=["memoryd", "\udc80"], cwd="/", log_path="/log")
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
    monkeypatch.setattr(sockets, "_LOCK_PAUSE_S", 0.0)
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


def test_a_folder_that_cannot_be_made_is_told(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(SocketError, match=r"file/run can't be made"):
        private_folder(folder / "file/run")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_folder_of_another_user_is_no_place_for_us(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    private_folder(folder)
    os.chown(folder, 12345, -1)
    with pytest.raises(SocketError, match="another user; choose another --socket"):
        private_folder(folder)


# --- the socket


def test_it_listens_for_us_alone_and_goes_at_the_end(folder: Path) -> None:
    path = folder / "s"
    with listening(path) as listener, socket.socket(socket.AF_UNIX) as client:
        assert mode(path) == 0o600
        assert not listener.getblocking()
        client.connect(str(path))
        listener.setblocking(True)
        accepted, _ = listener.accept()
        accepted.close()
    assert not path.exists()


def test_a_stale_socket_is_replaced_which_the_log_tells(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stale(folder / "s")
    with listening(folder / "s"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "s"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"removed the stale socket {folder}/s: the memoryd that made it was killed")
    ]


def test_nothing_is_logged_where_nothing_was(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with listening(folder / "s"):
        pass
    assert caplog.records == []


def test_a_live_socket_is_never_touched(folder: Path) -> None:
    path = folder / "s"
    with listening(path):
        before = os.lstat(path)
        with pytest.raises(AlreadyRunningError, match="somebody answers"), listening(path):
            pass
        after = os.lstat(path)
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_live_socket_with_a_full_backlog_is_never_touched(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises((SocketError, AlreadyRunningError)), listening(path):
            pass
        assert path.is_socket()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_what_is_no_socket_is_refused_and_left(folder: Path, kind: str) -> None:
    path = folder / "s"
    match kind:
        case "file":
            path.write_text("mine")
        case "folder":
            path.mkdir()
        case "link":
            stale(folder / "target")
            path.symlink_to("target")
        case _:
            path.symlink_to("nowhere")
    with pytest.raises(SocketError, match="is not a socket; move it away"), listening(path):
        pass
    assert os.path.lexists(path)


def test_a_path_that_is_too_long_is_refused_with_what_to_do(folder: Path) -> None:
    check_path(folder / "s")
    with pytest.raises(SocketError, match="at most") as refused:
        check_path(folder / ("x" * 100))
    assert "MEMORYD_SOCKET" in str(refused.value)


def test_a_folder_that_is_not_there_is_told(folder: Path) -> None:
    path = folder / "nowhere/s"
    with pytest.raises(SocketError, match=f"can't listen on {path}: No such file"), listening(path):
        pass


def test_the_socket_of_a_successor_is_left(folder: Path) -> None:
    path = folder / "s"
    with listening(path):
        os.unlink(path)
        stale(path)
    assert path.is_socket()


def test_a_socket_that_somebody_removed_is_not_missed(folder: Path) -> None:
    with listening(folder / "s"):
        os.unlink(folder / "s")


def test_without_systemd_the_path_is_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LISTEN_PID", raising=False)
    with inherited_or_listening(folder / "s"):
        assert (folder / "s").is_socket()
    assert not (folder / "s").exists()


def test_the_peer_is_us() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()


@pytest.mark.skipif(os.getuid() != 0 or sys.platform == "darwin", reason="needs root")
def test_the_peer_is_who_connected(folder: Path) -> None:
    os.chmod(folder, 0o755)
    connect = (
        "import os, socket, sys; os.setuid(12345); s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); s.recv(1)"
    )
    with listening(folder / "s") as listener:
        os.chmod(folder / "s", 0o666)
        listener.setblocking(True)
        listener.settimeout(20)
        with subprocess.Popen([sys.executable, "-c", connect, str(folder / "s")]):
            accepted, _ = listener.accept()
            with accepted:
                assert peer_uid(accepted) == 12345
