"""Files of another user: nothing that they say is run, signalled, read or written to.

Each test has two real users. Root is the one with the most to lose.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import REPOSITORY
from users import A_THIRD, NEEDS_ROOT, THEM, become, output, python
from waiting import PATIENCE_S

from memoryd_client import Client

pytestmark = NEEDS_ROOT

BAIT = """
import fcntl, json, os, sys
folder, ran = sys.argv[1:]
os.umask(0)
with open(f"{folder}/evil", "w") as evil:
    evil.write(f"#!/bin/sh\\nid >> {ran}\\n")
os.chmod(f"{folder}/evil", 0o755)
line = {
    "pid": 2147483000,
    "argv": [f"{folder}/evil"],
    "cwd": folder,
    "log_path": f"{folder}/log",
    "options": {"config": f"{folder}/evil"},
}
with open(f"{folder}/log", "w") as log:
    log.write("their log\\n")
os.chmod(f"{folder}/log", 0o644)
lock = os.open(f"{folder}/s.lock", os.O_RDWR | os.O_CREAT, 0o644)
os.write(lock, json.dumps(line).encode() + b"\\n")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
"""Holds a lock that names a program, a folder, options and a log."""

COMMANDS = ("start", "stop", "restart", "logs")


@pytest.fixture
def sticky() -> Iterator[Path]:
    """A folder such as /tmp, in which everybody may create files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


@contextmanager
def bait(sticky: Path, environment: dict[str, str]) -> Iterator[None]:
    command = python(THEM, "-c", BAIT, str(sticky), str(sticky / "ran"))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        try:
            yield
            assert held.poll() is None
        finally:
            held.kill()


def home(folder: Path, user: int) -> dict[str, str]:
    """Create a home for a user and return the variables for it."""
    folder.mkdir(mode=0o700)
    os.chown(folder, user, user)
    return {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}


def memctl(user: int, *words: str) -> list[str]:
    return python(user, "-m", "memctl", *words)


@pytest.mark.parametrize("user", [0, A_THIRD], ids=["root", "another"])
def test_nothing_that_a_foreign_lock_in_a_sticky_folder_says_is_run(
    sticky: Path, environment: dict[str, str], user: int
) -> None:
    variables = environment | home(sticky / "home", user)
    with bait(sticky, environment):
        before = (sticky / "log").stat()
        for command in COMMANDS:
            said = output(memctl(user, "--socket", f"{sticky}/s", command), variables, code=1)
            deed = "read the log of" if command == "logs" else command
            error, hint = said.splitlines()
            assert error == (
                f"memctl: can't {deed} the memoryd at {sticky}/s:"
                f" {sticky}/s.lock belongs to another user (uid {THEM})"
            )
            assert "MEMORYD_SOCKET" in hint
            assert "their log" not in said
        assert not (sticky / "ran").exists()
        after = (sticky / "log").stat()
        assert (after.st_mode, after.st_size) == (before.st_mode, before.st_size)
    assert list((sticky / "home").iterdir()) == []


def test_a_link_in_the_lock_s_place_is_not_followed(
    sticky: Path, environment: dict[str, str]
) -> None:
    variables = environment | home(sticky / "home", A_THIRD)
    mine = sticky / "home/other.lock"
    mine.write_text('{"pid": 1, "options": {}, "cwd": "/"}\n')
    mine.chmod(0o600)
    os.chown(mine, A_THIRD, A_THIRD)
    subprocess.run([*become(THEM), "ln", "-s", str(mine), f"{sticky}/s.lock"], check=True)
    for command in COMMANDS:
        said = output(memctl(A_THIRD, "--socket", f"{sticky}/s", command), variables, code=1)
        assert f"{sticky}/s.lock is a symbolic link" in said


def test_the_caller_s_own_files_in_a_sticky_folder_will_do(
    sticky: Path, environment: dict[str, str]
) -> None:
    variables = environment | home(sticky / "home", A_THIRD)
    for command, code, told in [
        ("stop", 0, f"no memoryd runs at {sticky}/s"),
        ("logs", 1, "there is no log yet"),
    ]:
        lock = sticky / "s.lock"
        lock.write_text('{"pid": 1, "options": {}, "cwd": "/"}\n')
        lock.chmod(0o600)
        os.chown(lock, A_THIRD, A_THIRD)
        said = output(memctl(A_THIRD, "--socket", f"{sticky}/s", command), variables, code=code)
        assert told in said


@contextmanager
def their_daemon(
    folder: Path, environment: dict[str, str]
) -> Iterator[tuple[dict[str, str], "subprocess.Popen[bytes]"]]:
    """Run a daemon of another user at its usual place; yield the variables that lead there."""
    os.chown(folder, THEM, THEM)
    folder.chmod(0o700)
    variables = {
        **environment,
        "PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], str(REPOSITORY)]),
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_STATE_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    (folder / "memoryd").mkdir()
    (folder / "MEMORY.md").write_text("The kettle is blue.\n")
    (folder / "MEMORY.md").chmod(0o644)
    config = folder / "memoryd/config.toml"
    config.write_text(f'defaults.provider = "none"\nagents.main.workspace = "{folder}"\n')
    for path in (folder / "memoryd", config):
        os.chown(path, THEM, THEM)
    command = python(THEM, "-m", "memoryd", "--log-file", f"{folder}/log")
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
        try:
            socket = f"{folder}/memoryd/memoryd.sock"
            with Client(socket, wait_s=PATIENCE_S, timeout_s=PATIENCE_S) as client:
                assert client.status().pid == process.pid
            yield variables, process
        finally:
            process.kill()


def test_root_only_reads_from_the_daemon_of_a_user(
    sticky: Path, environment: dict[str, str]
) -> None:
    """As after `su` or `sudo -E`, which may leave XDG_RUNTIME_DIR to the other user."""
    folder = sticky / "theirs"
    folder.mkdir()
    with their_daemon(folder, environment) as (theirs, process):
        variables = {**theirs, **home(sticky / "root", 0), "XDG_CONFIG_HOME": str(sticky / "root")}
        assert "memoryd" in output(memctl(0, "status"), variables)
        for command in COMMANDS:
            said = output(memctl(0, command), variables, code=1)
            assert f"{folder} belongs to another user (uid {THEM})" in said
            socket = f"{folder}/memoryd/memoryd.sock"
            assert f"`sudo -u nobody memctl {command} --socket {socket}`" in said
        (sticky / "editor").write_text(f"#!/bin/sh\ntouch {sticky}/ran\n")
        (sticky / "editor").chmod(0o755)
        variables["EDITOR"] = str(sticky / "editor")
        said = output(memctl(0, "search", "kettle", "--open", "1"), variables, code=1)
        assert f"root opens no file that the memoryd of another user (uid {THEM}) names" in said
        assert not (sticky / "ran").exists()
        assert list((sticky / "root").iterdir()) == []
        assert process.poll() is None
        said = output(memctl(THEM, "stop", "--socket", socket), theirs)
        assert said == f"memoryd is stopped: pid {process.pid}"


def test_another_user_s_runtime_folder_is_refused(
    sticky: Path, environment: dict[str, str]
) -> None:
    folder = sticky / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, THEM, THEM)
    variables = environment | home(sticky / "home", A_THIRD) | {"XDG_RUNTIME_DIR": str(folder)}
    for command in COMMANDS:
        said = output(memctl(A_THIRD, command), variables, code=1)
        assert f"{folder} belongs to another user (uid {THEM})" in said
        assert "MEMORYD_SOCKET" in said


# --- the log and the configuration


def test_no_log_is_written_into_the_folder_of_another_user(
    sticky: Path, environment: dict[str, str]
) -> None:
    variables = environment | home(sticky / "home", 0)
    os.chown(sticky / "home", THEM, THEM)
    (sticky / "mine").mkdir(mode=0o700)
    said = output(memctl(0, "--socket", f"{sticky}/mine/s", "start"), variables, code=1)
    assert "can't write the log" in said
    assert f"{sticky}/home belongs to another user (uid {THEM})" in said
    assert list((sticky / "home").iterdir()) == list((sticky / "mine").iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_the_daemon_does_not_log_into_a_file_of_another_user(
    sticky: Path, environment: dict[str, str], kind: str
) -> None:
    log, mine = sticky / "log", sticky / "mine"
    mine.touch(mode=0o600)
    make = ["touch", str(log)] if kind == "file" else ["ln", "-s", str(mine), str(log)]
    subprocess.run([*become(THEM), *make], check=True)
    command = [sys.executable, "-m", "memoryd", "--log-file", str(log)]
    said = output(command, variables_of_root(environment, sticky), code=78)
    refused = f"{log} belongs to another user (uid {THEM}), who could change {log}"
    assert said == f"memoryd: can't open the log {log}: {refused}"
    assert mine.read_bytes() == b""
    assert kind == "link" or log.stat().st_mode & 0o777 != 0o600


def variables_of_root(environment: dict[str, str], sticky: Path) -> dict[str, str]:
    variables = environment | home(sticky / "root", 0)
    return variables | {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/client"}


def test_settings_of_another_user_are_not_used_unless_they_are_named(
    sticky: Path, environment: dict[str, str]
) -> None:
    variables = variables_of_root(environment, sticky) | {"XDG_CONFIG_HOME": str(sticky)}
    del variables["MEMORYD_NO_AUTOSTART"]
    config = sticky / "memoryd/config.toml"
    config.parent.mkdir()
    config.write_text(f'autostart = true\nagents.main.workspace = "{sticky}"\n')
    os.chown(config, THEM, THEM)
    refused = f"{config} belongs to another user (uid {THEM}), who could change {config}"
    memoryd = [sys.executable, "-m", "memoryd"]
    said = output([*memoryd, "--socket", f"{sticky}/root/s"], variables, code=78)
    assert f"memoryd: the configuration is not yours alone: {refused}" in said
    assert "name it with --config if you trust it" in said
    said = output(memctl(0, "--socket", f"{sticky}/root/s", "status"), variables, code=1)
    assert f"memctl: autostart is on in a configuration that is not yours alone: {refused}" in said
    assert "workspace" in output([*memoryd, "config", "--config", str(config)], variables)
    os.chown(config, 0, 0)
    config.chmod(0o646)
    said = output([*memoryd, "config"], variables, code=78)
    assert f"{config} is writable by everybody" in said
    config.chmod(0o600)
    assert "workspace" in output([*memoryd, "config"], variables)
