"""Stopping the daemon: only its own process is signalled, only its own files are removed."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon, Peer

from memoryd_client.launcher import control as background
from memoryd_client.launcher.errors import ManagedError, StartFailedError, StopFailedError
from memoryd_client.launcher.process import Process
from memoryd_client.shared.lock_holder import Holder, encode, is_held

PATIENCE_S = 60.0

HOLDING = """
import fcntl, os, signal, sys
from memoryd_client.shared import lock_holder as holder
lock, ignore = sys.argv[1:]
descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(descriptor, fcntl.LOCK_EX)
holder.write(descriptor, holder.Holder(pid=os.getpid(), log_path="/var/its.log"))
if ignore:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path() -> Iterator[str]:
    """A path for a socket, in a folder with a short name."""
    folder = tempfile.mkdtemp(dir="/tmp")
    yield f"{folder}/s"
    shutil.rmtree(folder)


@pytest.fixture
def foreigner() -> Iterator[subprocess.Popen[bytes]]:
    """An unrelated process that has to survive."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        assert process.poll() is None
        process.kill()


def holding(path: str, *, ignore: str = "") -> subprocess.Popen[str]:
    """Start a process that holds the lock, and neither listens nor answers."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, f"{path}.lock", ignore],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def name_in_lock(path: str, holder: Holder) -> None:
    Path(f"{path}.lock").write_bytes(encode(holder))


def leave_stale_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)


def stop(path: str) -> background.Stopped:
    return background.stop(path, timeout_s=PATIENCE_S)


# --- a free lock


def test_where_nothing_is_nothing_is_made(path: str) -> None:
    stopped = stop(path)
    assert (stopped.pid, stopped.removed) == (None, [])
    assert stopped.reason == f"no memoryd runs at {path}"
    assert os.listdir(os.path.dirname(path)) == []


def test_a_pid_in_a_lock_that_nobody_holds_means_nothing(
    path: str, foreigner: subprocess.Popen[bytes]
) -> None:
    name_in_lock(path, Holder(pid=foreigner.pid))
    leave_stale_socket(path)
    stopped = stop(path)
    assert (stopped.pid, stopped.removed) == (None, [path])
    assert "killed" in stopped.reason
    assert os.listdir(os.path.dirname(path)) == ["s.lock"]


def test_a_socket_without_a_lock_file_is_left(path: str) -> None:
    leave_stale_socket(path)
    assert stop(path).removed == []
    assert os.listdir(os.path.dirname(path)) == ["s"]


def test_what_is_no_socket_is_left(path: str) -> None:
    name_in_lock(path, Holder(pid=1))
    Path(path).write_text("mine")
    assert stop(path).removed == []
    assert Path(path).read_text() == "mine"


def test_the_socket_of_a_service_is_left_to_its_manager(path: str) -> None:
    name_in_lock(path, Holder(pid=1, manager="systemd"))
    with socket.socket(socket.AF_UNIX) as held_by_manager:
        held_by_manager.bind(path)
        held_by_manager.listen()
        held_by_manager.settimeout(0)
        stopped = stop(path)
        assert (stopped.pid, stopped.removed) == (None, [])
        # Connecting would have started a daemon.
        with pytest.raises(BlockingIOError):
            held_by_manager.accept()


@pytest.mark.parametrize("lock", [True, False])
def test_who_listens_without_the_lock_is_left(path: str, lock: bool) -> None:
    if lock:
        name_in_lock(path, Holder(pid=os.getpid()))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(StopFailedError, match="without holding its lock") as refused:
            stop(path)
    assert "nothing was signalled" in refused.value.message
    assert os.path.exists(path)


# --- a lock that others can change


