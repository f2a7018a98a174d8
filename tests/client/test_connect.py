"""`memctl connect` and `memctl disconnect` on the files of agents, without the agents."""

import json
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connecting import Home, scratch_home
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from json5_texts import VALUES, json5_texts, json_texts

from memctl import main as memctl
from memctl.connect import files, json_text, plan
from memctl.connect.agents import NAMES, Setup, agent

Captured = pytest.CaptureFixture[str]

MAIN = {
    "claude": ".claude/settings.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json",
}
"""The file of each agent with most entries."""
EXISTING = {
    "claude": '{\n    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},\n'
    '    "permissions": {"allow": ["Bash(ls)"]} }\n',
    "codex": "# mine\nmodel = 'x' # theirs\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\n"
    "command = 'true'   # no end of line:",
    "gemini": '{\n\t// mine\n\t"mcpServers": {"other": {"command": "x"}},\n}\n',
    "openclaw": "{\n  // mine\n  plugins: {\n    allow: ['telegram'],\n"
    "    slots: { memory: 'memory-lancedb' },\n  },\n}",
}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with scratch_home(monkeypatch) as made:
        for name in NAMES:
            (made.folder / MAIN[name]).parent.mkdir()
        yield made


def read(text: str) -> Any:
    return json_text.value(text, json_text.parse(text))


# --- the entries -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_hooks_and_server_are_added_beside_those_of_others(home: Home, name: str) -> None:
    home.write(MAIN[name], EXISTING[name])
    home.memctl("connect", name)
    settings = read((home.folder / MAIN[name]).read_text())
    server = settings if name == "gemini" else read((home.folder / ".claude.json").read_text())
    assert server["mcpServers"]["memoryd"]["command"] == str(home.program)
    assert server["mcpServers"]["memoryd"]["args"] == ["mcp"]
    event = "BeforeAgent" if name == "gemini" else "UserPromptSubmit"
    [group] = settings["hooks"][event]
    assert group["hooks"][0]["command"] == f"{home.program} hook {name} {event}"
    if name == "claude":
        theirs, ours = settings["hooks"]["Stop"]
        assert theirs["hooks"][0]["command"] == "true"
        assert ours["hooks"][0]["command"].endswith("hook claude Stop")
        assert settings["hooks"]["SessionStart"][0]["matcher"] == "startup|resume|clear|compact"
        tools = ["mcp__memoryd__memory_search", "mcp__memoryd__memory_get"]
        assert settings["permissions"]["allow"] == ["Bash(ls)", *tools]


def test_codex_waits_for_the_server_and_passes_on_its_places(home: Home) -> None:
    home.write(MAIN["codex"], EXISTING["codex"])
    home.memctl("connect", "codex")
    text = (home.folder / MAIN["codex"]).read_text()
    assert text.startswith(EXISTING["codex"])
    data = tomllib.loads(text)
    server = data["mcp_servers"]["memoryd"]
    assert (server["command"], server["args"]) == (str(home.program), ["mcp"])
    assert server["required"] is True
    assert "XDG_RUNTIME_DIR" in server["env_vars"]
    commands = [group["hooks"][0]["command"] for group in data["hooks"]["Stop"]]
    assert commands == ["true", f"{home.program} hook codex Stop"]


def test_openclaw_gets_the_plugin_in_place_of_its_own_memory(home: Home) -> None:
    home.write(MAIN["openclaw"], EXISTING["openclaw"])
    home.memctl("connect", "openclaw")
    text = (home.folder / MAIN["openclaw"]).read_text()
    assert "// mine" in text
    plugins = read(text)["plugins"]
    assert plugins["slots"] == {"memory": "memoryd"}
    assert plugins["allow"] == ["telegram", "memoryd"]
    assert plugins["entries"]["memory-core"] == {"enabled": False}
    assert plugins["entries"]["memoryd"] == {
        "enabled": True,
        "hooks": {"allowConversationAccess": True},
        "config": {"memctl": str(home.program), "options": []},
    }
    [folder] = plugins["load"]["paths"]
    assert json.loads(Path(folder, "openclaw.plugin.json").read_text())["id"] == "memoryd"


