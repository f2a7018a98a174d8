"""`memctl` as a command: requests, exit statuses, streams, fallbacks."""

import json
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from fake_daemon import FakeDaemon, Peer, answering
from golden_bodies import golden

import memoryd_client
from memctl import main as memctl
from memoryd_client.schema.memory import (
    BODY_OF_OP,
    ConfigResult,
    Empty,
    GetBody,
    GetResult,
    IndexBody,
    IndexResult,
    PingResult,
    SyncBody,
    SyncResult,
)
from memoryd_client.schema.search import SearchBody, SearchResult
from memoryd_client.wire.protocol import Body, Error, Op

NO_SOCKET = "/dev/null/s"
FOUND = golden("search_result", SearchResult)
INDEXED = golden("index_result", IndexResult)
PONG = golden("ping_result", PingResult)
ASKING = (
    *("search tea", "get x.md", "status", "files", "index", "sync", "probe", "events"),
    *("context", "recall tea", "agents", "add /w", "drop w", "reload", "ping"),
    *("export /nowhere/x.tar", "promote", "stale"),
    *("facts list", "facts store x", "facts recall x", "facts forget x", "facts stats"),
    *("export /nowhere/x.tar",),
)
"""Every command that needs a running daemon."""

Captured = pytest.CaptureFixture[str]


# --- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "asked", "answer"),
    [
        ("search when is tea", SearchBody("when is tea", highlight=True), FOUND),
        ("search tea --json", SearchBody("tea"), FOUND),
        (
            "search tea --max-results 3 --min-score 0.5 --source memory --source sessions"
            " --path memory/** --since 2026-01-01 --until 2026-02-01",
            SearchBody(
                "tea",
                3,
                0.5,
                ["memory", "sessions"],
                "memory/**",
                "2026-01-01",
                "2026-02-01",
                highlight=True,
            ),
            FOUND,
        ),
        ("get x.md --from 5 --lines 9", GetBody("x.md", 5, 9), GetResult("x.md", "", 5, 0, 4)),
        ("index", IndexBody(force=False), INDEXED),
        ("index --force", IndexBody(force=True), INDEXED),
        ("sync", SyncBody(vectors=True), SyncResult(1, 1, 0)),
        ("sync --no-vectors", SyncBody(vectors=False), SyncResult(1, 1, 0)),
        ("config", Empty(), golden("config_result", ConfigResult)),
        ("ping", Empty(), PONG),
    ],
)
def test_the_command_line_becomes_a_request(line: str, asked: Body, answer: Body) -> None:
    def script(peer: Peer) -> None:
        assert peer.greet().client == f"memctl/{memoryd_client.__version__}"
        request = peer.request()
        assert request.op == line.partition(" ")[0]
        body = msgspec.msgpack.decode(request.body, type=BODY_OF_OP[Op(request.op)])
        if isinstance(body, SearchBody):
            assert datetime.fromisoformat(body.now or "").utcoffset() is not None
            body.now = None
        assert body == asked
        peer.answer(request, answer)

    with FakeDaemon(script) as daemon:
        assert memctl.main(["--socket", daemon.path, *line.split()]) == memctl.OK


@pytest.mark.usefixtures("standing")
@pytest.mark.parametrize(
    ("line", "deadline_ms"),
    [
        ("ping", 30000),
        ("ping --timeout 2.5", 2500),
        ("search tea --timeout 2.5", 2500),
        ("index", None),
        ("index --timeout 2.5", 2500),
        ("sync", None),
        ("sync --timeout 2.5", 2500),
    ],
)
def test_timeouts(line: str, deadline_ms: int | None) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert request.deadline_ms == deadline_ms
        peer.refuse(request, "unavailable")

    with FakeDaemon(script) as daemon:
        assert memctl.main(["--socket", daemon.path, *line.split()]) == memctl.FAILED


# --- exit statuses and errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("internal", 1),
        ("busy", 1),
        ("denied", 1),
        ("bad_request", 1),
        ("not_found", 4),
        ("unknown_agent", 4),
    ],
)
def test_errors_go_to_stderr_with_their_status(code: str, status: int, capsys: Captured) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.send(Error(code, "that went wrong", peer.request().id, hint="try this"))

    with FakeDaemon(script) as daemon:
        assert memctl.main(["search", "tea", "--socket", daemon.path]) == status
    assert capsys.readouterr() == ("", "memctl: that went wrong\nhint: try this\n")


