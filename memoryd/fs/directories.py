"""Where our socket, locks and index may lie: in folders that nobody else can change.

Who can write to a folder, or to one above it, can put another file in the place of ours. Folders
with the sticky bit, such as `/tmp`, let everybody only remove what is their own.
"""

import errno
import grp
import logging
import os
import pwd
import stat
from pathlib import Path

from memoryd_client.shared import paths

log = logging.getLogger(__name__)

_ELSEWHERE = "choose another --socket or store.path"
MAX_LINKS = 40
"""As many symbolic links as Linux follows in one path."""


class SocketError(Exception):
    """The socket or the index can't be had there; the message says why and what to do."""


def private_folder(folder: Path) -> None:
    """Create a folder only we can enter, if it is not there.

    Raises `SocketError` when it can't be made, or when others could replace what is in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SocketError(f"{folder} can't be made: {error.strerror}; {_ELSEWHERE}") from error
    try:
        if str(folder) in paths.own_folders():
            _close_to_others(folder)
        reason = open_to_others(folder)
    except OSError as error:
        raise SocketError(f"{folder} can't be used: {error.strerror}; {_ELSEWHERE}") from error
    if reason is not None:
        raise SocketError(reason)


def open_to_others(folder: Path) -> str | None:
    """Return why others could replace what lies in a folder, and what to do; None if they can't.

    Looks at the folder and at all above it, and at those that symbolic links lead through.
    Raises `OSError`.
    """
    trusted = {os.geteuid(), *_system_uids()}
    links = 0
    here = Path("/")
    names = [name for name in reversed(folder.absolute().parts) if name != "/"]
    while True:
        found = os.lstat(here)
        if found.st_uid not in trusted:
            return (
                f"{here} belongs to another user (uid {found.st_uid}),"
                f" who could replace what is in {folder}; {_ELSEWHERE}"
            )
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = Path(os.readlink(here))
            names.extend(name for name in reversed(target.parts) if name != "/")
            here = Path("/") if target.is_absolute() else here.parent
        elif (whose := _writers(found)) is not None:
            return (
                f"{here} can be written to by {whose}, who could replace what is in {folder};"
                f" `chmod go-w {here}`, or {_ELSEWHERE}"
            )
        if not names:
            return None
        name = names.pop()
        here = here.parent if name == ".." else here / name


def _close_to_others(folder: Path) -> None:
    """Take from others what rights they have to a folder that is for memoryd alone."""
    found = os.stat(folder)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
        log.warning("%s was open to others; now only its owner may enter it", folder)


def _writers(folder: os.stat_result) -> str | None:
    """Return who else can replace what lies in a folder; None: nobody."""
    if folder.st_mode & stat.S_ISVTX:
        return None
    if folder.st_mode & stat.S_IWOTH:
        return "everybody"
    is_ours = folder.st_uid == os.geteuid()
    # A group that may write to the system's folders has been given that by the administrator.
    if folder.st_mode & stat.S_IWGRP and is_ours and not _is_private(folder.st_gid):
        return f"group {_name_of(folder.st_gid)}"
    return None


def _is_private(group: int) -> bool:
    """Tell whether a group is the one that many systems make for each user alone."""
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
    """Return the ids that the system's files have: root's, and what stands for it in a sandbox.

    In a user namespace that has no number for root, its files show the overflow uid.
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
