"""Opens files below a trusted directory component by component, without following links.

Every call resolves a path again, so a check of a path doesn't protect a later open. This module
opens each directory relative to its parent and reads the file it has checked. It opens regular
files only: opening a pipe wakes the process at its other end, and a device may do anything.
"""

import errno
import io
import os
import stat as stat_module
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile

from memoryd.fs.hang import tick
from memoryd_client.shared.paths import StrPath

BLOCK_BYTES = 256 * 1024
"""Maximum bytes of one read or decode call, because a long call holds up every thread."""
_O_PATH: int = getattr(os, "O_PATH", 0)
"""Linux: a descriptor that refers to a file without opening it."""
_ON_THE_WAY = (_O_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_THROUGH = _ON_THE_WAY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkError(OSError):
    """Symbolic link in a path."""


def open_file(path: StrPath, below: StrPath, *, own_link: bool = False) -> int:
    """Open a regular file for reading and return its descriptor.

    The path begins with the directory `below`, which may be reached through links. With `own_link`,
    the file itself may be a link to a regular file of our user. Raises `OSError`.
    """
    with folder_of(path, below) as (folder, name):
        if own_link and _is_link(name, folder):
            return _open_target(name, folder, path)
        return _open_regular(name, folder, path)


class RegularFile(io.FileIO):
    """Unbuffered regular file, opened by `open_file`."""

    def __init__(self, path: StrPath, below: StrPath, *, own_link: bool = False) -> None:
        super().__init__(open_file(path, below, own_link=own_link), "rb")
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes."""
        tick(self._path)
        return super().read(-1 if size is None else size)


def stat_file(path: StrPath, below: StrPath) -> os.stat_result:
    """Return the stat of a file or link. Raises `OSError`."""
    with folder_of(path, below) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def unlink_file(path: StrPath, below: StrPath, identity: tuple[int, int]) -> None:
    """Remove a regular file with this (device, inode). Raises `OSError`."""
    with folder_of(path, below) as (folder, name):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _check_regular(found, path)
        if (found.st_dev, found.st_ino) != identity:
            raise OSError(errno.ESTALE, "it has been replaced by another file", str(path))
        os.unlink(name, dir_fd=folder)


class Descent:
    """Walk through directories that stay open, each opened relative to its parent.

    Holds one descriptor for each directory between the trusted one and the current one.
    """

    def __init__(self, below: StrPath) -> None:
        """Start in a directory that may be reached through links. Raises `OSError`."""
        self._below = str(below)
        self._names: list[str] = []
        tick(below)
        self._descriptors = [os.open(below, _ON_THE_WAY)]

    def enter(self, path: str, *, listed: bool = True) -> int:
        """Enter a directory; return its descriptor, which is valid until the next `enter`.

        `listed`: open it for `os.scandir`, which needs read permission. Raises `OSError`.
        """
        *on_the_way, last = ["."] if path == self._below else _names(path, self._below)
        pairs = zip(self._names, on_the_way, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._leave(common)
        tick(path)
        for name in on_the_way[common:]:
            self._go(name, _THROUGH, path)
        return self._go(last, _LIST if listed else _THROUGH, path)

    def identity(self) -> tuple[int, int]:
        """Return the (device, inode) of the first directory."""
        found = os.fstat(self._descriptors[0])
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close all directories."""
        self._leave(-1)

    def _go(self, name: str, flags: int, path: str) -> int:
        self._descriptors.append(_step(name, self._descriptors[-1], flags, path))
        self._names.append(name)
        return self._descriptors[-1]

    def _leave(self, depth: int) -> None:
        while len(self._descriptors) > depth + 1:
            os.close(self._descriptors.pop())
        del self._names[max(depth, 0) :]


def _names(path: StrPath, below: StrPath) -> list[str]:
    text, prefix = os.fspath(path), os.fspath(below).rstrip("/") + "/"
    names = text.removeprefix(prefix).split("/")
    if not text.startswith(prefix) or not all(names) or ".." in names:
        raise OSError(errno.EINVAL, "not a path below its directory", text)
    return names


@contextmanager
def folder_of(path: StrPath, below: StrPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the descriptor of a file's directory, and the file's name. Raises `OSError`.

    `make`: create missing directories below the trusted one.
    """
    tick(path)
    *folders, name = _names(path, below)
    descriptor = os.open(below, _ON_THE_WAY)
    try:
        for folder in folders:
            if make:
                _make(folder, descriptor, path)
            outer, descriptor = descriptor, _step(folder, descriptor, _THROUGH, path)
            os.close(outer)
        yield descriptor, name
    finally:
        os.close(descriptor)


def _make(name: str, folder: int, path: StrPath) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        pass
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _step(name: str, folder: int, flags: int, path: StrPath) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        # Systems differ in the error for a link.
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(name, folder):
            raise _link(path) from error
        error.filename = os.fspath(path)
        raise


def _open_regular(name: str, folder: int, path: StrPath) -> int:
    return _open_checked(name, folder, path, _check_regular, follow=False)


def _open_target(name: str, folder: int, path: StrPath) -> int:
    try:
        return _open_checked(name, folder, path, _check_own, follow=True)
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, "a link to a missing file", str(path)) from error


def _open_checked(
    name: str,
    folder: int,
    path: StrPath,
    check: Callable[[os.stat_result, StrPath], None],
    *,
    follow: bool,
) -> int:
    nofollow = 0 if follow else os.O_NOFOLLOW
    if _O_PATH:
        found = os.open(name, _O_PATH | nofollow | os.O_CLOEXEC, dir_fd=folder)
        try:
            check(os.fstat(found), path)
            return os.open(f"/proc/self/fd/{found}", _READ)
        except FileNotFoundError:
            pass  # no /proc here
        finally:
            os.close(found)
    check(os.stat(name, dir_fd=folder, follow_symlinks=follow), path)
    descriptor = os.open(name, _READ | nofollow, dir_fd=folder)
    try:
        check(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_own(found: os.stat_result, path: StrPath) -> None:
    _check_regular(found, path)
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "a link to a file of another user", str(path))


def _check_regular(found: os.stat_result, path: StrPath) -> None:
    if stat_module.S_ISLNK(found.st_mode):
        raise _link(path)
    if not stat_module.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _is_link(name: str, folder: int) -> bool:
    with suppress(OSError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return stat_module.S_ISLNK(found.st_mode)
    return False


def _link(path: StrPath) -> LinkError:
    return LinkError(errno.ELOOP, "symbolic links are not followed", str(path))