@pytest.mark.parametrize(
    ("mode", "folder_mode", "told"),
    [
        (0o622, 0o700, "s.lock is writable by everybody, who could change"),
        (0o660, 0o700, "s.lock is writable by group"),
        (0o600, 0o777, "is writable by everybody, who could replace files in"),
    ],
)
def test_a_lock_that_others_can_change_means_nothing(
    path: str, foreigner: subprocess.Popen[bytes], mode: int, folder_mode: int, told: str
) -> None:
    name_in_lock(path, Holder(pid=foreigner.pid, cwd="/", options={}))
    if mode == 0o660:
        os.chown(f"{path}.lock", -1, another_group())
    os.chmod(f"{path}.lock", mode)
    os.chmod(os.path.dirname(path), folder_mode)
    with open(f"{path}.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StopFailedError, match=told) as refused:
            stop(path)
        assert "`chmod go-w" in refused.value.hint
        with pytest.raises(StartFailedError, match=f"can't restart the memoryd at .*{told}"):
            background.restart(path, timeout_s=PATIENCE_S, ready_s=PATIENCE_S)
        with pytest.raises(StartFailedError, match=f"can't start the memoryd at .*{told}"):
            background.start(path, options=[], ready_s=PATIENCE_S)


def another_group() -> int:
    """Return a group that this process may give to a file, and that is not its user's own."""
    groups = [4242] if os.geteuid() == 0 else [g for g in os.getgroups() if g != os.getegid()]
    if not groups:
        pytest.skip("needs a second group")
    return groups[0]


def test_a_current_folder_that_is_gone_hides_no_lock(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    with holding(path) as process:
        assert stop(path).pid == process.pid


def test_a_lock_with_two_names_means_nothing(path: str, foreigner: subprocess.Popen[bytes]) -> None:
    name_in_lock(path, Holder(pid=foreigner.pid))
    os.link(f"{path}.lock", f"{path}.2")
    with pytest.raises(StopFailedError, match="has another name too"):
        stop(path)


@pytest.mark.parametrize("is_private", [True, False])
def test_without_proc_only_a_lock_that_nobody_else_can_hold_names_a_silent_process(
    path: str, monkeypatch: pytest.MonkeyPatch, is_private: bool
) -> None:
    """As on macOS: there, nothing else ties the process to the lock."""
    monkeypatch.setattr(Process, "has_open", lambda self, path: None)
    with holding(path) as process:
        if is_private:
            assert stop(path).pid == process.pid
        else:
            os.chmod(f"{path}.lock", 0o644)
            with pytest.raises(StopFailedError, match=r"others can hold .* nothing was signalled"):
                stop(path)
            assert process.poll() is None
            process.kill()


# --- a lock that is held


def test_a_daemon_that_does_not_answer_is_stopped_and_cleaned_up_after(path: str) -> None:
    with holding(path) as process:
        leave_stale_socket(path)
        stopped = stop(path)
        assert stopped.pid == process.pid
        assert stopped.removed == [path]
        assert stopped.reason == "it held its lock but did not answer"
        assert process.wait() == -signal.SIGTERM


def test_a_daemon_that_does_not_go_is_told_with_what_to_do(path: str) -> None:
    with holding(path, ignore="SIGTERM") as process:
        with pytest.raises(StopFailedError, match=r"still runs 0\.01 s after SIGTERM") as refused:
            background.stop(path, timeout_s=0.01)
        assert f"`kill -KILL {process.pid}`" in refused.value.hint
        assert "/var/its.log" in refused.value.hint
        assert refused.value.code == "stop_failed"
        assert process.poll() is None
        process.kill()


def test_a_process_that_does_not_have_the_lock_is_not_signalled(
    path: str, foreigner: subprocess.Popen[bytes]
) -> None:
    """A daemon may have taken the lock without having overwritten its predecessor's number yet."""
    name_in_lock(path, Holder(pid=foreigner.pid))
    with open(f"{path}.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StopFailedError, match="nothing was signalled"):
            stop(path)


def test_a_process_is_not_signalled_for_what_another_one_serves(
    path: str, foreigner: subprocess.Popen[bytes]
) -> None:
    def script(peer: Peer) -> None:
        peer.greet()

    with FakeDaemon(script) as daemon:
        name_in_lock(daemon.path, Holder(pid=foreigner.pid))
        with open(f"{daemon.path}.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(StopFailedError, match=r"names process .* answers at"):
                stop(daemon.path)


def test_a_lock_that_says_nothing_is_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_LINE_S", 0.0)
    with open(f"{path}.lock", "w+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StopFailedError, match="does not name a process"):
            stop(path)


@pytest.mark.parametrize(
    ("manager", "stopping", "restarting"),
    [
        ("systemd", "systemctl --user stop memoryd", "systemctl --user restart memoryd"),
        ("launchd", "launchctl bootout", "launchctl kickstart -k"),
    ],
)
def test_a_service_is_left_to_its_manager(
    path: str, manager: str, stopping: str, restarting: str
) -> None:
    name_in_lock(path, Holder(pid=os.getpid(), manager=manager))
    with open(f"{path}.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ManagedError, match=f"{manager} runs this") as refused:
            stop(path)
        assert stopping in refused.value.hint
        with pytest.raises(ManagedError) as refused:
            background.restart(path, timeout_s=PATIENCE_S, ready_s=PATIENCE_S)
        assert restarting in refused.value.hint
        assert refused.value.code == "managed"


@pytest.mark.parametrize(
    ("line", "reason", "hint"),
    [
        ({}, "can't be restarted: an older version", "memctl stop"),
        ({"argv": ["EVIL"], "cwd": "/"}, "can't be restarted: an older version", "memctl stop"),
        ({"options": {"run": "EVIL"}, "cwd": "/"}, "doesn't know its options run", "memctl stop"),
        ({"options": {}, "cwd": "/nowhere"}, "its folder /nowhere no longer", "memctl stop"),
        ({"options": {}}, r"its folder \(unknown\) no longer", "memctl stop"),
        (
            {"options": {}, "cwd": "/", "log_path": "/dev/null"},
            "can't write the log /dev/null: /dev/null is not a regular file",
            "move it away",
        ),
        (
            {"options": {}, "cwd": "/", "log_path": "LINK"},
            "can't write the log .*: it is a symbolic link",
            "move it away",
        ),
    ],
)
def test_nothing_is_stopped_that_cannot_be_started_again(
    path: str, line: dict[str, object], reason: str, hint: str
) -> None:
    evil = Path(path).with_name("evil")
    evil.write_text(f"#!/bin/sh\ntouch {path}.ran\n")
    evil.chmod(0o755)
    with holding(path) as process:
        text = json.dumps({"pid": process.pid, **line})
        text = text.replace("EVIL", str(evil)).replace("LINK", f"{path}.link")
        os.symlink(f"{path}.lock", f"{path}.link")
        Path(f"{path}.lock").write_text(text + "\n")
        with pytest.raises(StartFailedError, match=reason) as refused:
            background.restart(path, timeout_s=PATIENCE_S, ready_s=PATIENCE_S)
        assert hint in refused.value.hint
        assert not os.path.exists(f"{path}.ran")
        assert process.poll() is None
        assert is_held(f"{path}.lock")
        process.kill()


# --- processes


@pytest.mark.parametrize("by_number", [False, True])
def test_a_process_is_signalled_and_awaited(
    monkeypatch: pytest.MonkeyPatch, by_number: bool
) -> None:
    if by_number:
        monkeypatch.setattr("memoryd_client.launcher.process._pidfd", lambda pid: None)
    with subprocess.Popen(["sleep", "600"]) as child, Process(child.pid) as process:
        assert not process.wait(0.0, gone=lambda: False)
        process.send(signal.SIGTERM)
        assert process.wait(PATIENCE_S, gone=lambda: child.poll() is not None)
        assert child.wait() == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        Process(child.pid)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_what_a_process_has_open_is_seen(path: str) -> None:
    with Process(os.getpid()) as process:
        assert process.has_open(path) is None
        Path(path).touch()
        assert process.has_open(path) is False
        with open(path, "rb"):
            assert process.has_open(path) is True
