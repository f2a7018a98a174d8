"""Choice of the SQLite driver, classification of its errors, and connections with a thread each.

The driver is Python's own `sqlite3` if it can load extensions, else `pysqlite3`, which always can.
Their exception classes are unrelated, so all other modules import `sqlite` and `Error` from here.
"""

import asyncio
import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import aiosqlite

from memoryd.fs.hang import retrieve_error

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5_000
INTERRUPT_AGAIN_S = 0.02
WAL_LIMIT_BYTES = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before a checkpoint: 16 MiB instead of SQLite's 4 MiB, because pages
that every commit changes are then copied less often."""
_WRITERS_CACHE_KIB = 8_192
"""The writer's page cache: with SQLite's 2 MiB, most pages of a first index are read again."""
_VACUUM_PAGES = 5_000
"""Maximum number of pages freed at shutdown: 20 MiB, which takes a fraction of a second."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC

_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SURROUNDINGS = {3, 5, 6, 8, 10, 13, 14}
"""SQLITE_PERM, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL,
SQLITE_CANTOPEN."""
_UNDECODABLE = "Could not decode to UTF-8 column"
"""Python's message for text that is no longer UTF-8: the error has no code."""


class Fault(Enum):
    """Cause of an error.

    `CORRUPT`: the file's content is corrupt, permanently. `SURROUNDINGS`: the disk is full,
    read-only or failing, or the file is gone, all of which may pass. `OTHER`: a bug, or the content
    of one row.
    """

    CORRUPT = "corrupt"
    SURROUNDINGS = "surroundings"
    OTHER = "other"


class CorruptIndexError(Exception):
    """Index content that memoryd can't have written.

    `table` names the derived table that is corrupt, if nothing else is.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


def fault_of(error: BaseException) -> Fault:
    """Return the cause of a driver's or system's error (https://sqlite.org/rescode.html)."""
    if isinstance(error, CorruptIndexError):
        return Fault.CORRUPT
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and _UNDECODABLE in str(error):
        return Fault.CORRUPT
    if code is None:
        return Fault.SURROUNDINGS if isinstance(error, OSError) else Fault.OTHER
    primary = code & 0xFF  # the rest is the extended code
    if primary in _CORRUPT:
        return Fault.CORRUPT
    return Fault.SURROUNDINGS if primary in _SURROUNDINGS else Fault.OTHER


def _choose() -> tuple[Any, str]:
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3, "sqlite3"
    try:
        import pysqlite3.dbapi2
    except ImportError:
        return sqlite3, "sqlite3 (no extensions)"
    return pysqlite3.dbapi2, "pysqlite3"


sqlite, DRIVER = _choose()
SQLITE_VERSION: str = sqlite.sqlite_version
Error: type[Exception] = sqlite.Error
"""Base class of the errors of failed statements, of the driver in use."""

Connection = sqlite3.Connection
"""For annotations: `pysqlite3` has the same interface, but no type of its own."""

Steps = Generator[None, None, T]
"""Work that is too long to run on a connection's thread in one go."""


class ExtensionError(Exception):
    """sqlite-vec can't be loaded; the message says why."""


@contextmanager
def in_words() -> Iterator[None]:
    """Turn decoding errors into an `Error`.

    SQLite's messages about a corrupt schema, and the rows of a corrupt file, may not be UTF-8.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        damage: Any = sqlite.DatabaseError(f"the database is malformed: {error}")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage from error


def bundled_extension() -> str:
    """Return the path of the installed sqlite-vec extension. Raises `ExtensionError`."""
    try:
        import sqlite_vec
    except ImportError as error:
        raise ExtensionError("the package sqlite-vec is not installed") from error
    return str(sqlite_vec.loadable_path())


def load_extension(connection: Connection, path: str) -> str:
    """Load sqlite-vec and return its version. Raises `ExtensionError` with the reason."""
    if not hasattr(connection, "enable_load_extension"):
        raise ExtensionError(
            "this Python's sqlite3 can't load extensions and pysqlite3 is not installed"
        )
    try:
        connection.enable_load_extension(True)
        try:
            connection.load_extension(path)
        finally:
            connection.enable_load_extension(False)
        # Some files load but register nothing.
        return str(one_value(connection, "SELECT vec_version()"))
    except Error as error:
        raise ExtensionError(f"{path}: {_load_problem(path, str(error))}") from error


def _load_problem(path: str, problem: str) -> str:
    """Return why a file does not load. SQLite tries more endings, and reports only the last one."""
    if not problem.startswith(f"{path}."):
        return problem.removeprefix(f"{path}: ")
    if not os.path.exists(path):
        return "there is no such file"
    try:
        import ctypes  # 5 ms, for an error alone

        ctypes.CDLL(path)
    except OSError as error:
        return str(error).removeprefix(f"{path}: ")
    return problem


def has_module(connection: Connection, name: str) -> bool:
    """Return whether SQLite knows a kind of virtual tables: `fts5`, `vec0`."""
    found = one_value(connection, "SELECT 1 FROM pragma_module_list WHERE name = ?", name)
    return found is not None


def one_value(connection: Connection, statement: str, *values: object) -> Any:
    """Return the first column of a statement's first row, None if there is no row."""
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]


