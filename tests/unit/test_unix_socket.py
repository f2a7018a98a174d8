"""The ownership of the socket: the file at its path, and the peer at the other end."""

import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import AlreadyRunningError, SocketError
from memoryd.server import unix_socket as sockets
from memoryd.server.unix_socket import check_path, inherited_or_listening, listening
from memoryd_client.transport.peer import peer_uid


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name).resolve()


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def stale(path: Path) -> None:
    """Leave a socket without a listener."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


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
        ("INFO", f"removed the stale socket {folder}/s of a memoryd that was killed")
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
        with pytest.raises(AlreadyRunningError, match="another process answers"), listening(path):
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


def test_the_socket_of_another_user_is_refused_and_left(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: changes the owner of a file")
    stale(folder / "s")
    os.chown(folder / "s", 65534, 65534)
    with pytest.raises(SocketError, match=r"user \(uid 65534\)"), listening(folder / "s"):
        pass
    assert (folder / "s").is_socket()


def test_a_path_that_is_too_long_is_refused_with_what_to_do(folder: Path) -> None:
    check_path(folder / "s")
    with pytest.raises(SocketError, match="bytes long") as refused:
        check_path(folder / ("x" * 100))
    assert "MEMORYD_SOCKET" in refused.value.hint


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


# --- sockets from systemd


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """A list of the sockets that systemd passes."""
    given: list[socket.socket] = []
    monkeypatch.setattr(sockets, "inherited_socket", lambda environ: given[0])
    yield given
    for one in given:
        one.close()


def test_the_socket_of_systemd_is_used_and_stays(
    folder: Path, handed_over: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    handed_over.append(socket.socket(socket.AF_UNIX))
    handed_over[0].bind(str(folder / "s"))
    os.chmod(folder / "s", 0o600)
    handed_over[0].listen()
    with inherited_or_listening(folder / "s") as used:
        assert used is handed_over[0]
    assert (folder / "s").is_socket()
    assert caplog.records == []


def test_a_socket_of_systemd_that_is_open_to_others_is_told_of(
    folder: Path, handed_over: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    handed_over.append(socket.socket(socket.AF_UNIX))
    handed_over[0].bind(str(folder / "s"))
    os.chmod(folder / "s", 0o666)
    handed_over[0].listen()
    with inherited_or_listening(folder / "s"):
        pass
    assert [r.getMessage() for r in caplog.records] == [
        f"{folder}/s is open to other users, who are refused; its unit needs SocketMode=0600"
    ]


@pytest.mark.parametrize("kind", ["internet", "datagrams", "accepted", "not listening"])
def test_what_is_no_socket_to_listen_at_is_refused(
    handed_over: list[socket.socket], kind: str
) -> None:
    match kind:
        case "internet":
            handed_over.append(socket.create_server(("127.0.0.1", 0)))
        case "datagrams":
            handed_over.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        case "accepted":
            handed_over.extend(socket.socketpair())
        case _:
            handed_over.append(socket.socket(socket.AF_UNIX))
    refused = inherited_or_listening(Path("/s"))
    with pytest.raises(SocketError, match="not a listening Unix stream socket"), refused:
        pass