def test_errors_are_json_on_stdout_when_asked_for(capsys: Captured) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.send(Error("busy", "too much", peer.request().id, hint="wait", retryable=True))

    with FakeDaemon(script) as daemon:
        assert memctl.main(["search", "tea", "--json", "--socket", daemon.path]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {"code": "busy", "message": "too much", "hint": "wait", "retryable": True}
    }


def test_no_daemon(capsys: Captured) -> None:
    assert memctl.main(["ping", "--socket", "/tmp/no-such-socket", "--wait", "0"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "no memoryd is running at /tmp/no-such-socket" in err
    assert "memoryd --workspace DIR" in err


def test_no_daemon_json(capsys: Captured) -> None:
    assert memctl.main(["ping", "--socket", NO_SOCKET, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_running"


def test_usage_errors(capsys: Captured) -> None:
    assert memctl.main(["search", "--frob", "tea"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("memctl: unknown option --frob")
    assert err.endswith("\nhint: try `memctl search --help`\n")


def test_an_impossible_socket_path_is_a_usage_error(capsys: Captured) -> None:
    assert memctl.main(["ping", "--socket", "/" + "x" * 200]) == 2
    message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("memctl: the socket path has 201 bytes, the maximum is")
    assert hint.startswith("hint: set MEMORYD_SOCKET")


@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("", 2, "usage"),
        ("serch tea", 2, "usage"),
        ("search", 2, "usage"),
        ("ping --frob", 2, "usage"),
        ("stop --lines 3", 2, "usage"),
        ("ping --socket /" + "x" * 200, 2, "usage"),
        ("start --socket /" + "x" * 200, 2, "usage"),
        *((f"{line} --socket {NO_SOCKET}", 3, "not_running") for line in ASKING),
    ],
)
def test_every_failure_is_json_when_asked_for(
    line: str, status: int, code: str, capsys: Captured
) -> None:
    assert memctl.main([*line.split(), "--json"]) == status
    out, err = capsys.readouterr()
    assert err == ""
    error = json.loads(out)["error"]
    assert set(error) == {"code", "message", "hint", "retryable"}
    assert error["code"] == code


def test_an_error_stays_on_its_lines(capsys: Captured) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        end = Error("not_found", "no a\nb\x1b[31m.md", peer.request().id, hint="look\nagain")
        peer.send(end)

    with FakeDaemon(script) as daemon:
        assert memctl.main(["get", "x.md", "--socket", daemon.path]) == 4
    assert capsys.readouterr().err == "memctl: no a b\ufffd[31m.md\nhint: look again\n"


def test_a_current_folder_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with FakeDaemon(answering(Error("not_found", "no"))) as daemon:
        assert memctl.main(["get", "x.md", "--json", "--socket", daemon.path]) == 1
    assert json.loads(capsys.readouterr().out)["error"] == {
        "code": "error",
        "message": "No such file or directory",
        "hint": "",
        "retryable": False,
    }


def test_help_and_version(capsys: Captured) -> None:
    assert memctl.main(["search", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: memctl search QUERY…")
    assert memctl.main(["--version"]) == 0
    assert capsys.readouterr() == (f"memctl {memoryd_client.__version__}\n", "")


# --- get from a subfolder ----------------------------------------------------------------------


@pytest.mark.parametrize("code", ["not_found", "denied"])
def test_a_path_relative_to_the_current_folder_is_found(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "note.md").write_text("tea\n")
    monkeypatch.chdir(tmp_path)
    asked: list[Body] = []

    def script(peer: Peer) -> None:
        peer.greet()
        first = peer.request()
        asked.append(msgspec.msgpack.decode(first.body, type=GetBody))
        peer.refuse(first, code)
        second = peer.request()
        asked.append(msgspec.msgpack.decode(second.body, type=GetBody))
        peer.answer(second, GetResult("memory/note.md", "tea\n", 2, 1, 2))

    with FakeDaemon(script) as daemon:
        line = ["get", "note.md", "--from", "2", "--lines", "1", "--socket", daemon.path]
        assert memctl.main(line) == 0
    assert asked == [GetBody("note.md", 2, 1), GetBody(str(tmp_path / "note.md"), 2, 1)]
    assert capsys.readouterr().out == "tea\n"


@pytest.mark.parametrize("path", ["none.md", "/none.md"])
def test_a_file_that_is_not_there_is_asked_for_once(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with FakeDaemon(answering(Error("not_found", "no"))) as daemon:
        assert memctl.main(["get", path, "--socket", daemon.path]) == 4
