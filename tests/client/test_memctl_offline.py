"""`memctl` without a running daemon: `start`, `stop`, `restart`, `logs`, and `config`."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memctl import main as memctl
from memctl.offline import LOG_LINES, START_S, STOP_S
from memoryd_client.launcher import control as background
from memoryd_client.launcher import logs
from memoryd_client.launcher.control import Started, Stopped
from memoryd_client.launcher.errors import NoLogError, StartFailedError, StopFailedError

NO_SOCKET = "/dev/null/s"
Captured = pytest.CaptureFixture[str]


class Recorder:
    """A replacement for a function that records arguments and returns or raises a fixed outcome."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls.append((args, options))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


# --- start, stop, restart ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "options", "ready_s"),
    [
        ("start", [], START_S),
        ("start --wait 5", [], 5.0),
        ("start --workspace notes", ["--workspace", "HERE/notes"], START_S),
        (
            "start --agent work --config=../c.toml --workspace /w/",
            ["--workspace", "/w", "--config", "ABOVE/c.toml", "--agent", "work"],
            START_S,
        ),
    ],
)
def test_start_passes_on_what_is_to_be_served(
    line: str,
    options: list[str],
    ready_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    start = Recorder(Started(4711, "/s", "/log"))
    monkeypatch.setattr(background, "start", start)
    assert memctl.main([*line.split(), "--socket", "s"]) == 0
    places = {"HERE": str(tmp_path), "ABOVE": str(tmp_path.parent)}
    for name, place in places.items():
        options = [option.replace(name, place) for option in options]
    assert start.calls == [((f"{tmp_path}/s",), {"options": options, "ready_s": ready_s})]


def test_start_says_who_runs_and_where_the_log_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(background, "start", Recorder(Started(4711, "/run/s", "/state/log")))
    assert memctl.main(["start"]) == 0
    text = "memoryd is running: pid 4711, socket /run/s\nlog: /state/log\n"
    assert capsys.readouterr() == (text, "")


def test_start_of_what_runs_already_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    running = Started(4711, "/run/s", None, already=True)
    monkeypatch.setattr(background, "start", Recorder(running))
    assert memctl.main(["start"]) == 0
    text = "memoryd is already running: pid 4711, socket /run/s\n"
    assert capsys.readouterr() == (text, "")
    assert memctl.main(["start", "--workspace", "/w"]) == 0
    out, err = capsys.readouterr()
    assert (out, err.startswith("note: memoryd keeps its options")) == (text, True)
    assert memctl.main(["start", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "pid": 4711,
        "socketPath": "/run/s",
        "logPath": None,
        "already": True,
        "notices": [],
    }


def test_restart(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    restart = Recorder(Started(4712, "/run/s", "/state/log"))
    monkeypatch.setattr(background, "restart", restart)
    assert memctl.main(["restart", "--socket", "/run/s"]) == 0
    assert memctl.main(["restart", "--socket", "/run/s", "--timeout", "3", "--wait", "4"]) == 0
    assert restart.calls == [
        (("/run/s",), {"timeout_s": STOP_S, "ready_s": START_S}),
        (("/run/s",), {"timeout_s": 3.0, "ready_s": 4.0}),
    ]
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == "memoryd is running: pid 4712, socket /run/s"


@pytest.mark.parametrize(
    ("stopped", "text"),
    [
        (Stopped(4711, []), "memoryd is stopped: pid 4711\n"),
        (
            Stopped(4711, ["/run/s"], "it held its lock but did not answer"),
            "memoryd is stopped: pid 4711 (it held its lock but did not answer)\nremoved: /run/s\n",
        ),
        (Stopped(None, [], "no memoryd runs at /run/s"), "no memoryd runs at /run/s\n"),
        (Stopped(None, []), "no memoryd was running\n"),
    ],
)
def test_stop_says_what_it_did(
    stopped: Stopped, text: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    stop = Recorder(stopped)
    monkeypatch.setattr(background, "stop", stop)
    assert memctl.main(["stop", "--socket", "/run/s"]) == 0
    assert capsys.readouterr() == (text, "")
    assert memctl.main(["stop", "--socket", "/run/s", "--timeout", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "pid": stopped.pid,
        "removed": stopped.removed,
        "reason": stopped.reason,
    }
    assert [options["timeout_s"] for _, options in stop.calls] == [STOP_S, 2.0]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("start", StartFailedError("memoryd did not start: no", hint="its log is /log")),
        ("restart", StopFailedError("it still runs", hint="wait", retryable=True)),
        ("stop", StopFailedError("it still runs", hint="wait", retryable=True)),
    ],
)
def test_failures_are_told_in_two_lines_or_json(
    command: str, error: StartFailedError, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(background, command, Recorder(error))
    assert memctl.main([command]) == 1
    assert capsys.readouterr() == ("", f"memctl: {error.message}\nhint: {error.hint}\n")
    assert memctl.main([command, "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["error"] == {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
    }


# --- logs --------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(1, 101)))
    monkeypatch.setattr(logs, "current", Recorder(str(path)))
    return path


def test_logs_are_the_end_of_the_log(log: Path, capsys: Captured) -> None:
    assert memctl.main(["logs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (LOG_LINES, "line 100")
    assert memctl.main(["logs", "--lines", "2"]) == 0
    assert capsys.readouterr() == ("line 99\nline 100\n", "")
    assert memctl.main(["logs", "--lines", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "logPath": str(log),
        "lines": ["line 99", "line 100"],
    }


@pytest.mark.usefixtures("log")
def test_logs_that_are_followed_come_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def follow(path: str, *, lines: int) -> Iterator[str]:
        yield f"{lines} lines of"
        yield os.path.basename(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(logs, "follow", follow)
    assert memctl.main(["logs", "--follow", "--lines", "3"]) == 130
    assert capsys.readouterr() == ("3 lines of\nlog\n", "")
    assert memctl.main(["logs", "--follow", "--json"]) == 130
    assert capsys.readouterr().out == '{"line":"40 lines of"}\n{"line":"log"}\n'


def test_no_log_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(logs, "current", Recorder(NoLogError("there is no log yet", hint="x")))
    assert memctl.main(["logs"]) == 1
    assert capsys.readouterr() == ("", "memctl: there is no log yet\nhint: x\n")
    assert memctl.main(["logs", "--json", "--follow"]) == 1
    assert capsys.readouterr().out.startswith('{"error":{"code":"no_log",')


def test_a_log_that_can_not_be_read_is_told(log: Path, capsys: Captured) -> None:
    log.unlink()
    assert memctl.main(["logs"]) == 1
    assert capsys.readouterr() == ("", f"memctl: {log}: No such file or directory\n")


# --- config ------------------------------------------------------------------------------------


def install_memoryd(folder: Path, *, code: int) -> None:
    folder.mkdir()
    program = folder / "memoryd"
    program.write_text(
        f'#!/bin/sh\necho "{folder.name}: $*"\n'
        f'echo first >&2\necho "memoryd: oops" >&2\nexit {code}\n'
    )
    program.chmod(0o755)


@pytest.fixture
def no_memoryd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the `memoryd` program; return the folder in which a test may put one."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_config_is_printed_by_memoryd_when_no_daemon_runs(
    no_memoryd: Path, capfd: Captured
) -> None:
    install_memoryd(no_memoryd / "path", code=78)
    assert memctl.main(["config", "--socket", NO_SOCKET]) == 78
    assert capfd.readouterr() == ("path: config\n", "first\nmemoryd: oops\n")
    install_memoryd(no_memoryd / "beside", code=0)
    assert memctl.main(["config", "--json", "--agent", "work", "--socket", NO_SOCKET]) == 0
    assert capfd.readouterr() == ("beside: config --agent work --json\n", "")


def test_memoryd_that_fails_is_told_as_json_too(no_memoryd: Path, capfd: Captured) -> None:
    install_memoryd(no_memoryd / "path", code=78)
    assert memctl.main(["config", "--json", "--socket", NO_SOCKET]) == 78
    out, err = capfd.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {"code": "configuration", "message": "oops", "hint": "", "retryable": False}
    }


def test_the_doctor_is_memoryds_own(
    no_memoryd: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(no_memoryd)
    install_memoryd(no_memoryd / "path", code=1)
    assert memctl.main(["doctor", "--socket", NO_SOCKET]) == 1
    assert capfd.readouterr() == (
        f"path: doctor --socket {NO_SOCKET}\n",
        "first\nmemoryd: oops\n",
    )
    words = ["doctor", "--json", "--agent", "work", "--config", "c.toml", "--socket", "s"]
    assert memctl.main(words) == 1
    passed_on = f"--socket {no_memoryd}/s --config {no_memoryd}/c.toml --agent work --json"
    assert capfd.readouterr().out == f"path: doctor {passed_on}\n"


@pytest.mark.usefixtures("no_memoryd")
def test_the_doctor_without_memoryd(capsys: Captured) -> None:
    assert memctl.main(["doctor", "--json", "--socket", NO_SOCKET]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "start_failed"
    assert error["hint"] == "install memoryd, or add its folder to PATH"


@pytest.mark.usefixtures("no_memoryd")
def test_config_without_daemon_and_memoryd_is_no_daemon(capsys: Captured) -> None:
    assert memctl.main(["config", "--socket", NO_SOCKET]) == 3
    assert capsys.readouterr().out == ""


def test_only_config_is_asked_of_memoryd(no_memoryd: Path, capfd: Captured) -> None:
    install_memoryd(no_memoryd / "path", code=78)
    assert memctl.main(["status", "--socket", NO_SOCKET]) == 3
    assert capfd.readouterr().out == ""
