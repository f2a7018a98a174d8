"""Puts a finished file in the place of another, so that whatever happens one of them is there."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from memoryd.fs.hang import retrieve_error

T = TypeVar("T")

SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file while it is open; left behind when the process was killed."""


def remove_index(path: Path) -> None:
    """Remove an index file and all that SQLite keeps beside it. Raises `OSError`."""
    remove_files(path, "", *SIDE_FILES)


def remove_files(path: Path, *suffixes: str) -> None:
    """Remove the files named `path` plus each suffix, those that exist."""
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def put_in_place(new: Path, path: Path) -> None:
    """Rename one closed file over another, which is closed too. Blocking. Raises `OSError`.

    After a power cut the file at `path` is the old or the new one, whole: its content is on disk
    before its name is, and no log that could be taken for its own is left beside it.
    """
    remove_files(path, "-wal", "-shm")
    _flush_folder(path.parent)
    rename_over(new, path)


def rename_over(new: Path, path: Path) -> None:
    """Give a file that is written the name of another, for good. Blocking. Raises `OSError`."""
    _flush(new)
    os.replace(new, path)
    _flush_folder(path.parent)


def check_closed(path: Path) -> None:
    """Raise `OSError` if a part of an index file is still in its log, as after a failed close."""
    if Path(f"{path}-wal").exists():
        raise OSError(f"{path}: its write-ahead log could not be written back")


async def outlast(work: asyncio.Future[T]) -> T:
    """Wait for what can't be called off any more; cancelled meanwhile, only be so after it."""
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
    # Some file systems can't; there the rename is as lasting as they make it.
    with suppress(OSError):
        _flush(folder)
