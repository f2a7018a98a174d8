"""Directories for sockets, locks and indexes, which only their owner can change."""

import logging
import os
import stat
from pathlib import Path

from memoryd.errors import SocketError
from memoryd_client.shared import ownership, paths

log = logging.getLogger(__name__)

_ELSEWHERE = "choose another --socket or store.path"


def private_folder(folder: Path) -> None:
    """Create a directory that only we can enter, if it is missing.

    Raises `SocketError` if that fails, or if others could replace files in it.
    """
    try:
        if not folder.exists() and (problem := _above_open_to_others(folder)) is not None:
            raise problem
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SocketError(f"{folder} can't be created: {error.strerror}", _ELSEWHERE) from error
    try:
        if str(folder) in paths.own_folders():
            _close_to_others(folder)
        problem = open_to_others(folder)
    except OSError as error:
        raise SocketError(f"{folder} can't be used: {error.strerror}", _ELSEWHERE) from error
    if problem is not None:
        raise problem


def open_to_others(folder: Path) -> SocketError | None:
    """Return an error if others could replace the files in a folder, else None.

    Checks the directory, its parents, and those that symbolic links lead through. Raises `OSError`.
    """
    try:
        ownership.check_folder(str(folder))
    except ownership.NotOursError as error:
        hint = f"{error.hint}, or {_ELSEWHERE}" if error.hint else _ELSEWHERE
        return SocketError(error.message, hint)
    return None


def _above_open_to_others(folder: Path) -> SocketError | None:
    """Return the error of the existing directories above a missing one, else None."""
    try:
        return open_to_others(folder)
    except FileNotFoundError:
        return None


def _close_to_others(folder: Path) -> None:
    """Remove the permissions of others from memoryd's own directory."""
    found = os.stat(folder)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
        log.warning("%s was open to others; now only its owner can enter it", folder)


def shown_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path, or a text that contains one, with bytes that are not UTF-8 as `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
