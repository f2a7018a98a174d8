"""The day's budget: counted before sending, corrected afterwards, kept in a file, anew each day."""

import asyncio
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from memoryd.embed.budget import Budget, UploadLedger
from memoryd.embed.provider import FloatMatrix, Provider, RetryableError
from memoryd.embed.provider_client import ProviderClient
from memoryd.embed.rate_limit import RateLimits
from memoryd.embed.upload_gate import UploadGate

HOST = "api.example.com:443"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 28, 22, 0)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path) -> UploadLedger:
    return UploadLedger(tmp_path / "state" / "uploads.json")


async def test_nothing_above_the_limit_is_sent_until_midnight(
    ledger: UploadLedger, clock: Clock
) -> None:
    budget = Budget(ledger, HOST, 100, clock)
    await budget.take(60)
    with pytest.raises(RetryableError, match="budget of 100 tokens") as caught:
        await budget.take(50)
    assert caught.value.busy
    assert caught.value.after_s == 2 * 3600 + 1
    assert budget.is_used_up
    assert budget.used == 60
    clock.now = datetime(2026, 11, 29, 0, 0, 1)
    assert not budget.is_used_up
    assert budget.used == 0
    await budget.take(100)
    assert budget.used == 100


async def test_what_the_vendor_reports_replaces_the_estimate(
    ledger: UploadLedger, clock: Clock
) -> None:
    budget = Budget(ledger, HOST, 100, clock)
    day = await budget.take(80)
    await budget.correct(day, -70)
    await budget.take(90)
    assert budget.used == 100


async def test_processes_share_the_count_of_an_address(ledger: UploadLedger, clock: Clock) -> None:
    one, two = Budget(ledger, HOST, 100, clock), Budget(ledger, HOST, 100, clock)
    other = Budget(ledger, "elsewhere", 100, clock)
    await one.take(60)
    with pytest.raises(RetryableError):
        await two.take(60)
    await other.take(60)
    later = Budget(ledger, HOST, 100, clock)
    await later.load()
    assert later.used == 60
    assert stat.S_IMODE(os.stat(ledger.path).st_mode) == 0o600


async def test_without_its_file_nothing_is_sent(ledger: UploadLedger, clock: Clock) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_text("{broken")
    with pytest.raises(RetryableError, match="can't be used"):
        await Budget(ledger, HOST, 100, clock).take(1)
    assert ledger.path.read_text() == "{broken"


class Texts:
    """Pending texts of ten tokens each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.measured = 0

    async def count_pending(self) -> int:
        return self.count

    async def measure_pending(self) -> tuple[int, int]:
        self.measured += 1
        return self.count, self.count * 10


def gate(texts: Texts, ledger: UploadLedger) -> UploadGate:
    return UploadGate(
        texts,
        ledger,
        index="/index",
        receiver="api.example.com",
        identity="openai m k",
        above_tokens=100,
        chunk_tokens=20,
    )


async def test_a_yes_is_kept_for_the_index_and_its_receiver(ledger: UploadLedger) -> None:
    texts = Texts(11)
    first = gate(texts, ledger)
    assert await first.is_open() is False
    assert first.preview is not None
    assert (first.preview.texts, first.preview.tokens) == (11, 110)
    await first.confirm()
    assert await first.is_open() is True
    assert first.preview is None
    assert await gate(texts, ledger).is_open() is True
    another = gate(texts, ledger)
    another.identity = "voyage m k"
    assert await another.is_open() is False


async def test_few_texts_need_no_yes_and_are_not_measured(ledger: UploadLedger) -> None:
    texts = Texts(5)
    assert await gate(texts, ledger).is_open() is True
    assert texts.measured == 0
    assert await gate(Texts(10), ledger).is_open() is True


async def test_nothing_is_sent_before_all_files_have_been_read(ledger: UploadLedger) -> None:
    found = gate(Texts(1), ledger)
    scanned, unread = False, 0
    found.was_scanned = lambda: scanned
    assert await found.is_open() is None
    scanned, unread = True, 1_000
    found.unread_files = lambda: unread
    assert await found.is_open() is None
    unread = 0
    assert await found.is_open() is True
    unread = 1
    assert await found.is_open() is True


class Server:
    """A provider that reports a token for each character, when a test lets a request end."""

    name, model, remote, dims, max_input_bytes = "server", "m", True, 2, 1_000

    def __init__(self) -> None:
        self.tokens_used = 0
        self.gates: dict[str, asyncio.Event] = {}

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        await self.gates.setdefault(texts[0], asyncio.Event()).wait()
        self.tokens_used += len(texts[0])
        return np.ones((1, 2), np.float32)


async def test_requests_at_the_same_time_are_corrected_by_their_own_tokens(
    ledger: UploadLedger, clock: Clock
) -> None:
    server, limits = Server(), RateLimits(tokens_per_minute=10_000)
    budget = Budget(ledger, HOST, 10_000, clock)
    calls = ProviderClient(cast(Provider, server), limits=limits, mask=str, budget=budget)
    corrected: list[int] = []
    limits.correct = lambda taken, tokens: corrected.append(tokens)  # type: ignore[method-assign]
    texts = ["a" * 300, "b" * 20]
    requests = [asyncio.create_task(calls.documents([text])) for text in texts]
    while len(server.gates) < len(texts):
        await asyncio.sleep(0)
    for text, request in zip(reversed(texts), reversed(requests), strict=True):
        server.gates[text].set()
        await request
    assert corrected == [20, 300]
    assert budget.used == 320
