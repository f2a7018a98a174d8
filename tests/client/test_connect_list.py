"""`memctl connect` without a name: how the agents stand, and proofs by their own commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connecting import Home, scratch_home

from memctl.connect import round_trip

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with scratch_home(monkeypatch) as made:
        yield made


@pytest.fixture
def claude(home: Home, capsys: Captured) -> Home:
    (home.folder / ".claude").mkdir()
    home.memctl("connect", "claude")
    capsys.readouterr()
    return home


def listed(home: Home, capsys: Captured, *, code: int = 0) -> list[str]:
    capsys.readouterr()
    home.memctl("connect", code=code)
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def found(home: Home, capsys: Captured, name: str, *, code: int = 0) -> Any:
    capsys.readouterr()
    home.memctl("connect", "--json", code=code)
    return next(one for one in json.loads(capsys.readouterr().out) if one["agent"] == name)


def test_absent_and_unconnected_agents_are_listed(home: Home, capsys: Captured) -> None:
    (home.folder / ".codex").mkdir()
    assert listed(home, capsys) == [
        "Claude Code  not installed",
        "Codex        not connected · `memctl connect codex`",
        "Gemini CLI   not installed",
        "OpenClaw     not installed",
    ]


def test_an_agent_is_there_if_its_program_is(
    home: Home, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.folder / "bin" / "gemini").symlink_to(home.program)
    monkeypatch.setenv("PATH", str(home.folder / "bin"))
    assert found(home, capsys, "gemini")["state"] == "disconnected"
    home.memctl("connect", "gemini")
    home.memctl("disconnect", "gemini")
    assert not (home.folder / ".gemini").exists()


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "openclaw"])
def test_a_connected_agent_is_proved_by_its_own_commands(
    home: Home, name: str, capsys: Captured
) -> None:
    (home.folder / f".{name}").mkdir()
    home.memctl("connect", name)
    one = found(home, capsys, name)
    assert (one["state"], one["missing"], one["reason"]) == ("connected", [], "")
    assert one["command"] == [str(home.program), "mcp"]
    assert one["transcripts"] is True
    kinds = ["mcp"] if name == "openclaw" else ["mcp", "hook", "hook"]
    assert [(proof["what"], proof["ok"]) for proof in one["proofs"]] == [(k, True) for k in kinds]
    lines = listed(home, capsys)
    assert sum("connected · memory answers (" in line for line in lines) == 1
    assert len(lines) == 4


def test_missing_entries_are_named(claude: Home, capsys: Captured) -> None:
    path = claude.folder / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    del settings["hooks"]["Stop"]
    path.write_text(json.dumps(settings))
    lines = listed(claude, capsys)
    assert lines[0].startswith("Claude Code  partly connected · memory answers")
    assert lines[1] == "  to correct hooks.Stop, run `memctl connect claude`"


def test_a_memctl_that_is_gone_is_reported(claude: Home, capsys: Captured) -> None:
    for name in (".claude.json", ".claude/settings.json"):
        path = claude.folder / name
        path.write_text(path.read_text().replace(str(claude.program), "/old/memctl"))
    lines = listed(claude, capsys, code=1)
    assert lines[0] == "Claude Code  partly connected"
    assert lines[1] == "  /old/memctl does not exist"
    assert lines[2].startswith("  the hook SessionStart fails: ")
    assert lines[4].startswith("  to correct mcpServers.memoryd, hooks.SessionStart, ")


def test_an_unreadable_file_is_reported(claude: Home, capsys: Captured) -> None:
    (claude.folder / ".claude" / "settings.json").write_text("{")
    one = found(claude, capsys, "claude")
    assert one["state"] == "unreadable"
    assert "not valid JSON at line 1" in one["reason"]
    assert listed(claude, capsys)[0] == "Claude Code  unknown"


def test_a_memory_that_fails_is_reported(claude: Home, capsys: Captured) -> None:
    claude.install(fails=True)
    assert listed(claude, capsys, code=1)[:2] == [
        "Claude Code  connected",
        "  memory_search fails: No match.",
    ]


def test_codex_gets_only_the_variables_that_codex_passes_on(
    home: Home, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", " a secret")
    for name in ("claude", "codex"):
        (home.folder / f".{name}").mkdir()
        home.memctl("connect", name)
    home.install(fails=True)
    capsys.readouterr()
    home.memctl("connect", "--json", code=1)
    said = [one["proofs"][0]["message"] for one in json.loads(capsys.readouterr().out)[:2]]
    failed = "memory_search fails: No match."
    assert said == [f"{failed} a secret", failed]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "it ended before it answered"),
        ("echo usage >&2; exit 2", "it ended before it answered: usage"),
        ("echo hello; cat", "the answer makes no sense: "),
        (
            'read x; echo \'{"id":1,"error":{"message":"no"}}\'; cat',
            "it refuses the connection: no",
        ),
        ("exec sleep 60", "it ended before it answered"),
    ],
)
def test_a_server_that_does_not_work_is_reported(
    script: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(round_trip, "DEADLINE_S", 0.1)
    proof = round_trip.mcp(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"})
    assert not proof.ok
    assert proof.message.startswith(message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("cat > /dev/null", ""),
        ("exit 1", "the hook Stop fails: exit status 1"),
        ("echo no >&2", "the hook Stop fails: no"),
        ("echo hello", "the hook Stop prints something else than JSON"),
        ("exec sleep 60", "the hook Stop does not answer within 0.1 s"),
    ],
)
def test_a_hook_is_proved(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in command:
        monkeypatch.setattr(round_trip, "DEADLINE_S", 0.1)
    proof = round_trip.hook("Stop", command, {"PATH": "/usr/bin:/bin"}, str(tmp_path))
    assert (proof.message, proof.ok) == (message, not message)
