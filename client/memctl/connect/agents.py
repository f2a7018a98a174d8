"""The agents that memoryd connects to: their files, and the entries of memoryd in them. Pure.

Sources: the documentation and the behaviour of Claude Code 2.1, Codex 0.171, Gemini CLI 0.61 and
OpenClaw 2026.9.
"""

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from memctl.connect import codex, entries, json_text
from memctl.connect.codex import CodexFile
from memctl.connect.entries import ConnectError, ElementEntry, Entry, HookEntry, MemberEntry
from memctl.connect.json_text import Path
from memctl.connect.transcripts import SessionsFile

TIMEOUT_S = codex.TIMEOUT_S
"""Seconds after which an agent gives up a hook, which itself gives up much sooner."""
_STARTS = "startup|resume|clear|compact"
"""All kinds of starts of a session."""
_AT_PROMPTS = (
    "the model is asked to save notes with a prompt of yours when a compaction is near;"
    " one that comes within a long turn, or that you ask for earlier, comes without"
)
_PLUGIN = ("memctl", "connect", "openclaw")
"""End of the path of the plugin for OpenClaw."""
NAMES = ("claude", "codex", "gemini", "openclaw")


class Setup(Struct, frozen=True):
    """The `memctl` that agents shall run, its options, and where things are."""

    memctl: str
    options: list[str]
    environ: Mapping[str, str]
    plugin: str
    config: str
    """The configuration file of memoryd."""


class TargetFile(Protocol):
    """One file that memoryd has entries in. All methods may raise `ValueError` for a bad file."""

    @property
    def path(self) -> str:
        """Absolute path."""

    def connected(self, text: str) -> str:
        """Return the text with memoryd's entries."""

    def disconnected(self, text: str, original: str | None) -> str:
        """Return the text without the entries that were not in the original."""

    def missing(self, text: str) -> list[str]:
        """Return the names of entries that are not there as they should be."""

    def present(self, text: str) -> list[str]:
        """Return a line for each entry that is there."""


class SettingsFile(Struct, frozen=True):
    """A JSON file of an agent. `server` is the place of the command that it starts."""

    path: str
    entries: list[Entry]
    server: Path = ()

    def connected(self, text: str) -> str:
        """Return the text with all entries. Raises `ConnectError` or `JsonTextError`."""
        try:
            return entries.connected(text, self.entries)
        except ConnectError as error:
            raise ConnectError(f"{self.path}: {error.message}", hint=error.hint) from error

    def disconnected(self, text: str, original: str | None) -> str:
        """Return the text without the added entries. Raises `JsonTextError`."""
        return entries.disconnected(text, self.entries, original)

    def missing(self, text: str) -> list[str]:
        """Return the dotted names of missing entries. Raises `JsonTextError`."""
        return [".".join(map(str, e.path)) for e in entries.missing(text, self.entries)]

    def present(self, text: str) -> list[str]:
        """Return a line for each entry that is there. Raises `JsonTextError`."""
        return entries.present(text, self.entries)

    def command(self, text: str) -> list[str] | None:
        """Return the command of the MCP server, None if there is none. Raises `JsonTextError`."""
        node = json_text.find(json_text.parse(text), self.server) if self.server else None
        table = None if node is None else json_text.value(text, node)
        if not isinstance(table, dict):
            return None
        if "memctl" in table:  # the plugin's own names
            table = {"command": table["memctl"], "args": ["mcp", *table.get("options", [])]}
        words = [table.get("command"), *(table.get("args") or [])]
        return [str(word) for word in words] if words[0] else None

    def hook_commands(self, text: str) -> dict[str, list[str]]:
        """Return the commands of memoryd's hooks by event. Raises `JsonTextError`."""
        hooks = [entry for entry in self.entries if isinstance(entry, HookEntry)]
        return {str(hook.path[-1]): entries.hook_commands(text, hook) for hook in hooks}


class HostAgent(Struct, frozen=True):
    """One agent: its program, the folder that it creates, and its files."""

    name: str
    title: str
    program: str
    home: str
    files: list[SettingsFile | CodexFile]
    sessions: SessionsFile | None
    remarks: list[str] = []
    note_remarks: list[str] = []
    """Remarks for users who let agents write notes."""

    @property
    def targets(self) -> list[TargetFile]:
        """All files that memoryd has entries in."""
        return [*self.files, *([] if self.sessions is None else [self.sessions])]


def agent(name: str, setup: Setup) -> HostAgent:
    """Return one of the agents in `NAMES`."""
    makers = {"claude": _claude, "codex": _codex, "gemini": _gemini, "openclaw": _openclaw}
    return makers[name](setup)


def _claude(setup: Setup) -> HostAgent:
    chosen = setup.environ.get("CLAUDE_CONFIG_DIR")
    home = os.path.abspath(chosen or _below_home(setup, ".claude"))
    # An older place, which Claude Code still prefers.
    old = os.path.join(home, ".config.json")
    main = os.path.join(home, ".claude.json") if chosen else _below_home(setup, ".claude.json")
    args = ["mcp", *setup.options]
    server = {"type": "stdio", "command": setup.memctl, "args": args}
    starts = {"SessionStart": _STARTS}
    events = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
    allowed = [
        ElementEntry(("permissions", "allow"), f"mcp__memoryd__{tool}")
        for tool in ("memory_search", "memory_get")
    ]
    return HostAgent(
        "claude",
        "Claude Code",
        "claude",
        home,
        [
            _with_server(old if os.path.isfile(old) else main, server),
            SettingsFile(
                os.path.join(home, "settings.json"),
                [*(_hook(setup, "claude", e, TIMEOUT_S, starts.get(e)) for e in events), *allowed],
            ),
        ],
        SessionsFile(setup.config, "claude"),
        _elsewhere(setup, "CLAUDE_CONFIG_DIR"),
        [
            "Claude Code asks you before each note; allow mcp__memoryd__memory_note there to save"
            " notes before a compaction without that",
            _AT_PROMPTS,
        ],
    )


