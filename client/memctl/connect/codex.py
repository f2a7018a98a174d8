"""The configuration of Codex, `config.toml`, and the tables of memoryd in it. Pure.

Codex moves tables when it writes the file, so those of memoryd are found by their names.
"""

import json
import re
from typing import Any

from msgspec import Struct

from memctl.connect import toml_text
from memctl.connect.entries import ConnectError
from memctl.connect.toml_text import TomlTable
from memoryd_client.shared import toml

_SERVER = ("mcp_servers", "memoryd")
_TOOLS = ("memory_search", "memory_get")
ENVIRONMENT = ("MEMORYD_SOCKET", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""Variables that name memoryd's files; Codex passes on none by itself."""
TIMEOUT_S = 5


class CodexFile(Struct, frozen=True):
    """`config.toml`: the MCP server, and one hook for each event with its command and matcher."""

    path: str
    server: list[str]
    hooks: list[tuple[str, str, str | None]]
    marker: re.Pattern[str]

    def connected(self, text: str) -> str:
        """Return the text with the tables of memoryd. Raises `ConnectError` or `ValueError`."""
        if not self.missing(text):
            return text
        data = _read(text)
        if "memoryd" in _table(data.get("mcp_servers")) and not self._server(data):
            raise ConnectError(
                f"{self.path}: mcp_servers.memoryd is there already and is not memoryd's",
                hint="remove it with `codex mcp remove memoryd`, then try again",
            )
        after = toml_text.add(self._cut(text), self._block())
        try:
            _read(after)
        except ValueError:
            raise ConnectError(
                f"{self.path} has MCP servers or hooks in a form that can't be added to",
                hint="write them as [mcp_servers.NAME] and [[hooks.EVENT]], then try again",
            ) from None
        return after

    def disconnected(self, text: str, original: str | None) -> str:
        """Return the text without the tables of memoryd. Raises `ConnectError` or `ValueError`."""
        after = self._cut(text)
        if self.present(after):
            raise ConnectError(
                f"{self.path} has memoryd's entries in a form that can't be removed",
                hint=f"remove them by hand: {'; '.join(self.present(after))}",
            )
        return after

    def missing(self, text: str) -> list[str]:
        """Return the names of what is not there as it should be. Raises `ValueError`."""
        data = _read(text)
        lacks = []
        if not _has(data.get("mcp_servers"), {"memoryd": self._entry()}):
            lacks.append(".".join(_SERVER))
        own = self._hooks(data)
        return lacks + [f"hooks.{e}" for e, command, _ in self.hooks if own.get(e) != [command]]

    def present(self, text: str) -> list[str]:
        """Return a line for each entry of memoryd. Raises `ValueError`."""
        server = self._server(_read(text))
        own = {key: server[key] for key in self._entry() if key in server}
        lines = [f"{'.'.join(_SERVER)}: {_quoted(own)}"] if own else []
        return lines + [
            f"hooks.{event}: {_quoted(command)}"
            for event, commands in self.hook_commands(text).items()
            for command in commands
        ]

    def command(self, text: str) -> list[str] | None:
        """Return the command of the MCP server, None if there is none. Raises `ValueError`."""
        server = self._server(_read(text))
        return [server["command"], *server.get("args", [])] if server else None

    def hook_commands(self, text: str) -> dict[str, list[str]]:
        """Return the commands of memoryd's hooks by event. Raises `ValueError`."""
        return self._hooks(_read(text))

    def _entry(self) -> dict[str, object]:
        return {
            "command": self.server[0],
            "args": self.server[1:],
            "env_vars": list(ENVIRONMENT),
            "required": True,
            "tools": {tool: {"approval_mode": "approve"} for tool in _TOOLS},
        }

    def _block(self) -> str:
        table = self._entry()
        tools = ", ".join(f'{tool} = {{ approval_mode = "approve" }}' for tool in _TOOLS)
        lines = [
            f"[{'.'.join(_SERVER)}]",
            *(f"{key} = {_quoted(table[key])}" for key in ("command", "args", "env_vars")),
            "required = true",
            f"tools = {{ {tools} }}",
        ]
        for event, command, matcher in self.hooks:
            lines += ["", f"[[hooks.{event}]]"]
            lines += [] if matcher is None else [f"matcher = {_quoted(matcher)}"]
            lines += ["", f"[[hooks.{event}.hooks]]", 'type = "command"']
            lines += [f"command = {_quoted(command)}", f"timeout = {TIMEOUT_S}"]
        return "\n".join(lines)

    def _cut(self, text: str) -> str:
        is_served = bool(self._server(_read(text)))
        found = toml_text.tables(text)
        ours = [
            table
            for index, table in enumerate(found)
            if (is_served and table.name[:2] == _SERVER) or self._goes(text, found, index)
        ]
        for table in reversed(ours):
            text = toml_text.cut(text, table)
        return text

    def _goes(self, text: str, found: list[TomlTable], index: int) -> bool:
        """Return whether a table is a hook of memoryd, or a group that has no others."""
        name = found[index].name
        if len(name) == 3 and name[0] == name[2] == "hooks":
            return self._has_hook(text, found[index])
        if len(name) != 2 or name[0] != "hooks":
            return False
        below = []
        for other in found[index + 1 :]:
            if other.name == name:
                break
            if other.name == (*name, "hooks"):
                below.append(other)
        return bool(below) and all(self._has_hook(text, other) for other in below)

    def _has_hook(self, text: str, found: TomlTable) -> bool:
        _, event, _ = found.name
        data = _read(text[found.start : found.end])
        command = data["hooks"][event]["hooks"][0].get("command")
        return isinstance(command, str) and self.marker.search(command) is not None

    def _hooks(self, data: dict[str, Any]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for event, groups in _table(data.get("hooks")).items():
            for group in groups if isinstance(groups, list) else ():
                for hook in group.get("hooks", ()) if isinstance(group, dict) else ():
                    command = hook.get("command") if isinstance(hook, dict) else None
                    if isinstance(command, str) and self.marker.search(command):
                        found.setdefault(event, []).append(command)
        return found

    @staticmethod
    def _server(data: dict[str, Any]) -> dict[str, Any]:
        """Return the table of memoryd's MCP server; empty if it is missing, or not memoryd's."""
        table = _table(_table(data.get("mcp_servers")).get("memoryd"))
        command = table.get("command")
        ours = isinstance(command, str) and command.rpartition("/")[2] == "memctl"
        return table if ours else {}


def _read(text: str) -> dict[str, Any]:
    return toml.loads(text.encode())


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _has(current: object, wanted: object) -> bool:
    """Return whether a value is the wanted one, or a table that has all keys of it."""
    if isinstance(wanted, dict):
        return isinstance(current, dict) and all(_has(current.get(k), v) for k, v in wanted.items())
    return current == wanted


def _quoted(value: object) -> str:
    """Return a text or a list of texts in TOML, which has the escapes of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
