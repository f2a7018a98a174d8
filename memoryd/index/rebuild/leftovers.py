"""Files that unfinished rebuilds have left beside an index."""

import glob
import logging
import re
from pathlib import Path

from memoryd.fs.atomic_replace import SIDE_FILES, remove_index

log = logging.getLogger(__name__)

_SCHEMES = (".rebuild-", ".tmp-")
"""Infixes of unfinished index files: ours, and those of other programs for such an index."""
_SIDE_FILE = re.compile(rf"({'|'.join(SIDE_FILES)})\Z")
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
            if file.is_symlink() or not file.is_file() or file.name.endswith(_LOCK):
                continue
            main = _SIDE_FILE.sub("", file.name)
            owners = [name for name in indexes if f"{main}.".startswith(f"{name}.")]
            if max(owners, key=len, default=path.name) == path.name:
                found.add(file.with_name(main))
    return sorted(found)


def discard(path: Path) -> None:
    """Remove an unfinished index file, or log why that fails."""
    try:
        remove_index(path)
    except OSError as error:
        log.warning("can't remove an unfinished index: %s", error)
