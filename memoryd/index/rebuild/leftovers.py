"""Files that unfinished rebuilds have left beside an index."""

import glob
import logging
import os
import stat
from pathlib import Path

from memoryd.fs.atomic_replace import SIDE_FILES, remove_index

log = logging.getLogger(__name__)

_SCHEMES = (".rebuild-", ".tmp-")
"""Infixes of unfinished index files: ours, and those of other programs for such an index."""
_LOCK = ".lock"


def unfinished(path: Path) -> list[Path]:
    """Return the unfinished index files beside `path`, even if only their side files exist.

    The caller holds the lock of `path`, so no rebuild is running. A file with its own lock file is
    the index of another agent, whose name begins with ours; so are the files beside that index.
    """
    locks = path.parent.glob(f"{glob.escape(path.name)}*{_LOCK}")
    indexes = [lock.name.removesuffix(_LOCK) for lock in locks]
    found: set[Path] = set()
    for scheme in _SCHEMES:
        for file in path.parent.glob(f"{glob.escape(path.name + scheme)}*"):
            if not _is_file(file):
                continue
            main = file.with_name(_main_name(file.name))
            owner = max((n for n in indexes if _belongs(main.name, n)), key=len, default=path.name)
            if owner == path.name and not file.name.endswith(_LOCK):
                found.add(main)
    return sorted(found)


def discard(path: Path) -> None:
    """Remove an unfinished index file, or log why that fails."""
    try:
        remove_index(path)
    except OSError as error:
        log.warning("can't remove an unfinished index: %s", error)


def _main_name(name: str) -> str:
    """Return the name of the file that a side file belongs to."""
    for suffix in SIDE_FILES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _belongs(name: str, index: str) -> bool:
    return name == index or name.startswith(f"{index}.")


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False  # removed meanwhile
