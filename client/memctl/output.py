"""Output streams of `memctl`: data to stdout, everything else to stderr."""

import os
import sys
from typing import TYPE_CHECKING, TextIO

from memoryd_client.shared.style import Style

if TYPE_CHECKING:
    from memctl.progress import ProgressLine


class OutputError(Exception):
    """Stdout can't be written, for a reason other than a closed pipe."""


def write(text: str) -> None:
    """Write data as UTF-8 in every locale, as notes are and JSON must be.

    Raises `BrokenPipeError` or `OutputError`.
    """
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(encoding="utf-8", errors="replace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"can't write the output: {error.strerror}") from error


def say(text: str) -> None:
    """Write a line for people to stderr."""
    sys.stderr.write(text + "\n")


def drop_stdout() -> None:
    """Keep the interpreter from reporting unwritten data at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def on_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def style() -> Style:
    """Return the style of stdout: emphasis and a width for terminals only."""
    if not on_terminal():
        return Style(colour=False)
    plain = os.environ.get("NO_COLOR") or _is_dumb()
    return Style(colour=not plain, columns=_columns(sys.stdout))


def progress_line() -> "ProgressLine":
    """Return a progress line on stderr, live if stderr is a terminal."""
    from memctl.progress import ProgressLine

    live = sys.stderr.isatty() and not _is_dumb()
    return ProgressLine(sys.stderr, live=live, columns=_columns(sys.stderr) if live else None)


def _is_dumb() -> bool:
    return os.environ.get("TERM") == "dumb"


def _columns(stream: TextIO) -> int | None:
    """Return the width of a stream's terminal, or None if it is unknown."""
    if (chosen := os.environ.get("COLUMNS", "")).isdecimal() and int(chosen):
        return int(chosen)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None
