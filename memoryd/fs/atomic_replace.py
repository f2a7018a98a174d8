"""Atomic, durable replacement of one file by another."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from memoryd.fs.hang import retrieve_error

T = TypeVar("T")

SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside an open file, and leaves if it is killed."""


def remove_index(path: Path) -> None:
    """Remove an index file and its SQLite side files. Raises `OSError`."""
    remove_files(path, "", *SIDE_FILES)


def remove_files(path: Path, *suffixes: str) -> None:
    """Remove the existing files named `path` plus each suffix."""
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def put_in_place(new: Path, path: Path) -> None:
    """Rename one closed file over another closed file. Blocking. Raises `OSError`.

    After a power cut, `path` is the complete old or new file: the content reaches the disk before
    the name, and no log of the old file stays beside the new one.
    """
    remove_files(path, "-wal", "-shm")
    _flush_folder(path.parent)
    rename_over(new, path)


def rename_over(new: Path, path: Path) -> None:
    """Rename a finished file over another durably. Blocking. Raises `OSError`."""
    _flush(new)
    os.replace(new, path)
    _flush_folder(path.parent)


def check_closed(path: Path) -> None:
    """Raise `OSError` if part of an index is still in its log, as after a failed close."""
    if Path(f"{path}-wal").exists():
        raise OSError(f"{path}: its write-ahead log could not be written back")


async def outlast(work: asyncio.Future[T]) -> T:
    """Wait for work that can't be cancelled any more; delay a cancellation until it ends."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.done():
            await asyncio.wait({work})
        retrieve_error(work)
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    # Some file systems can't flush a directory.
    with suppress(OSError):
        _flush(folder)
