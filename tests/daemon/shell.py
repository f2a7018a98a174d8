"""A bash session in a copy of the tree with its own home, for the documentation's commands."""

import contextlib
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness import REPOSITORY
from waiting import PATIENCE_S, eventually

from memoryd_client import Client
from memoryd_client.shared import lock_holder

HOME_SHOWN = "/home/ada"
RUNTIME_SHOWN = "/run/user/1000"

_END = re.compile(rb"\x1e(\d+)\n")
_READ_BYTES = 65536
_PYTHON = """
import ast, asyncio, inspect, sys
code = compile(sys.argv[1], "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
if inspect.iscoroutine(running := eval(code, {"__name__": "__main__"})):
    asyncio.run(running)
"""


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of a command on standard output and standard error, in order."""

    text: str
    code: int


class Shell:
    """One session: a context manager that always removes its processes and files.

    The current folder is `~/memoryd`, with the files that the documentation's commands need. Only
    PATH is inherited; sockets, indexes and configuration are below the new home.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="md-", dir="/tmp")).resolve()
        self.home = self.folder / "home"
        self.tree = self.home / "memoryd"
        self.runtime = self.folder / "run"
        self.runtime.mkdir()
        self.socket = self.runtime / "memoryd" / "memoryd.sock"
        programs = Path(sys.executable).parent
        for name in ("examples", "systemd"):
            shutil.copytree(REPOSITORY / name, self.tree / name)
        (self.tree / ".venv").symlink_to(programs.parent)
        self.environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "MEMORYD_SOCKET": str(self.socket),
            "LC_ALL": "C.UTF-8",
        }
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.tree,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> "Shell":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Nobody has waited for bash yet, so its number can't belong to another process group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        for lock in self.folder.rglob("*.lock"):
            if (
                lock_holder.is_held(str(lock))
                and (daemon := lock_holder.read(str(lock))) is not None
            ):
                os.kill(daemon.pid, signal.SIGKILL)
                eventually(lambda lock=lock: not lock_holder.is_held(str(lock)))  # type: ignore[misc]
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: str) -> Printed:
        """Run a command in the session and return its output; background jobs go on."""
        assert self.process.stdin is not None
        # Without its own standard input it would read the next command.
        line = f"{{ {command}\n}} </dev/null\nprintf '\\036%d\\n' $?\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self._until_end(command)

    def _until_end(self, command: str) -> Printed:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        deadline = time.monotonic() + PATIENCE_S
        read = b""
        while (end := _END.search(read)) is None:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no end of {command!r}; so far: {read.decode(errors='replace')}"
            more = os.read(pipe, _READ_BYTES)
            assert more, f"{command!r} ended the session: {read.decode(errors='replace')}"
            read += more
        return Printed(self._as_shown(read[: end.start()]), int(end[1]))

    def run_python(self, code: str) -> Printed:
        """Run Python, with top-level `await`, and with every warning an error."""
        with self._running(python(code)) as (process, output):
            code_of_exit = process.wait(timeout=PATIENCE_S)
        return Printed(self._as_shown(output.read_bytes()), code_of_exit)

    def run_until(self, is_enough: Callable[[str], bool], command: list[str]) -> str:
        """Run a command that must be interrupted, and return its output up to then.

        Meanwhile a note is saved repeatedly. `is_enough` decides by the output when to interrupt.
        """
        note = self.tree / "examples/workspace/memory/keys.md"
        days = itertools.count(1)
        with self._running(command) as (process, output), Client(str(self.socket)) as client:

            def text() -> str:
                return self._as_shown(output.read_bytes())

            def saved() -> bool:
                note.write_text(f"The spare key is with Dona Fernanda, day {next(days)}.\n")
                client.sync()
                assert process.poll() is None, f"{command} has ended: {text()}"
                return is_enough(text())

            eventually(saved)
            note.unlink()
            client.sync()
            return text()

    @contextlib.contextmanager
    def _running(self, command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        output = self.folder / "output"
        with open(output, "wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process, output
        finally:
            process.kill()
            process.wait()

    def _as_shown(self, read: bytes) -> str:
        text = read.decode(errors="replace")
        return text.replace(str(self.home), HOME_SHOWN).replace(str(self.runtime), RUNTIME_SHOWN)


def python(code: str) -> list[str]:
    """Return the command that runs a Python example with unbuffered output."""
    return [sys.executable, "-u", "-X", "dev", "-W", "error", "-c", _PYTHON, code]
