"""Identity of the files of an open index: whether their paths still lead to the opened files."""

import os
from enum import Enum
from pathlib import Path

from memoryd.index.driver import Connection, empty_log, sqlite

_LOGS = ("-wal", "-shm")
Inode = tuple[int, int]
"""Device and number."""


class Moved(Enum):
    """Change of an open index's files. `LOG_GONE`: only the write-ahead log is missing."""

    GONE = "was deleted or moved away"
    REPLACED = "was replaced by another file"
    LOG_GONE = "has lost its write-ahead log"


class MovedError(OSError):
    """Open connections still work, but their writes would be lost."""


class OpenFiles:
    """The files of one index as of its opening."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: dict[str, Inode] = {}

    def note(self) -> None:
        """Record the present files as the ones just opened."""
        self._opened.clear()
        self.moved()

    def forget(self) -> None:
        """Forget the files, because they are closed."""
        self._opened.clear()

    def moved(self) -> Moved | None:
        """Return how the files have changed, None if they are in place. Blocking.

        A new log belongs to the open index: SQLite creates it when needed.
        """
        there = {suffix: self._stat(suffix) for suffix in ("", *_LOGS)}
        known = self._opened
        changed = [s for s in there if s in known and there[s] != known[s]]
        if "" in changed:
            return Moved.GONE if there[""] is None else Moved.REPLACED
        if changed:
            return Moved.LOG_GONE
        known.update((suffix, inode) for suffix, inode in there.items() if inode is not None)
        return None

    def remove_logs(self) -> None:
        """Remove the logs of the opened index. Call when they are empty and all is closed."""
        for suffix in _LOGS:
            if suffix in self._opened and self._stat(suffix) == self._opened[suffix]:
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _stat(self, suffix: str) -> Inode | None:
        try:
            found = os.stat(f"{self._path}{suffix}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # an unreadable folder proves nothing
            return self._opened.get(suffix)
        return found.st_dev, found.st_ino


def has_log(path: Path) -> bool:
    """Return whether the write-ahead log of an index has content. Blocking."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def copy_to(connection: Connection, target: Path) -> None:
    """Copy a connection's database into a new file page by page, so that row ids are kept."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    copy = sqlite.connect(str(target))
    try:
        connection.backup(copy)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        copy.close()


def put_back(connection: Connection, path: Path, by_way_of: Path) -> None:
    """Restore the file of an open index that has lost its path. Keeps a file that is there."""
    empty_log(connection)
    copy_to(connection, by_way_of)
    try:
        for suffix in _LOGS:
            Path(f"{path}{suffix}").unlink(missing_ok=True)  # logs of the lost file
        os.link(by_way_of, path)
    finally:
        by_way_of.unlink(missing_ok=True)