def test_the_socket_and_the_agent_are_passed_on(home: Home) -> None:
    home.memctl("connect", "claude", "--socket", "/run/my memoryd.sock", "--agent", "work")
    server = read((home.folder / ".claude.json").read_text())["mcpServers"]["memoryd"]
    options = ["--socket", "/run/my memoryd.sock", "--agent", "work"]
    assert server["args"] == ["mcp", *options]
    hooks = read((home.folder / MAIN["claude"]).read_text())["hooks"]
    command = hooks["Stop"][0]["hooks"][0]["command"]
    assert command.endswith("hook claude Stop --socket '/run/my memoryd.sock' --agent work")


@pytest.mark.parametrize(
    ("name", "variable", "files"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", [".claude.json", "settings.json"]),
        ("codex", "CODEX_HOME", ["config.toml"]),
        ("gemini", "GEMINI_CLI_HOME", [".gemini/settings.json"]),
        ("openclaw", "OPENCLAW_STATE_DIR", ["openclaw.json"]),
        ("openclaw", "OPENCLAW_HOME", [".openclaw/openclaw.json"]),
        ("openclaw", "OPENCLAW_CONFIG_PATH", [""]),
    ],
)
def test_the_agents_own_variables_count(
    home: Home, name: str, variable: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(home.folder / "else" / "where"))
    for folder in ("where", "where/.gemini", "where/.openclaw")[: 3 if files[0] else 0]:
        (home.folder / "else" / folder).mkdir(parents=True, exist_ok=True)
    before = home.files()
    home.memctl("connect", name)
    for file in files:
        assert (home.folder / "else" / "where" / file).is_file()
    assert not (home.folder / MAIN[name]).exists()
    home.memctl("disconnect", name)
    assert home.files() == before


def test_claude_codes_older_file_is_preferred_as_it_does(home: Home) -> None:
    home.write(".claude/.config.json", "{}")
    home.memctl("connect", "claude")
    assert "memoryd" in (home.folder / ".claude/.config.json").read_text()
    assert not (home.folder / ".claude.json").exists()


# --- transcripts -------------------------------------------------------------------------------


def config(home: Home) -> Path:
    return home.folder / ".config/memoryd/config.toml"


def test_transcripts_of_connected_agents_are_read(home: Home) -> None:
    home.write(".config/memoryd/config.toml", '[agents.main]\nworkspace = "~/work" # mine\n')
    for name in ("claude", "codex", "openclaw"):
        home.memctl("connect", name)
    text = config(home).read_text()
    assert tomllib.loads(text)["defaults"]["sessions"] == {
        "enabled": True,
        "formats": ["claude", "codex", "openclaw"],
    }
    home.memctl("disconnect", "codex")
    assert '["claude", "openclaw"]' in config(home).read_text()
    home.memctl("disconnect", "claude")
    home.memctl("disconnect", "openclaw")
    assert config(home).read_text() == '[agents.main]\nworkspace = "~/work" # mine\n'


@pytest.mark.parametrize(
    "settings",
    [
        "[defaults.sessions]\nenabled = true\n",
        "[agents.main.sessions]\nenabled = true\nformats = ['claude']\n",
        "[defaults]\nsessions = { enabled = true }\n[agents.main]\n",
    ],
)
def test_transcripts_that_are_read_already_need_no_change(home: Home, settings: str) -> None:
    home.write(".config/memoryd/config.toml", settings)
    home.memctl("connect", "claude")
    assert config(home).read_text() == settings


@pytest.mark.parametrize(
    "settings",
    [
        "[defaults.sessions]\nenabled = false\n",
        "[defaults.sessions]\nenabled = true\nformats = ['codex']\n",
        "[defaults]\nsessions.owners = ['@ana']\n",
    ],
)
def test_the_users_own_choice_of_transcripts_stays(
    home: Home, settings: str, capsys: Captured
) -> None:
    home.write(".config/memoryd/config.toml", settings)
    home.memctl("connect", "claude")
    assert config(home).read_text() == settings
    assert "note: memoryd does not read the transcripts: " in capsys.readouterr().err
    home.memctl("connect")
    assert "transcripts are not read" in capsys.readouterr().out


# --- undoing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("exists", [True, False])
def test_undoing_at_once_restores_every_byte_and_mode(home: Home, name: str, exists: bool) -> None:
    if exists:
        home.write(MAIN[name], EXISTING[name]).chmod(0o640)
    before = home.files()
    home.memctl("connect", name)
    assert home.files() != before
    if exists:
        assert stat.S_IMODE((home.folder / MAIN[name]).stat().st_mode) == 0o640
    home.memctl("disconnect", name)
    assert home.files() == before
    assert home.state() == []


