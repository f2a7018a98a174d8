"""Permissions of memoryd's files: only their owner may read and write them."""

import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path

from memoryd.doctor.finding import Topic
from memoryd.fs.directories import open_to_others

_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def check_private(topic: Topic, files: Iterable[Path]) -> None:
    """Check the existing ones of these private files."""
    for path in files:
        if (found := _stat(topic, path)) is None or not _is_ours(topic, path, found):
            continue
        mode = stat.S_IMODE(found.st_mode)
        if mode & _OTHERS:
            topic.error(
                f"others can access {path}: its mode is {mode:04o}", f"chmod 600 {_quoted(path)}"
            )
        elif not os.access(path, os.R_OK | os.W_OK):
            topic.error(f"{path} is not readable and writable", _writable(path, "600"))


def check_folder(topic: Topic, folder: Path, *, private: bool) -> None:
    """Check a folder for memoryd's files; only its owner may enter a `private` one.

    If it is missing, check whether it can be created.
    """
    known = len(topic.findings)
    if (found := _stat(topic, folder)) is not None:
        _check_own(topic, folder, found, private=private)
    if len(topic.findings) == known:
        _check_above(topic, folder)


def _check_own(topic: Topic, folder: Path, found: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISDIR(found.st_mode):
        topic.error(f"{folder} is not a folder", "move it away")
        return
    if found.st_uid not in (os.geteuid(), 0):
        _is_ours(topic, folder, found)
        return
    mode = stat.S_IMODE(found.st_mode)
    fix = f"chmod 700 {_quoted(folder)}"
    if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        topic.error(f"others can replace the files in {folder}: its mode is {mode:04o}", fix)
    elif private and mode & _OTHERS:
        topic.warning(f"others can list {folder}: its mode is {mode:04o}", fix)
    if not os.access(folder, os.W_OK | os.X_OK):
        topic.error(f"{folder} is not writable", _writable(folder, "700"))


def _check_above(topic: Topic, folder: Path) -> None:
    """Check that a missing folder can be created, and that nobody else can replace it."""
    place = folder
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    if place != folder and not os.access(place, os.W_OK | os.X_OK):
        message = f"{folder} can't be created: {place} is not writable"
        topic.error(message, _writable(place, "700"))
        return
    try:
        problem = open_to_others(place)
    except OSError as error:
        topic.error(f"{place} can't be checked: {error.strerror}", f"ls -ld {_quoted(place)}")
        return
    if problem is not None:
        topic.error(problem.message, problem.hint)


def check_readable(topic: Topic, path: Path, *, secret: bool, what: str) -> None:
    """Check a user's file: nobody else may write it, nor read it if it is `secret`."""
    if (found := _stat(topic, path)) is None:
        return
    mode = stat.S_IMODE(found.st_mode)
    fix = f"chmod 600 {_quoted(path)}"
    if mode & _OTHERS_WRITE:
        topic.error(f"others can change {what} {path}: its mode is {mode:04o}", fix)
    elif secret and mode & _OTHERS:
        topic.warning(f"others can read {what} {path}: its mode is {mode:04o}", fix)


def _stat(topic: Topic, path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        topic.error(f"{path} can't be checked: {error.strerror}", f"ls -ld {_quoted(path)}")
        return None


def _is_ours(topic: Topic, path: Path, found: os.stat_result) -> bool:
    if found.st_uid == os.geteuid():
        return True
    topic.error(
        f"{path} belongs to the user {found.st_uid}, not to {os.geteuid()}",
        "run the doctor as memoryd's user, or return the file to that user",
    )
    return False


def _writable(path: Path, mode: str) -> str:
    return f"chmod {mode} {_quoted(path)}; if that does not help, its file system is read-only"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
