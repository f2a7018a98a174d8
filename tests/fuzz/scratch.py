"""A temporary folder for the files of targets, removed with the process or earlier."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """Return the folder; the first call creates it."""
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


@atexit.register
def remove() -> None:
    """Remove the folder if it exists."""
    if folder.cache_info().currsize:
        shutil.rmtree(folder())
        folder.cache_clear()
