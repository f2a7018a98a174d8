"""Runs the fuzzer on a target: its input folders, its limits and its findings."""

import base64
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuzz.target import CORPUS, HERE, load

HANG_S = 20
"""Seconds after which libFuzzer reports a hang; inputs are short."""
RSS_LIMIT_MB = 1_024
"""Maximum memory of the process in MiB; Python and numpy take about 100 of it."""
START_S = 120
"""Seconds that a process may need to start and stop on a busy machine."""
SHOWN_CHARS = 3_000
MERGE_S = 1_800
KEPT_BYTES = 12 * 1024
"""Maximum bytes kept for one target; the shortest inputs are kept."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run. `broken_by` is the file of an input that broke the target, or None.

    `coverage` counts the edges of the program that were reached.
    """

    target: str
    passed: bool
    broken_by: Path | None
    output: str
    executions: int
    executions_per_s: int
    coverage: int

    def report(self) -> str:
        """Return the findings and how to repeat them, with the input, as the files may be lost."""
        output = self.output[-SHOWN_CHARS:]
        if self.broken_by is None:
            return f"{self.target}: the fuzzer itself has failed\n{output}"
        data = self.broken_by.read_bytes()
        return (
            f"{self.target} is broken by {self.broken_by}; see it again with\n"
            f"  make fuzz TARGET={self.target} INPUT={self.broken_by}\n"
            f"({len(data)} bytes; the first in base64: {base64.b64encode(data[:600]).decode()})\n"
            f"{output}"
        )


def missing() -> str | None:
    """Return the reason why fuzzing is impossible on this machine, or None."""
    if importlib.util.find_spec("atheris") is None:
        return "atheris is not installed: it has wheels for CPython 3.11 to 3.13 on Linux x86-64"
    return None


def fuzz(name: str, seconds: int, found: Path) -> Run:
    """Fuzz a target for a number of seconds in a separate process.

    `found/inputs` receives inputs that reach new code, `found/broken` inputs that break the target.
    """
    target = load(name)
    broken, news = found / "broken", found / "inputs"
    for folder in (broken, news):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(broken.iterdir())
    with tempfile.TemporaryDirectory() as temporary:
        seeds, words = Path(temporary) / "seeds", Path(temporary) / "words"
        _write_seeds(target.seeds, seeds)
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.dictionary))
        folders = [folder for folder in (news, *target.folders, seeds) if folder.is_dir()]
        ended = _engine(
            name,
            [
                *(f"-dict={words}" for _ in target.dictionary[:1]),  # must not be empty
                f"-max_len={target.max_bytes}",
                f"-max_total_time={seconds}",
                f"-artifact_prefix={broken}{os.sep}",
                "-print_final_stats=1",
                *map(str, folders),
            ],
            temporary,
            timeout_s=seconds + HANG_S + START_S,
        )
    new = sorted(set(broken.iterdir()) - before)
    return Run(
        target=name,
        passed=ended.returncode == 0,
        broken_by=new[0] if new else None,
        output=ended.stdout,
        executions=_last(r"stat::number_of_executed_units: *(\d+)", ended.stdout),
        executions_per_s=_last(r"stat::average_exec_per_sec: *(\d+)", ended.stdout),
        coverage=_last(r"cov: (\d+)", ended.stdout),
    )


def minimize(name: str, found: Path) -> None:
    """Reduce the corpus to the fewest inputs that cover all that it, seeds and `found` reach."""
    target = load(name)
    corpus = CORPUS / name
    with tempfile.TemporaryDirectory() as temporary:
        seeds, merged = Path(temporary) / "seeds", Path(temporary) / "merged"
        merged.mkdir()
        _write_seeds(target.seeds, seeds)
        folders = [folder for folder in (seeds, corpus, found / "inputs") if folder.is_dir()]
        arguments = ["-merge=1", f"-max_len={target.max_bytes}", str(merged), *map(str, folders)]
        ended = _engine(name, arguments, temporary, timeout_s=MERGE_S)
        if ended.returncode:
            raise RuntimeError(ended.stdout[-SHOWN_CHARS:])
        corpus.mkdir(parents=True, exist_ok=True)
        for old in corpus.iterdir():
            old.unlink()
        room = KEPT_BYTES
        for kept in sorted(merged.iterdir(), key=lambda path: path.stat().st_size):
            room -= kept.stat().st_size
            if room >= 0:
                shutil.copyfile(kept, corpus / kept.name)


def _write_seeds(seeds: tuple[bytes, ...], folder: Path) -> None:
    """Write seeds to files named by their content, as libFuzzer names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def _engine(
    name: str, arguments: list[str], temporary: str, *, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    program = Path(temporary) / "engine"
    command = shlex.join([sys.executable, "-m", "fuzz.engine", str(program), name])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o700)
    bounds = [f"-timeout={HANG_S}", f"-rss_limit_mb={RSS_LIMIT_MB}"]
    return subprocess.run(
        # Executing the file itself fails with "busy" while another thread's new process has it
        # open.
        ["sh", str(program), *bounds, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(HERE.parent),
            "PYTHONDEVMODE": "",
            "TMPDIR": temporary,  # libFuzzer exits without running any clean-up
        },
        cwd=HERE.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def _last(pattern: str, text: str) -> int:
    numbers = re.findall(pattern, text)
    return int(numbers[-1]) if numbers else 0


def _escaped(word: bytes) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02x}"
        for byte in word
    )
