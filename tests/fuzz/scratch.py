"""A folder for the files of targets, which goes with the process, or before it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """Return it; it is made when it is first asked for."""
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


@atexit.register
def remove() -> None:
    """Remove it, if there is one."""
    if folder.cache_info().currsize:
        shutil.rmtree(folder())
        folder.cache_clear()
