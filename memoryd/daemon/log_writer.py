"""The log, written by a thread: a terminal, pipe or disk that hangs keeps nobody waiting."""

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
from typing import TextIO

LOG_MAX_BYTES = 5 * 1024 * 1024
"""Of a log file; one older one is kept."""
MAX_WAITING = 10_000
"""Lines that wait to be written; more are counted, and told of once there is room."""
FLUSH_S = 1.0
"""For what is still to be written, at the end."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Log(logging.Handler):
    """Hands lines to a thread that writes them with `target`."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written soon, unless too many wait."""
        line = self.format(record)
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._lost += 1
                return
            if self._lost:
                self._waiting.append(f"{self._lost} lines of the log were lost: nobody took them")
                self._lost = 0
            self._waiting.append(line)
            self._changed.notify_all()

    def flushed(self, limit_s: float) -> bool:
        """Wait until all is written; False when that takes too long."""
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


class _ToStream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Let a line go that can't be written: there is nowhere to say so."""


class _ToFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Let a line go that can't be written: there is nowhere to say so."""


def log_to(file: Path | None, level: str) -> Log:
    """Log to a file that never grows large, or to standard error. Raises `OSError`."""
    target: logging.Handler = _ToStream(sys.stderr)
    if file is not None:
        os.close(_opened(file))
        for path in (file, file.with_name(f"{file.name}.1")):
            _keep_private(path)
        target = _ToFile(
            file, maxBytes=LOG_MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    log = Log(target)
    logging.basicConfig(level=level.upper(), handlers=[log], format=FORMAT)
    # Its debug mode tells of every process and slow callback; that is for developers.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # It tells of every statement with all that goes into it: what is asked for, and the notes.
    logging.getLogger("aiosqlite").setLevel(logging.WARNING)
    return log


def flushed(limit_s: float) -> bool:
    """Wait until all that was logged is written; False when that takes too long."""
    handlers = logging.getLogger().handlers
    return all(h.flushed(limit_s) for h in handlers if isinstance(h, Log))


def _opened(file: Path) -> int:
    """Open the log; a pipe that nobody reads is refused, not waited for."""
    try:
        return os.open(file, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe that nobody reads; name a file") from error
        raise


def _keep_private(log_file: Path) -> None:
    """Take away what others may do with a log that was made by another umask."""
    with suppress(OSError):
        found = log_file.lstat()
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
            log_file.chmod(0o600)