@pytest.mark.parametrize("name", NAMES)
def test_connecting_twice_changes_nothing_more(home: Home, name: str, capsys: Captured) -> None:
    home.write(MAIN[name], EXISTING[name])
    before = home.files()
    home.memctl("connect", name)
    connected = home.files()
    capsys.readouterr()
    home.memctl("connect", name)
    assert capsys.readouterr().out.endswith("is already connected: no change\n")
    assert home.files() == connected
    home.memctl("disconnect", name)
    assert home.files() == before
    home.memctl("disconnect", name)
    assert capsys.readouterr().out.endswith("is not connected: no change\n")


@pytest.mark.parametrize("name", ["claude", "gemini", "openclaw"])
def test_after_changes_of_others_only_our_entries_go(home: Home, name: str) -> None:
    path = home.write(MAIN[name], EXISTING[name])
    home.memctl("connect", name)
    path.write_text(json_text.put(path.read_text(), ("later",), {"x": [1]}))
    home.memctl("disconnect", name)
    assert path.read_text() == json_text.put(EXISTING[name], ("later",), {"x": [1]})


@pytest.mark.parametrize("name", ["claude", "gemini", "openclaw"])
def test_a_file_that_an_agent_has_written_anew_loses_only_our_entries(
    home: Home, name: str
) -> None:
    path = home.write(MAIN[name], EXISTING[name])
    home.memctl("connect", name)
    path.write_text(json.dumps({**read(path.read_text()), "later": 1}, indent=3))
    home.memctl("disconnect", name)
    assert read(path.read_text()) == {**read(EXISTING[name]), "later": 1}


def test_tables_that_codex_has_moved_go_too(home: Home) -> None:
    path = home.write(MAIN["codex"], EXISTING["codex"])
    home.memctl("connect", "codex")
    text = path.read_text().replace(
        "\n[[hooks.SessionStart]]",
        '\n[projects."/x"]\ntrust_level = "trusted"\n\n[[hooks.SessionStart]]',
    )
    path.write_text(text)
    home.memctl("disconnect", "codex")
    assert path.read_text() == f'{EXISTING["codex"]}\n\n[projects."/x"]\ntrust_level = "trusted"\n'


def test_a_hook_of_the_user_in_our_group_stays(home: Home) -> None:
    path = home.write(MAIN["claude"], "{}")
    home.memctl("connect", "claude")
    mine = {"type": "command", "command": "mine"}
    path.write_text(json_text.append(path.read_text(), ("hooks", "Stop", 0, "hooks"), mine))
    home.memctl("connect", "claude")
    home.memctl("disconnect", "claude")
    assert read(path.read_text()) == {"hooks": {"Stop": [{"hooks": [mine]}]}}


def test_entries_without_a_journal_go_too(home: Home) -> None:
    path = home.write(MAIN["claude"], EXISTING["claude"])
    home.memctl("connect", "claude")
    for file in home.state():
        file.unlink()
    home.memctl("disconnect", "claude")
    assert path.read_text() == EXISTING["claude"]


def test_a_memctl_that_has_moved_is_corrected_and_undone(home: Home) -> None:
    path = home.write(MAIN["claude"], EXISTING["claude"])
    before = home.files()
    home.memctl("connect", "claude")
    for file in (path, home.folder / ".claude.json"):
        file.write_text(file.read_text().replace(str(home.program), "/old/bin/memctl"))
    home.memctl("connect", "claude")
    assert "/old" not in path.read_text() + (home.folder / ".claude.json").read_text()
    home.memctl("disconnect", "claude")
    assert home.files() == before


def test_copies_are_private(home: Home) -> None:
    home.write(MAIN["gemini"], EXISTING["gemini"])
    home.memctl("connect", "gemini")
    journal, copy = sorted(home.state(), key=lambda path: path.suffix, reverse=True)
    assert copy.read_text() == EXISTING["gemini"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (journal, copy)} == {0o600}
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


SETUP = Setup("/bin/memctl", ["--agent", "x"], {"HOME": "/home/ana"}, "/plugin", "/config.toml")
SETTINGS = json_texts() | json5_texts()
JSON_AGENTS = st.sampled_from(["claude", "gemini", "openclaw"])


