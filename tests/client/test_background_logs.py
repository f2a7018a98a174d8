"""Logs: the last lines, and new lines as they arrive, even if the file is replaced or truncated."""

import fcntl
import logging
import os
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd_client.launcher import logs
from memoryd_client.launcher.errors import ManagedError, NoLogError
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import Holder, encode
from memoryd_client.shared.log_line import escaped


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "memoryd.log"


@pytest.mark.parametrize("lines", [0, 1, 2, 3, 50])
def test_the_last_lines(log: Path, lines: int) -> None:
    log.write_text("one\ntwo\nthree\n")
    assert logs.tail(str(log), lines) == (["one", "two", "three"][-lines:] if lines else [])


def test_a_last_line_without_an_end_counts(log: Path) -> None:
    log.write_text("one\ntwo\nthr")
    assert logs.tail(str(log), 2) == ["two", "thr"]


def test_an_empty_log_has_no_lines(log: Path) -> None:
    log.touch()
    assert logs.tail(str(log), 10) == []


def test_what_is_no_utf8_is_replaced(log: Path) -> None:
    log.write_bytes(b"a\xffb\r\n\n\x85\n")
    assert logs.tail(str(log), 10) == ["a\ufffdb", "", "\ufffd"]


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=9)),
    st.integers(0, 12),
    st.integers(1, 9),
)
def test_the_size_of_blocks_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], lines: int, block_bytes: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "log"
    log.write_bytes("".join(f"{text}\n" for text in texts).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_BLOCK_BYTES", block_bytes)
        shown = [escaped(text) for text in texts]
        assert logs.tail(str(log), lines) == (shown[-lines:] if lines else [])


def test_lines_of_an_older_version_are_escaped(log: Path) -> None:
    log.write_text("a\x1b]0;t\a\tb\x9b\u202e\u2028c\u00e9\r\nd")
    clean = [r"a\x1b]0;t\x07\tb\x9b\u202e\u2028cé", "d"]
    assert logs.tail(str(log), 5) == clean
    log.write_text(log.read_text() + "\n")
    assert following(log, lines=5) == clean


def test_a_large_log_is_read_from_its_end(log: Path) -> None:
    with open(log, "wb") as file:
        file.truncate(2**33)  # a hole, so that reading all of it would take much time and memory
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    assert logs.tail(str(log), 1) == ["last"]


def test_what_is_missing_comes_from_the_older_one(log: Path) -> None:
    Path(f"{log}.1").write_text("one\ntwo\n")
    log.write_text("three\n")
    assert logs.tail(str(log), 2) == ["two", "three"]
    assert logs.tail(str(log), 9) == ["one", "two", "three"]


def test_no_log_is_an_error(log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        logs.tail(str(log), 1)


# --- following


def following(log: Path, *steps: Callable[[], object], lines: int = 0) -> list[str]:
    """Follow a log, take a step whenever no new line arrives, and return all lines."""
    left = iter(steps)
    came: list[str] = []

    def pause(_: float) -> None:
        next(left)()

    # Python turns a StopIteration that leaves a generator into a RuntimeError.
    with pytest.raises(RuntimeError, match="StopIteration"):
        came.extend(logs.follow(str(log), lines=lines, pause=pause))
    return came


def appending(log: Path, text: str) -> Callable[[], object]:
    def append() -> None:
        with open(log, "a") as file:
            file.write(text)

    return append


def test_new_lines_come_whole_and_old_ones_only_if_asked_for(log: Path) -> None:
    log.write_text("one\ntwo\n")
    steps = [appending(log, "three\nfo"), appending(log, "ur\n"), appending(log, "fi")]
    assert following(log, *steps) == ["three", "four"]
    log.write_text("one\ntwo\n")
    assert following(log, *steps, lines=1) == ["two", "three", "four"]


def test_a_line_that_was_begun_before_comes_when_it_is_whole(log: Path) -> None:
    log.write_text("one\ntw")
    assert following(log, appending(log, "o\n")) == ["two"]
    log.write_text("one\ntw")
    assert following(log, appending(log, "o\n"), lines=5) == ["one", "two"]


def test_a_log_that_is_not_there_yet_is_waited_for(log: Path) -> None:
    assert following(log, lambda: None, log.touch, appending(log, "one\n")) == ["one"]


def test_a_truncated_log_begins_anew(log: Path) -> None:
    log.write_text("one\ntwo\n")
    steps = (lambda: os.truncate(log, 0), appending(log, "three\n"))
    assert following(log, *steps, lines=5) == ["one", "two", "three"]


def test_a_rotated_log_loses_and_repeats_nothing(log: Path) -> None:
    log.write_text("one\n")

    def rotate() -> None:
        appending(log, "two\n")()
        os.rename(log, f"{log}.1")

    steps = (
        rotate,
        appending(Path(f"{log}.1"), "three\nfour"),
        appending(log, "five\n"),
        appending(log, "six\n"),
    )
    assert following(log, *steps, lines=5) == ["one", "two", "three", "four", "five", "six"]


def test_the_handler_that_the_daemon_uses_is_followed(log: Path) -> None:
    handler = RotatingFileHandler(log, maxBytes=40, backupCount=1)
    try:
        steps = [
            lambda number=number: handler.emit(
                logging.makeLogRecord({"msg": f"record {number} of twenty"})
            )
            for number in range(20)
        ]
        came = following(log, *steps)
    finally:
        handler.close()
    assert came == [f"record {number} of twenty" for number in range(20)]
    assert logs.tail(str(log), 2) == came[-2:]


# --- which log


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return str(tmp_path / "s")


def test_every_socket_has_its_log(tmp_path: Path, socket: str) -> None:
    folder = tmp_path / "state/memoryd"
    usual = paths.default_socket_path()
    assert logs.log_path(usual) == str(folder / "memoryd.log")
    assert logs.log_path(socket) == str(folder / f"memoryd{paths.socket_suffix(socket)}.log")
    assert logs.log_path(socket) != logs.log_path(usual)


def test_the_log_is_the_one_that_the_daemon_names(tmp_path: Path, socket: str) -> None:
    log = tmp_path / "its.log"
    log.touch()
    Path(f"{socket}.lock").write_bytes(encode(Holder(pid=5, log_path=str(log))))
    assert logs.current(socket) == str(log)


def test_without_a_daemon_it_is_the_one_that_start_would_use(socket: str) -> None:
    with pytest.raises(NoLogError, match="no log yet"):
        logs.current(socket)
    usual = Path(logs.log_path(socket))
    usual.parent.mkdir(parents=True)
    usual.touch()
    assert logs.current(socket) == str(usual)


def test_a_log_that_others_can_change_is_not_read(socket: str) -> None:
    log = Path(logs.log_path(socket))
    log.parent.mkdir(parents=True)
    log.touch()
    log.chmod(0o646)
    with pytest.raises(NoLogError, match=r"can't read the log .* is writable by everybody") as told:
        logs.current(socket)
    assert f"`chmod go-w {log}`" in told.value.hint
    log.chmod(0o600)
    os.link(log, f"{log}.2")
    with pytest.raises(NoLogError, match="has another name"):
        logs.current(socket)
    log.unlink()
    log.symlink_to(f"{log}.2")
    with pytest.raises(NoLogError, match="is a symbolic link"):
        logs.current(socket)
    log.unlink()
    log.mkdir()
    with pytest.raises(NoLogError, match="not a regular file"):
        logs.current(socket)


@pytest.mark.parametrize(
    ("manager", "error", "told"),
    [
        ("systemd", ManagedError, "journalctl --user -u memoryd"),
        ("launchd", ManagedError, "Library/Logs/memoryd.log"),
        ("", NoLogError, "its terminal"),
    ],
)
def test_a_running_daemon_without_a_log_file_says_where_to_look(
    socket: str, manager: str, error: type[Exception], told: str
) -> None:
    lock = Path(f"{socket}.lock")
    lock.write_bytes(encode(Holder(pid=5, manager=manager)))
    with open(lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(error, match=told):
            logs.current(socket)
