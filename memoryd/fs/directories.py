"""Checks that sockets, locks and indexes are in directories that only their owner can change.

Anybody who can write to a directory, or to one above it, can replace our files. In directories with
the sticky bit, such as `/tmp`, users can remove only their own files.
"""

import errno
import grp
import logging
import os
import pwd
import stat
from pathlib import Path

from memoryd.errors import SocketError
from memoryd_client.shared import paths

log = logging.getLogger(__name__)

_ELSEWHERE = "choose another --socket or store.path"
MAX_LINKS = 40
"""Maximum symbolic links in one path, as on Linux."""


def private_folder(folder: Path) -> None:
    """Create a directory that only we can enter, if it is missing.

    Raises `SocketError` if that fails, or if others could replace files in it.
    """
    try:
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
    trusted = {os.geteuid(), *_system_uids()}
    links = 0
    here = Path("/")
    names = [name for name in reversed(folder.absolute().parts) if name != "/"]
    while True:
        found = os.lstat(here)
        if found.st_uid not in trusted:
            return SocketError(
                f"{here} belongs to another user (uid {found.st_uid}),"
                f" who could replace files in {folder}",
                _ELSEWHERE,
            )
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = Path(os.readlink(here))
            names.extend(name for name in reversed(target.parts) if name != "/")
            here = Path("/") if target.is_absolute() else here.parent
        elif (whose := _writers(found)) is not None:
            return SocketError(
                f"{here} is writable by {whose}, who could replace files in {folder}",
                f"`chmod go-w {here}`, or {_ELSEWHERE}",
            )
        if not names:
            return None
        name = names.pop()
        here = here.parent if name == ".." else here / name


def _close_to_others(folder: Path) -> None:
    """Remove the permissions of others from memoryd's own directory."""
    found = os.stat(folder)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
        log.warning("%s was open to others; now only its owner can enter it", folder)


def _writers(folder: os.stat_result) -> str | None:
    """Return who else can replace files in a directory, None for nobody."""
    if folder.st_mode & stat.S_ISVTX:
        return None
    if folder.st_mode & stat.S_IWOTH:
        return "everybody"
    is_ours = folder.st_uid == os.geteuid()
    # A group that can write to system directories was permitted by the administrator.
    if folder.st_mode & stat.S_IWGRP and is_ours and not _is_private(folder.st_gid):
        return f"group {_name_of(folder.st_gid)}"
    return None


def _is_private(group: int) -> bool:
    """Return whether a group is the private group that many systems create for each user."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(found.gr_mem) <= {user.pw_name}
    return alone and user.pw_gid == group and user.pw_name == found.gr_name


def _name_of(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _system_uids() -> set[int]:
    """Return the owners of system files: root, and its substitute in a sandbox.

    In a user namespace that doesn't map root, root's files have the overflow uid.
    """
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            overflow = int(file.read())
    except OSError:
        return {0}  # not Linux
    has_root = any(outside <= 0 < outside + count for _, outside, count in ranges)
    return {0} if has_root else {0, overflow}


def shown_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path, or a text that contains one, with bytes that are not UTF-8 as `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