def _codex(setup: Setup) -> HostAgent:
    home = os.path.abspath(setup.environ.get("CODEX_HOME") or _below_home(setup, ".codex"))
    hooks = [
        (event, _hook_command(setup, "codex", event), _STARTS if event == "SessionStart" else None)
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact")
    ]
    server = [setup.memctl, "mcp", *setup.options]
    file = CodexFile(os.path.join(home, "config.toml"), server, hooks, _marker("codex", r"\w+"))
    return HostAgent(
        "codex",
        "Codex",
        "codex",
        home,
        [file],
        SessionsFile(setup.config, "codex"),
        [
            "Codex asks once whether it may run the hooks; until then it runs none",
            "disconnect Codex before you remove memctl, because it does not start without it",
            *_elsewhere(setup, "CODEX_HOME"),
        ],
        [_AT_PROMPTS],
    )


def _gemini(setup: Setup) -> HostAgent:
    above = setup.environ.get("GEMINI_CLI_HOME") or _below_home(setup, "")
    home = os.path.abspath(os.path.join(above, ".gemini"))
    # Without trust, Gemini CLI asks before each call.
    server: dict[str, object] = {"command": setup.memctl, "trust": True}
    server["args"] = ["mcp", *setup.options]
    events = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
    hooks = [_hook(setup, "gemini", event, TIMEOUT_S * 1000, None) for event in events]
    file = _with_server(os.path.join(home, "settings.json"), server, *hooks)
    remarks = ["Gemini CLI starts no MCP server in a folder that you have not trusted"]
    sessions = SessionsFile(setup.config, "gemini")
    return HostAgent(
        "gemini", "Gemini CLI", "gemini", home, [file], sessions, remarks, [_AT_PROMPTS]
    )


def _openclaw(setup: Setup) -> HostAgent:
    state = setup.environ.get("OPENCLAW_STATE_DIR")
    above = setup.environ.get("OPENCLAW_HOME") or _below_home(setup, "")
    home = os.path.abspath(state or os.path.join(above, ".openclaw"))
    path = setup.environ.get("OPENCLAW_CONFIG_PATH") or os.path.join(home, "openclaw.json")
    own: Path = ("plugins", "entries", "memoryd")
    added: list[Entry] = [
        ElementEntry(("plugins", "load", "paths"), setup.plugin, is_ours=_is_plugin),
        ElementEntry(("plugins", "allow"), "memoryd", needs_array=True),
        MemberEntry((*own, "enabled"), True, _always),
        # Lets the plugin see the prompt, to which it adds what fits.
        MemberEntry((*own, "hooks", "allowConversationAccess"), True, _always),
        MemberEntry((*own, "config", "memctl"), setup.memctl, _always),
        MemberEntry((*own, "config", "options"), setup.options, _always),
        MemberEntry(("plugins", "slots", "memory"), "memoryd"),
        # Its memory_search would answer in place of ours.
        MemberEntry(("plugins", "entries", "memory-core", "enabled"), False),
    ]
    file = SettingsFile(os.path.abspath(path), added, (*own, "config"))
    return HostAgent(
        "openclaw",
        "OpenClaw",
        "openclaw",
        home,
        [file],
        SessionsFile(setup.config, "openclaw"),
        [
            "memoryd must serve OpenClaw's workspace too: `memctl add ~/.openclaw/workspace`",
            *_elsewhere(setup, "OPENCLAW_STATE_DIR"),
        ],
    )


def _elsewhere(setup: Setup, variable: str) -> list[str]:
    """Return the remark that memoryd, too, needs the variable with the place of transcripts."""
    if not setup.environ.get(variable):
        return []
    return [f"memoryd finds the transcripts only if it is started with the same {variable}"]


def _with_server(path: str, server: Mapping[str, object], *hooks: Entry) -> SettingsFile:
    place: Path = ("mcpServers", "memoryd")
    return SettingsFile(
        path, [MemberEntry(place, dict(server), _is_server, replaces=False), *hooks], place
    )


def _hook(setup: Setup, name: str, event: str, timeout: int, matcher: str | None) -> HookEntry:
    command = _hook_command(setup, name, event)
    group: dict[str, Any] = {} if matcher is None else {"matcher": matcher}
    group["hooks"] = [{"type": "command", "command": command, "timeout": timeout}]
    return HookEntry(("hooks", event), group, _marker(name, event))


def _hook_command(setup: Setup, name: str, event: str) -> str:
    return shlex.join([setup.memctl, "hook", name, event, *setup.options])


def _marker(name: str, event: str) -> re.Pattern[str]:
    return re.compile(rf"""(?:^|[/'"\s])memctl['"]? hook {name} {event}(?:\s|$)""")


def _is_server(value: object) -> bool:
    command = value.get("command") if isinstance(value, dict) else None
    return isinstance(command, str) and os.path.basename(command) == "memctl"


def _is_plugin(value: object) -> bool:
    return isinstance(value, str) and tuple(value.rstrip("/").split("/")[-3:]) == _PLUGIN


def _always(_: object) -> bool:
    return True


def _below_home(setup: Setup, name: str) -> str:
    return os.path.join(setup.environ.get("HOME") or os.path.expanduser("~"), name)
