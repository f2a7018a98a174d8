"""One index, open: its file, the write connection, the readers and what is kept in memory."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import msgspec

from memoryd.flow import FileKey, FileStat
from memoryd.identity import Identity
from memoryd.index import cache, pending, schema
from memoryd.index.catalog import Catalog, FileRow, decode_remarks, decode_transcript
from memoryd.index.driver import Connection, Database, transaction
from memoryd.index.faults import DamagedIndexError
from memoryd.index.matrix import VectorMatrix
from memoryd.index.readers import ReaderPool
from memoryd.index.rows import Legs, MatrixRow
from memoryd.index.swap import outlast, put_in_place

_LOAD_ROWS = 2_000
_CHECKPOINT_PAGES = 4_000
"""16 MiB, instead of SQLite's 4 MiB: a page of an index that every commit touches is copied less
often from the write-ahead log."""
_VACUUM_PAGES = 5_000
"""20 MiB at most at a stop, which takes a fraction of a second."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What decides how an index file is opened.

    `extension` None means without sqlite-vec, and `extension_error` why. `cache_max_entries` None
    means no bound.
    """

    path: Path
    workspace: Path
    extension: str | None
    extension_error: str | None
    cache_max_entries: int | None


class Store:
    """An open index. `legs` says what its writer keeps, `identity` what its rows are built with.

    `identity` may differ from `wanted`, the present configuration's, until a rebuild has replaced
    the file. `generation` counts replacements: row ids of one mean nothing in the next. `set_aside`
    counts the chunks whose text can't be embedded. While a rebuild is under way, `in_rebuild` are
    the hashes of the texts that it embeds, and `forgotten_meanwhile` are files that were forgotten.
    """

    def __init__(self, options: StoreOptions, wanted: Identity) -> None:
        self.options = options
        self.path = options.path
        self.wanted = wanted
        self.identity = wanted
        self.readers = ReaderPool(options.path, extension=options.extension)
        self.catalog = Catalog({})
        self.matrix: VectorMatrix | None = None
        self.generation = 0
        self.set_aside = 0
        self.in_rebuild: set[str] = set()
        self.forgotten_meanwhile: set[FileKey] = set()
        self.matrix_ready = asyncio.Event()
        self.fts_error: str | None = None
        self.vec_error: str | None = options.extension_error
        self._database: Database | None = None

    @property
    def legs(self) -> Legs:
        """Which tables are kept, and whose rows are written, at this moment."""
        vec = self.vec_error is None and self.identity.dims is not None
        return Legs(self.identity, fts=self.fts_error is None, vec=vec)

    @property
    def is_open(self) -> bool:
        """Whether there is a write connection."""
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
        if self.wanted.same_vectors(self.identity):
            return None
        built = self.identity
        return f"the index was built with {built.provider} {built.model} and is being rebuilt"

    async def open(self) -> None:
        """Open or create the file and put its derived tables right.

        Raises `IndexRefusedError`, or the driver's error when the file is damaged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._open_database()
        try:
            await self.readers.open()
        except BaseException:
            await self._close_database()
            raise

    async def close(self) -> None:
        """Checkpoint and close everything. Idempotent."""
        if self._database is not None:
            try:
                await self.readers.close()
            finally:
                await self._close_database()

    async def load_matrix(self) -> None:
        """Read all vectors into memory; until then the vector leg is not ready."""
        if self.identity.dims is not None:
            self.matrix = await self.database.run(self._read_vectors)
        self.matrix_ready.set()

    async def learn_dims(self, dims: int) -> None:
        """Record the provider's dims at its first answer, and make the vector tables for them."""

        def record(connection: Connection) -> None:
            learned = msgspec.structs.replace(self.identity, dims=dims)
            with transaction(connection):
                schema.put_identity(connection, learned)
            self.identity = learned
            if self.vec_error is None:
                self.vec_error = schema.ensure_vec(connection, dims)

        await self.database.run(record)
        self.matrix = VectorMatrix(dims)

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
            self.catalog = Catalog(await database.run(load_catalog))
            self.set_aside = await database.run(pending.count_set_aside)
        except BaseException:
            await database.__aexit__()
            raise
        self._database = database

    async def _close_database(self) -> None:
        database = self.database
        self._database = None
        try:
            await database.run(_checkpoint)
        finally:
            # Whatever happens: an open connection's thread would keep the process alive.
            await database.__aexit__()

    def _prepare(self, connection: Connection) -> Identity:
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        identity = schema.prepare(connection, self.options.workspace, self.wanted)
        self.fts_error = schema.ensure_fts(connection)
        if self.vec_error is None and identity.dims is not None:
            self.vec_error = schema.ensure_vec(connection, identity.dims)
        # One without files is still to be filled, from a cache that was salvaged.
        if connection.execute("SELECT 1 FROM files LIMIT 1").fetchone():
            cache.prune_cache(connection, self.options.cache_max_entries)
        return identity

    def _read_vectors(self, connection: Connection) -> VectorMatrix:
        assert self.identity.dims is not None  # noqa: S101 - the caller has asked
        total = connection.execute(
            "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL"
        ).fetchone()[0]
        matrix = VectorMatrix(self.identity.dims, capacity=total + total // 8)
        cursor = connection.execute(
            "SELECT row_id, file_id, embedding FROM chunks JOIN embedding_cache USING (vector_id)"
        )
        while batch := cursor.fetchmany(_LOAD_ROWS):
            try:
                matrix.apply((), (MatrixRow(*row) for row in batch))
            except (ValueError, TypeError) as error:
                raise DamagedIndexError(f"a vector has not {matrix.dims} numbers") from error
        return matrix


def load_catalog(connection: Connection) -> dict[FileKey, FileRow]:
    """Read the `files` table."""
    found = connection.execute(
        "SELECT source, path, files.file_id, files.hash, mtime_ns, size, inode, remarks,"
        " transcript, count(row_id) FROM files LEFT JOIN chunks USING (file_id)"
        " GROUP BY files.file_id"
    )
    return {
        FileKey(source, path): FileRow(
            file_id,
            digest,
            FileStat(*stat),
            chunks,
            decode_remarks(remarks),
            decode_transcript(transcript),
        )
        for source, path, file_id, digest, *stat, remarks, transcript, chunks in found
    }


def _checkpoint(connection: Connection) -> None:
    connection.execute("PRAGMA optimize")
    # Stepped to its end by fetchall; gives pages that deletes have freed back to the disk.
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
