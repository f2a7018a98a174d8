"""A scratch home with a program `memctl` in it, for the tests of `memctl connect`."""

import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from memctl import main as memctl

_PROGRAM = """\
#!{python}
import json, os, sys

if sys.argv[1] == "hook":
    sys.stdin.read()
    added = {{"hookEventName": sys.argv[3], "additionalContext": "a note"}}
    print(json.dumps({{"hookSpecificOutput": added}}))
for line in sys.stdin if sys.argv[1] == "mcp" else ():
    message = json.loads(line)
    if message["method"] == "tools/call":
        text = "No match." + os.environ.get("SECRET", "")
        result = {{"content": [{{"type": "text", "text": text}}], "isError": {fails}}}
    else:
        result = {{"protocolVersion": "2025-06-18", "capabilities": {{}}}}
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""

VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "MEMORYD_SOCKET"),
    *("OPENCLAW_CONFIG_PATH", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR"),
    *("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
)


class Home:
    """A home folder; `memctl` runs a command as if the program in it had been called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.program = folder / "bin" / "memctl"
        self.install()
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setattr(sys, "argv", [str(self.program)])

    def install(self, *, fails: bool = False) -> None:
        """Install a `memctl` whose memory answers, or fails."""
        self.program.parent.mkdir(exist_ok=True)
        self.program.write_text(_PROGRAM.format(python=sys.executable, fails=fails))
        self.program.chmod(0o755)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def memctl(self, *words: str, code: int = 0) -> None:
        assert memctl.main([*words]) == code

    def files(self) -> dict[str, Any]:
        """Return the content and mode of all files, and all folders, but for memoryd's state."""
        found: dict[str, Any] = {}
        for path in self.folder.rglob("*"):
            name = path.relative_to(self.folder).as_posix()
            if name.startswith((".local", "bin")):
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            found[name] = (mode, path.read_bytes() if path.is_file() else None)
        return found

    def state(self) -> list[Path]:
        """Return the files of the journal."""
        return sorted((self.folder / ".local/state/memoryd/connect").glob("*"))


@contextmanager
def scratch_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Make a home whose path is short enough for a socket."""
    with TemporaryDirectory(prefix="mc-", dir="/tmp") as folder:
        yield Home(Path(folder), monkeypatch)