@given(SETTINGS, JSON_AGENTS, VALUES)
def test_any_settings_that_others_change_lose_only_our_entries(
    made: tuple[str, dict[str, Any]], name: str, later: object
) -> None:
    text, value = made
    assume("later" not in value)
    for file in agent(name, SETUP).files:
        try:
            connected = file.connected(text)
        except ValueError:
            assume(False)
        assert file.connected(connected) == connected
        assert file.missing(connected) == []
        changed = json_text.put(connected, ("later",), later)
        assert read(file.disconnected(changed, text)) == {**value, "later": later}


@settings(max_examples=15)
@given(SETTINGS, JSON_AGENTS)
def test_any_settings_are_restored(made: tuple[str, dict[str, Any]], name: str) -> None:
    text, _ = made
    with pytest.MonkeyPatch.context() as monkeypatch, scratch_home(monkeypatch) as home:
        monkeypatch.setenv("MEMORYD_NO_AUTOSTART", "1")
        monkeypatch.setattr(os, "fsync", lambda _: None)
        path = home.write(MAIN[name], text)
        if memctl.main(["connect", name]) == 0:
            home.memctl("disconnect", name)
        assert path.read_bytes() == text.encode()


# --- refusals ----------------------------------------------------------------------------------


def refused(home: Home, capsys: Captured, *words: str, code: int = 1) -> str:
    """Run a command that must fail and change nothing; return its message."""
    before = home.files()
    capsys.readouterr()
    home.memctl(*words, code=code)
    out, err = capsys.readouterr()
    assert (out, home.files()) == ("", before)
    assert home.state() == []
    return err


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("claude", '{"hooks": ', "can't be changed: not valid JSON at line 1, column 11"),
        ("claude", '{"hooks": []}', "can't be changed: hooks is not an object"),
        ("claude", '{"permissions": {"allow": {}}}', "permissions.allow is not an array"),
        ("gemini", b'{"a": "\xff"}', "is not UTF-8 (byte 7)"),
        ("gemini", '{"mcpServers": {"memoryd": {"command": "x"}}}', "is not memoryd's"),
        ("codex", "a = ", "can't be changed: not valid TOML"),
        ("codex", "[mcp_servers.memoryd]\ncommand = 'x'", "is not memoryd's"),
        ("codex", "mcp_servers = { a = { command = 'x' } }", "in a form that can't be added to"),
        ("codex", "[hooks]\nStop = [{ hooks = [] }]", "in a form that can't be added to"),
        ("openclaw", "{ plugins: null }", "can't be changed: plugins is not an object"),
    ],
)
def test_unsuitable_settings_are_refused(
    home: Home, name: str, text: str | bytes, problem: str, capsys: Captured
) -> None:
    path = home.write(MAIN[name], text)
    message = refused(home, capsys, "connect", name)
    assert message.startswith(f"memctl: {path}")
    assert problem in message


def test_no_file_is_changed_if_one_is_unsuitable(home: Home, capsys: Captured) -> None:
    home.write(".claude.json", "{}")
    home.write(MAIN["claude"], "{")
    assert "not valid JSON" in refused(home, capsys, "connect", "claude")


def test_a_read_only_file_is_left_alone(home: Home, capsys: Captured) -> None:
    home.write(MAIN["gemini"], "{}").chmod(0o444)
    assert "is read-only" in refused(home, capsys, "connect", "gemini")


def test_what_is_no_file_is_refused(home: Home, capsys: Captured) -> None:
    (home.folder / MAIN["gemini"]).mkdir()
    assert "not a regular file" in refused(home, capsys, "connect", "gemini")


def test_a_link_is_followed_and_stays(home: Home) -> None:
    real = home.write("dotfiles/gemini.json", EXISTING["gemini"])
    link = home.folder / MAIN["gemini"]
    link.symlink_to(real)
    home.memctl("connect", "gemini")
    assert link.is_symlink()
    assert "memoryd" in real.read_text()
    home.memctl("disconnect", "gemini")
    assert link.is_symlink()
    assert real.read_text() == EXISTING["gemini"]


def test_a_link_to_nothing_is_refused(home: Home, capsys: Captured) -> None:
    (home.folder / MAIN["gemini"]).symlink_to("/nowhere")
    home.memctl("connect", "gemini", code=1)
    assert "is a link to a missing file" in capsys.readouterr().err


def test_an_agent_that_is_not_there_is_not_connected(home: Home, capsys: Captured) -> None:
    (home.folder / ".codex").rmdir()
    message = refused(home, capsys, "connect", "codex")
    assert message == (
        f"memctl: Codex is not here: there is no program 'codex' on the path, and no folder"
        f" {home.folder}/.codex\nhint: install and run it first\n"
    )


