"""`memctl` as a process of its own, for tests of signals, pipes and terminals."""

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
    """Run `memctl` as a process of its own."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": folder, "LC_ALL": locale}
    command = [sys.executable, "-m", "memctl", *words]
    with subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr) as running:
        yield running


class Terminal:
    """A terminal a process writes on; what it has written comes in pieces, whenever it likes."""

    def __init__(self, *, columns: int = 0) -> None:
        self._ours, self.end = pty.openpty()
        self._is_open = True
        self._shown = b""
        tcsetwinsize(self.end, (24, columns))

    def until(self, text: str) -> None:
        """Return once this has been shown."""
        while text.encode() not in self._shown:
            more = self._read()
            assert more, f"{text!r} was never shown, only {self._shown!r}"
            self._shown += more

    def whole(self) -> str:
        """Return all that has been shown, when all who write on it have ended."""
        self._hang_up()
        while more := self._read():
            self._shown += more
        return self._shown.decode()

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 4096)
        except OSError:  # how Linux tells that nobody has the other end any more
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
