"""Start of memoryd as a separate process that outlives its parent and the terminal."""

import os
import signal
import stat
import subprocess
import sys
import threading
from shutil import which

from memoryd_client.launcher.errors import StartFailedError
from memoryd_client.shared import service_manager
from memoryd_client.shared.safe_open import open_regular

OUTPUT_LINES = 10
"""Last lines of a failed daemon's output that an error carries."""
_OUTPUT_BYTES = 64 * 1024
_EXPLANATION = "memoryd: "
"""Prefix of the line with which the daemon reports its reason to exit."""

EXIT_LOCKED = 3
_MEANINGS = {
    0: "it was stopped",
    1: "it crashed",
    2: "it does not support one of the options",
    EXIT_LOCKED: "another memoryd holds the socket or the index",
    78: "the configuration, the workspace, the socket or the index can't be used",
}


class Child:
    """A started daemon that does not answer yet. Always `let_go` of it."""

    def __init__(self, argv: list[str], *, cwd: str | None, log_path: str) -> None:
        """Start it and append its output to the log. Raises `StartFailedError`."""
        self.log_path = log_path
        try:
            os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
            # Without O_NONBLOCK, a pipe without a reader would block here.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
            log = os.open(log_path, flags, 0o600)
            os.set_blocking(log, True)
        except OSError as error:
            raise StartFailedError(f"can't write the log {log_path}: {error.strerror}") from error
        try:
            found = os.fstat(log)
            self._offset = found.st_size
            if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(log, 0o600)  # created under another umask
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=service_manager.without_manager(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Keeps signals of this terminal and process group away.
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailedError(f"can't run {argv[0]}: {error.strerror}") from error
        finally:
            os.close(log)
        self.pid = self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit code, minus the signal that killed it, or None while it runs."""
        return self._process.poll()

    def is_it(self, pid: int) -> bool:
        """Return whether a process is this one, or a child of it if it is a wrapper."""
        try:
            return pid == self.pid or os.getsid(pid) == self.pid
        except (ProcessLookupError, PermissionError):
            return False

    def let_go(self) -> None:
        """Detach from it; a thread reaps it if it exits before this process."""
        if self._process.poll() is None:
            threading.Thread(target=self._process.wait, name="memoryd", daemon=True).start()

    def failure(self, code: int) -> StartFailedError:
        """Return the error for a daemon that exited with this code instead of serving."""
        output = self._output()
        explained = [line for line in output if line.startswith(_EXPLANATION)]
        written = [line for line in output if line.strip()]
        if explained:
            reason = explained[-1].removeprefix(_EXPLANATION)
        else:
            reason = ": ".join([f"{_meaning(code)} (exit code {code})", *written[-1:]])
        error = StartFailedError(
            f"memoryd did not start: {reason}", hint=f"see its log, {self.log_path}"
        )
        error.output = tuple(output)
        return error

    def _output(self) -> list[str]:
        """Return the last lines written since the start."""
        try:
            with open_regular(self.log_path) as log:
                size = os.fstat(log.fileno()).st_size
                # A smaller log was rotated meanwhile.
                begin = self._offset if size >= self._offset else 0
                log.seek(max(begin, size - _OUTPUT_BYTES))
                text = log.read(_OUTPUT_BYTES).decode("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[-OUTPUT_LINES:]


def program() -> str:
    """Return the path of `memoryd`: beside this interpreter, else in PATH.

    Raises `StartFailedError`.
    """
    beside = os.path.dirname(sys.executable)
    found = (which("memoryd", path=beside) if beside else None) or which("memoryd")
    if found is None:
        raise StartFailedError(
            "memoryd is neither beside this Python nor in PATH",
            hint="install memoryd, or add its folder to PATH",
        )
    return os.path.abspath(found)


def placed(argv: list[str], *, socket_path: str, log_path: str) -> list[str]:
    """Return a command line with its socket and log replaced."""
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ("--socket", "--log-file"):
            next(words, None)
        elif not word.startswith(("--socket=", "--log-file=")):
            kept.append(word)
    return [*kept, "--socket", socket_path, "--log-file", log_path]


def _meaning(code: int) -> str:
    if code >= 0:
        return _MEANINGS.get(code, "it exited")
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return "it was killed"
