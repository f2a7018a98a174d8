"""What open descriptors stand for, for tests that look at what is listed and opened."""

import fcntl
import os
import sys
from pathlib import Path


def path_of(folder: int | str | Path) -> Path:
    """Return where an open file or folder lies; a path is that itself."""
    if not isinstance(folder, int):
        return Path(folder)
    if sys.platform == "darwin":
        name = fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(name.rstrip(b"\0")))
    return Path(os.readlink(f"/proc/self/fd/{folder}"))
