"""Small disks of their own, for tests that run as root: full, read-only, and both mended."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, mebibytes: int) -> Iterator[None]:
    """Mount a separate small disk on a folder until the block ends."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("needs root: mounts a tmpfs")
    folder.mkdir(parents=True, mode=0o700)
    options = f"size={mebibytes}m,mode=0700"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder])
    if done.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk; return the file that takes the space."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler
