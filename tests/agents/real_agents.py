"""Installed agents with a scratch home, a dummy key and a scripted model instead of the network."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from scripted_model import Body

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
INSTALLED = BIN.parent / "agents" / "node_modules"
TIMEOUT_S = 180
"""Seconds until a hanging agent is killed; OpenClaw takes up to 40."""
_HOOK = re.compile(rb"memctl hook \w+ \w+\b(?! --timeout)")
CONFIGURATION = """\
[defaults.sync.sessions]  # Only a hook or `sync` has a transcript indexed.
delta_bytes = 1_000_000_000
delta_messages = 1_000_000_000
idle_seconds = 1_000_000_000.0

[agents.main]
workspace = "~/notes"
"""


class ScratchHome:
    """A scratch home with notes and a running memoryd, in which agents find the scripted model."""

    def __init__(self, notes: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="md-", dir="/tmp"))
        self.variables: dict[str, str] = {}
        self.project = self.folder / "project"
        self.project.mkdir()
        self.write(".config/memoryd/config.toml", CONFIGURATION)
        for path, text in notes.items():
            self.write(f"notes/{path}", text)

    def __enter__(self) -> "ScratchHome":
        self.memctl("start")
        self.memctl("sync")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.memctl("stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        nodes = (str(node / "bin") for node in INSTALLED.glob("node-*-*64"))
        path = (*nodes, str(INSTALLED / ".bin"), str(BIN), os.environ["PATH"])
        shown = {"TERM": "dumb", "NO_COLOR": "1"}
        return {"HOME": str(self.folder), "PATH": os.pathsep.join(path)} | shown | self.variables

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *command: str) -> str:
        """Run a command in the project's folder and return its output. Raises AssertionError."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def memctl(self, *arguments: str) -> str:
        return self.run("memctl", *arguments)

    def search(self, query: str, *options: str) -> Any:
        return json.loads(self.memctl("search", query, "--json", *options))["results"]

    def make_hooks_patient(self) -> None:
        """Let hooks answer late, because a busy machine must not decide the outcome of a test."""
        for name, content in self.snapshot().items():
            changed = _HOOK.sub(rb"\g<0> --timeout 60", content)
            changed = changed.replace(b'"options": []', b'"options": ["--timeout", "60"]')
            if changed != content:
                (self.folder / name).write_bytes(changed)

    def snapshot(self) -> dict[str, bytes]:
        """Return the content of every file, apart from notes, project and the state of memoryd."""
        others = ("project/", "notes/", ".local/state/memoryd/")
        files = (path for path in self.folder.rglob("*") if path.is_file())
        names = {path.relative_to(self.folder).as_posix(): path for path in files}
        return {
            name: path.read_bytes() for name, path in names.items() if not name.startswith(others)
        }


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its files before memoryd, its command line, and its call of a memory tool.

    `files` returns the text of each configuration file for the address of the model.
    """

    name: str
    files: Callable[[str], dict[str, str]]
    variables: Callable[[str], dict[str, str]]
    command: tuple[str, ...]
    indirect: bool = False
    """Whether the agent hides tools behind one that calls them."""

    def prepare(self, home: ScratchHome, model_url: str) -> None:
        """Make the agent one that its user has configured, as people do: with odd formatting."""
        for path, text in self.files(model_url).items():
            home.write(path, text)
        home.variables |= self.variables(model_url)

    def call(self, tool: str, arguments: Body) -> tuple[str, Body]:
        """Return the tool that the model has to call, and its arguments."""
        return (
            ("tool_call", {"id": tool, "args": arguments}) if self.indirect else (tool, arguments)
        )


CLAUDE = Agent(
    "claude",
    lambda url: {
        ".claude.json": '{"numStartups":  7,\n "mcpServers": {}}',
        ".claude/settings.json": """\
{
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
    "includeCoAuthoredBy":false }
""",
    },
    lambda url: {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    ("claude", "--print"),
)

CODEX = Agent(
    "codex",
    lambda url: {
        ".codex/config.toml": f"""\
model = 'scripted'   # not a real one
model_provider = "loopback"

[model_providers.loopback]
name="Loopback"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"

[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
command = "true"   # no final newline:"""
    },
    lambda url: {"LOOPBACK_KEY": "dummy"},
    ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
)

GEMINI = Agent(
    "gemini",
    lambda url: {
        ".gemini/settings.json": """\
{
  // comments are allowed here
  "security": {"auth": {"selectedType": "gemini-api-key"}},
\t"hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "true"}]}]}
}
"""
    },
    lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"},
    ("gemini", "--skip-trust", "--model", "gemini-2.5-flash", "--prompt"),
)

OPENCLAW = Agent(
    "openclaw",
    lambda url: {
        ".openclaw/openclaw.json": json.dumps(
            {
                "models": {
                    "providers": {
                        "loopback": {
                            "baseUrl": url,
                            "apiKey": "dummy",
                            "api": "anthropic-messages",
                            "models": [{"id": "scripted", "name": "Scripted"}],
                        }
                    }
                },
                "agents": {
                    "defaults": {
                        "model": "loopback/scripted",
                        "skipBootstrap": True,
                        "workspace": "~/notes",
                    }
                },
            },
            indent=4,
        )
    },
    lambda url: {},
    ("openclaw", "agent", "--local", "--session-id", "first", "--message"),
    indirect=True,
)

AGENTS = {agent.name: agent for agent in (CLAUDE, CODEX, GEMINI, OPENCLAW)}
