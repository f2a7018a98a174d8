"""A real memoryd in a separate process, with its own workspace, index and socket."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memoryd.config.load import AgentConfig, load
from memoryd_client import Client, MemorydError

READY_S = 60.0
STOP_S = 30.0


INSPECTABLE = ("-m", "bench.inspectable")
"""Python arguments for a daemon whose open files are counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folder of one benchmark, removed afterwards."""

    root: Path

    @property
    def workspace(self) -> Path:
        """The folder with the notes."""
        return self.root / "workspace"

    @property
    def socket(self) -> str:
        """The path of the daemon's socket."""
        return str(self.root / "m.sock")

    def configure(self, settings: str) -> AgentConfig:
        """Write a configuration file, `settings` being TOML for `[defaults]`, and load it."""
        file = self.root / "config.toml"
        paths = f'workspace = "{self.workspace}"\nstore.path = "{self.root}/index.sqlite"\n'
        file.write_text(f"[defaults]\n{settings}\n[agents.main]\n{paths}", encoding="utf-8")
        return load(file)[0]

    def client(self) -> Client:
        """Return a client of this daemon."""
        return Client(self.socket, timeout_s=None, wait_s=READY_S)


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Create a place with a short path, because socket paths must be short."""
    with tempfile.TemporaryDirectory(prefix="mbench-", dir="/tmp") as root:
        made = Place(Path(root))
        made.workspace.mkdir()
        yield made


@contextlib.contextmanager
def daemon(
    where: Place,
    variables: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "memoryd"),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run memoryd on a configured place; it logs to `memoryd.log`.

    `variables` are added to its environment; `program` are the Python arguments that start it. A
    `MemorydError` of the block is raised again with the end of the log.
    """
    log_path = where.root / "memoryd.log"
    command = [sys.executable, *program, "--config", str(where.root / "config.toml")]
    command += ["--socket", where.socket, "--log-level", "warning"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=environment() | dict(variables or {}), stderr=log)
    try:
        yield process
    except MemorydError as error:
        raise MemorydError(f"{error}; memoryd's log: {log_path.read_text()[-2000:]}") from error
    finally:
        process.terminate()
        process.wait(timeout=STOP_S)


def until_ready(where: Place) -> float:
    """Wait until the daemon answers a ping. Returns the seconds from now."""
    started = time.perf_counter()
    with where.client() as client:
        client.ping()
    return time.perf_counter() - started


def environment() -> dict[str, str]:
    """Return the environment for children, which may write compiled modules."""
    return {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process. Linux only."""
    return _memory(pid, "VmRSS")


def anonymous_bytes(pid: int) -> int:
    """Return the resident memory of a process without pages of files. Linux only."""
    return _memory(pid, "RssAnon")


def peak_bytes(pid: int) -> int:
    """Return the maximum resident memory of a process so far. Linux only."""
    return _memory(pid, "VmHWM")


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values[name].split()[0]) * 1024
