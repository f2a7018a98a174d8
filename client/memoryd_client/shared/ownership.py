"""Checks that nobody else can change a file or a folder.

Anybody who can write to a folder, or to one above it, can replace the files in it. In folders with
the sticky bit, such as `/tmp`, users can remove only their own files.
"""

import errno
import os
import stat
import struct
import sys

MAX_LINKS = 40
"""Maximum symbolic links in one path, as on Linux."""

_SHARED = frozenset({"/tmp", "/var/tmp", "/dev/shm"})  # noqa: S108 - nothing is created there
"""Folders of the system that everybody may write to."""
_OVERFLOW = 65534
"""The kernel's default for /proc/sys/kernel/overflowuid."""
_EVERY_USER = (0, 0, 2**32 - 1)
"""The only line of /proc/self/uid_map outside user namespaces."""

_ACL = "system.posix_acl_access"
_ACL_HEADER, _ACL_ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_ACL_VERSION = 2
_USER, _OWNING_GROUP, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
"""Tags of the entries, from <linux/posix_acl.h>."""
_WRITE = 2


class NotOursError(PermissionError):
    """Somebody else can change a file or folder. `message` is a sentence, `hint` the fix or "".

    `uid` is the other user if the file or folder belongs to one.
    """

    def __init__(self, message: str, *, hint: str = "", uid: int | None = None) -> None:
        super().__init__(errno.EACCES, message)
        self.message, self.hint, self.uid = message, hint, uid


def open_own(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file that only we can change, and return its descriptor.

    Raises `NotOursError` for a link, a second name or the file of another user, and if others may
    write to it or replace it. Raises `OSError`.
    """
    check_folder(os.path.dirname(path))
    # Opening a pipe or a device may have an effect.
    check_own(os.lstat(path), path)
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        check_own(found, path)
        _check_writers(descriptor, found, path, f"change {path}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_own(found: os.stat_result, path: str) -> None:
    """Raise `NotOursError` unless this is a regular file of ours with one name."""
    if stat.S_ISLNK(found.st_mode):
        raise NotOursError(f"{path} is a symbolic link", hint="remove it")
    if not stat.S_ISREG(found.st_mode):
        raise NotOursError(f"{path} is not a regular file", hint="move it away")
    if found.st_uid != os.geteuid():
        raise NotOursError(f"{path} belongs to another user (uid {found.st_uid})", uid=found.st_uid)
    if found.st_nlink > 1:
        raise NotOursError(f"{path} has another name too (a hard link)", hint="remove it")


def check_folder(folder: str) -> None:
    """Raise `NotOursError` if others could replace the files in a folder.

    Checks the folder, those above it, and those that symbolic links lead through. Raises `OSError`;
    for a missing folder, it is a `FileNotFoundError`, and those above it have passed the check.
    """
    power = f"replace files in {folder}"
    path, found = _checked(folder, power)
    if found.st_uid == _unknown_owner() and path not in _SHARED:
        raise _foreign(path, found, power)


def check_file(path: str) -> None:
    """Raise `NotOursError` unless a file belongs to us or root, and others can't change it.

    Links of ours or root's are followed, and the folders on the way checked. Raises `OSError` as
    `check_folder` does.
    """
    _checked(path, f"change {path}")


def _checked(path: str, power: str) -> tuple[str, os.stat_result]:
    """Check each step on the way to a path. Return the path without links, and its stat."""
    unknown = _unknown_owner()
    if os.geteuid() == unknown:
        raise NotOursError(
            f"in this user namespace, the files of all other users look like yours (uid {unknown})",
            hint="run as a user that the namespace maps",
        )
    names = _names(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    above: list[tuple[str, os.stat_result]] = []
    here, links = "/", 0
    while True:
        found = os.lstat(here)
        _check_owner(here, found, above, unknown, power)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = os.readlink(here)
            names += _names(target)
            if os.path.isabs(target):
                above.clear()
                here = "/"
                continue
        else:
            _check_writers(here, found, here, power)
            above.append((here, found))
        while names and names[-1] == "..":
            names.pop()
            del above[max(1, len(above) - 1) :]
        if not names:
            return above[-1]
        here = os.path.join(above[-1][0], names.pop())


def _names(path: str) -> list[str]:
    """Return the names of a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _check_owner(
    path: str,
    found: os.stat_result,
    above: list[tuple[str, os.stat_result]],
    unknown: int | None,
    power: str,
) -> None:
    """Raise `NotOursError` unless we own one step of a path, or the system does."""
    if found.st_uid in (os.geteuid(), 0):
        return
    # Root's, or of a user that this namespace doesn't map either. What root alone can create, above
    # the first folder of ours, counts as root's.
    is_system = found.st_uid == unknown and all(
        folder.st_uid != os.geteuid() and not folder.st_mode & 0o022 for _, folder in above
    )
    if not is_system:
        raise _foreign(path, found, power)


def _foreign(path: str, found: os.stat_result, power: str) -> NotOursError:
    return NotOursError(
        f"{path} belongs to another user (uid {found.st_uid}), who could {power}", uid=found.st_uid
    )


def _check_writers(place: str | int, found: os.stat_result, path: str, power: str) -> None:
    """Raise `NotOursError` if others can write to a file, or replace files in a folder."""
    mode = found.st_mode
    is_sticky = stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)
    if is_sticky and (found.st_uid != _unknown_owner() or path in _SHARED):
        return
    whose: str | None = None
    if mode & stat.S_IWOTH:
        whose = "everybody"
    # Without this bit, the mask of an access control list permits no write either. A group or user
    # that can write to root's files was permitted by the administrator.
    elif mode & stat.S_IWGRP and (found.st_uid != 0 or os.geteuid() == 0):
        acl = _acl(place)
        whose = _group(found.st_gid) if acl is None else _acl_writer(acl, found.st_gid)
    if whose is not None:
        message = f"{path} is writable by {whose}, who could {power}"
        raise NotOursError(message, hint=f"`chmod go-w {path}`")


