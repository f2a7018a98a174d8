"""A daemon's folder for the doctor: built once without errors, and restored for each test."""

import contextlib
import io
import json
import logging
import os
import shutil
from typing import Any

import pytest
from harness import Daemon

from memoryd.__main__ import main
from memoryd.index.driver import bundled_extension, load_extension, sqlite
from memoryd.index.quantize import encode

Findings = list[tuple[str, str, str]]
SETTINGS = "sync = { watch_debounce_ms = 20 }"
NOTE = "# Boiler\n\nThe pressure is 1.5 bar.\n"


def bad(found: Any) -> Findings:
    """Return (check, level, message) of all findings that are not ok."""
    return [
        (finding["check"], finding["level"], finding["message"])
        for finding in found["findings"]
        if finding["level"] != "ok"
    ]


def errors(found: Any) -> Findings:
    return [finding for finding in bad(found) if finding[1] == "error"]


class Patient(Daemon):
    """An intact index; each test gets it in its original state."""

    def build(self) -> None:
        self.write("MEMORY.md", NOTE)
        self.write("memory/garden.md", "# Garden\n\nThe apple tree was planted in 2019.\n")
        self.start()
        self.sync()
        assert self.stop() == 0
        shutil.copytree(self.folder / "state", self.folder / "kept", copy_function=shutil.copy2)
        shutil.copytree(self.workspace, self.folder / "notes", copy_function=shutil.copy2)

    def restore(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for name, kept in (("state", "kept"), ("workspace", "notes")):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.folder / kept, self.folder / name, copy_function=shutil.copy2)
        self.socket = self.folder / "s"
        for file in (self.socket, self.config):
            file.unlink(missing_ok=True)
        for name in (*self.agents, "added", "chats"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.agents.clear()
        self.variables.clear()
        self.settings = SETTINGS
        self.write_config()

    def doctor(self, *options: str, code: int | None = None) -> Any:
        """Run the command in this process, which takes a tenth of the time."""
        command = ["doctor", "--json", "--config", str(self.config), *options]
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            for name, value in self.environment.items():
                patch.setenv(name, value)
            umask = os.umask(0o022)
            try:
                status = main(command)  # it changes the umask
            finally:
                os.umask(umask)
                logging.disable(logging.NOTSET)
        self.exit_code = status
        found = json.loads(printed.getvalue())
        assert code is None or status == code, (status, bad(found))
        return found

    def sql(self, *statements: str, vec: bool = False) -> list[Any]:
        """Change the index while the daemon is stopped; return the rows of the last statement."""
        connection = sqlite.connect(str(self.database), isolation_level=None)
        try:
            connection.create_function("encode", 3, encode)
            if vec:
                load_extension(connection, bundled_extension())
            *_, rows = [connection.execute(statement).fetchall() for statement in statements]
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return list(rows)
        finally:
            connection.close()
