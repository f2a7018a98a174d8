"""A folder for the files of targets, which goes with the process."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """Return it; it is made when it is first asked for."""
    made = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
