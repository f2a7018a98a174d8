"""Chooses the SQLite driver, here and nowhere else, and opens connections on threads of their own.

Python's own `sqlite3` is used where it can load extensions, else `pysqlite3`, which always can.
Their exception classes are unrelated, so everybody imports `sqlite` and `DatabaseError` from here.
"""

import asyncio
import errno
import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote_from_bytes

import aiosqlite

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5_000
INTERRUPT_AGAIN_S = 0.02
WAL_LIMIT_BYTES = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 4_000
"""Pages in the write-ahead log before a checkpoint: 16 MiB instead of SQLite's 4 MiB, because pages
that every commit changes are then copied less often."""
_VACUUM_PAGES = 5_000
"""Maximum number of pages freed at shutdown: 20 MiB, which takes a fraction of a second."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC

_CORRUPT = 11
"""SQLITE_CORRUPT."""
_DAMAGED = {_CORRUPT, 26}
"""SQLITE_CORRUPT, SQLITE_NOTADB."""
_SURROUNDINGS = {3, 5, 6, 8, 10, 13, 14}
"""SQLITE_PERM, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL,
SQLITE_CANTOPEN."""
_UNDECODABLE = "Could not decode to UTF-8 column"
"""Python's own words for a text that was one when it was written: there is no code for that."""
_PRIMARY = 0xFF
"""An extended result code has the primary one in its lowest byte."""


class Fault(Enum):
    """What is at fault.

    `DAMAGED`: the file's content is wrong, and stays so. `SURROUNDINGS`: the disk is full,
    read-only, failing, or the file is gone, which may pass. `OTHER`: a bug, or one row's content.
    """

    DAMAGED = "damaged"
    SURROUNDINGS = "surroundings"
    OTHER = "other"


class DamagedIndexError(Exception):
    """What an index holds can't have been written by memoryd.

    `table` names the derived table that is damaged, if nothing else is.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


def fault_of(error: BaseException) -> Fault:
    """Say what an error of the SQLite driver, or of the operating system, is about.

    Codes: https://sqlite.org/rescode.html
    """
    if isinstance(error, DamagedIndexError):
        return Fault.DAMAGED
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and _UNDECODABLE in str(error):
        return Fault.DAMAGED
    if code is None:
        return Fault.SURROUNDINGS if isinstance(error, OSError) else Fault.OTHER
    primary = code & _PRIMARY
    if primary in _DAMAGED:
        return Fault.DAMAGED
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
"""What every failed statement raises, whichever driver is in use."""

Connection = sqlite3.Connection
"""For annotations: `pysqlite3` has the same interface, but no type of its own."""

Steps = Generator[None, None, T]
"""Work that is too long to run on a connection's thread in one go."""


class ExtensionError(Exception):
    """sqlite-vec can't be loaded; the message is the reason."""


@contextmanager
def in_words() -> Iterator[None]:
    """Make an `Error` of what Python can't decode.

    What SQLite says of a damaged schema may be no text, nor what stands in a damaged row.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        damage: Any = sqlite.DatabaseError(f"the database is malformed: {error}")
        damage.sqlite_errorcode = _CORRUPT
        raise damage from error


def bundled_extension() -> str:
    """Return the path of the sqlite-vec extension that is installed with the package."""
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
        # A file that loads but registers nothing has been seen in the wild: ask it.
        return str(connection.execute("SELECT vec_version()").fetchone()[0])
    except Error as error:
        raise ExtensionError(f"{path}: {error}") from error


def has_fts5(connection: Connection) -> bool:
    """Say whether this SQLite was built with FTS5."""
    return bool(
        connection.execute(
            "SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'"
        ).fetchone()[0]
    )


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commit what the block does, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk, for one, has rolled it back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def try_to_write(connection: Connection) -> None:
    """Take the lock for writing and give it back. Raises the driver's error."""
    with transaction(connection):
        connection.execute("PRAGMA user_version").fetchone()


