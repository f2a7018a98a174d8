"""Lock files and service managers: the process that holds a lock, and its manager."""

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd_client.shared import service_manager
from memoryd_client.shared.lock_holder import (
    Holder,
    decode,
    encode,
    free,
    is_held,
    read,
    this_process,
    write,
)

WORDS = st.text(st.characters(max_codepoint=0xFFFF), max_size=20)
"""Text with lone surrogates, which stand for the bytes of names that are not UTF-8."""

HOLDERS = st.builds(
    Holder,
    pid=st.integers(1, 2**31 - 1),
    cwd=WORDS,
    manager=st.sampled_from(["", "systemd", "launchd"]),
    log_path=st.none() | WORDS,
    version=WORDS,
    started_at=st.floats(0, 2e9),
    options=st.none() | st.dictionaries(WORDS, WORDS, max_size=5),
)


@given(HOLDERS)
def test_what_is_written_is_read(holder: Holder) -> None:
    line = encode(holder)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == holder


@given(HOLDERS, st.binary())
def test_only_the_first_line_counts(holder: Holder, rest: bytes) -> None:
    assert decode(encode(holder) + rest) == holder


@given(st.binary())
def test_rubbish_is_nobody_or_a_real_pid(data: bytes) -> None:
    found = decode(data)
    assert found is None or 0 < found.pid < 2**31


def test_an_old_file_gives_the_pid() -> None:
    assert decode(b"1234\n") == Holder(pid=1234)
    assert decode(b"1234") == Holder(pid=1234)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"memoryd\n",
        b"\xff\xfe\n",
        b"null\n",
        b"true\n",
        b"[1]\n",
        b"0\n",
        b"-1\n",
        b"99999999999999\n",
        b"9" * 5_000,
        b"[" * 100_000,
        b'{"options": {}}\n',
        b'{"pid": 0}\n',
        b'{"pid": -1}\n',
        b'{"pid": "1"}\n',
        b'{"pid": 12.5}\n',
        b'{"pid": 1, "options": ["--agent"]}\n',
        b'{"pid": 1, "options": {"agent": 5}}\n',
        b'{"pid": 1, "op',
    ],
)
def test_what_makes_no_sense_is_nobody(data: bytes) -> None:
    """In particular, kill(2) takes 0 and -1 for groups of processes."""
    assert decode(data) is None


def test_a_field_of_another_version_is_ignored() -> None:
    assert decode(b'{"pid": 7, "colour": "red"}\n') == Holder(pid=7)
    assert decode(b'{"pid": 7, "argv": ["/bin/evil"], "cwd": "/"}\n') == Holder(pid=7, cwd="/")


def test_this_process_is_described() -> None:
    mine = this_process(version="1.2", log_path="a.log", options={"agent": "a"})
    assert (mine.pid, mine.options) == (os.getpid(), {"agent": "a"})
    assert (mine.cwd, mine.version) == (os.getcwd(), "1.2")
    assert mine.log_path == os.path.join(os.getcwd(), "a.log")


def test_a_shorter_line_replaces_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text("9" * 5_000)
    descriptor = os.open(path, os.O_RDWR)
    try:
        write(descriptor, Holder(pid=5))
    finally:
        os.close(descriptor)
    assert path.read_bytes() == encode(Holder(pid=5))
    assert read(str(path)) == Holder(pid=5)


def test_asking_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    assert read(str(path)) is None
    assert not is_held(str(path))
    with free(str(path)) as is_free:
        assert is_free is None
    assert not path.exists()


def test_held_is_what_is_locked_for_oneself_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.touch()
    assert not is_held(str(path))
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not is_held(str(path))
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_held(str(path))
    assert not is_held(str(path))


def test_no_daemon_gets_the_lock_while_it_is_kept_free(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.touch()
    with free(str(path)) as is_free, open(path, "rb") as file:
        assert is_free
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- service managers

UNIT = {"INVOCATION_ID": "a", "NOTIFY_SOCKET": "/run/n", "MANAGERPID": "50"}


@pytest.mark.parametrize(
    ("environ", "parent_pid", "name"),
    [
        ({}, 1, ""),
        (UNIT | {"SYSTEMD_EXEC_PID": "100"}, 50, "systemd"),
        # The shell of a desktop inherits all of these variables.
        (UNIT | {"SYSTEMD_EXEC_PID": "77"}, 90, ""),
        (UNIT | {"SYSTEMD_EXEC_PID": "77"}, 50, ""),
        # systemd before version 248.
        (UNIT, 50, "systemd"),
        (UNIT, 90, ""),
        ({"INVOCATION_ID": "a"}, 1, "systemd"),
        ({"INVOCATION_ID": "a"}, 90, ""),
        ({"NOTIFY_SOCKET": "/run/n"}, 1, "systemd"),
        ({"XPC_SERVICE_NAME": "org.memoryd.memoryd"}, 1, "launchd"),
        ({"XPC_SERVICE_NAME": "0"}, 1, ""),
        ({"XPC_SERVICE_NAME": "application.com.apple.Terminal"}, 90, ""),
    ],
)
def test_a_manager_is_the_one_that_started_the_process(
    environ: dict[str, str], parent_pid: int, name: str
) -> None:
    assert service_manager.manager(environ, pid=100, parent_pid=parent_pid) == name


def test_a_process_of_ours_inherits_no_manager() -> None:
    environ = UNIT | {"SYSTEMD_EXEC_PID": "100", "XPC_SERVICE_NAME": "x", "PATH": "/bin"}
    assert service_manager.without_manager(environ) == {"PATH": "/bin"}


@pytest.mark.parametrize("to", ["stop", "restart", "logs"])
def test_every_manager_has_its_commands(to: str) -> None:
    assert service_manager.command("systemd", to)
    assert service_manager.command("launchd", to)
    assert service_manager.command("another", to) == ""
