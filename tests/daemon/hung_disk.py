"""A disk that hangs: a FUSE file system without a server, which blocks every access."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DETACH = 2


@contextmanager
def hung_disk(folder: Path, *, fails: bool = False) -> Iterator[None]:
    """Mount the disk over a folder. When the block ends, blocked callers get an error.

    With `fails` every access fails immediately, because the server has exited.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux: mounts a file system")
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"needs FUSE: {error}")
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"hung", bytes(folder), b"fuse", 0, options) != 0:
            pytest.skip(f"needs FUSE: {os.strerror(ctypes.get_errno())}")
        if fails:
            os.close(device)
        try:
            yield
        finally:
            libc.umount2(bytes(folder), DETACH)
    finally:
        if not fails:
            os.close(device)
