"""The feeder with a pending list, a controlled pool, and the test as writer."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from identities import identity

from memoryd.embed.feeder import Feeder
from memoryd.embed.pool import EmbedOutcome
from memoryd.identity import Identity
from memoryd.messages import Embedded, SyncMarker, ToFeeder, ToWriter

IDENTITY = identity("p", "m", dims=1, provider_key="")


class Pool:
    """A pool that embeds at once, or after `release` is set."""

    def __init__(self) -> None:
        self.blocked = asyncio.Event()
        self.release = asyncio.Event()
        self.release.set()
        self.asked: list[str] = []
        self.calls = SimpleNamespace(provider=SimpleNamespace(batch_items=2, concurrency=1))

    async def embed(self, texts: list[tuple[str, str]]) -> EmbedOutcome:
        self.asked += [digest for digest, _ in texts]
        await self.release.wait()
        return EmbedOutcome([(digest, b"\0\0\0\0") for digest, _ in texts], [])


class Stage:
    def __init__(self) -> None:
        self.inbox: asyncio.Queue[ToFeeder] = asyncio.Queue()
        self.writer: asyncio.Queue[ToWriter] = asyncio.Queue()
        self.pool = Pool()
        self.waiting: dict[str, int] = {}
        self.in_rebuild: set[str] = set()
        self.embedded: list[int] = []
        self.read = asyncio.Event()
        self.delivered = asyncio.Event()
        self.delivered.set()
        self.feeder = Feeder(
            self.inbox,
            self.writer,
            self.pool,  # type: ignore[arg-type]
            self,
            on_embedded=self.embedded.append,
        )
        self.running = asyncio.create_task(self.feeder.run())
        self.writing: asyncio.Task[None] | None = None

    def target_identity(self) -> Identity:
        return IDENTITY

    async def pending(self, after: int, limit: int) -> list[tuple[int, str, str]]:
        rows = [(row, h, "text") for h, row in self.waiting.items() if row > after]
        self.read.set()
        await self.delivered.wait()
        return sorted(rows)[:limit]

    async def count_pending(self) -> int:
        return len(self.waiting)

    def add(self, count: int) -> None:
        first = len(self.pool.asked) + len(self.waiting)
        for number in range(first + 1, first + count + 1):
            self.waiting[f"hash{number}"] = number

    async def write(self) -> None:
        """Commit the messages, as the writer does."""
        while True:
            message = await self.writer.get()
            assert isinstance(message, Embedded)
            for digest, _ in message.vectors:
                self.waiting.pop(digest, None)
            message.committed.set_result(None)

    async def sync(self) -> SyncMarker:
        marker = SyncMarker()
        self.inbox.put_nowait(marker)
        await marker.vectors
        return marker


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    made.writing = asyncio.create_task(made.write())
    yield made
    made.writing.cancel()
    made.running.cancel()
    await asyncio.wait({made.running, made.writing})


async def test_everything_that_waits_is_embedded_once(stage: Stage) -> None:
    stage.add(25)
    for _ in range(10):
        stage.inbox.put_nowait(None)
    await stage.sync()
    assert stage.waiting == {}
    assert sorted(stage.pool.asked) == sorted(set(stage.pool.asked))
    assert len(stage.pool.asked) == 25


async def test_what_is_on_its_way_is_not_asked_for_again(stage: Stage) -> None:
    stage.pool.release.clear()
    stage.add(3)
    stage.inbox.put_nowait(None)
    while len(stage.pool.asked) < 3:
        await asyncio.sleep(0)
    stage.inbox.put_nowait(None)
    stage.pool.release.set()
    await stage.sync()
    assert len(stage.pool.asked) == 3


async def test_what_is_committed_while_it_reads_what_waits_is_not_asked_for_again(
    stage: Stage,
) -> None:
    stage.pool.release.clear()
    stage.add(2)
    stage.inbox.put_nowait(None)
    while len(stage.pool.asked) < 2:
        await asyncio.sleep(0)
    stage.delivered.clear()
    stage.read.clear()
    stage.inbox.put_nowait(None)
    await stage.read.wait()
    stage.pool.release.set()
    while stage.feeder.under_way():
        await asyncio.sleep(0)
    stage.delivered.set()
    await stage.sync()
    assert stage.pool.asked == ["hash1", "hash2"]
    assert not stage.waiting


async def test_a_provider_that_is_out_of_order_keeps_no_sync_waiting(stage: Stage) -> None:
    stage.pool.release.clear()
    stage.add(20)
    stage.inbox.put_nowait(None)
    stage.pool.blocked.set()
    await stage.sync()
    assert len(stage.waiting) == 20
    stage.pool.blocked.clear()
    stage.pool.release.set()
    while stage.waiting:
        await asyncio.sleep(0)
    assert len(stage.pool.asked) == 20


async def test_finishing_waits_for_what_is_paid_for_and_asks_for_no_more(stage: Stage) -> None:
    stage.pool.release.clear()
    stage.add(20)
    stage.inbox.put_nowait(None)
    while len(stage.pool.asked) < 4:
        await asyncio.sleep(0)
    finishing = asyncio.create_task(stage.feeder.finish())
    await asyncio.sleep(0)
    assert not finishing.done()
    stage.pool.release.set()
    await finishing
    assert len(stage.pool.asked) == 4
    assert len(stage.waiting) == 16


async def test_more_syncs_than_the_queue_holds_do_not_stop_the_writer(stage: Stage) -> None:
    stage.pool.release.clear()
    stage.add(20)
    markers = [SyncMarker() for _ in range(500)]
    for marker in markers:
        stage.inbox.put_nowait(marker)
    while not stage.inbox.empty():
        await asyncio.sleep(0)
    stage.pool.release.set()
    await asyncio.gather(*(marker.vectors for marker in markers))
    assert stage.waiting == {}
