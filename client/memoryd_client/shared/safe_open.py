"""Opens files that have to be regular ones: a pipe may keep who opens it waiting for ever."""

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or what a link to one leads to, for reading.

    Nothing else is ever opened. Raises `OSError`.
    """
    _check(os.stat(path), path)
    # It may be another one by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
