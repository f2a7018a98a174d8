"""The endpoint of the daemon: restored after removal, and never taken from another daemon."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.errors import AlreadyRunningError
from memoryd.fs.lockfile import locked
from memoryd.server import endpoint as doors
from memoryd.server import unix_socket as sockets
from memoryd.server.endpoint import Endpoint
from memoryd.server.unix_socket import listening
from memoryd_client.shared.lock_holder import read, this_process


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name).resolve() / "run" / "s"


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("removed", ["s", "s.lock", "both", "folder"])
def test_what_was_removed_is_put_back(path: Path, removed: str) -> None:
    with Endpoint(path, this_process()) as door:
        assert door.is_there()
        if removed == "folder":
            os.rename(path.parent, path.parent.with_name("elsewhere"))
        for name in ("s", "s.lock") if removed == "both" else (removed,):
            path.with_name(name).unlink(missing_ok=True)
        assert not door.is_there()
        door.restore()
        assert door.is_there()
        assert connects(path)
        assert door.listener.getsockname() == str(path)
        with pytest.raises(AlreadyRunningError), locked(Path(f"{path}.lock"), "it"):
            pass
        owner = read(f"{path}.lock")
        assert owner is not None
        assert owner.pid == os.getpid()
    assert not path.exists()
    with locked(Path(f"{path}.lock"), "it"):
        pass


def test_what_another_daemon_has_made_meanwhile_is_left_until_it_goes(path: Path) -> None:
    with Endpoint(path, this_process()) as door:
        path.unlink()
        Path(f"{path}.lock").unlink()
        with locked(Path(f"{path}.lock"), "it"), listening(path):
            for _ in range(2):
                assert not door.is_there()
                with pytest.raises(AlreadyRunningError):
                    door.restore()
            assert connects(path)
        assert not door.is_there()
        door.restore()
        assert door.is_there()
        assert connects(path)


def test_the_socket_of_systemd_is_left_to_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    handed_over = socket.socket(socket.AF_UNIX)
    handed_over.bind(str(path))
    handed_over.listen()
    monkeypatch.setattr(sockets, "inherited_socket", lambda environ: handed_over)
    monkeypatch.setattr(doors, "is_handed_over", lambda environ: True)
    with Endpoint(path, this_process()) as door:
        path.unlink()
        assert door.is_there()
        assert door.listener is handed_over


def test_a_restricted_socket_is_never_systemd_s_and_its_folder_has_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    lock = path.parent.with_name("elsewhere") / "l.lock"
    with Endpoint(path, this_process(), lock_path=lock) as door:
        assert door.listener.getsockname() == str(path)
        assert os.listdir(path.parent) == ["s"]
        for folder in (path.parent, lock.parent):
            assert folder.stat().st_mode & 0o777 == 0o700
        os.rename(path.parent, path.parent.with_name("moved"))
        lock.unlink()
        door.restore()
        assert connects(path)
        assert os.listdir(path.parent) == ["s"]
        with pytest.raises(AlreadyRunningError), locked(lock, "it"):
            pass
    assert os.listdir(path.parent) == []


def test_a_door_that_can_not_be_opened_keeps_no_lock(path: Path) -> None:
    with locked(Path(f"{path}.lock"), "it"), listening(path):
        Path(f"{path}.lock").unlink()
        with pytest.raises(AlreadyRunningError, match="another process answers"):
            Endpoint(path, this_process()).__enter__()
        with locked(Path(f"{path}.lock"), "it"):
            pass
