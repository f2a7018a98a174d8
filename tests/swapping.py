"""A folder that another process keeps swapping for a link to elsewhere, and back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SWAP = """
import os, sys
folder, outside = sys.argv[1:]
away, link = folder + ".away", folder + ".link"
os.symlink(outside, link)
print("swapping", flush=True)
while os.getppid() == int(os.environ["PARENT"]):
    os.rename(folder, away)
    os.rename(link, folder)
    os.rename(folder, link)
    os.rename(away, folder)
"""


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """Swap a folder as fast as can be, until the end of the block; then it is there again."""
    process = subprocess.Popen(
        [sys.executable, "-c", SWAP, str(folder), str(outside)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PARENT": str(os.getpid())},
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.communicate()
        if folder.is_symlink():
            folder.unlink()
        if (away := folder.with_name(f"{folder.name}.away")).exists():
            away.rename(folder)
        folder.with_name(f"{folder.name}.link").unlink(missing_ok=True)
