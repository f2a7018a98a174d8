"""memoryd in the background: real processes, real signals, no leftovers."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memoryd.__main__ import _parser
from memoryd.daemon.log_writer import LOG_MAX_BYTES
from memoryd_client.launcher import control as background
from memoryd_client.launcher import logs
from memoryd_client.launcher.control import Started, Stopped
from memoryd_client.launcher.errors import (
    ManagedError,
    NoLogError,
    StartFailedError,
    StopFailedError,
)
from memoryd_client.shared import lock_holder
from memoryd_client.shared.lock_holder import Holder

START = """
import sys
from memoryd_client.launcher import control as background
started = background.start(sys.argv[1], options=sys.argv[2:], ready_s=60.0)
print(started.pid, started.already, flush=True)
"""


@pytest.fixture
def home(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """The folders of a daemon that the harness does not start, also for this process."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "MEMORYD_")):
            monkeypatch.delenv(name)
    for name, value in daemon.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.chdir(daemon.workspace)
    daemon.write("MEMORY.md", "The kettle is blue.\n")
    yield daemon
    for lock in daemon.folder.rglob("*.lock"):
        if lock_holder.is_held(str(lock)):
            os.kill(holding(lock).pid, signal.SIGKILL)
            eventually(lambda lock=lock: not lock_holder.is_held(str(lock)))  # type: ignore[misc]


def holding(lock: Path) -> Holder:
    found = lock_holder.read(str(lock))
    assert found is not None
    return found


def lock_of(home: Daemon) -> Path:
    return Path(f"{home.socket}.lock")


def start(home: Daemon, *options: str) -> Started:
    return background.start(str(home.socket), options=list(options), ready_s=PATIENCE_S)


def stop(home: Daemon) -> Stopped:
    return background.stop(str(home.socket), timeout_s=PATIENCE_S)


def restart(home: Daemon) -> Started:
    return background.restart(str(home.socket), timeout_s=PATIENCE_S, ready_s=PATIENCE_S)


def is_gone(pid: int) -> bool:
    """Return whether the process is gone, not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def kill(home: Daemon, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lock_holder.is_held(str(lock_of(home))))


def log_of(home: Daemon) -> str:
    return Path(logs.current(str(home.socket))).read_text()


def test_start_then_stop(home: Daemon) -> None:
    started = start(home)
    assert not started.already
    assert started.log_path == logs.log_path(str(home.socket))
    assert os.getsid(started.pid) == started.pid != os.getsid(0)
    with home.client() as client:
        assert client.ping().pid == started.pid
    eventually(lambda: "ready" in log_of(home))  # a thread writes the log
    assert os.stat(logs.log_path(str(home.socket))).st_mode & 0o777 == 0o600
    assert stop(home) == Stopped(started.pid, [])
    eventually(lambda: is_gone(started.pid))
    assert not home.socket.exists()
    assert stop(home) == Stopped(None, [], f"no memoryd runs at {home.socket}")


def test_the_current_directory_is_the_workspace(home: Daemon) -> None:
    start(home)
    home.sync()
    assert home.paths("kettle") == ["MEMORY.md"]


def test_options_are_passed_on(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    start(home, "--workspace", str(home.workspace), "--log-level", "warning")
    home.sync()
    assert home.paths("kettle") == ["MEMORY.md"]
    assert " INFO " not in log_of(home)


def test_a_second_start_finds_the_first(home: Daemon) -> None:
    first = start(home)
    second = start(home)
    assert second.already
    assert (second.pid, second.log_path) == (first.pid, first.log_path)


def test_of_starts_at_once_one_wins_and_all_succeed(home: Daemon) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(home.socket)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = [starter.communicate(timeout=PATIENCE_S)[0].split() for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 4
    assert {pid for pid, _ in answers} == {str(holding(lock_of(home)).pid)}
    assert [already for _, already in answers].count("False") == 1


def test_restart_is_the_same_in_the_same_folder(
    home: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(home, "--workspace", ".")
    before = holding(lock_of(home))
    monkeypatch.chdir("/")
    second = restart(home)
    after = holding(lock_of(home))
    assert second.pid == after.pid != first.pid
    assert not second.already
    assert (after.options, after.cwd) == (before.options, before.cwd)
    home.sync()
    assert home.paths("kettle") == ["MEMORY.md"]
    eventually(lambda: is_gone(first.pid))


def test_a_restart_keeps_every_option_or_sets_it_itself(home: Daemon) -> None:
    options = {word.lstrip("-") for word in _parser()._option_string_actions}
    of_other_commands = {"h", "help", "version", "json", "from", "sha256"}
    assert options - of_other_commands - {"socket", "log-file"} == set(lock_holder.OPTIONS)
    home.write_config()
    given = {
        "agent": "main",
        "config": str(home.config),
        "log-level": "warning",
        "workspace": str(home.workspace),
    }
    start(home, *(f"--{name}={value}" for name, value in given.items()))
    assert holding(lock_of(home)).options == given
    restart(home)
    assert holding(lock_of(home)).options == given


def test_restart_sends_one_of_the_foreground_to_the_background(home: Daemon) -> None:
    home.start()
    assert home.process is not None
    second = restart(home)
    assert home.process.wait(timeout=PATIENCE_S) == 0
    assert second.log_path == logs.log_path(str(home.socket))
    assert holding(lock_of(home)).options == {"config": str(home.config), "log-level": "info"}
    eventually(lambda: "ready" in log_of(home))  # a thread writes the log


def test_restart_without_a_daemon_is_a_start(home: Daemon) -> None:
    assert not restart(home).already


def test_a_start_after_a_kill_removes_the_socket_and_says_so(home: Daemon) -> None:
    first = start(home)
    kill(home, first.pid)
    assert home.socket.exists()
    second = start(home)
    assert not second.already
    assert f"removed the stale socket {home.socket}" in log_of(home)
    assert log_of(home).count("stale") == 1


def test_a_stop_after_a_kill_removes_the_socket_and_says_so(home: Daemon) -> None:
    kill(home, start(home).pid)
    stopped = stop(home)
    assert (stopped.pid, stopped.removed) == (None, [str(home.socket)])
    assert "killed" in stopped.reason
    assert lock_of(home).exists()
    assert not start(home).already


def test_a_foreign_process_with_the_number_of_a_killed_daemon_survives(home: Daemon) -> None:
    kill(home, start(home).pid)
    with subprocess.Popen(["sleep", "600"]) as foreigner:
        lock_of(home).write_bytes(lock_holder.encode(Holder(pid=foreigner.pid)))
        assert stop(home).pid is None
        assert foreigner.poll() is None
        foreigner.kill()


def test_a_bad_configuration_is_told(home: Daemon) -> None:
    home.config.write_text("[defaults]\nquery = { max_result = 3 }\n")
    with pytest.raises(StartFailedError, match=r"unknown key query\.max_result;") as failed:
        start(home, "--config", str(home.config))
    assert failed.value.message.startswith("memoryd did not start: ")
    assert logs.log_path(str(home.socket)) in failed.value.hint
    assert not home.socket.exists()


def test_a_stuck_daemon_is_reported_and_goes_when_it_can(home: Daemon) -> None:
    started = start(home)
    os.kill(started.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StopFailedError, match="still runs") as failed:
            background.stop(str(home.socket), timeout_s=0.1)
        assert f"`kill -KILL {started.pid}`" in failed.value.hint
        assert str(started.log_path) in failed.value.hint
        with pytest.raises(StartFailedError, match=f"process {started.pid}.* does not answer"):
            background.start(str(home.socket), options=[], ready_s=0.1)
    finally:
        os.kill(started.pid, signal.SIGCONT)
    eventually(lambda: is_gone(started.pid))
    assert not home.socket.exists()


def test_it_outlives_the_terminal(home: Daemon) -> None:
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, signal\nos.login_tty({theirs})\n{START}\nsignal.pause()",
            str(home.socket),
        ],
        pass_fds=[theirs],
        start_new_session=True,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        said = b""
        while not said.endswith(b"\n"):
            said += terminal.read(100)
    assert shell.wait(timeout=PATIENCE_S) == -signal.SIGHUP
    with home.client() as client:
        assert client.ping().pid == int(said.split()[0])


def test_a_log_that_is_full_is_rotated_and_read_on(home: Daemon) -> None:
    log = Path(logs.log_path(str(home.socket)))
    log.parent.mkdir(parents=True)
    log.write_text("an old line\n" * (LOG_MAX_BYTES // 12 + 1))
    came: list[str] = []
    # After a stop, the daemon writes no more during the comparison.
    steps: list[Callable[[], object]] = [lambda: start(home), lambda: stop(home)]

    def pause(_: float) -> None:
        steps.pop(0)()

    with pytest.raises(IndexError):
        came.extend(logs.follow(str(log), lines=1, pause=pause))
    assert came[0] == "an old line"
    assert came[1:] == log.read_text().splitlines()
    assert any("ready" in line for line in came)
    assert Path(f"{log}.1").stat().st_size >= LOG_MAX_BYTES
    assert logs.tail(logs.current(str(home.socket)), len(came)) == came


def test_a_hangup_is_no_end(home: Daemon) -> None:
    started = start(home)
    os.kill(started.pid, signal.SIGHUP)
    eventually(lambda: "configuration reloaded, " in log_of(home))
    with home.client() as client:
        assert client.ping().pid == started.pid


def test_a_daemon_in_the_foreground_has_no_log_file(home: Daemon) -> None:
    home.start()
    with pytest.raises(NoLogError, match="has no log file"):
        logs.current(str(home.socket))
    assert stop(home).removed == []


def test_a_service_is_left_to_its_manager(home: Daemon) -> None:
    """systemd starts it this way and names the process that it executes."""
    shell = 'SYSTEMD_EXEC_PID=$$ exec "$0" -m memoryd --workspace .'
    with subprocess.Popen(
        ["sh", "-c", shell, sys.executable], stderr=subprocess.DEVNULL
    ) as process:
        try:
            with home.client() as client:
                assert client.ping().pid == process.pid
            with pytest.raises(ManagedError, match="systemd runs this"):
                stop(home)
            with pytest.raises(ManagedError, match="systemd runs this"):
                restart(home)
            assert process.poll() is None
            process.terminate()
            assert process.wait(timeout=PATIENCE_S) == 0
        finally:
            process.kill()


def test_a_daemon_started_from_a_desktop_is_no_service(
    home: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOCATION_ID", "of-the-terminal")
    started = start(home)
    assert stop(home).pid == started.pid
