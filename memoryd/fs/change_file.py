"""Durable changes of a file below a trusted directory: text at its end, or its replacement.

A change happens only if the file is still as it was read, and a failed one leaves it as it was.
"""

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import NamedTuple

from memoryd.fs.safe_open import RegularFile, folder_of
from memoryd_client.shared.paths import StrPath

_NEW_MODE = 0o666
"""Permissions of a new file, before the process's umask, as editors give."""


class FileBytes(NamedTuple):
    """The content of a file and its stat; no content and no stat if there is none."""

    content: bytes
    stat: os.stat_result | None


def read_bytes(path: StrPath, below: StrPath, max_bytes: int) -> FileBytes:
    """Read a whole regular file. Raises `OSError`, also for a link and for too large a file."""
    try:
        with RegularFile(path, below) as file:
            found = os.fstat(file.fileno())
            if found.st_size > max_bytes:
                raise OSError(errno.EFBIG, f"larger than {max_bytes:,} bytes", str(path))
            return FileBytes(file.readall(), found)
    except FileNotFoundError:
        return FileBytes(b"", None)


def append(path: StrPath, below: StrPath, data: bytes, was: os.stat_result | None) -> None:
    """Append to the file that `was` there, or create it and its folders. Raises `OSError`."""
    with folder_of(path, below, make=was is None) as (folder, name):
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        if was is None:
            flags |= os.O_CREAT | os.O_EXCL
        descriptor = _opened(name, folder, flags, _NEW_MODE, path)
        try:
            size = 0 if was is None else was.st_size
            _check_same(os.fstat(descriptor), was, path)
            try:
                _write(descriptor, data)
            except OSError:
                _take_back(descriptor, size, data)
                raise
        except OSError:
            if was is None:
                os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(descriptor)
        if was is None:
            _flush(folder)


def replace(path: StrPath, below: StrPath, data: bytes, was: os.stat_result) -> None:
    """Replace the file that `was` there by one with other content. Raises `OSError`."""
    if was.st_nlink > 1:
        raise OSError(errno.EMLINK, "it has another name too (a hard link)", str(path))
    with folder_of(path, below) as (folder, name):
        part = f".{name}.{secrets.token_hex(4)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = _opened(part, folder, flags, 0o600, path)
        try:
            try:
                os.fchmod(descriptor, stat.S_IMODE(was.st_mode))
                _write(descriptor, data)
            finally:
                os.close(descriptor)
            _check_same(os.stat(name, dir_fd=folder, follow_symlinks=False), was, path)
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(part, dir_fd=folder)
            raise
        _flush(folder)


def _opened(name: str, folder: int, flags: int, mode: int, path: StrPath) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _check_same(found: os.stat_result, was: os.stat_result | None, path: StrPath) -> None:
    if was is None:
        return
    now, before = (
        (each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in (found, was)
    )
    if now != before:
        raise OSError(errno.ESTALE, "another program writes it at the same time", str(path))


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _take_back(descriptor: int, size: int, data: bytes) -> None:
    """Remove a part that was written, unless another program has written too."""
    with suppress(OSError):
        if size < os.fstat(descriptor).st_size <= size + len(data):
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)


def _flush(folder: int) -> None:
    # The descriptor of the folder may only name it; some file systems can't flush a folder.
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
