"""`memctl` and the agents of a daemon: `status`, `agents`, `add`, `drop`, `reload`, `probe`."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fake_daemon import FakeDaemon, Peer, answering
from golden_bodies import golden

from memctl import main as memctl
from memctl.render_agents import agents
from memoryd_client.schema.agents import (
    AddBody,
    AddResult,
    AgentsResult,
    AgentSummary,
    DropBody,
    DropResult,
    ReloadResult,
)
from memoryd_client.schema.memory import BODY_OF_OP, Check, Empty, PingResult, ProbeResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.style import Style
from memoryd_client.wire.protocol import Body, Error, Op

Captured = pytest.CaptureFixture[str]
STATUS = golden("status_result", StatusResult)
MAIN = AgentSummary("main", "ready", "/home/ada/メモ", "/s/main.sqlite", "configuration")
WORK = AgentSummary(
    "work-1a2b3c4d",
    "failed",
    "/home/ada/work",
    "/s/work-1a2b3c4d.sqlite",
    "added",
    reason="another memoryd holds its index",
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: Captured) -> Run:
    """Run a command that the daemon answers; return exit status, stdout and stderr."""

    def run(line: str, *answers: Body | Error) -> tuple[int, str, str]:
        with FakeDaemon(answering(*answers)) as daemon:
            status = memctl.main([*line.split(), "--socket", daemon.path])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


# --- the agent of a request --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "agent"),
    [("ping", None), ("ping --agent work", "work"), ("--agent work ping", "work")],
)
def test_the_agent_goes_with_the_request(line: str, agent: str | None) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert request.agent == agent
        peer.answer(request, golden("ping_result", PingResult))

    with FakeDaemon(script) as daemon:
        assert memctl.main([*line.split(), "--socket", daemon.path]) == 0


def test_an_unknown_agent_is_not_found(run: Run) -> None:
    code, out, err = run("search tea --agent x", Error("unknown_agent", "there is no agent x"))
    assert (code, out, err) == (4, "", "memctl: there is no agent x\n")


# --- status ------------------------------------------------------------------------------------


def test_status_is_that_of_all_agents(capsys: Captured) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.answer(peer.request(), AgentsResult([MAIN, WORK], "main"))
        request = peer.request()
        assert (request.op, request.agent) == ("status", "main")
        peer.answer(request, STATUS)

    with FakeDaemon(script) as daemon:
        assert memctl.main(["status", "--socket", daemon.path]) == 0
    first, _, second = capsys.readouterr().out.partition("\n\n")
    assert first.startswith("Memory Search (main)\nBack end ")
    assert second == (
        "Memory Search (work-1a2b3c4d)\n"
        "State      failed (another memoryd holds its index)\n"
        "Store      /s/work-1a2b3c4d.sqlite\n"
        "Workspace  /home/ada/work\n"
    )


def test_status_of_one_agent_asks_for_no_other(capsys: Captured) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert (request.op, request.agent) == ("status", "main")
        peer.answer(request, STATUS)

    with FakeDaemon(script) as daemon:
        assert memctl.main(["status", "--agent", "main", "--socket", daemon.path]) == 0
    assert capsys.readouterr().out.startswith("Memory Search (main)\n")


def test_status_json_tells_of_an_agent_that_is_not_ready(run: Run) -> None:
    code, out, _ = run("status --json", AgentsResult([MAIN, WORK], "main"), STATUS)
    first, second = json.loads(out)
    assert code == 0
    assert (set(first), first["agentId"]) == ({"agentId", "status"}, "main")
    assert second == {
        "agentId": "work-1a2b3c4d",
        "error": {
            "code": "unavailable",
            "message": "another memoryd holds its index",
            "hint": "",
            "retryable": True,
        },
    }


@pytest.mark.parametrize("code", ["unavailable", "unknown_agent"])
def test_an_agent_that_goes_meanwhile_is_told_of(code: str, run: Run) -> None:
    agents = AgentsResult([MAIN], "main")
    status, out, _ = run("status", agents, Error(code, "agent main has been stopped"))
    assert status == 0
    assert "State      stopping (agent main has been stopped)\n" in out


def test_another_error_is_that_of_the_command(run: Run) -> None:
    code, out, err = run("status", AgentsResult([MAIN], "main"), Error("internal", "oh no"))
    assert (code, out, err) == (1, "", "memctl: oh no\n")


def test_a_daemon_without_agents(run: Run) -> None:
    assert run("status", AgentsResult([])) == (0, "No agents.\n", "")
    assert run("status --json", AgentsResult([])) == (0, "[]\n", "")
    assert run("agents", AgentsResult([])) == (0, "No agents.\n", "")


# --- agents ------------------------------------------------------------------------------------


def test_agents(run: Run) -> None:
    main = msgspec.structs.replace(
        MAIN, files=1200, chunks=34500, pending_files=1, pending_vectors=20, degraded=["no vectors"]
    )
    work = msgspec.structs.replace(WORK, degraded=["another memoryd holds its index"])
    assert run("agents", AgentsResult([main, work], "main")) == (
        0,
        """\
   agent          state   files  chunks  pending             workspace
