"""`memctl` as a process of its own, for tests of signals, pipes and terminals."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import memoryd_client


@contextmanager
def process(
    *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, locale: str = "C"
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `memctl` as a process of its own."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": folder, "LC_ALL": locale}
    command = [sys.executable, "-m", "memoryd_client.memctl", *words]
    with subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr) as running:
        yield running
