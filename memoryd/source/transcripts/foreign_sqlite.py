"""SQLite databases that other programs write, read without leaving a trace beside them.

An ordinary read-only connection to a database in WAL mode creates its `-wal` and `-shm` files.
See <https://www.sqlite.org/wal.html#read_only_databases>.
"""

import errno
import os
import sqlite3
import stat as stat_module
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from memoryd.fs.hang import tick
from memoryd.fs.safe_open import stat_file

ForeignDatabase = sqlite3.Connection
"""Python's own driver, because no extension is needed."""
BUSY_MS = 200
"""Milliseconds to wait for a lock, because a poll waits for it and the next one tries again."""
MAX_CELL_BYTES = 64 * 1024 * 1024
"""Maximum length of a value, because it is read at once."""


class StoreBusyError(OSError):
    """Database that can't be read now; memoryd tries again, changed or not."""


class _Side(NamedTuple):
    """Stat of a database or of a file beside it."""

    mtime_ns: int
    size: int
    inode: int


class StoreVersion(NamedTuple):
    """Stats of a database and of its write-ahead log: if they are equal, so is the content."""

    main: _Side
    wal: _Side | None


def version(path: Path, base: Path) -> StoreVersion:
    """Return the version of a database. Blocking.

    No links are allowed below the directory `base`. Raises `OSError`, also unless it is a regular
    file of our user.
    """
    tick(path)
    main = _side(path, base)
    if main is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return StoreVersion(main, _side(_beside(path, "-wal"), base))


@contextmanager
def reading(path: Path, base: Path) -> Iterator[ForeignDatabase]:
    """Yield a connection in a read transaction. Blocking.

    Raises `StoreBusyError` while it can't be read, or another `OSError`, for example if it is
    corrupt.
    """
    before = version(path, base)
    has_log = before.wal is not None
    if _side(_beside(path, "-journal"), base) is not None:
        raise StoreBusyError(errno.EAGAIN, "its program is writing to it; memoryd tries again")
    if has_log and _side(_beside(path, "-shm"), base) is None:
        if before.wal is not None and before.wal.size:
            reason = "its write-ahead log has no index yet; start its program once"
            raise StoreBusyError(errno.EAGAIN, reason)
        has_log = False
    try:
        with closing(_opened(path, has_log=has_log)) as connection:
            # SQLite resolves the path itself.
            found = os.stat(path, follow_symlinks=False)
            if found.st_ino != before.main.inode:
                raise StoreBusyError(errno.EAGAIN, "it was replaced; memoryd tries again")
            yield connection
            if not has_log and version(path, base) != before:
                # Nothing has kept its program from writing to the pages that were read.
                raise StoreBusyError(errno.EAGAIN, "it changed meanwhile; memoryd tries again")
    except sqlite3.Error as error:
        raise _as_os_error(error) from error


def columns(connection: ForeignDatabase, table: str) -> set[str]:
    """Return the columns of a table, none if it is missing."""
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


def _opened(path: Path, *, has_log: bool) -> ForeignDatabase:
    """Return a connection in a read transaction.

    Without a log, `immutable` keeps SQLite from creating one. With it, `readonly_shm` keeps SQLite
    from creating its index; a log in which nobody has read yet can't be read that way.
    """
    address = f"file:{quote(str(path))}?mode=ro"
    if not has_log:
        return _begun(f"{address}&immutable=1")
    try:
        return _begun(f"{address}&readonly_shm=1")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
    return _begun(address)


def _begun(address: str) -> ForeignDatabase:
    connection = sqlite3.connect(
        address, uri=True, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _as_os_error(error: sqlite3.Error) -> OSError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT):
        return OSError(errno.EIO, f"it is not a sound SQLite database: {error}")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG):
        return OSError(errno.EIO, f"SQLite can't read it: {error}")
    return StoreBusyError(errno.EAGAIN, f"{error}; memoryd tries again")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _side(path: Path, base: Path) -> _Side | None:
    """Return the stat of a regular file of our user, None if it is missing. Raises `OSError`."""
    try:
        found = stat_file(path, base)
    except FileNotFoundError:
        return None
    # Never opened here: closing it would release the locks of SQLite in this process.
    if not stat_module.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "a file of another user", str(path))
    return _Side(found.st_mtime_ns, found.st_size, found.st_ino)
