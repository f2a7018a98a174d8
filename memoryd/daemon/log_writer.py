"""Log handler with a writer thread, so that a hung terminal, pipe or disk blocks nobody."""

import errno
import logging
import os
import stat
import sys
import threading
from collections import deque
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import TextIO

from memoryd_client.shared import ownership
from memoryd_client.shared.log_line import escaped

LOG_MAX_BYTES = 5 * 1024 * 1024
"""Maximum size of the log file. One older file is kept."""
MAX_WAITING = 10_000
"""Maximum number of unwritten lines. Further lines are counted, and the count is logged later."""
FLUSH_S = 1.0
"""Seconds to write the remaining lines at exit."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Log(logging.Handler):
    """Log handler that passes lines to a thread, which writes them with `target`."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, unless too many are queued."""
        line = self.format(record)
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._lost += 1
                return
            if self._lost:
                self._waiting.append(
                    f"{self._lost} log lines were lost because nothing read the log"
                )
                self._lost = 0
            self._waiting.append(line)
            self._changed.notify_all()

    def flushed(self, limit_s: float) -> bool:
        """Wait until all lines are written; return False after `limit_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, limit_s)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                line = self._waiting[0]
            self._target.handle(logging.makeLogRecord({"msg": line}))
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()


class LineFormatter(logging.Formatter):
    """Formatter whose lines no file name, note or answer of a server can forge.

    A message is one line, without characters that control a terminal. The lines of a traceback,
    whose exceptions have messages too, are indented.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        """Return the lines of a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the lines of a stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"  {escaped(line)}" for line in text.split("\n"))


class _ToStream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop a line that can't be written: there is nowhere to report it."""


class _ToFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop a line that can't be written: there is nowhere to report it."""


def log_to(file: Path | None, level: str) -> Log:
    """Log to a rotating file, or to standard error.

    Raises `OSError`, also if somebody else could change or replace the file.
    """
    target: logging.Handler = _ToStream(sys.stderr)
    if file is not None:
        os.close(_opened(file))
        _keep_private(file.with_name(f"{file.name}.1"))
        target = _ToFile(
            file, maxBytes=LOG_MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    log = Log(target)
    log.setFormatter(LineFormatter(FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[log])
    # Its debug mode logs every process and slow callback.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # It logs every statement with its parameters, so queries and notes.
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    return log


def flushed(limit_s: float) -> bool:
    """Wait until the log is written; return False after `limit_s`."""
    handlers = logging.getLogger().handlers
    return all(h.flushed(limit_s) for h in handlers if isinstance(h, Log))


def _opened(file: Path) -> int:
    """Open the log file. Raises `OSError` for a pipe without a reader instead of waiting."""
    try:
        is_regular = stat.S_ISREG(file.stat().st_mode)
    except FileNotFoundError:
        is_regular = True
    if is_regular:
        _keep_private(file)
        with suppress(FileNotFoundError):
            ownership.check_file(str(file))
    try:
        log = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "nobody reads this pipe; name a file") from error
        raise
    try:
        if is_regular:
            ownership.check_own(os.fstat(log), str(file))
    except BaseException:
        os.close(log)
        raise
    return log


def _keep_private(log_file: Path) -> None:
    """Remove the permissions of other users from a log file made with another umask."""
    with suppress(OSError):
        found = log_file.lstat()
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if is_ours and stat.S_IMODE(found.st_mode) & 0o077:
            log_file.chmod(0o600)
