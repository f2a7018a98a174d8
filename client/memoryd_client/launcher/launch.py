"""Start of memoryd as a separate process that outlives its parent and the terminal."""

import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from shutil import which

from memoryd_client.launcher.errors import StartFailedError
from memoryd_client.shared import ownership, service_manager
from memoryd_client.shared.lock_holder import OPTIONS, Holder
from memoryd_client.shared.log_line import decoded

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
        log = open_log(log_path)
        try:
            self._offset = os.fstat(log).st_size
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
        except (OSError, ValueError) as error:  # ValueError: a NUL in an option
            reason = getattr(error, "strerror", None) or error
            raise StartFailedError(f"can't run {argv[0]}: {reason}") from error
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
            with os.fdopen(ownership.open_own(self.log_path), "rb") as log:
                size = os.fstat(log.fileno()).st_size
                # A smaller log was rotated meanwhile.
                begin = self._offset if size >= self._offset else 0
                log.seek(max(begin, size - _OUTPUT_BYTES))
                lines = log.read(_OUTPUT_BYTES).splitlines()
        except OSError:
            return []
        return [decoded(line) for line in lines[-OUTPUT_LINES:]]


def open_log(path: str) -> int:
    """Open a log to append to it, created with its folder if missing; return its descriptor.

    Raises `StartFailedError`, also if somebody else could change the log.
    """
    folder = os.path.dirname(path)
    try:
        with suppress(FileNotFoundError):
            ownership.check_folder(folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        ownership.check_folder(folder)
        # Without O_NONBLOCK, a pipe without a reader would block here.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        log = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        linked = error.errno == errno.ELOOP
        raise _bad_log(path, "it is a symbolic link" if linked else error.strerror) from error
    try:
        found = os.fstat(log)
        ownership.check_own(found, path)
        if found.st_mode & 0o077:
            os.fchmod(log, 0o600)  # created under another umask
        os.set_blocking(log, True)
    except OSError as error:
        os.close(log)
        raise _bad_log(path, error.strerror) from error
    return log


def _bad_log(path: str, reason: str | None) -> StartFailedError:
    return StartFailedError(f"can't write the log {path}: {reason}", hint="move it away")


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


def kept_options(holder: Holder) -> list[str]:
    """Return the options with which the holder of a lock was started, for the same program.

    Raises `StartFailedError` if they or the folder are unknown.
    """
    options = holder.options
    unknown = [] if options is None else sorted(options.keys() - set(OPTIONS))
    if options is None:
        reason = "an older version started it, so its options are unknown"
    elif unknown:
        reason = f"this version doesn't know its options {', '.join(unknown)}"
    elif not os.path.isdir(holder.cwd):
        reason = f"its folder {holder.cwd or '(unknown)'} no longer exists"
    else:
        # In one word, no value can be taken for another option.
        return [f"--{name}={value}" for name, value in sorted(options.items())]
    raise StartFailedError(
        f"memoryd (process {holder.pid}) can't be restarted: {reason}",
        hint="`memctl stop`, then `memctl start` with the same options",
    )


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