@contextmanager
def transaction(connection: Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit everything that the block does, or roll all of it back. DEFERRED: it only reads."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself if the disk is full.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def try_to_write(connection: Connection) -> None:
    """Take and release the write lock. Raises the driver's error."""
    with transaction(connection):
        connection.execute("PRAGMA user_version").fetchone()


class Database:
    """One connection on a thread of its own, which runs whole functions.

    A function runs to its end even if the task that awaits it is cancelled, so a transaction inside
    a function is never left half-done. Use as an async context manager: an open connection keeps
    the process alive.
    """

    def __init__(
        self,
        path: Path,
        *,
        readonly: bool = False,
        immutable: bool = False,
        extension: str | None = None,
    ) -> None:
        """`immutable`: read a file that can't change, without creating side files."""
        self.path = path
        self.extension_error: str | None = None
        self._readonly = readonly
        self._immutable = immutable
        self._extension = extension
        # aiosqlite's constructor accepts any callable that returns a connection, so it works with
        # other drivers than the standard library's.
        self._connection = aiosqlite.Connection(self._connect, iter_chunk_size=64)

    async def __aenter__(self) -> "Database":
        try:
            await self._connection
        except BaseException:
            # aiosqlite has stopped its thread but not joined it: the thread would call into a loop
            # that may be closed by then.
            await asyncio.to_thread(self._connection._thread.join)
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._connection.close()

    async def run(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)` on the connection's thread and return its result."""
        with in_words():
            return await self._queued(function)

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Like `run`, but cancelling the caller interrupts the SQL and waits until it stops."""
        try:
            return await self.run(function)
        except asyncio.CancelledError:
            stopped = self._queued(lambda connection: None)
            while not stopped.done():
                # Repeated, because an interrupt between two statements is lost.
                await self._connection.interrupt()
                # Even if cancelled again: the connection must be idle when it is handed back.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({stopped}, timeout=INTERRUPT_AGAIN_S)
            raise

    def _queued(self, function: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Put a function into the queue of the connection's thread."""
        # aiosqlite has no public method for it, and its private one is a coroutine.
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._connection._tx.put_nowait((result, partial(function, self._connection._conn)))
        return result

    async def run_steps(self, start: Callable[[Connection], Steps[T]]) -> T:
        """Run a generator to its end, one step at a time, and return its result.

        Other work may run on the thread between two steps. If the caller is cancelled or a step
        fails, the generator is closed on the thread, which rolls back its open transaction.
        """
        runner = _Runner(start)
        try:
            while not await self.run(runner.advance):
                pass
        except BaseException:
            # Queued behind the current step and ahead of everything that comes later.
            closing = asyncio.ensure_future(self.run(runner.close))
            closing.add_done_callback(retrieve_error)
            await asyncio.shield(closing)
            raise
        return runner.result

    def _connect(self) -> Connection:
        if self._readonly:
            uri = f"{self.path.absolute().as_uri()}?mode=ro"
            uri += "&immutable=1" if self._immutable else ""
            connection = sqlite.connect(uri, uri=True, isolation_level=None)
        else:
            with suppress(FileExistsError):
                # Created here, so that it is private from the first byte. An existing file is not
                # opened: closing it would release the locks that other connections of this
                # process hold on it (`man 2 fcntl`).
                os.close(os.open(self.path, _NEW, 0o600))
            _keep_private(self.path)
            if not os.access(self.path, os.W_OK):  # SQLite's error doesn't name the cause
                is_read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
                number = errno.EROFS if is_read_only else errno.EACCES
                raise OSError(number, os.strerror(number), str(self.path))
            connection = sqlite.connect(str(self.path), isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            # Some SQLites would write the rows that VACUUM sorts, and temporary tables, to a file
            # elsewhere.
            connection.execute("PRAGMA temp_store = MEMORY")
            if self._extension is not None:
                try:
                    load_extension(connection, self._extension)
                except ExtensionError as error:
                    self.extension_error = str(error)
            if self._readonly:
                connection.execute("PRAGMA query_only = ON")
            else:
                # Deleted rows are overwritten. FAST would leave them in free pages.
                connection.execute("PRAGMA secure_delete = ON")
                # Only for a new file: an existing one may not be ours, and this is written into it.
                if one_value(connection, "PRAGMA page_count") == 0:
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        except BaseException:
            connection.close()
            raise
        return cast(Connection, connection)


def run_at_once(steps: Steps[T]) -> T:
    """Run a generator to its end on this thread and return its result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


class _Runner(Generic[T]):
    """Runs the steps of one generator.

    Drops its references when done, because the thread remembers the last method that it called.
    """

    result: T

    def __init__(self, start: Callable[[Connection], Steps[T]]) -> None:
        self._start: Callable[[Connection], Steps[T]] | None = start
        self._steps: Steps[T] | None = None

    def advance(self, connection: Connection) -> bool:
        """Run one step; return whether it was the last one."""
        if self._start is not None:
            self._steps, self._start = self._start(connection), None
        assert self._steps is not None  # noqa: S101 - started above, and not done
        try:
            next(self._steps)
        except StopIteration as end:
            self.result, self._steps = end.value, None
            return True
        return False

    def close(self, connection: Connection) -> None:
        """Abandon the remaining steps."""
        self._start = None
        if self._steps is not None:
            self._steps.close()
            self._steps = None


def _keep_private(path: Path) -> None:
    """Remove other users' permissions from an index that was copied or made with another umask."""
    for suffix in ("", "-wal", "-shm"):
        # By name: closing a descriptor of the file would release SQLite's locks on it.
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode)
            if mode & 0o077:
                os.chmod(f"{path}{suffix}", mode & 0o700)


def set_up(connection: Connection) -> None:
    """Set the writer's page cache, and the length of the write-ahead log before a checkpoint."""
    connection.execute(f"PRAGMA cache_size = -{_WRITERS_CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def empty_log(connection: Connection) -> None:
    """Write the whole write-ahead log into the database. Raises `OSError` if it is in use."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise OSError("the write-ahead log is being read")


def write_back(connection: Connection) -> None:
    """Empty the log and release free pages to the disk, before closing."""
    connection.execute("PRAGMA optimize")
    # The pragma does its work as its rows are fetched.
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
