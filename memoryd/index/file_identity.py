"""Where the files of an open index are: whether their names still mean what has been opened."""

import os
from enum import Enum
from pathlib import Path

from memoryd.index.driver import Connection, empty_log, sqlite

_LOGS = ("-wal", "-shm")
Inode = tuple[int, int]
"""Device and number."""


class Moved(Enum):
    """What has become of them. `LOG_GONE`: the database is there, its write-ahead log is not."""

    GONE = "was deleted or moved away"
    REPLACED = "was replaced by another file"
    LOG_GONE = "has lost its write-ahead log"


class MovedError(OSError):
    """Connections that are open still work, but what they write would not be found again."""


class OpenFiles:
    """The files of one index, as they were when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: dict[str, Inode] = {}

    def note(self) -> None:
        """Take what is there for what has just been opened."""
        self._opened.clear()
        self.moved()

    def forget(self) -> None:
        """Nothing is open any more."""
        self._opened.clear()

    def moved(self) -> Moved | None:
        """Say what has become of the files, None if they are where they were. Blocking.

        A log that was not there before belongs to what is open: SQLite makes it when it needs it.
        """
        there = {suffix: self._look(suffix) for suffix in ("", *_LOGS)}
        known = self._opened
        changed = [s for s in there if s in known and there[s] != known[s]]
        if "" in changed:
            return Moved.GONE if there[""] is None else Moved.REPLACED
        if changed:
            return Moved.LOG_GONE
        known.update((suffix, inode) for suffix, inode in there.items() if inode is not None)
        return None

    def remove_logs(self) -> None:
        """Remove logs that are those of what was opened; empty ones, when all is closed."""
        for suffix in _LOGS:
            if suffix in self._opened and self._look(suffix) == self._opened[suffix]:
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _look(self, suffix: str) -> Inode | None:
        try:
            found = os.stat(f"{self._path}{suffix}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # a folder that can't be looked into tells nothing
            return self._opened.get(suffix)
        return found.st_dev, found.st_ino


def has_log(path: Path) -> bool:
    """Say whether there is anything in the write-ahead log of an index. Blocking."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def copy_to(connection: Connection, target: Path) -> None:
    """Write all that a connection sees into a new file, page by page: rows keep their numbers."""
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
    """Write an index that is open but has lost its name anew. A file that is there is left."""
    empty_log(connection)
    copy_to(connection, by_way_of)
    try:
        for suffix in _LOGS:
            Path(f"{path}{suffix}").unlink(missing_ok=True)  # of what is gone
        os.link(by_way_of, path)
    finally:
        by_way_of.unlink(missing_ok=True)
