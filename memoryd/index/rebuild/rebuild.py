"""One rebuild: builds a new index beside the old one and has the writer swap it in.

The old index keeps answering and taking changes meanwhile. The new one starts with its embeddings;
a rebuild that fails or is cut off gives its own back to the old index, so none is paid for twice.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from memoryd.fs.atomic_replace import check_closed, outlast, remove_index
from memoryd.index import queries, statements
from memoryd.index.cache import find_dims, find_vectors
from memoryd.index.catalog import Catalog, load_catalog
from memoryd.index.dimension_change import adopt_cached
from memoryd.index.driver import Connection, Error
from memoryd.index.forget import chunk_hashes, complete, forget, wipe
from memoryd.index.rebuild.carry_over import adopt_vectors, copy_cache, copy_records
from memoryd.index.rebuild.leftovers import discard
from memoryd.index.statements import GROUP_BYTES, GROUP_FILES, FileChange, size, write_files
from memoryd.index.store import Store
from memoryd.index.tombstone_key import CHUNK
from memoryd.index.write_outage import check_room, reason_and_advice
from memoryd.messages import (
    Embedded,
    FileChanged,
    FileGone,
    FileKey,
    FileStat,
    GivesDims,
    KeepEmbeddings,
    OnProgress,
    ParsedFile,
    Replace,
    StoredVector,
    ToWriter,
    Unreadable,
)

ROUNDS = 3
"""Maximum number of scans of one rebuild. The next regular scan finds later changes."""

READ_ROWS = 256


class RebuildError(Exception):
    """The rebuild failed and the old index stays. The message says why."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Counts of a finished rebuild: texts embedded, and chunks with a cached vector."""

    embedded: int
    reused: int


class Stages(Protocol):
    """The other stages, as a rebuild uses them.

    `batch_items` is the number of texts of one `embed` call, 0 without a provider. `later`: vectors
    of another model than the present index's are made once the new one is in place, as is best for
    batch jobs; none could be searched before. `may_wait` returns whether so many texts may need a
    confirmation; they are embedded later too.
    """

    batch_items: int
    later: bool

    def may_wait(self, texts: int) -> bool:
        """Return whether so many texts may have to wait for their user."""

    async def scan(self) -> dict[FileKey, tuple[Path, FileStat]]:
        """Return all files of all sources. Raises `RebuildError` when some can't be seen."""

    async def parse(self, change: FileChanged) -> ParsedFile | Unreadable | FileGone:
        """Read and chunk one file of any source."""

    async def embed(
        self, texts: list[tuple[str, str]]
    ) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]], int | None]:
        """Embed (hash, text) pairs: return (hash, vector) and (hash, error) pairs, and the dims.

        Raises `RebuildError` while the provider is unavailable.
        """

    def under_way(self) -> Collection[str]:
        """Return the hashes of texts that are being embedded for the present index."""


