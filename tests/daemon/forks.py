"""Daemons, doctors and clients as forks of a process that has imported them.

The imports take most of the processor time of a start. A fork has a folder, variables, a module
path, streams, signals and an exit code of its own. In /proc it has the command line and the
variables of the server, and all forks share a hash seed.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).parents[2]
AVAILABLE = sys.platform == "linux"
"""Elsewhere a process that has loaded libraries of the system may crash when it is forked."""
_ANSWER_BYTES = 32


class Fork:
    """A fork of the server, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self._code: int | None = None
        self._end = end

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises `subprocess.TimeoutExpired`."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout_s: float | None) -> int | None:
        if self._code is None:
            self._end.settimeout(timeout_s)
            with suppress(BlockingIOError, TimeoutError):
                self._code = int(self._end.recv(_ANSWER_BYTES))
                self._end.close()
        return self._code


def fork(
    command: list[str],
    variables: dict[str, str],
    folder: Path,
    *,
    stderr: IO[bytes],
    stdout: IO[bytes] | None = None,
) -> Fork:
    """Run a command in a folder; its first word is `memoryd` or `memctl`."""
    control = _server()
    request = {"command": command, "variables": variables, "folder": str(folder)}
    mine, its = socket.socketpair()
    with its:
        out = 1 if stdout is None else stdout.fileno()
        descriptors = [out, stderr.fileno(), its.fileno()]
        socket.send_fds(control, [json.dumps(request).encode() + b"\n"], descriptors)
    return Fork(int(control.recv(_ANSWER_BYTES)), mine)


def run(
    command: list[str], variables: dict[str, str], folder: Path, *, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it prints."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = fork(command, variables, folder, stdout=out, stderr=err)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read().decode())
    return subprocess.CompletedProcess(command, code, *printed)


@cache
def _server() -> socket.socket:
    """Start the server of this process, which ends with it; return the socket for requests."""
    mine, its = socket.socketpair()
    folders = (REPOSITORY, REPOSITORY / "client", Path(__file__).parent)
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        **{name: os.environ[name] for name in ("PYTHONMALLOC",) if name in os.environ},
    }
    # Not `-X dev`: asyncio's debug mode notes the stack of each task and callback, which takes a
    # quarter of the time of a short daemon. Daemons in processes of their own have it.
    flags = ("-X", "faulthandler", "-W", "error")
    with its:
        process = subprocess.Popen(
            [sys.executable, *flags, "-m", "fork_server", str(its.fileno())],
            env=variables,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )

    def end() -> None:
        mine.close()
        process.wait()

    atexit.register(end)
    return mine
