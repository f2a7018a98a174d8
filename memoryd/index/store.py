"""One index, open: its file, the write connection, the readers and what is kept in memory."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from memoryd.fs.atomic_replace import outlast, put_in_place
from memoryd.identity import Identity
from memoryd.index import cache, dimension_change, driver, queries, schema
from memoryd.index.catalog import Catalog, load_catalog
from memoryd.index.driver import (
    Connection,
    Database,
    Error,
    Fault,
    fault_of,
    transaction,
    try_to_write,
)
from memoryd.index.file_identity import Moved, OpenFiles, copy_to, has_log, put_back
from memoryd.index.readers import ReaderPool
from memoryd.index.statements import DerivedTables
from memoryd.index.vector_matrix import VectorMatrix, load_vectors
from memoryd.index.write_outage import Outage, is_full
from memoryd.messages import FileKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What decides how an index file is opened.

    `extension` None means without sqlite-vec, and `extension_error` why. `cache_max_entries` None
    means no bound. `is_locked` says whether others still find the lock of the index. Blocking.
    """

    path: Path
    workspace: Path
    extension: str | None
    extension_error: str | None
    cache_max_entries: int | None
    is_locked: Callable[[], bool] = field(default=lambda: True, compare=False)


class Store:
    """An open index. `tables` says what its writer keeps, `identity` what its rows are built with.

    One that can't be opened for writing, but read, is not `writable`; `outage` tells why, and why
    writing fails later on.

    `identity` may differ from `wanted`, the present configuration's, until a rebuild has replaced
    the file. `generation` counts replacements: row ids of one mean nothing in the next. `set_aside`
    counts the chunks whose text can't be embedded. While a rebuild is under way, `in_rebuild` are
    the hashes of the texts that it embeds, and `forgotten_meanwhile` are files that were forgotten.
    None may begin before what others have left is `swept`.
    """

    def __init__(self, options: StoreOptions, wanted: Identity) -> None:
        self.options = options
        self.path = options.path
        self.wanted = wanted
        self.identity = wanted
        self.outage = Outage(options.path)
        self._files = OpenFiles(options.path)
        self.readers = self._reader_pool()
        self.catalog = Catalog({})
        self.matrix: VectorMatrix | None = None
        self.generation = 0
        self.set_aside = 0
        self.in_rebuild: set[str] = set()
        self.forgotten_meanwhile: set[FileKey] = set()
        self.matrix_ready = asyncio.Event()
        self.swept = asyncio.Event()
        self.fts_error: str | None = None
        self.vec_error: str | None = options.extension_error
        self._database: Database | None = None
        self._open = False

    @property
    def tables(self) -> DerivedTables:
        """Which tables are kept, and whose rows are written, at this moment."""
        vec = self.vec_error is None and self.identity.dims is not None
        return DerivedTables(self.identity, fts=self.fts_error is None, vec=vec)

    @property
    def writable(self) -> bool:
        """Whether there is a write connection; it may fail all the same."""
        return self._database is not None

    @property
    def database(self) -> Database:
        """The write connection; only the writer (or a rebuild of its own file) may use it."""
        assert self._database is not None, "the index is not open"  # noqa: S101
        return self._database

    def difference(self) -> str | None:
        """Say what about the index differs from the present configuration, or None."""
        return self.wanted.difference(self.identity)

    def vector_problem(self) -> str | None:
        """Say why the vectors of the index can't be compared with a query's, or None."""
        return self.wanted.vector_problem(self.identity)

    def follow_dims(self, connection: Connection, number: int) -> bool:
        """Note how many numbers the provider's vectors have now; say whether that is news.

        If they are not as many as the index's, that is to be rebuilt.
        """
        before = self.wanted
        self.wanted = dimension_change.record_dims(connection, before, self.identity, number)
        return self.wanted != before

    async def open(self) -> None:
        """Open or create the file and put its derived tables right; or open it to be read alone.

        Raises `IndexRefusedError`, or the driver's error when the file is damaged, or there is none
        and none can be made.
        """
        try:
            make = partial(self.path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
            await asyncio.to_thread(make)
            await self._open_database()
        except (OSError, Error) as error:
            if fault_of(error) is not Fault.SURROUNDINGS or not await self._open_to_read():
                raise
            await self.note_failure(error)
            log.warning("%s: %s", self.path, self.outage.warning)
            return
        try:
            await self.readers.open()
        except BaseException:
            await self._close_database()
            raise

    async def close(self) -> None:
        """Checkpoint and close everything. Idempotent.

        When another file has taken the index's place, what this one has is left beside it, for the
        next start to take what has been paid for.
        """
        if not self._open:
            return
        try:
            await self.readers.close()
        finally:
            if self._database is not None:
                if await self.moved() is Moved.REPLACED:
                    await self._leave_copy(self._database)
                try:
                    await self._close_database()
                except Error as error:
                    if fault_of(error) is not Fault.SURROUNDINGS:
                        raise
                    log.warning("%s: its log stays for the next start: %s", self.path, error)
            self._open = False

    async def moved(self) -> Moved | None:
        """Say whether the index's files are no longer what is open."""
        return (await self.file_state())[0]

    async def file_state(self) -> tuple[Moved | None, bool]:
        """Say what has become of the index's files, and whether others still find its lock."""
        return await self.database.run(lambda _: (self._files.moved(), self.options.is_locked()))

    async def reopen(self) -> Moved | None:
        """Open the write connection anew; and all others, if the files are gone.

        Then what is open is written back first. Returns what had become of the files. Raises
        `OSError` or the driver's error. If it is not `writable` after that, nothing works any more.
        """
        moved = await self.moved()
        if moved is None:
            stale = self.database
            fresh = await Database(self.path, extension=self.options.extension).__aenter__()
            self._database = fresh
            with suppress(Error):
                await outlast(asyncio.ensure_future(stale.__aexit__()))
            await fresh.run(driver.set_up)
        elif moved is not Moved.REPLACED:
            if moved is Moved.GONE:
                copy = self._beside("back")
                await self.database.run(lambda c: put_back(c, self.path, copy))
            else:
                await self.database.run(driver.empty_log)
            async with self.readers.emptied():
                await self._close_database()
                self._files.remove_logs()
                await self._open_database()
            log.warning("%s %s while it was open; nothing of it is lost", self.path, moved.value)
        return moved

    async def note_failure(self, error: Exception) -> bool:
        """Note that the index could not be written. Returns whether that has just begun."""
        full = await asyncio.to_thread(is_full, self.path.parent)
        return self.outage.fail(error, is_full=full)

    async def can_be_written(self) -> bool:
        """Try to open the index for writing, and close it again; the outage tells why not.

        What one connection maps for reading alone no other of the process can map for writing.
        """
        try:
            async with self.readers.emptied(), Database(self.path) as database:
                await database.run(try_to_write)
        except (OSError, Error) as error:
            await self.note_failure(error)
            return False
        return True

    async def load_matrix(self) -> None:
        """Read all vectors into memory; until then the vector leg is not ready."""
        if (number := self.identity.dims) is not None:
            self.matrix = await self.readers.read(lambda c: load_vectors(c, number))
        self.matrix_ready.set()

    def learn_dims(self, connection: Connection, number: int) -> None:
        """Record the provider's dims at its first answer, and make the vector tables for them.

        To be run on the write connection. Until all of it has worked, it can be done once more.
        """
        learned = msgspec.structs.replace(self.identity, dims=number)
        with transaction(connection):
            schema.put_identity(connection, learned)
        if self.vec_error is None:
            self.vec_error = schema.ensure_vec(connection, number)
        self.matrix = VectorMatrix(number)
        self.identity = learned

    async def replace_with(self, other: Path, identity: Identity) -> None:
        """Put another index file, closed and checkpointed, in this one's place.

        Whenever the process dies, the file at `path` is the old index or the new one, whole: all
        connections are closed first, so there is no write-ahead log that could outlive its file.
        """
        async with self.readers.emptied():
            try:
                await self._close_database()
                work = asyncio.to_thread(put_in_place, other, self.path)
                await outlast(asyncio.ensure_future(work))
                self.wanted = identity
                self.generation += 1
            finally:
                await self._open_database()
        self.matrix = None
        self.matrix_ready.clear()
        await self.load_matrix()

    async def _open_database(self) -> None:
        database = await Database(self.path, extension=self.options.extension).__aenter__()
        try:
            self.vec_error = database.extension_error or self.options.extension_error
            self.identity = await database.run(self._prepare)
            await database.run(self._read_state)
            self._files.note()
        except BaseException:
            await database.__aexit__()
            raise
        self._database = database
        self._open = True

    async def _open_to_read(self) -> bool:
        """Open the index to be read alone. Returns False if that can't be done either.

        With no log to read, none is made: a full or read-only disk would not let us, and elsewhere
        it would be as read-only as the index. Nobody else changes that, its lock sees to it.
        """
        self.readers = self._reader_pool(immutable=not await asyncio.to_thread(has_log, self.path))
        try:
            await self.readers.open()
            self.identity = await self.readers.read(self._check)
            await self.readers.read(self._read_state)
            self._open = True
        except (OSError, Error) as error:
            if fault_of(error) is Fault.DAMAGED:
                raise
            return False
        finally:
            if not self._open:
                await self.readers.close()
        return True

    async def _close_database(self) -> None:
        database = self.database
        self._database = None
        try:
            await database.run(driver.write_back)
        except Error as error:
            if fault_of(error) is not Fault.DAMAGED:
                raise
            log.warning("%s: its write-ahead log stays: %s", self.path, error)
        finally:
            self._files.forget()
            # Whatever happens: an open connection's thread would keep the process alive.
            with suppress(Error):
                await database.__aexit__()

    async def _leave_copy(self, database: Database) -> None:
        copy = self._beside("kept")

        def keep(connection: Connection) -> None:
            # What is in the log would be taken for a part of the other file.
            driver.empty_log(connection)
            copy_to(connection, copy)

        try:
            await database.run(keep)
            self._files.remove_logs()
        except (OSError, Error) as error:
            log.warning("%s: nothing of it could be kept: %s", self.path, error)

    def _beside(self, name: str) -> Path:
        """Return the name of a file that the next start takes the embeddings of and removes."""
        return Path(f"{self.path}.rebuild-{os.getpid()}-{name}")

    def _reader_pool(self, *, immutable: bool = False) -> ReaderPool:
        return ReaderPool(
            self.path,
            extension=self.options.extension,
            immutable=immutable,
            moved=self._files.moved,
        )

    def _check(self, connection: Connection) -> Identity:
        if schema.version_of(connection) != schema.VERSION:
            raise OSError("it would have to be brought up to date first")
        return schema.check(connection, self.options.workspace)

    def _read_state(self, connection: Connection) -> None:
        self.catalog = Catalog(load_catalog(connection))
        self.set_aside = queries.count_set_aside(connection)
        self.wanted = dimension_change.expected_identity(connection, self.wanted, self.identity)

    def _prepare(self, connection: Connection) -> Identity:
        driver.set_up(connection)
        identity = schema.prepare(connection, self.options.workspace, self.wanted)
        self.fts_error = schema.ensure_fts(connection)
        if self.vec_error is None and identity.dims is not None:
            self.vec_error = schema.ensure_vec(connection, identity.dims)
        # One without files is still to be filled, from a cache that was salvaged.
        if connection.execute("SELECT 1 FROM files LIMIT 1").fetchone():
            cache.prune_cache(connection, self.options.cache_max_entries)
        return identity