def _acl(place: str | int) -> bytes | None:
    """Return the access control list of a file, in the kernel's format; None if it has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.getxattr(place, _ACL)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return None
        raise


def _acl_writer(acl: bytes, owning_group: int) -> str | None:
    """Return who else may write by an access control list (acl(5)), None for nobody."""
    body = acl[_ACL_HEADER.size :]
    if acl[: _ACL_HEADER.size] != _ACL_HEADER.pack(_ACL_VERSION) or len(body) % _ACL_ENTRY.size:
        return "an unknown access control list"
    entries = list(_ACL_ENTRY.iter_unpack(body))
    mask = next((permissions for tag, permissions, _ in entries if tag == _MASK), _WRITE)
    for tag, permissions, name in entries:
        if not permissions & mask & _WRITE:
            continue
        if tag == _USER and name not in (os.geteuid(), 0):
            return f"user {name}"
        if tag in (_OWNING_GROUP, _GROUP):
            whose = _group(owning_group if tag == _OWNING_GROUP else name)
            if whose is not None:
                return whose
    return None


def _group(number: int) -> str | None:
    """Return a group as a word; None if it is the private one that many systems create per user."""
    import grp
    import pwd

    try:
        group = grp.getgrgid(number)
    except KeyError:
        return f"group {number}"
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"group {group.gr_name}"
    is_alone = set(group.gr_mem) <= {user.pw_name}
    is_private = is_alone and user.pw_gid == number and user.pw_name == group.gr_name
    return None if is_private else f"group {group.gr_name}"


def _unknown_owner() -> int | None:
    """Return the owner that files of root and of other users have here; None if they differ.

    In a user namespace that doesn't map root, both have the overflow uid.
    """
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return None  # not Linux
    if ranges == [_EVERY_USER]:
        return None
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            overflow = int(file.read())
    except OSError:  # hidden, as by systemd's ProcSubset=pid
        overflow = _OVERFLOW
    # In nested namespaces, the root that is mapped may be somebody else.
    has_root = any(outside <= 0 < outside + count for _, outside, count in ranges)
    return None if has_root and os.lstat("/").st_uid != overflow else overflow
