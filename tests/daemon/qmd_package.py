"""A package of QMD whose program is a double, beside a daemon that uses it as its back end."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import Daemon
from waiting import eventually

from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import BackendStatus

DOUBLE = Path(__file__).with_name("qmd_double.py")
SECRET = "sk-proj-" + "Ab12" * 12
NOTES = {
    "MEMORY.md": "# Memory\n\nThe quince tree is Ana's.\n",
    "memory/2026-08-14 Big Day.md": "# Friday\n\nBought milk.\n\n## Garden\n\nA quince fell.\n",
    "memory/old/2019-01-02.md": "The quince was planted.\n",
    "memory/.memoryignore": "hidden.md\n",
    "memory/hidden.md": "A hidden quince.\n",
}


class Qmd:
    """The double's package beside a daemon, which is configured for it and not started yet."""

    def __init__(self, daemon: Daemon, backend: str = "qmd", settings: str = "") -> None:
        self.daemon = daemon
        self.backend = backend
        self.package = daemon.folder / "package"
        script = self.package / "dist/cli/qmd.js"
        script.parent.mkdir(parents=True)
        script.touch()
        self.version("2.8.3")
        self.faults()
        node = daemon.folder / "node"
        program = daemon.folder / "double.py"
        program.write_text(DOUBLE.read_text())
        node.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {program} "$@"\n')
        node.chmod(0o755)
        self.node_version("v24.1.0")
        daemon.settings += (
            f'\nbackend = "{backend}"\n'
            f'[defaults.qmd]\ncommand = "{self.package}"\nnode = "{node}"\n{settings}'
        )

    def version(self, version: str) -> None:
        (self.package / "package.json").write_text(json.dumps({"version": version}))

    def node_version(self, version: str) -> None:
        (self.daemon.folder / "node-version").write_text(version)

    def faults(self, *faults: str) -> None:
        (self.package / "faults").write_text(" ".join(faults))

    def start(self, *, ready: bool = True) -> None:
        """Start the daemon with its notes, and wait until QMD has indexed them."""
        for path, text in NOTES.items():
            self.daemon.write(path, text)
        self.daemon.start().sync()
        if ready:
            eventually(lambda: self.search().backend == "qmd" and self.status().way == "http")

    def search(self, query: str = "quince", **options: Any) -> SearchResult:
        return self.daemon.search(query, **options)

    def status(self) -> BackendStatus:
        with self.daemon.client() as client:
            found = client.status().backend_status
        assert found is not None
        return found

    def calls(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.package / "calls").read_text().split()
        return []

    def pid(self) -> int:
        pid = self.status().pid
        assert pid is not None
        return pid

    def stands_in(self, reason: str) -> SearchResult:
        """Check that the built-in index answers for QMD, for a reason."""
        result = self.search()
        assert result.backend == "builtin"
        assert result.backend_fallback is not None
        assert result.backend_fallback.from_ == "qmd"
        assert reason in result.backend_fallback.reason
        assert any(reason in warning for warning in result.warnings)
        assert "memory/2026-08-14 Big Day.md" in {hit.path for hit in result.results}
        return result


def files_with(daemon: Daemon, text: bytes) -> list[Path]:
    """Return the files of QMD that contain a text, its index and its log included."""
    files = (file for file in daemon.folder.rglob("state/memoryd/qmd/**/*") if file.is_file())
    found = []
    for file in files:
        with suppress(FileNotFoundError):
            if text in file.read_bytes():
                found.append(file)
    return found
