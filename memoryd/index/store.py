"""An open index: its file, the write connection, the readers and the state in memory."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from memoryd.fs.atomic_replace import outlast, put_in_place
from memoryd.identity import Identity
from memoryd.index import batch_jobs, cache, dimension_change, driver, queries, schema, vec_table
from memoryd.index.catalog import Catalog, load_catalog
from memoryd.index.driver import Connection, Database, Error, Fault, fault_of, transaction
from memoryd.index.file_identity import Moved, OpenFiles, copy_to, has_log, put_back
from memoryd.index.readers import ReaderPool, release_pages
from memoryd.index.statements import DerivedTables
from memoryd.index.tombstone_key import SUFFIX, TombstoneKey
from memoryd.index.vector_load import load_vectors
from memoryd.index.vector_matrix import VectorMatrix
from memoryd.index.write_outage import Outage, is_full
from memoryd.messages import BatchJobRow, FileKey, FileStat

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options for opening an index file.

    `extension` None means without sqlite-vec; `extension_error` is the reason, if there is one.
    `cache_max_entries` None means no limit. `cache_deleted_s` is the time for which embeddings of
    deleted texts stay. `is_locked` returns whether the lock file is still in place; it blocks.
    `key_path` is the place of the tombstones' key if it is not beside the file.
    """

    path: Path
    workspace: Path
    extension: str | None
    extension_error: str | None
    cache_max_entries: int | None
    cache_deleted_s: float = 7 * 86_400.0
    is_locked: Callable[[], bool] = field(default=lambda: True, compare=False)
    key_path: Path | None = None


