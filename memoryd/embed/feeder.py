"""Sends pending chunks to the pool or to batch jobs, and their vectors to the writer.

Pending chunks are read from the index, not from a queue: a crash loses none, and a slow provider
never delays the writer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memoryd.embed.pool import EmbedPool
from memoryd.embed.upload_gate import UploadGate
from memoryd.identity import Identity
from memoryd.messages import Embedded, GivesDims, SyncMarker, Text, ToFeeder, ToWriter
from memoryd.retry import first_of

if TYPE_CHECKING:  # only providers with a batch API need it
    from memoryd.embed.batch.jobs import Batches

READ_ROWS = 256
UNSETTLED_S = 0.2
"""Seconds between checks whether all files have been read."""
GATHER_S = 1.0
GATHER_MAX_S = 30.0
"""Seconds between two texts, and in all, within which texts go into one batch job."""


class Index(Protocol):
    """The index that is fed. `in_rebuild` are the texts that a rebuild embeds."""

    in_rebuild: set[str]

    def target_identity(self) -> Identity | None:
        """Return the identity to embed for; None while the index can't take vectors."""

    async def pending(self, after: int, limit: int) -> list[tuple[int, str, str]]:
        """Return (row, text hash, text) of the next chunks without a vector, by row."""

    async def count_pending(self) -> int:
        """Return the number of texts without a vector."""


class _Page(NamedTuple):
    """Chunks without a vector, and the hashes in progress before they were read.

    A vector may be committed while the page is read: then the page lists its chunk as pending
    although no job has it any more.
    """

    rows: list[tuple[int, str, str]]
    busy: set[str]


