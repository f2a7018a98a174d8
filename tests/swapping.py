"""A folder that another process repeatedly swaps with a symbolic link."""

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
    """Swap the folder as fast as possible until the block ends, then restore it."""
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
