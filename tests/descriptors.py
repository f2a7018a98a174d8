"""The paths of open descriptors, for tests that record the folders and files that are opened."""

import fcntl
import os
import sys
from pathlib import Path


def path_of(folder: int | str | Path) -> Path:
    """Return the path of an open file or folder; return a path unchanged."""
    if not isinstance(folder, int):
        return Path(folder)
    if sys.platform == "darwin":
        name = fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(name.rstrip(b"\0")))
    return Path(os.readlink(f"/proc/self/fd/{folder}"))