class Rebuild:
    """One rebuild of `store` for its target identity. Run it once."""

    def __init__(
        self,
        store: Store,
        writer: asyncio.Queue[ToWriter],
        stages: Stages,
        on_progress: OnProgress,
    ) -> None:
        self._store = store
        self._writer = writer
        self._stages = stages
        self._on_progress = on_progress
        self._path = Path(f"{store.path}.rebuild-{os.getpid()}")
        options = replace(store.options, path=self._path, key_path=store.tombstone_key.path)
        self._new = Store(options, store.wanted)
        self._seen_vectors = 0
        self._forgotten = Counter[FileKey]()
        """How often files had been forgotten meanwhile when they were read last."""
        self._failed: Exception | None = None
        self._unstored: list[StoredVector] = []
        self._embedded = 0
        self._reused = 0

    async def run(self) -> RebuildResult:
        """Build and swap. If it raises `RebuildError` or is cancelled, the old index stays.

        A swap that has been requested can't be cancelled: it is short, so it is awaited.
        """
        self._store.forgotten_meanwhile.clear()
        try:
            await asyncio.to_thread(remove_index, self._path)
            await self._new.open()
            try:
                await self._seed()
                await self._fill()
                done = asyncio.get_running_loop().create_future()
                identity = self._new.identity
                await self._writer.put(Replace(self._path, identity, self._finish, done))
                await outlast(done)
            finally:
                await self._new.close()
        except (OSError, Error) as error:
            why = reason_and_advice(error, self._store.path)
            raise RebuildError(f"{why}; the old index stays") from error
        finally:
            await asyncio.shield(self._give_back())
        return RebuildResult(self._embedded, self._reused)

    async def _give_back(self) -> None:
        """Give the embeddings of an unfinished rebuild to the old index, then remove the file."""
        if await asyncio.to_thread(self._path.exists):
            done = asyncio.get_running_loop().create_future()
            message = KeepEmbeddings(self._path, self._unstored, done)
            await self._writer.put(message)
            await message.done
        await asyncio.to_thread(discard, self._path)

    async def _seed(self) -> None:
        live, new = self._store.path, self._new
        if new.identity.dims is None:
            # Otherwise unknown until the provider answers, which it may never have to.
            identity = new.identity
            dims = await self._store.readers.read(lambda c: find_dims(c, identity))
            if dims is not None:
                await new.database.run(lambda c: new.learn_dims(c, dims))
        self._seen_vectors = await new.database.run(self._copy_records)
        await new.database.run(lambda c: copy_cache(c, live))
        await new.database.run(lambda c: adopt_cached(c, new.identity))

    def _copy_records(self, connection: Connection) -> int:
        last_vector = copy_records(connection, self._store.path)
        self._new.tombstone_key.open(connection, convert=False)
        return last_vector

    async def _finish(self) -> None:
        """Copy the old index's changes since the start, except files; then close.

        The writer calls it right before the swap. Files that were forgotten since they were read
        are removed; the next scan reads the parts that may stay.
        """
        new, live, meanwhile = self._new, self._store.path, self._store.forgotten_meanwhile
        forgotten = self._forgotten_since_read()

        def take_over(connection: Connection) -> None:
            self._copy_records(connection)
            if meanwhile:
                digests = chunk_hashes(connection, forgotten)
                key = new.tombstone_key
                tombstones = [(CHUNK, key.hashed(digest)) for digest in digests]
                forget(connection, new.tables, forgotten, tombstones, key)
                wipe(connection)
                complete(connection, new.tables)
            copy_cache(connection, live, after=self._seen_vectors)
            adopt_vectors(connection, new.tables)

        await new.database.run(take_over)
        await new.close()
        check_closed(self._path)

    async def _fill(self) -> None:
        for _ in range(ROUNDS):
            changed = await self._take_files()
            await self._embed_pending()
            if not changed:
                return

    def _forgotten_since_read(self) -> set[FileKey]:
        meanwhile = self._store.forgotten_meanwhile
        return {key for key, times in meanwhile.items() if self._forgotten[key] != times}

    async def _take_files(self) -> bool:
        """Bring the new index up to date with the disk. Return whether anything has changed."""
        new = self._new
        # A message of a file may have been forgotten, which leaves the file as it was.
        forgotten = self._forgotten_since_read()
        self._forgotten = self._store.forgotten_meanwhile.copy()
        found = await self._stages.scan()
        there = new.catalog.stats()
        changed = [
            key for key, (_, stat) in found.items() if key in forgotten or there.get(key) != stat
        ]
        gone = there.keys() - found.keys()
        group: list[FileChange] = [FileGone(key) for key in gone]
        for done, key in enumerate(changed):
            self._on_progress(done, len(changed), "reading files")
            parsed = await self._stages.parse(FileChanged(key, found[key][0]))
            if isinstance(parsed, ParsedFile):
                group.append(parsed)
            if len(group) >= GROUP_FILES or sum(map(size, group)) >= GROUP_BYTES:
                await self._write(group)
                group = []
        await self._write(group)
        if changed or gone:
            new.catalog = Catalog(await new.database.run(load_catalog))
        return bool(changed or gone)

    async def _write(self, files: list[FileChange]) -> None:
        new = self._new
        changes = await new.database.run_steps(lambda c: write_files(c, new.tables, files))
        self._reused += sum(changed.reused for changed in changes)

    async def _embed_pending(self) -> None:
        if not self._stages.batch_items or (self._stages.later and not self._same_vectors):
            return
        new = self._new
        total = await new.database.run(queries.count_pending)
        if self._stages.may_wait(total):
            return
        after = done = 0
        while batch := await self._read_pending(after):
            after = batch[-1][0]
            self._on_progress(min(done, total), total, "embedding")
            texts = await self._unpaid({digest: text for _, digest, text in batch})
            size = self._stages.batch_items
            if texts:
                await asyncio.to_thread(check_room, self._path, len(texts), new.identity.dims)
            try:
                async with asyncio.TaskGroup() as group:
                    for start in range(0, len(texts), size):
                        group.create_task(self._embed(texts[start : start + size]))
            except BaseExceptionGroup as failed:
                # Not except*: some releases of 3.11 wrap errors raised inside it once more.
                explained = (RebuildError, OSError, Error)
                if not all(isinstance(error, explained) for error in failed.exceptions):
                    raise
                first = failed.exceptions[0]
                raise RebuildError(reason_and_advice(first, self._store.path)) from failed
            if self._failed is not None:
                raise self._failed
            done += len(texts)
        self._on_progress(total, total, "embedding")

    @property
    def _same_vectors(self) -> bool:
        return self._new.identity.same_vectors(self._store.identity)

    async def _unpaid(self, texts: dict[str, str]) -> list[tuple[str, str]]:
        """Return the texts without a vector in the old index, finished or under way.

        Vectors under way are copied at the swap or arrive after it. The feeder skips the returned
        texts from now on.
        """
        if not self._same_vectors:
            return list(texts.items())
        for digest in self._stages.under_way():
            texts.pop(digest, None)
        self._store.in_rebuild.update(texts)
        identity, digests = self._store.identity, list(texts)
        known = await self._store.readers.read(lambda c: find_vectors(c, identity, digests))
        if known:
            new = self._new
            await new.database.run(
                lambda c: statements.put_vectors(c, new.tables, list(known.items()))
            )
            self._reused += len(known)
        return [(digest, text) for digest, text in texts.items() if digest not in known]

    async def _read_pending(self, after: int) -> list[tuple[int, str, str]]:
        return await self._new.database.run(lambda c: queries.read_pending(c, after, READ_ROWS))

    async def _embed(self, texts: list[tuple[str, str]]) -> None:
        if self._failed is not None:
            return  # buy no vectors that can't be stored
        vectors, bad, dims = await self._stages.embed(texts)
        new = self._new
        try:
            await new.database.run(lambda c: self._put(c, vectors, bad, dims))
        except (OSError, Error) as error:
            # Requests under way are awaited, and their vectors kept in the same way.
            self._failed = error
            made_for = msgspec.structs.replace(new.identity, dims=dims)
            self._unstored += [(made_for, *vector) for vector in vectors]
            return
        if dims not in (None, new.identity.dims):
            await self._writer.put(Embedded(new.identity, vectors, bad, dims))
            await self._writer.put(GivesDims(dims))
            raise RebuildError(
                f"the provider now gives vectors of {dims} dimensions, not {new.identity.dims}"
            )
        self._embedded += len(vectors)

    def _put(
        self,
        connection: Connection,
        vectors: list[tuple[str, bytes]],
        bad: list[tuple[str, str]],
        dims: int | None,
    ) -> None:
        """Store vectors, except of other dims; the first ones set the dims of the index."""
        new = self._new
        if new.identity.dims is None and dims is not None:
            new.learn_dims(connection, dims)
        if dims in (None, new.identity.dims):
            statements.put_vectors(connection, new.tables, vectors, bad)