class Database:
    """One connection on one thread; work is handed over as whole functions.

    A function runs to its end on the thread even when the task that awaits it is cancelled, so a
    transaction inside one function is never left half-done. Use as an async context manager: an
    open connection keeps the process alive.
    """

    def __init__(
        self,
        path: Path,
        *,
        readonly: bool = False,
        immutable: bool = False,
        extension: str | None = None,
    ) -> None:
        """`immutable`: to read a file that nobody can change, without any other beside it."""
        self.path = path
        self.extension_error: str | None = None
        self._readonly = readonly
        self._immutable = immutable
        self._extension = extension
        # aiosqlite's constructor takes any callable that returns a connection; that is how another
        # driver than the standard library's gets in.
        self._connection = aiosqlite.Connection(self._connect, iter_chunk_size=64)

    async def __aenter__(self) -> "Database":
        try:
            await self._connection
        except BaseException:
            # aiosqlite has told its thread to end, but not waited for it: it would call into a
            # loop that may be closed by then.
            await asyncio.to_thread(self._connection._thread.join)
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._connection.close()

    async def run(self, function: Callable[[Connection], T]) -> T:
        """Run `function(connection)` on the connection's thread and return what it returns."""
        # aiosqlite has no public way to run a function of one's own on its thread.
        execute: Callable[..., Awaitable[T]] = self._connection._execute
        with in_words():
            return await execute(function, self._connection._conn)

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Like `run`, but cancelling the caller interrupts the SQL and waits until it stopped."""
        work = asyncio.ensure_future(self.run(function))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                # Repeated: an interrupt that comes between two statements is lost.
                await self._connection.interrupt()
                # Cancelled again or not, the connection is given back when it is free.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({work}, timeout=INTERRUPT_AGAIN_S)
            if not work.cancelled():
                work.exception()
            raise

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
            await asyncio.shield(self.run(runner.close))
            raise
        return runner.result

    def _connect(self) -> Connection:
        if self._readonly:
            uri = f"file:{_quote(self.path)}?mode=ro{'&immutable=1' if self._immutable else ''}"
            connection = sqlite.connect(uri, uri=True, isolation_level=None)
        else:
            with suppress(FileExistsError):
                # Made by us first, so that it is private from its first byte on. One that is there
                # is not even opened: closing it again would give up the locks that other
                # connections of this process have on it (`man 2 fcntl`).
                os.close(os.open(self.path, _NEW, 0o600))
            _keep_private(self.path)
            if not os.access(self.path, os.W_OK):  # SQLite doesn't say as much
                is_read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
                number = errno.EROFS if is_read_only else errno.EACCES
                raise OSError(number, os.strerror(number), str(self.path))
            connection = sqlite.connect(str(self.path), isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            if self._extension is not None:
                try:
                    load_extension(connection, self._extension)
                except ExtensionError as error:
                    self.extension_error = str(error)
            if self._readonly:
                connection.execute("PRAGMA query_only = ON")
            else:
                # Written into the file, which may yet turn out to be somebody else's.
                if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
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
    """Take away what others may do with an index that was made by another umask, or copied."""
    for suffix in ("", "-wal", "-shm"):
        # By name: to close a descriptor of the file would give up SQLite's locks on it.
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode)
            if mode & 0o077:
                os.chmod(f"{path}{suffix}", mode & 0o700)


def _quote(path: Path) -> str:
    """Quote a path for a `file:` URI, bytes that are not UTF-8 included."""
    return quote_from_bytes(os.fsencode(path.absolute()))


def set_up(connection: Connection) -> None:
    """Say how long the log gets before it is written back."""
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def empty_log(connection: Connection) -> None:
    """Write all that is in the write-ahead log into the database. Raises `OSError` if it can't."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise OSError("the write-ahead log is being read")


def write_back(connection: Connection) -> None:
    """Leave nothing in the log, and give freed pages back to the disk, before closing."""
    connection.execute("PRAGMA optimize")
    # Stepped to its end by fetchall; gives pages that deletes have freed back to the disk.
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
