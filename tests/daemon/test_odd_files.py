"""A pipe, a folder, a socket or an endless device instead of a file: reported, never opened."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memoryd.config.load import load
from memoryd.config.validate import ConfigError
from memoryd_client.launcher import logs
from memoryd_client.launcher.autostart import is_enabled
from memoryd_client.launcher.errors import NoLogError
from memoryd_client.shared import paths
from memoryd_client.shared.safe_open import open_regular


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    def made(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        KINDS[request.param](path)
        return path

    return made


def test_nothing_but_a_regular_file_is_opened(
    make: Callable[[Path], Path], daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = make(daemon.folder / "odd")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)  # the type is checked before the open
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(odd)
    assert not is_enabled(str(odd))
    with pytest.raises(ConfigError, match=f"can't read {odd}: not a regular file"):
        load(odd)
    monkeypatch.setattr(paths, "config_path", lambda: str(odd))
    with pytest.raises(ConfigError, match="not a regular file"):
        load()
    monkeypatch.setattr(logs, "log_path", lambda socket_path: str(odd))
    with pytest.raises(NoLogError, match=r"not a regular file|a symbolic link"):
        logs.current(str(daemon.socket))


def test_a_link_to_a_regular_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"


def test_one_that_is_exchanged_at_the_last_moment_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    found = os.stat(file)
    file.unlink()
    os.mkfifo(file)
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda path: found)
        before = set(os.listdir("/dev/fd"))
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(file)
        assert set(os.listdir("/dev/fd")) <= before


def test_memctl_is_not_kept_waiting_by_its_configuration(daemon: Daemon) -> None:
    config = daemon.folder / "home" / "memoryd" / "config.toml"
    config.parent.mkdir(parents=True)
    os.mkfifo(config)
    daemon.variables["XDG_CONFIG_HOME"] = str(daemon.folder / "home")
    assert "no memoryd is running" in daemon.memctl("search", "anything", code=3).stderr
    said = daemon.memctl("start", code=1).stderr
    assert f"can't read {config}: not a regular file" in said
    assert "not a regular file" in daemon.memctl("config", code=78).stderr
    assert "not a regular file" in daemon.memctl("doctor", code=78).stdout


def test_a_log_that_is_a_pipe_without_a_reader_is_refused(daemon: Daemon) -> None:
    daemon.write_config()
    log = daemon.folder / "pipe"
    os.mkfifo(log)
    done = subprocess.run(
        daemon.command("--config", str(daemon.config), "--log-file", str(log)),
        env=daemon.environment,
        cwd=daemon.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr.startswith(f"memoryd: can't open the log {log}: ")) == (
        78,
        True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: replaces all files by pipes")
def test_a_daemon_goes_on_without_what_it_can_not_read(daemon: Daemon) -> None:
    pipes = [
        daemon.folder / "model.gguf",
        daemon.folder / "vec0",
        daemon.workspace / "MEMORY.md",
        daemon.workspace / "memory" / "hidden" / ".memoryignore",
        daemon.folder / "chats" / "a.jsonl",
        daemon.folder
        / "state"
        / "memoryd"
        / f"added{paths.socket_suffix(str(daemon.socket))}.json",
    ]
    (daemon.folder / "state").mkdir(mode=0o700)
    (daemon.folder / "state" / "memoryd").mkdir(mode=0o700)
    for pipe in pipes:
        pipe.parent.mkdir(exist_ok=True, parents=True)
        os.mkfifo(pipe)
    daemon.write("memory/a.md", "a whole salsify")
    daemon.write("memory/hidden/b.md", "a hidden salsify")
    daemon.provider = "local"
    daemon.settings += f"""
local = {{ model_path = "{pipes[0]}" }}
store = {{ vector = {{ enabled = true, extension_path = "{pipes[1]}" }} }}
sessions = {{ enabled = true, formats = ["plain"], paths = ["{daemon.folder}/chats/*.jsonl"] }}
extra_paths = ["{pipes[0]}"]
"""
    daemon.start()
    with daemon.client() as client:
        client.sync(vectors=False)
        assert [hit.path for hit in client.search("salsify").results] == ["memory/a.md"]
        status = client.status()
    assert any(f"{pipes[1]} is not a regular file" in line for line in status.degraded)
    skipped = {skipped.path: skipped.reason for skipped in status.skipped_paths}
    assert skipped[str(pipes[2])] == "not a regular file"
    assert "not a regular file" in skipped[str(pipes[3])]
    assert "not a regular file" in daemon.log()
    assert all(pipe.is_fifo() for pipe in pipes)
    eventually(lambda: daemon.stop() == 0)


@pytest.mark.parametrize(
    ("name", "file"), [("OPENAI_API_KEY_FILE", "key"), ("SSL_CERT_FILE", "certificates")]
)
def test_files_that_the_environment_names(daemon: Daemon, name: str, file: str) -> None:
    pipe = daemon.folder / file
    os.mkfifo(pipe)
    daemon.provider = "openai"
    daemon.variables = {"OPENAI_API_KEY": "sk-none-Zq7Zq7Zq7", name: str(pipe)}
    if name == "OPENAI_API_KEY_FILE":
        del daemon.variables["OPENAI_API_KEY"]
        daemon.write("memory/a.md", "a whole salsify")
        daemon.start()
        with daemon.client() as client:
            client.sync(vectors=False)
            eventually(lambda: "not a regular file" in "".join(client.status().degraded))
        return
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(PATIENCE_S) == 78
    assert f"SSL_CERT_FILE is not a regular file: {pipe}" in daemon.log()
