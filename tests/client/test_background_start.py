"""Starting the daemon: the program, its arguments, and the error when it ends early."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon, Peer, answering

from memoryd_client.errors import DaemonNotRunningError, ProtocolMismatchError
from memoryd_client.launcher import autostart, launch, logs
from memoryd_client.launcher import control as background
from memoryd_client.launcher.control import Started
from memoryd_client.launcher.errors import StartFailedError
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import Holder
from memoryd_client.wire.protocol import Error

PATIENCE_S = 60.0


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short path for home, state and configuration."""
    name = tempfile.mkdtemp(dir="/tmp")
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, name)
    for variable in ("XDG_RUNTIME_DIR", "MEMORYD_SOCKET", "MEMORYD_NO_AUTOSTART"):
        monkeypatch.delenv(variable, raising=False)
    yield Path(name)
    shutil.rmtree(name)


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Replace the daemon's program by a shell script."""
    script = folder / "program"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(launch, "program", lambda: str(script))


def start(folder: Path, *options: str) -> Started:
    return background.start(str(folder / "s"), options=list(options), ready_s=PATIENCE_S)


# --- the program and its arguments


def test_the_program_beside_this_python_comes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("beside", "path"):
        (folder / place).mkdir()
        (folder / place / "memoryd").write_text("#!/bin/sh\n")
        (folder / place / "memoryd").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "beside/python"))
    monkeypatch.setenv("PATH", str(folder / "path"))
    assert launch.program() == str(folder / "beside/memoryd")
    (folder / "beside/memoryd").unlink()
    assert launch.program() == str(folder / "path/memoryd")
    (folder / "path/memoryd").unlink()
    with pytest.raises(StartFailedError, match="neither beside this Python nor in PATH"):
        launch.program()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--socket", "/old", "--log-file", "/old.log"],
        ["--socket=/old", "--log-file=/old.log"],
        ["--log-file", "/old.log", "--socket", "/older", "--socket=/old"],
    ],
)
def test_a_command_has_each_place_once(words: list[str]) -> None:
    argv = ["memoryd", "--workspace", "w", *words, "--agent", "a"]
    placed = launch.placed(argv, socket_path="/s", log_path="/l")
    kept = ["memoryd", "--workspace", "w", "--agent", "a"]
    assert placed == [*kept, "--socket", "/s", "--log-file", "/l"]
    assert launch.placed(placed, socket_path="/s", log_path="/l") == placed


def test_the_options_of_a_holder_are_words_of_their_own() -> None:
    holder = Holder(1, cwd="/", options={"workspace": "--config=x", "agent": "a b"})
    assert launch.kept_options(holder) == ["--agent=a b", "--workspace=--config=x"]


# --- a start that fails


def test_what_the_daemon_said_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Path(logs.log_path(str(folder / "s")))
    log.parent.mkdir()
    log.write_text("memoryd: an older story\n")
    program(
        folder, monkeypatch, "echo first; echo 'memoryd: config.toml: bad key' >&2; echo; exit 78"
    )
    with pytest.raises(StartFailedError) as failed:
        start(folder)
    assert failed.value.message == "memoryd did not start: config.toml: bad key"
    assert failed.value.output == ("first", "memoryd: config.toml: bad key", "")
    assert str(log) in failed.value.hint
    assert failed.value.code == "start_failed"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("exit 0", "it was stopped (exit code 0)"),
        ("echo; echo boom; echo; exit 1", "it crashed (exit code 1): boom"),
        ("exit 2", "it does not support one of the options (exit code 2)"),
        ("exit 3", "another memoryd holds the socket or the index (exit code 3)"),
        ("exit 99", "it exited (exit code 99)"),
        ("kill -KILL $$", "it was killed by SIGKILL (exit code -9)"),
        ("exec no-such-program-at-all", "it exited (exit code 127)"),
    ],
)
def test_an_exit_code_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    program(folder, monkeypatch, body)
    with pytest.raises(StartFailedError) as failed:
        start(folder)
    assert failed.value.message.startswith(f"memoryd did not start: {told}")


def test_only_the_last_lines_are_passed_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(folder, monkeypatch, "seq 1 30000; exit 1")
    with pytest.raises(StartFailedError) as failed:
        start(folder)
    last = range(30_001 - launch.OUTPUT_LINES, 30_001)
    assert failed.value.output == tuple(str(number) for number in last)


def test_a_log_that_was_rotated_meanwhile_is_read_from_its_beginning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(logs.log_path(str(folder / "s")))
    log.parent.mkdir()
    log.write_text("long ago\n" * 100)
    program(folder, monkeypatch, f"mv '{log}' '{log}.1'; echo new > '{log}'; exit 1")
    with pytest.raises(StartFailedError) as failed:
        start(folder)
    assert failed.value.output == ("new",)