@pytest.mark.parametrize("command", ["connect", "disconnect"])
def test_an_unknown_agent_is_a_usage_error(home: Home, command: str, capsys: Captured) -> None:
    message = refused(home, capsys, command, "cursor", code=2)
    assert "claude, codex, gemini, openclaw (got 'cursor')" in message


def test_disconnect_needs_a_name(home: Home, capsys: Captured) -> None:
    assert "disconnect needs NAME" in refused(home, capsys, "disconnect", code=2)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Path, str]]]:
    """Write each (path, text) of the list just before the next file is replaced."""
    texts: list[tuple[Path, str]] = []
    check = files._check_same

    def interrupted(real: str, before: bytes | None) -> None:
        if texts:
            path, text = texts.pop(0)
            path.write_text(text)
        check(real, before)

    monkeypatch.setattr(files, "_check_same", interrupted)
    yield texts
    assert texts == []


def test_a_change_at_the_same_time_is_not_lost(home: Home, writer: list[tuple[Path, str]]) -> None:
    path = home.write(MAIN["gemini"], "{}")
    writer.append((path, '{"theirs": 1}'))
    home.memctl("connect", "gemini")
    assert read(path.read_text())["theirs"] == 1
    assert "memoryd" in path.read_text()
    home.memctl("disconnect", "gemini")
    assert path.read_text() == '{"theirs": 1}'


def test_a_file_that_always_changes_is_left_alone(
    home: Home, writer: list[tuple[Path, str]], capsys: Captured
) -> None:
    path = home.write(MAIN["gemini"], "{}")
    writer += [(path, f'{{"theirs": {number}}}') for number in range(plan.ATTEMPTS)]
    home.memctl("connect", "gemini", code=1)
    assert "was changed by somebody else at the same time" in capsys.readouterr().err
    assert path.read_text() == '{"theirs": 2}'
    assert home.state() == []


def test_a_failure_in_the_middle_undoes_what_was_done(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    home.write(".claude.json", "{}")
    replace = os.replace

    def failing(old: str, new: str) -> None:
        if new.endswith("settings.json"):
            raise OSError(28, "No space left on device")
        replace(old, new)

    monkeypatch.setattr(os, "replace", failing)
    message = refused(home, capsys, "connect", "claude")
    assert "settings.json: No space left on device\nhint: nothing was changed" in message


# --- what is shown -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["connect", "disconnect"])
@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_shows_the_changes_and_makes_none(
    home: Home, name: str, command: str, capsys: Captured
) -> None:
    home.write(MAIN[name], EXISTING[name])
    if command == "disconnect":
        home.memctl("connect", name)
    before, journal = home.files(), home.state()
    capsys.readouterr()
    home.memctl(command, name, "--dry-run")
    dry = capsys.readouterr().out
    assert (home.files(), home.state()) == (before, journal)
    home.memctl(command, name)
    assert capsys.readouterr().out.splitlines()[:-1] == dry.splitlines()[:-1]
    assert f"would be {command}ed" in dry


def test_the_changes_are_shown_without_what_others_have_written(
    home: Home, capsys: Captured
) -> None:
    server = {"command": "/old/memctl", "args": ["mcp"], "env": {"TOKEN": "s3cret"}}
    home.write(MAIN["gemini"], json.dumps({"key": "s3cret", "mcpServers": {"memoryd": server}}))
    home.memctl("connect", "gemini")
    home.memctl("connect", "gemini", "--json")
    home.memctl("disconnect", "gemini")
    out, err = capsys.readouterr()
    assert "s3cret" not in out + err
    assert '  + mcpServers.memoryd: {"command": "' in out
    assert f'  + hooks.BeforeAgent: "{home.program} hook gemini BeforeAgent"\n' in out


def test_json(home: Home, capsys: Captured) -> None:
    home.memctl("connect", "gemini", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["agent"], answer["connected"], answer["dryRun"]) == ("gemini", True, False)
    file, _ = answer["files"]
    assert file["path"] == str(home.folder / MAIN["gemini"])
    assert len(file["added"]) == 6
    assert file["removed"] == []
    home.memctl("connect", "codex", "--json")
    assert "Codex asks once" in json.loads(capsys.readouterr().out)["remarks"][0]
