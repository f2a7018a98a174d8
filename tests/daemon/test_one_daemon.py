"""One index has one daemon, by whatever names its folder, its socket or its file are called."""

import os
import subprocess
from pathlib import Path

import pytest
from harness import PATIENCE_S, Daemon


def second(daemon: Daemon, *options: str, **variables: str) -> tuple[int, str]:
    """Start another one; return its exit code and what it said."""
    done = subprocess.run(
        daemon.command(*options),
        env={**daemon.environment, **variables},
        cwd=daemon.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stderr.splitlines()[-1]


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
    assert (code, "somebody answers on" in said) == (3, True)
    with daemon.client() as client:
        client.ping()


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
    assert f"{shared} can be written to by everybody" in said
    assert f"`chmod go-w {shared}`" in said
    shared.chmod(0o1777)
    daemon.variables = variables
    daemon.start(options=options, wait=False)
    daemon.socket = Path(options[-1]) if what == "the socket" else daemon.socket
    with daemon.client() as client:
        client.ping()