def test_one_that_does_not_answer_in_time_is_left_running(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, "exec sleep 600")
    with pytest.raises(StartFailedError, match="is still starting") as failed:
        background.start(str(folder / "s"), options=[], ready_s=0.0)
    assert failed.value.retryable
    pid = int(failed.value.message.partition("process ")[2].partition(")")[0])
    assert os.getsid(pid) == pid
    os.killpg(pid, 15)


def test_a_program_that_is_no_program_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, "")
    (folder / "program").chmod(0o644)
    with pytest.raises(StartFailedError, match="can't run"):
        start(folder)


def test_a_log_is_made_private_but_never_through_a_link_or_with_two_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, "echo here; exit 1")
    log = Path(logs.log_path(str(folder / "s")))
    log.parent.mkdir()
    log.touch(mode=0o644)
    with pytest.raises(StartFailedError, match="here"):
        start(folder)
    assert log.stat().st_mode & 0o777 == 0o600
    log.chmod(0o644)
    log.rename(folder / "mine")
    for linked, told in [(True, "it is a symbolic link"), (False, "has another name too")]:
        if linked:
            log.symlink_to(folder / "mine")
        else:
            log.hardlink_to(folder / "mine")
        with pytest.raises(StartFailedError, match=f"can't write the log .*{told}"):
            start(folder)
        log.unlink()
    assert (folder / "mine").read_text() == "here\n"
    assert (folder / "mine").stat().st_mode & 0o777 == 0o644


def test_a_log_that_cannot_be_written_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    with pytest.raises(StartFailedError, match=r"can't write the log .*: Not a directory"):
        start(folder)


# --- a daemon already runs


def test_who_answers_already_is_not_started_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, f"touch '{folder}/started'")

    def greet(peer: Peer) -> None:
        peer.greet()

    with FakeDaemon(greet) as daemon:
        running = background.start(daemon.path, options=[], ready_s=PATIENCE_S)
    assert running == Started(4242, daemon.path, None, already=True)
    assert not (folder / "started").exists()


def test_who_does_not_speak_our_protocol_is_told(folder: Path) -> None:
    def refuse(peer: Peer) -> None:
        peer.send(Error("unsupported_protocol", "I speak 7 to 9"))
        peer.hung_up()

    def babble(peer: Peer) -> None:
        peer.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.hung_up()

    def answer_at_once(peer: Peer) -> None:
        answering()(peer)
        peer.hung_up()

    with FakeDaemon(refuse, babble, answer_at_once) as daemon:
        with pytest.raises(ProtocolMismatchError, match="I speak 7 to 9"):
            background.start(daemon.path, options=[], ready_s=PATIENCE_S)
        with pytest.raises(ProtocolMismatchError, match="does not use memoryd's protocol"):
            background.start(daemon.path, options=[], ready_s=PATIENCE_S)
        assert background.start(daemon.path, options=[], ready_s=PATIENCE_S).already


def test_a_socket_that_cannot_be_reached_is_told(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(DaemonNotRunningError, match="cannot connect"):
        background.start(str(folder / "file/s"), options=[], ready_s=PATIENCE_S)


# --- on first use


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    def start(socket_path: str, *, options: list[str], ready_s: float) -> Started:
        assert options == []
        calls.append(socket_path)
        return Started(1, socket_path, None)

    monkeypatch.setattr(background, "start", start)
    return calls


def configure(text: str | bytes) -> None:
    file = Path(paths.config_path())
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("no", ["", "0", None])
def test_who_wants_it_gets_a_daemon(
    started: list[str], monkeypatch: pytest.MonkeyPatch, no: str | None
) -> None:
    configure("autostart = true\n[agents.main]\nworkspace = '~/notes'\n")
    if no is not None:
        monkeypatch.setenv("MEMORYD_NO_AUTOSTART", no)
    assert autostart.autostart("/s")
    assert started == ["/s"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "autostart = false",
        "autostart = 1",
        "autostart = 'true'",
        "[defaults]\nautostart = true",
        "autostart = true\nautostart =",
        b"autostart = true # \xff",
    ],
)
def test_nobody_else_does(started: list[str], text: str | bytes) -> None:
    configure(text)
    assert not autostart.autostart("/s")
    assert started == []


@pytest.mark.usefixtures("folder")
def test_without_a_configuration_nothing_is_started(started: list[str]) -> None:
    assert not autostart.autostart("/s")
    Path(paths.config_path()).mkdir(parents=True)
    assert not autostart.autostart("/s")
    assert started == []


@pytest.mark.usefixtures("folder")
def test_a_variable_forbids_it(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    configure("autostart = true")
    monkeypatch.setenv("MEMORYD_NO_AUTOSTART", "1")
    assert not autostart.autostart("/s")
    assert started == []