*  main           ready    1200   34500  1 file, 20 vectors  /home/ada/メモ
   work-1a2b3c4d  failed      0       0  none                /home/ada/work  (another memoryd\
 holds its index)
""",
        "warning: main: no vectors\n",
    )


def test_agents_are_aligned_whatever_their_names() -> None:
    odd = msgspec.structs.replace(MAIN, agent="メモ", workspace_dir="/a\nb")
    lines = agents(AgentsResult([odd, WORK]), Style(colour=True)).splitlines()
    assert lines == [
        "\x1b[2m   agent          state   files  chunks  pending  workspace\x1b[0m",
        "   メモ           ready       0       0  none     /a\ufffdb",
        "   work-1a2b3c4d  failed      0       0  none     /home/ada/work"
        "  (another memoryd holds its index)",
    ]


def test_agents_json(run: Run) -> None:
    _, out, err = run("agents --json", AgentsResult([WORK], None))
    assert err == ""
    assert json.loads(out) == {
        "agents": [
            {
                "agent": "work-1a2b3c4d",
                "state": "failed",
                "workspaceDir": "/home/ada/work",
                "dbPath": "/s/work-1a2b3c4d.sqlite",
                "origin": "added",
                "reason": "another memoryd holds its index",
                "files": 0,
                "chunks": 0,
                "pendingFiles": 0,
                "pendingVectors": 0,
                "degraded": [],
            }
        ],
        "current": None,
    }


# --- add, drop, reload -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "asked", "answer"),
    [
        ("add /w", AddBody("/w"), AddResult(MAIN, added=True)),
        ("drop work", DropBody("work"), DropResult("work", "/w", "/s")),
        ("drop /w/", DropBody("/w"), DropResult("work", "/w", "/s")),
        ("reload", Empty(), ReloadResult([], [], [], [], [], [])),
        ("agents", Empty(), AgentsResult([])),
        ("probe", Empty(), ProbeResult("main", "none", "", [])),
    ],
)
def test_the_command_line_becomes_a_request(line: str, asked: Body, answer: Body) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert request.op == line.partition(" ")[0]
        assert msgspec.msgpack.decode(request.body, type=BODY_OF_OP[Op(request.op)]) == asked
        peer.answer(request, answer)

    with FakeDaemon(script) as daemon:
        assert memctl.main(["--socket", daemon.path, *line.split()]) == memctl.OK


def test_add(run: Run) -> None:
    assert run("add /home/ada/メモ", AddResult(MAIN, added=True)) == (
        0,
        "Agent main serves /home/ada/メモ\nIndex: /s/main.sqlite\n",
        "",
    )
    assert run("add /home/ada/メモ", AddResult(MAIN, added=False))[1].startswith(
        "Agent main serves /home/ada/メモ already\n"
    )


def test_add_of_a_workspace_that_can_not_be_served_fails(run: Run) -> None:
    assert run("add /home/ada/work", AddResult(WORK, added=True)) == (
        1,
        "Agent work-1a2b3c4d can't serve /home/ada/work: another memoryd holds its index\n",
        "",
    )


def test_add_names_a_folder_as_the_daemon_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        asked = msgspec.msgpack.decode(request.body, type=AddBody)
        assert asked == AddBody(str(tmp_path / "notes"))
        peer.answer(request, AddResult(MAIN, added=True))

    with FakeDaemon(script) as daemon:
        assert memctl.main(["add", "notes", "--socket", daemon.path]) == 0


def test_drop(run: Run) -> None:
    dropped = DropResult("work-1a2b3c4d", "/home/ada/work", "/s/work.sqlite")
    assert run("drop work-1a2b3c4d", dropped) == (
        0,
        "Agent work-1a2b3c4d no longer serves /home/ada/work\nIndex kept: /s/work.sqlite\n",
        "",
    )


def test_drop_takes_a_folder_without_a_slash_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to("notes")
    monkeypatch.chdir(tmp_path)
    asked = []

    def script(peer: Peer) -> None:
        peer.greet()
        first, second = peer.request(), None
        asked.append(msgspec.msgpack.decode(first.body, type=DropBody).agent)
        peer.refuse(first, "unknown_agent")
        second = peer.request()
        asked.append(msgspec.msgpack.decode(second.body, type=DropBody).agent)
        peer.answer(second, DropResult("notes-1", "/n", "/s"))

    with FakeDaemon(script) as daemon:
        assert memctl.main(["drop", "link", "--socket", daemon.path]) == 0
    assert asked == ["link", str(tmp_path / "notes")]


def test_drop_of_what_is_no_agent_and_no_folder_is_not_found(run: Run) -> None:
    assert run("drop nothing", Error("unknown_agent", "no"))[0] == 4


def test_reload(run: Run) -> None:
    files = ["/home/ada/.config/memoryd/config.toml"]
    changed = ReloadResult(files, ["new", "newer"], ["old"], ["main"], ["same"], [])
    assert run("reload", changed) == (
        0,
        "Configuration reloaded: /home/ada/.config/memoryd/config.toml\n"
        "Started: new, newer\nStopped: old\nRestarted: main\n",
        "",
    )
    assert run("reload", ReloadResult([], [], [], [], ["main"], [])) == (
        0,
        "Configuration reloaded: no file\nNo changes\n",
        "",
    )


def test_reload_fails_with_an_agent(run: Run) -> None:
    failed = golden("reload_result", ReloadResult)
    code, out, _ = run("reload", failed)
    assert (code, out.splitlines()[-1]) == (1, "Failed: broken")
    code, out, _ = run("reload --json", failed)
    assert code == 1
    assert json.loads(out) == {
        "files": ["/home/ada/.config/memoryd/config.toml"],
        "started": ["work"],
        "stopped": ["old"],
        "restarted": ["main"],
        "unchanged": ["notes-1a2b3c4d"],
        "failed": ["broken"],
        "changed": ["socket.allow"],
    }


# --- probe -------------------------------------------------------------------------------------

EMBEDS = Check("embedding", True, True, 12.5, "local use-multilingual-v3, 512 dimensions")
NO_VECTORS = Check(
    "vector", False, True, 0.5, reason="no extensions", hint="search goes on without it"
)
OFF = Check("vector", False, False, 0.0, reason="switched off")
KEYWORDS = Check("keyword", True, True, 1.0, "FTS5, 45 chunks")


def test_probe(run: Run) -> None:
    works = ProbeResult("main", "local", "use-multilingual-v3", [EMBEDS, OFF, KEYWORDS])
    assert run("probe", works) == (
        0,
        """\
Probe (main)
✓  embedding  local use-multilingual-v3, 512 dimensions
–  vector     switched off
✓  keyword    FTS5, 45 chunks
""",
        "",
    )


def test_probe_fails_with_what_is_required(run: Run) -> None:
    fails = ProbeResult("main", "local", "use-multilingual-v3", [NO_VECTORS, KEYWORDS])
    assert run("probe", fails) == (
        1,
        """\
Probe (main)
✗  vector   no extensions
   hint: search goes on without it
✓  keyword  FTS5, 45 chunks
""",
        "",
    )
    code, out, err = run("probe --json", fails)
    assert (code, err) == (1, "")
    report = json.loads(out)
    assert report["checks"][0] == {
        "name": "vector",
        "ok": False,
        "required": True,
        "tookMs": 0.5,
        "detail": "",
        "reason": "no extensions",
        "hint": "search goes on without it",
    }
