"""`memctl` in a separate process, for tests of signals, pipes and terminals."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from termios import tcsetwinsize
from typing import Self

import memoryd_client


@contextmanager
def process(
    *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, locale: str = "C"
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `memctl` in a separate process."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": folder, "LC_ALL": locale}
    command = [sys.executable, "-m", "memctl", *words]
    with subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr) as running:
        yield running


class Terminal:
    """A terminal that collects the output of a process as it arrives."""

    def __init__(self, *, columns: int = 0) -> None:
        self._ours, self.end = pty.openpty()
        self._is_open = True
        self._shown = b""
        tcsetwinsize(self.end, (24, columns))

    def until(self, text: str) -> None:
        """Wait until the output contains this text."""
        while text.encode() not in self._shown:
            more = self._read()
            assert more, f"{text!r} never appeared, only {self._shown!r}"
            self._shown += more

    def whole(self) -> str:
        """Return the whole output after all writers have closed the terminal."""
        self._hang_up()
        while more := self._read():
            self._shown += more
        return self._shown.decode()

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 4096)
        except OSError:  # Linux reports this way that no process has the other end open
            return b""

    def _hang_up(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()
        os.close(self._ours)
