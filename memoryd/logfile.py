"""Where the log goes: a disk that is full or failing ends nothing, and has nothing printed."""

import logging
import os
import stat
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

LOG_MAX_BYTES = 5 * 1024 * 1024
"""Of one file; one older one is kept."""


class _ToStream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Let a line go that can't be written: there is nowhere to say so."""


class _ToFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Let a line go that can't be written: there is nowhere to say so."""


def log_to(file: Path | None, level: str) -> None:
    """Log to a file that never grows large, or to standard error. Raises `OSError`."""
    handler: logging.Handler = _ToStream(sys.stderr)
    if file is not None:
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
        for path in (file, file.with_name(f"{file.name}.1")):
            _keep_private(path)
        handler = _ToFile(
            file, maxBytes=LOG_MAX_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    logging.basicConfig(
        level=level.upper(),
        handlers=[handler],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # Its debug mode tells of every process and slow callback; that is for developers.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _keep_private(log_file: Path) -> None:
    """Take away what others may do with a log that was made by another umask."""
    with suppress(OSError):
        found = log_file.lstat()
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
            log_file.chmod(0o600)