class Feeder:
    """In: wake-ups and sync markers, which it answers. Out: vectors from the pool."""

    def __init__(
        self,
        inbox: asyncio.Queue[ToFeeder],
        writer: asyncio.Queue[ToWriter],
        pool: EmbedPool | None,
        index: Index,
        *,
        batches: "Batches | None" = None,
        gate: UploadGate | None = None,
        on_embedded: Callable[[int], None] = lambda vectors: None,
    ) -> None:
        """Without a pool, it only answers markers."""
        self._inbox = inbox
        self._writer = writer
        self._pool = pool
        self._index = index
        self._batches = batches
        self._gate = gate
        self._held: set[str] = set() if batches is None else batches.held
        self._inline: set[str] = set() if batches is None else batches.inline
        self._on_embedded = on_embedded
        self._wake = asyncio.Event()
        self._markers: list[SyncMarker] = []
        self._ended_early = False
        self._finishing = False
        self._in_flight: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Feed until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(), name="feeder: inbox")
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._batches is not None and self._batches.on:
                    await self._gather()
                markers, self._markers = self._markers, []
                identity = self._index.target_identity()
                may_send = await self._may_send()
                if may_send is None:  # the texts, and the markers behind them, wait
                    self._markers = markers + self._markers
                    asyncio.get_running_loop().call_later(UNSETTLED_S, self.wake)
                    continue
                if self._pool is not None and identity is not None and may_send:
                    if self._batches is not None and not self._finishing and await self._is_much():
                        await self._batches.submit(self._pages())
                    await self._pass(group, self._pool, identity)
                group.create_task(self._answer(markers), name="feeder: sync")

    async def _receive(self) -> None:
        """Receive every message at once: a pass waits for the writer, which must not wait for it.

        Markers belong to requests in flight, whose number is limited by the server.
        """
        while True:
            message = await self._inbox.get()
            if message is not None:
                self._markers.append(message)
            self._wake.set()

    async def finish(self) -> None:
        """Submit nothing more, and wait until all texts in progress are committed."""
        self._finishing = True
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def under_way(self) -> set[str]:
        """Return the hashes of the texts in the pool or in a batch job."""
        return self._in_flight | self._held

    def wake(self) -> None:
        """Check again for pending chunks."""
        self._wake.set()

    async def _may_send(self) -> bool | None:
        """Return whether texts may go to the provider; None if that is not known yet."""
        return self._gate is None or await self._gate.is_open()

    async def _is_much(self) -> bool:
        """Return whether enough texts are pending, and not in progress, for a batch job."""
        batches = self._batches
        if batches is None or not batches.on:
            return False
        budget = None if self._pool is None else self._pool.calls.budget
        if budget is not None and budget.is_used_up:
            return False
        busy = len(self._held) + len(self._inline) + len(self._in_flight)
        return batches.wanted(await self._index.count_pending() - busy)

    async def _gather(self) -> None:
        """Wait until no more texts arrive, or a sync marker waits for them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_MAX_S):
                while not self._markers:
                    async with asyncio.timeout(GATHER_S):
                        await self._wake.wait()
                    self._wake.clear()

    async def _pages(self) -> AsyncIterator[list[Text]]:
        """Yield all pending texts that are not in progress and may go into jobs, each once."""
        seen: set[str] = set()
        after = 0
        while (page := await self._read(after)).rows:
            after = page.rows[-1][0]
            texts, inline = self._waiting(page).items(), self._inline
            free = {h: text for h, text in texts if h not in seen and h not in inline}
            seen.update(free)
            if free:
                yield list(free.items())

    async def _read(self, after: int) -> _Page:
        busy = self.under_way()
        return _Page(await self._index.pending(after, READ_ROWS), busy)

    def _waiting(self, page: _Page) -> dict[str, str]:
        """Return the texts, by hash, that are neither in the pool nor in a batch job."""
        taken = self._in_flight, self._held, self._index.in_rebuild
        waiting = {
            digest: text
            for _, digest, text in page.rows
            if not any(digest in hashes for hashes in taken)
        }
        if came_back := page.busy & waiting.keys():
            self._wake.set()  # most have their vector by now; check again
            for digest in came_back:
                del waiting[digest]
        return waiting

    async def _pass(self, group: asyncio.TaskGroup, pool: EmbedPool, identity: Identity) -> None:
        """Process all pending chunks once; stop early when the provider is blocked.

        Jobs in the pool finish when the provider has recovered, and wake the feeder again.
        """
        provider = pool.calls.provider
        after = 0
        while (page := await self._read(after)).rows:
            if await self._is_much():  # more has arrived meanwhile
                self._wake.set()
                return
            after = page.rows[-1][0]
            texts = list(self._waiting(page).items())
            for start in range(0, len(texts), provider.batch_items):
                batch = texts[start : start + provider.batch_items]
                while len(self._tasks) > provider.concurrency and not self._finishing:
                    if pool.blocked.is_set():
                        self._ended_early = True
                        return
                    await first_of(pool.blocked.wait(), *self._tasks)
                if self._finishing:
                    return
                batch = [text for text in batch if text[0] not in self._index.in_rebuild]
                if not batch:
                    continue
                self._in_flight.update(digest for digest, _ in batch)
                task = group.create_task(self._embed(pool, identity, batch), name="feeder: job")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _embed(self, pool: EmbedPool, identity: Identity, batch: list[Text]) -> None:
        outcome = await pool.embed(batch)
        embedded = Embedded(identity, outcome.vectors, outcome.bad, outcome.dims)
        await self._writer.put(embedded)
        # Until the commit, the index still lists these texts as pending.
        await embedded.committed
        built, dims = self._index.target_identity(), outcome.dims
        if built is not None and dims not in (None, built.dims) and dims == pool.calls.dims:
            await self._writer.put(GivesDims(dims))
        self._in_flight.difference_update(digest for digest, _ in batch)
        self._inline.difference_update(digest for digest, _ in batch)
        self._on_embedded(len(outcome.vectors))
        asked_again = len(outcome.vectors) + len(outcome.bad) < len(batch)
        if self._ended_early or asked_again:
            self._ended_early = False
            self._wake.set()

    async def _answer(self, markers: list[SyncMarker]) -> None:
        """Answer markers once the current jobs are done, or the provider is blocked."""
        if markers and self._tasks and self._pool is not None:
            await first_of(self._pool.blocked.wait(), asyncio.wait(set(self._tasks)))
        for marker in markers:
            if not marker.vectors.done():
                marker.vectors.set_result(None)
