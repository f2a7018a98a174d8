"""One index has one daemon, under any name of its folder, its socket or its file."""

import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memoryd_client import Client, MemorydError
from memoryd_client.schema.agents import AgentSummary


def second(daemon: Daemon, *options: str, **variables: str) -> tuple[int, str]:
    """Start a second daemon; return its exit code and its output."""
    done = subprocess.run(
        daemon.command(*options),
        env={**daemon.environment, **variables},
        cwd=daemon.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stderr.splitlines()[-1]


def agent_of(daemon: Daemon) -> AgentSummary:
    with daemon.client() as client:
        (found,) = client.agents().agents
        return found


def is_found(daemon: Daemon, word: str) -> bool:
    """Return whether a search finds a note; False while its agent restarts."""
    try:
        return bool(daemon.paths(word))
    except MemorydError:
        return False


def pid_of(daemon: Daemon) -> str:
    assert daemon.process is not None
    return f"(process {daemon.process.pid})"


@pytest.mark.parametrize("name", ["the same", "a linked state folder", "a linked index"])
def test_a_second_daemon_on_one_index_is_told_who_has_it(daemon: Daemon, name: str) -> None:
    daemon.write("MEMORY.md", "the first one serves this")
    daemon.start().sync()
    options = ["--config", str(daemon.config), "--socket", str(daemon.folder / "other")]
    variables = {}
    if name == "a linked state folder":
        (daemon.folder / "link").symlink_to("state")
        variables["XDG_STATE_HOME"] = str(daemon.folder / "link")
    elif name == "a linked index":
        link = daemon.folder / "link.sqlite"
        link.symlink_to(daemon.database)
        config = daemon.folder / "other.toml"
        config.write_text(f'{daemon.config.read_text()}\nstore.path = "{link}"\n')
        options[1] = str(config)
    code, said = second(daemon, *options, **variables)
    assert code == 3
    assert f"the index {daemon.database} is in use by another memoryd {pid_of(daemon)}" in said
    assert daemon.paths("serves") == ["MEMORY.md"]


def test_a_second_daemon_at_one_socket_is_told_who_has_it(daemon: Daemon) -> None:
    daemon.start()
    (daemon.folder / "link").symlink_to(".")
    for socket in (daemon.socket, daemon.folder / "link" / "s"):
        options = ["--workspace", str(daemon.workspace), "--socket", str(socket)]
        code, said = second(daemon, *options, XDG_STATE_HOME=str(daemon.folder / "elsewhere"))
        assert code == 3
        assert f"the socket {socket} is in use by another memoryd {pid_of(daemon)}" in said
    with daemon.client() as client:
        client.ping()


def test_a_socket_whose_lock_file_was_removed_is_not_taken_from_who_listens(
    daemon: Daemon,
) -> None:
    daemon.start()
    Path(f"{daemon.socket}.lock").unlink()
    code, said = second(
        daemon,
        "--workspace",
        str(daemon.workspace),
        XDG_STATE_HOME=str(daemon.folder / "elsewhere"),
    )
    assert (code, "another process answers on" in said) == (3, True)
    with daemon.client() as client:
        client.ping()


def test_a_socket_and_a_lock_that_are_removed_are_there_again(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "whoever tidies up")
    daemon.socket = daemon.folder / "run" / "s"
    daemon.start().sync()
    with daemon.client() as early:
        early.ping()
        shutil.rmtree(daemon.socket.parent)
        eventually(daemon.socket.exists)
        early.ping()
    assert daemon.paths("tidies") == ["MEMORY.md"]
    assert stat.S_IMODE(daemon.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    code, said = second(
        daemon,
        "--workspace",
        str(daemon.workspace),
        XDG_STATE_HOME=str(daemon.folder / "elsewhere"),
    )
    assert (code, pid_of(daemon) in said) == (3, True)
    daemon.assert_healthy()
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def test_an_index_whose_lock_file_is_removed_is_locked_again(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "the first one serves this")
    daemon.start().sync()
    lock = Path(f"{daemon.database}.lock")
    lock.unlink()
    daemon.write("memory/new.md", "something to write")
    eventually(lock.exists)
    options = ["--config", str(daemon.config), "--socket", str(daemon.folder / "other")]
    code, said = second(daemon, *options)
    assert (code, pid_of(daemon) in said) == (3, True)
    eventually(lambda: is_found(daemon, "write"))
    daemon.assert_healthy()


def test_an_index_whose_lock_another_has_taken_is_left_to_that_one(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "the first one serves this")
    daemon.start().sync()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    Path(f"{daemon.database}.lock").unlink()
    other = subprocess.Popen(
        daemon.command("--config", str(daemon.config), "--socket", str(daemon.folder / "other")),
        env=daemon.environment,
        cwd=daemon.folder,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Client(str(daemon.folder / "other"), wait_s=PATIENCE_S) as client:
            client.sync(timeout_s=PATIENCE_S)
            daemon.process.send_signal(signal.SIGCONT)
            daemon.write("memory/new.md", "something to write")
            eventually(lambda: agent_of(daemon).state == "failed")
            assert f"in use by another memoryd (process {other.pid})" in str(
                agent_of(daemon).reason
            )
            client.sync(timeout_s=PATIENCE_S)
            assert [hit.path for hit in client.search("write").results] == ["memory/new.md"]
    finally:
        other.terminate()
        other.wait()
    with daemon.client() as client:
        client.reload()
    eventually(lambda: is_found(daemon, "write"))
    daemon.assert_healthy()


def test_an_index_that_has_two_names_is_not_opened(daemon: Daemon) -> None:
    daemon.start().sync()
    assert daemon.stop() == 0
    copy = daemon.folder / "backup.sqlite"
    os.link(daemon.database, copy)
    code, said = second(daemon, "--config", str(daemon.config))
    assert (code, "has 2 names (hard links)" in said) == (78, True)
    copy.unlink()
    daemon.start().sync()


@pytest.mark.parametrize("what", ["the socket", "the index"])
def test_a_folder_that_everybody_may_change_is_no_place_for(daemon: Daemon, what: str) -> None:
    shared = daemon.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    daemon.write_config()
    options = ["--config", str(daemon.config)]
    variables = {"XDG_STATE_HOME": str(shared)}
    if what == "the socket":
        options += ["--socket", str(shared / "s")]
        variables = {}
    code, said = second(daemon, *options, **variables)
    assert code == 78
    assert f"{shared} is writable by everybody" in said
    assert f"`chmod go-w {shared}`" in said
    shared.chmod(0o1777)
    daemon.variables = variables
    daemon.start(options=options, wait=False)
    daemon.socket = Path(options[-1]) if what == "the socket" else daemon.socket
    with daemon.client() as client:
        client.ping()