class Store:
    """An open index: `tables` are maintained by its writer, `identity` describes its rows.

    `outage` has the reason why an index is not `writable`, or why later writes failed. `identity`
    may differ from `wanted`, the configured one, until a rebuild has replaced the file.
    `generation` counts replacements: row ids are valid within one generation. `set_aside` counts
    the chunks whose text can't be embedded. `erased`: traces of deleted texts may remain. During a
    rebuild, `in_rebuild` has the hashes of the texts that it embeds and `forgotten_meanwhile` how
    often files were forgotten. A rebuild may begin once the leftovers of earlier ones are `swept`.
    """

    def __init__(self, options: StoreOptions, wanted: Identity) -> None:
        self.options = options
        self.path = options.path
        self.wanted = wanted
        self.identity = wanted
        self.outage = Outage(options.path)
        self.tombstone_key = TombstoneKey(options.key_path or Path(f"{options.path}{SUFFIX}"))
        self._files = OpenFiles(options.path)
        self.readers = self._reader_pool()
        self.catalog = Catalog({})
        self.matrix: VectorMatrix | None = None
        self.generation = self.set_aside = 0
        self.erased = False
        self.in_rebuild: set[str] = set()
        self.forgotten_meanwhile = Counter[FileKey]()
        self.matrix_ready = asyncio.Event()
        self.swept = asyncio.Event()
        self.fts_error: str | None = None
        self.vec_error: str | None = options.extension_error
        self._database: Database | None = None
        self._open = False

    @property
    def tables(self) -> DerivedTables:
        """The derived tables maintained now, and the identity of the rows."""
        vec = bool(self.options.extension and self.identity.dims and self.vec_error is None)
        return DerivedTables(self.identity, fts=self.fts_error is None, vec=vec)

    @property
    def writable(self) -> bool:
        """True if there is a write connection, which may still fail."""
        return self._database is not None

    @property
    def database(self) -> Database:
        """The write connection, for the writer, or for a rebuild on its own file."""
        assert self._database is not None, "the index is not open"  # noqa: S101
        return self._database

    def difference(self) -> str | None:
        """Return how the configuration differs from the index, or None."""
        return self.wanted.difference(self.identity)

    def vector_problem(self) -> str | None:
        """Return why the vectors of the index can't be compared with a query's, or None."""
        return self.wanted.vector_problem(self.identity)

    def target_identity(self, *, during_outage: bool = False) -> Identity | None:
        """Return the identity to embed for; None while the index can't take its vectors.

        `during_outage`: vectors that exist already may wait for the disk, new ones are not bought.
        """
        if self.vector_problem() or not self.writable:
            return None
        return self.identity if during_outage or self.outage.error is None else None

    async def pending(self, after: int, limit: int) -> list[tuple[int, str, str]]:
        """Return (row, text hash, text) of the next chunks without a vector, by row."""
        return await self.readers.read(partial(queries.read_pending, after=after, limit=limit))

    async def count_pending(self) -> int:
        """Return the number of texts without a vector."""
        return await self.readers.read(queries.count_pending)

    async def measure_pending(self) -> tuple[int, int]:
        """Return the number of texts without a vector, and their estimated tokens."""
        return await self.readers.read(queries.measure_pending)

    def known_files(self, *, without: str | None) -> dict[FileKey, FileStat]:
        """Return the stats of indexed files, `without` those of one source. Any thread may ask."""
        return self.catalog.stats(without=without)

    async def batch_jobs(self) -> list[BatchJobRow]:
        """Return the batch jobs that a former process left."""
        return await self.readers.read(partial(batch_jobs.load_jobs, identity=self.wanted))

    async def mount_points(self, source: str) -> dict[str, tuple[int, int]]:
        """Return the recorded (device, inode) of each mount point of a source."""
        return await self.readers.read(partial(schema.get_places, source=source))

    def follow_dims(self, connection: Connection, number: int) -> bool:
        """Record the dims that the provider gives now. Return whether `wanted` has changed.

        If they differ from the index's dims, the index has to be rebuilt.
        """
        before = self.wanted
        self.wanted = dimension_change.record_dims(connection, before, self.identity, number)
        return self.wanted != before

    async def open(self) -> None:
        """Open or create the file and repair its derived tables, or open it read-only.

        Raises `IndexRefusedError`, or the driver's error if the file is corrupt or can't be made.
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

        If another file has replaced the index, a copy is left beside it, so that the next start can
        keep its embeddings.
        """
        if not self._open:
            return
        try:
            await self.readers.close()
        finally:
            if self._database is not None:
                if self.erased and self.tables.fts:
                    with suppress(Error):
                        await self._database.run(schema.merge_all_quickly)
                if await self.moved() is Moved.REPLACED:
                    await self._leave_copy(self._database)
                try:
                    await self._close_database()
                except Error as error:
                    if fault_of(error) is not Fault.SURROUNDINGS:
                        raise
                    log.warning("%s: its log is left for the next start: %s", self.path, error)
            self._open = False

    async def moved(self) -> Moved | None:
        """Return how the index's files differ from the open ones, None if they don't."""
        return (await self.file_state())[0]

    async def file_state(self) -> tuple[Moved | None, bool]:
        """Return how the index's files have changed, and whether its lock file is in place."""
        return await self.database.run(lambda _: (self._files.moved(), self.options.is_locked()))

    async def reopen(self) -> Moved | None:
        """Reopen the write connection; if the files are gone, restore them and reopen all others.

        Returns how the files had changed. Raises `OSError` or the driver's error; if the store is
        not `writable` after that, it is unusable.
        """
        moved = await self.moved()
        if moved is None:
            stale = self.database
            fresh = await Database(self.path, extension=self.options.extension).__aenter__()
            self._database = fresh
            with suppress(Error):
                await outlast(asyncio.ensure_future(stale.__aexit__()))
            await fresh.run(self._set_up)
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
            log.warning("%s %s while it was open; restored it without loss", self.path, moved.value)
        return moved

    async def note_failure(self, error: Exception) -> bool:
        """Record a failure to write. Return whether it is the first of an outage."""
        full = await asyncio.to_thread(is_full, self.path.parent)
        return self.outage.fail(error, is_full=full)

    async def can_be_written(self) -> bool:
        """Return whether the index can be opened for writing; the outage records why not.

        Closes the readers for that: no other connection of the process can map for writing the
        files that a connection maps read-only.
        """
        try:
            async with self.readers.emptied(), Database(self.path) as database:
                await database.run(driver.try_to_write)
        except (OSError, Error) as error:
            await self.note_failure(error)
            return False
        return True

    async def load_matrix(self) -> None:
        """Read all vectors into memory; vector search is not ready before."""
        if (number := self.identity.dims) is not None:
            self.matrix = await self.readers.read(lambda c: load_vectors(c, number))
        self.matrix_ready.set()

    async def release_pages(self) -> None:
        """Free the pages that idle connections keep in memory."""
        await self.readers.release_pages()
        if self._database is not None:
            with suppress(Error):
                await self._database.run(release_pages)

    def learn_dims(self, connection: Connection, number: int) -> None:
        """Record the dims of the provider's first answer and create the vector tables.

        Runs on the write connection. Can be repeated until it succeeds.
        """
        learned = msgspec.structs.replace(self.identity, dims=number)
        with transaction(connection):
            schema.put_identity(connection, learned)
        self.vec_error = vec_table.follow(
            connection, number, self.options.extension, self.vec_error
        )
        self.matrix = VectorMatrix(number)
        self.identity = learned

    async def replace_with(self, other: Path, identity: Identity) -> None:
        """Replace the file by another index file, which is closed and checkpointed.

        Whenever the process dies, the file at `path` is the whole old index or the whole new one:
        all connections are closed first, so no write-ahead log can outlive its file.
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
        """Open the index read-only. Returns False if that fails too.

        Without a log, the file is opened as immutable, because a full or read-only disk doesn't
        allow a new log. The lock keeps others from changing the file.
        """
        self.readers = self._reader_pool(immutable=not await asyncio.to_thread(has_log, self.path))
        try:
            await self.readers.open()
            self.identity = await self.readers.read(self._check)
            await self.readers.read(self._read_state)
            self._open = True
        except (OSError, Error) as error:
            if fault_of(error) is Fault.CORRUPT:
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
            if fault_of(error) is not Fault.CORRUPT:
                raise
            log.warning("%s: the write-ahead log is left as it is: %s", self.path, error)
        finally:
            self._files.forget()
            # In any case: the thread of an open connection keeps the process alive.
            with suppress(Error):
                await database.__aexit__()

    async def _leave_copy(self, database: Database) -> None:
        copy = self._beside("kept")

        def keep(connection: Connection) -> None:
            # SQLite would take the log for a part of the other file.
            driver.empty_log(connection)
            copy_to(connection, copy)

        try:
            await database.run(keep)
            self._files.remove_logs()
        except (OSError, Error) as error:
            log.warning("%s: its embeddings could not be kept: %s", self.path, error)

    def _beside(self, name: str) -> Path:
        """Return a file name whose embeddings the next start keeps before it removes the file."""
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
            raise OSError("its schema must be migrated first")
        identity = schema.check(connection, self.options.workspace)
        self.tombstone_key.open(connection, convert=False)
        return identity

    def _read_state(self, connection: Connection) -> None:
        self.catalog = Catalog(load_catalog(connection))
        self.set_aside = queries.count_set_aside(connection)
        self.erased = schema.get_note(connection, schema.ERASED) != "0"
        self.wanted = dimension_change.expected_identity(connection, self.wanted, self.identity)

    def _set_up(self, connection: Connection) -> None:
        driver.set_up(connection)
        connection.create_function("keyed", 1, self.tombstone_key.hashed)

    def _prepare(self, connection: Connection) -> Identity:
        self._set_up(connection)
        identity = schema.prepare(connection, self.options.workspace, self.wanted)
        self.tombstone_key.open(connection, convert=True)
        self.fts_error = schema.ensure_fts(connection)
        extension = self.options.extension
        self.vec_error = vec_table.follow(connection, identity.dims, extension, self.vec_error)
        # An index without files is about to be filled from a salvaged cache.
        if driver.one_value(connection, "SELECT 1 FROM files LIMIT 1"):
            cache.prune_cache(connection, self.options.cache_max_entries)
        return identity
