"""The sources and the provider of one agent, as a rebuild of its index uses them."""

import asyncio
from collections.abc import Collection
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from memoryd.agent.agent import NoteStages
from memoryd.agent.embedding import Embedding
from memoryd.agent.transcripts import Transcripts
from memoryd.chunk.parser import Parsed
from memoryd.embed.provider import ProviderError
from memoryd.index.rebuild.rebuild import RebuildError
from memoryd.index.store import Store
from memoryd.index.tombstone_key import KEY_ADVICE
from memoryd.messages import FileChanged, FileKey, FileStat, Unreadable
from memoryd.source.transcripts.locations import SOURCE as SESSIONS


class RebuildStages:
    """Scans, parses and embeds for a rebuild, which doesn't wait for unavailable places."""

    def __init__(
        self,
        store: Store,
        notes: NoteStages,
        transcripts: Transcripts | None,
        embedding: Embedding,
        threads: Executor,
    ) -> None:
        self._store = store
        self._notes = notes
        self._transcripts = transcripts
        self._pool = embedding.pool
        self._threads = threads
        self.under_way = embedding.feeder.under_way
        self.batch_items = 0 if embedding.provider is None else embedding.provider.batch_items
        self.later = embedding.batches is not None
        self._gate = embedding.gate

    def may_wait(self, texts: int) -> bool:
        """Return whether so many texts may have to wait for their user."""
        return self._gate is not None and self._gate.may_be_large(texts)

    async def scan(self) -> dict[FileKey, tuple[Path, FileStat]]:
        """Return all files of all sources. Raises `RebuildError` when some can't be seen."""
        if self._transcripts is not None and (lost := self._store.tombstone_key.problem):
            raise RebuildError(f"{lost}; {KEY_ADVICE}")
        loop = asyncio.get_running_loop()
        known = self._store.known_files(without=SESSIONS)
        files = await loop.run_in_executor(self._threads, self._scan_notes, known)
        if self._transcripts is not None:
            files |= await self._scan_transcripts(self._transcripts)
        return files

    async def _scan_transcripts(
        self, transcripts: Transcripts
    ) -> dict[FileKey, tuple[Path, FileStat]]:
        """Return all transcripts, and first write the copies of those whose files are gone."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, transcripts.find)
        for problem in found.unreadable.values():
            raise RebuildError(problem)
        unseen = [key for key in transcripts.known() if key not in found.files]
        kept = await transcripts.keep(unseen, found, self._threads, unread=True)
        if set(unseen) - kept.copies.keys() - set(kept.removed):
            raise RebuildError(kept.problems[0])
        return found.files | kept.copies

    def _scan_notes(self, known: Collection[FileKey]) -> dict[FileKey, tuple[Path, FileStat]]:
        scan = self._notes.discovery.scan()
        for problem in (*scan.problems(), *self._notes.mounts.judge(scan, known).away.values()):
            raise RebuildError(problem)
        return scan.files

    async def parse(self, change: FileChanged) -> Parsed:
        """Read and chunk one file of any source."""
        if self._transcripts is None or change.key.source != SESSIONS:
            return await self._notes.parser.parse(change)
        loop, transcripts = asyncio.get_running_loop(), self._transcripts
        read = partial(loop.run_in_executor, self._threads, transcripts.parse, change)
        parsed = await transcripts.kept.when_held(read)
        if not isinstance(parsed, Unreadable) or not transcripts.kept.copies.holds(
            change.real_path
        ):
            return parsed
        # The copy is damaged, but the old index still has the text.
        if (problem := await transcripts.kept.restore(change.key, self._threads)) is not None:
            raise RebuildError(problem)
        return await transcripts.kept.when_held(read)

    async def embed(
        self, texts: list[tuple[str, str]]
    ) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]], int | None]:
        """Embed (hash, text) pairs. Raises `RebuildError` while the provider is unavailable."""
        assert self._pool is not None  # noqa: S101 - `batch_items` is 0 without one
        try:
            outcome = await self._pool.embed_now(texts)
        except ProviderError as error:
            raise RebuildError(str(error)) from error
        return outcome.vectors, outcome.bad, outcome.dims
