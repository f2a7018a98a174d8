"""The pool: batches, retries, the search for bad texts, and queries with priority."""

import asyncio
import contextlib
import gc
import hashlib
import itertools
import weakref
from collections.abc import AsyncIterator, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import settle

from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    Calibration,
    FloatMatrix,
    PermanentError,
    RetryableError,
    fitted,
    in_batches,
    utf8_bytes,
)
from memoryd.embed.provider_client import CANARY
from memoryd.embed.query_embedder import CACHED, COOL_DOWN_S, ImpatientError
from memoryd.embed.route import INSIDE

DIMS = 4


def vector(text: str) -> FloatMatrix:
    """Return a distinct vector for every text, not of unit length."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()[:DIMS]
    return np.frombuffer(digest, np.uint8).astype(np.float32) + 1


def unit_bytes(text: str) -> bytes:
    row = vector(text)
    return (row / np.linalg.norm(row)).astype("<f4").tobytes()


def same(outcome: list[tuple[str, bytes]], names: Iterable[str]) -> bool:
    """Return whether the outcome has the vectors of these texts, in order."""
    expected = list(names)
    return [name for name, _ in outcome] == expected and all(
        np.allclose(np.frombuffer(found, "<f4"), np.frombuffer(unit_bytes(name), "<f4"), atol=1e-6)
        for name, found in outcome
    )


def named(*texts: str) -> list[tuple[str, str]]:
    return [(text, text) for text in texts]


class FakeTime:
    """A clock that only `sleep` advances; pauses of `held_from_s` or more end only by `wake`."""

    def __init__(self, held_from_s: float = float("inf")) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.held_from_s = held_from_s
        self.held = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if seconds >= self.held_from_s:
            self.held.set()
            await asyncio.get_running_loop().create_future()
        self.now += seconds
        await asyncio.sleep(0)


class FakeProvider:
    """A provider that follows its script, then embeds everything except poison."""

    name = "fake"
    model = "fake-1"
    key = ""
    route = INSIDE
    remote = True
    warning: str | None = None
    tokens_used = 0
    query_timeout_s = 60.0
    window_units: int | None = None
    calibration: Calibration | None = None
    max_input_bytes = 1_000
    batch_bytes = 10_000
    is_ready = True

    def __init__(self, *script: Exception | FloatMatrix, concurrency: int = 1) -> None:
        self.dims: int | None = None
        self.batch_items = 64
        self.concurrency = concurrency
        self.script = list(script)
        self.poison: set[str] = set()
        self.breaks_off_at: set[str] = set()
        self.most_items: int | None = None
        self.told_limit: int | None = None
        self.calls: list[list[str]] = []
        self.queries: list[str] = []
        self.started = asyncio.Semaphore(0)
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = 0

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        self.calls.append(texts)
        self.under_way += 1
        self.started.release()
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        return self._answer(texts)

    async def embed_query(self, text: str) -> FloatMatrix:
        self.queries.append(text)
        await asyncio.sleep(0)
        return self._answer([text])

    def warm(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def _answer(self, texts: list[str]) -> FloatMatrix:
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            return step
        if self.most_items is not None and len(texts) > self.most_items:
            raise BatchTooLargeError("too many", limit=self.told_limit)
        if self.poison.intersection(texts):
            raise BadTextError("poison")
        if self.breaks_off_at.intersection(texts):
            raise RetryableError("500", answered=True)
        return np.stack([vector(text) for text in texts])


class Hanging(FakeProvider):
    """A provider that answers no query before `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()

    async def embed_query(self, text: str) -> FloatMatrix:
        self.queries.append(text)
        return await self.embed_documents([text])


@contextlib.asynccontextmanager
async def running(
    provider: FakeProvider,
    time: FakeTime | None = None,
    *,
    queue_size: int = 0,
    jitter: float = 0.0,
) -> AsyncIterator[EmbedPool]:
    time = time or FakeTime()
    pool = EmbedPool(
        asyncio.Queue(queue_size),
        provider,
        sleep=time.sleep,
        clock=lambda: time.now,
        jitter=lambda: jitter,
    )
    task = asyncio.create_task(pool.run())
    try:
        yield pool
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# Jobs and batches


async def test_a_job_comes_back_with_unit_vectors_in_order() -> None:
    async with running(FakeProvider()) as pool:
        outcome = await pool.embed([("h1", "one"), ("h2", "two")])
    assert [name for name, _ in outcome.vectors] == ["h1", "h2"]
    assert outcome.bad == []
    for (_, found), text in zip(outcome.vectors, ("one", "two"), strict=True):
        assert np.allclose(np.frombuffer(found, "<f4"), np.frombuffer(unit_bytes(text), "<f4"))


async def test_an_empty_job_asks_nobody() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        assert (await pool.embed([])).vectors == []
    assert provider.calls == []


async def test_a_job_is_cut_to_the_providers_batches() -> None:
    provider = FakeProvider()
    provider.batch_items = 3
    provider.batch_bytes = 8
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b", "c", "d", "eeeeeee", "ff", "ü" * 7))
    assert provider.calls == [["a", "b", "c"], ["d", "eeeeeee"], ["ff"], ["ü" * 7]]
    assert len(outcome.vectors) == 7


async def test_a_text_over_the_limit_is_embedded_by_its_beginning() -> None:
    provider = FakeProvider()
    provider.max_input_bytes = 5
    async with running(provider) as pool:
        await pool.embed(named("üüüü"))
        await pool.embed_query("abcdefgh")
    assert provider.calls == [["üü"]]
    assert provider.queries == ["abcde"]


async def test_as_many_calls_are_under_way_as_the_provider_allows() -> None:
    provider = FakeProvider(concurrency=3)
    provider.gate.clear()
    async with running(provider) as pool:
        jobs = [asyncio.create_task(pool.embed(named(str(n)))) for n in range(5)]
        for _ in range(3):
            await provider.started.acquire()
        assert provider.under_way == 3
        assert pool._jobs.qsize() == 2
        provider.gate.set()
        outcomes = await asyncio.gather(*jobs)
    assert all(len(outcome.vectors) == 1 for outcome in outcomes)
    assert len(provider.calls) == 5


@given(
    st.lists(st.text(max_size=12)),
    st.integers(min_value=1, max_value=5),
    st.integers(min_value=1, max_value=20),
)
def test_batches_lose_nothing_and_keep_both_bounds(
    texts: list[str], max_items: int, max_bytes: int
) -> None:
    batches = list(in_batches(texts, utf8_bytes, max_items=max_items, max_bytes=max_bytes))
    assert [text for batch in batches for text in batch] == texts
    for batch in batches:
        assert 1 <= len(batch) <= max_items
        assert len(batch) == 1 or sum(map(utf8_bytes, batch)) <= max_bytes


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_fitted_is_the_longest_beginning_that_fits(text: str, max_bytes: int) -> None:
    short = fitted(text, max_bytes)
    assert text.startswith(short)
    assert utf8_bytes(short) <= max_bytes
    assert short == text or utf8_bytes(text[: len(short) + 1]) > max_bytes


# Bad texts and bad vectors


async def test_one_poison_text_among_64_sinks_nothing_else() -> None:
    provider = FakeProvider()
    provider.poison = {"37"}
    texts = [str(number) for number in range(64)]
    async with running(provider) as pool:
        outcome = await pool.embed(named(*texts))
        stats = pool.stats()
    assert outcome.bad == [("37", "poison")]
    assert same(outcome.vectors, [text for text in texts if text != "37"])
    assert provider.calls.count([CANARY]) == 1
    assert len(provider.calls) == 1 + 2 * 6 + 1
    assert (stats.items, stats.blocked_reason) == (63 + 1, None)


@settings(max_examples=60)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(min_value=1, max_value=64))
def test_any_set_of_poison_texts_is_found_and_the_rest_embedded_once(
    poisoned: list[bool], batch_items: int
) -> None:
    texts = [str(number) for number in range(len(poisoned))]

    async def scenario() -> None:
        provider = FakeProvider()
        provider.batch_items = batch_items
        provider.poison = {text for text, bad in zip(texts, poisoned, strict=True) if bad}
        async with running(provider) as pool:
            outcome = await pool.embed(named(*texts))
        assert {name for name, _ in outcome.bad} == provider.poison
        assert same(outcome.vectors, [text for text in texts if text not in provider.poison])
        answered = [
            call
            for call in provider.calls
            if call != [CANARY] and not provider.poison.intersection(call)
        ]
        assert sorted(itertools.chain(*answered)) == sorted(set(texts) - provider.poison)

    asyncio.run(scenario())


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
async def test_a_text_whose_vector_stays_no_direction_is_set_aside(value: float) -> None:
    rows = np.ones((3, DIMS), np.float32)
    rows[1] = value
    none = np.full((1, DIMS), value, np.float32)
    provider = FakeProvider(rows, none, none)
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b", "c"))
    assert [name for name, _ in outcome.vectors] == ["a", "c"]
    assert outcome.bad == [("b", "Its vector is zero or not finite.")]
    assert provider.calls == [["a", "b", "c"], ["b"], ["b"]]


async def test_a_text_whose_vector_is_none_is_tried_again_alone() -> None:
    rows = np.ones((2, DIMS), np.float32)
    rows[1] = np.nan
    provider = FakeProvider(rows)
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b"))
    assert provider.calls == [["a", "b"], ["b"]]
    assert outcome.bad == []
    assert outcome.vectors[1] == ("b", unit_bytes("b"))


async def test_huge_and_tiny_vectors_are_normalised_too() -> None:
    rows = np.array([[3e38, 3e38, 0, 0], [1e-38, 0, 0, 0]], np.float32)
    async with running(FakeProvider(rows)) as pool:
        outcome = await pool.embed(named("huge", "tiny"))
    lengths = [float(np.linalg.norm(np.frombuffer(row, "<f4"))) for _, row in outcome.vectors]
    assert lengths == pytest.approx([1.0, 1.0])


async def test_a_wrong_count_is_asked_for_again() -> None:
    provider = FakeProvider(np.ones((1, DIMS), np.float32))  # for two texts
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b"))
    assert outcome.bad == []
    assert same(outcome.vectors, ["a", "b"])


async def test_a_text_that_the_provider_breaks_off_at_is_set_aside() -> None:
    provider = FakeProvider()
    provider.breaks_off_at = {"b"}
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b", "c"))
        assert not pool.blocked.is_set()
    assert outcome.bad == [("b", "500")]
    assert same(outcome.vectors, ["a", "c"])


async def test_an_outage_with_answers_sets_nothing_aside() -> None:
    provider = FakeProvider(*(RetryableError("500", answered=True) for _ in range(9)))
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b"))
    assert outcome.bad == []
    assert same(outcome.vectors, ["a", "b"])


async def test_a_provider_that_refuses_every_text_sets_none_aside() -> None:
    time = FakeTime(held_from_s=100)
    provider = FakeProvider()
    provider.poison = {"a", "b", CANARY}
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a", "b")))
        await pool.blocked.wait()
        assert "refuses every text: poison" in (pool.stats().blocked_reason or "")
        provider.poison = set()
        pool.breaker.wake()
        assert same((await job).vectors, ["a", "b"])


@pytest.mark.parametrize(("limit", "calls"), [(10, [64, 10]), (None, [64, 32, 16, 8])])
async def test_how_many_texts_are_too_many_is_learned(limit: int | None, calls: list[int]) -> None:
    provider = FakeProvider()
    provider.most_items = 10
    provider.told_limit = limit
    texts = [str(number) for number in range(64)]
    async with running(provider) as pool:
        outcome = await pool.embed(named(*texts))
        assert same(outcome.vectors, texts)
        assert pool.stats().max_items == calls[-1]
        assert [len(call) for call in provider.calls][: len(calls)] == calls
        first = len(provider.calls)
        await pool.embed(named(*texts))
    assert max(len(call) for call in provider.calls[first:]) == calls[-1]


async def test_one_answer_of_other_dims_is_asked_for_again() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        await pool.embed(named("a"))
        provider.script = [
            np.ones((1, DIMS + 1), np.float32)
        ]  # later answers have the old dimensions
        outcome = await pool.embed(named("b"))
        assert same(outcome.vectors, ["b"])
        assert outcome.dims == DIMS
        assert pool.stats().failures == 1
        assert pool.stats().last_error is None  # it is over


async def test_a_text_that_always_gets_other_dims_is_set_aside() -> None:
    provider = FakeProvider()
    odd, usual = np.ones((1, DIMS + 1), np.float32), np.ones((1, DIMS), np.float32)
    async with running(provider) as pool:
        await pool.embed(named("a"))
        provider.script = [odd, usual, odd, usual, odd, usual]
        outcome = await pool.embed(named("b"))
        assert outcome.vectors == []
        ((_, reason),) = outcome.bad
        assert "5 dimensions here and 4 elsewhere" in reason


async def test_other_dims_for_every_text_are_taken_and_told() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        await pool.embed(named("a"))
        provider.script = [np.ones((1, DIMS + 1), np.float32)] * 2
        outcome = await pool.embed(named("b"))
        assert outcome.dims == pool.calls.dims == DIMS + 1
        assert [len(vector) for _, vector in outcome.vectors] == [4 * (DIMS + 1)]


async def test_dims_that_change_within_a_job_leave_no_mixture() -> None:
    provider = FakeProvider()
    provider.batch_items = 1
    async with running(provider) as pool:
        one = np.ones((1, DIMS), np.float32)
        other = np.ones((1, DIMS + 1), np.float32)
        provider.script = [one, other, other, other]
        outcome = await pool.embed(named("a", "b", "c"))
        assert outcome.dims == DIMS + 1
        assert {len(vector) for _, vector in outcome.vectors} == {4 * (DIMS + 1)}
        assert [digest for digest, _ in outcome.vectors] == [d for d, _ in named("b", "c")]
        assert outcome.bad == []  # the pool must retry "a" later


async def test_dims_that_the_provider_promises_hold_from_the_first_answer() -> None:
    provider = FakeProvider()
    provider.dims = DIMS + 1
    async with running(provider) as pool:
        with pytest.raises(PermanentError, match="4 dimensions, not 5"):
            await pool.embed_query("a")


# Retries and the blocked state


async def test_a_retryable_error_is_retried_with_doubled_pauses() -> None:
    time = FakeTime()
    provider = FakeProvider(RetryableError("once"), RetryableError("twice"))
    async with running(provider, time) as pool:
        assert same((await pool.embed(named("a"))).vectors, ["a"])
        assert not pool.blocked.is_set()
        assert pool.stats().last_error is None  # it is over
    assert time.pauses == [0.5, 1.0]


async def test_jitter_adds_up_to_a_fifth() -> None:
    time = FakeTime()
    async with running(FakeProvider(RetryableError("once")), time, jitter=1.0) as pool:
        await pool.embed(named("a"))
    assert time.pauses == pytest.approx([0.6])


async def test_the_pause_that_the_provider_asks_for_is_kept() -> None:
    time = FakeTime()
    provider = FakeProvider(RetryableError("busy", after_s=7.0))
    async with running(provider, time, jitter=1.0) as pool:
        await pool.embed(named("a"))
        assert not pool.blocked.is_set()
    assert time.pauses == [7.0]


async def test_a_long_pause_blocks_at_once() -> None:
    time = FakeTime(held_from_s=9)
    provider = FakeProvider(RetryableError("quota", after_s=90.0))
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a")))
        await time.held.wait()
        assert pool.blocked.is_set()
        assert pool.stats().retry_in_s == 90.0
        job.cancel()
    assert time.pauses == [90.0]
    assert len(provider.calls) == 1


async def test_an_absurd_pause_is_cut_to_an_hour() -> None:
    time = FakeTime(held_from_s=9)
    async with running(FakeProvider(RetryableError("quota", after_s=1e9)), time) as pool:
        job = asyncio.create_task(pool.embed(named("a")))
        await time.held.wait()
        job.cancel()
    assert time.pauses == [3600.0]


async def test_a_long_outage_blocks_the_pool_and_loses_nothing() -> None:
    time = FakeTime()
    provider = FakeProvider(*(RetryableError("down") for _ in range(12)))
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a")))
        await pool.blocked.wait()
        assert pool.stats().blocked_reason == "down"
        assert same((await job).vectors, ["a"])
        assert not pool.blocked.is_set()
        assert pool.stats().blocked_reason is None
    assert time.pauses == [0.5, 1.0, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300]


async def test_stats_tell_since_when_and_until_when_it_is_blocked() -> None:
    time = FakeTime(held_from_s=10)
    provider = FakeProvider(*(RetryableError("down") for _ in range(4)))
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a", "b")))
        await time.held.wait()
        time.now += 2
        stats = pool.stats()
        assert pool.breaker.failing_s == 7.0
        assert stats.retry_in_s == 8.0
        job.cancel()


async def test_a_permanent_error_blocks_at_once_until_woken() -> None:
    time = FakeTime(held_from_s=1)
    provider = FakeProvider(PermanentError("no such model"))
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a")))
        await time.held.wait()
        assert pool.stats().blocked_reason == "no such model"
        assert pool.stats().retry_in_s == 300.0
        assert time.pauses == [300.0]
        pool.breaker.wake()
        assert same((await job).vectors, ["a"])
        assert not pool.blocked.is_set()


async def test_waking_a_pool_that_is_not_blocked_shortens_no_later_pause() -> None:
    time = FakeTime(held_from_s=1)
    provider = FakeProvider()
    async with running(provider, time) as pool:
        pool.breaker.wake()
        provider.script = [PermanentError("no key")]
        job = asyncio.create_task(pool.embed(named("a")))
        await time.held.wait()
        await settle()
        assert len(provider.calls) == 1
        job.cancel()


async def test_an_answer_to_one_worker_ends_the_outage_for_all() -> None:
    class SlowFirst(FakeProvider):
        async def embed_documents(self, texts: list[str]) -> FloatMatrix:
            if texts == ["slow"]:
                await self.gate.wait()
            return self._answer(texts)

    time = FakeTime(held_from_s=1)
    provider = SlowFirst(PermanentError("down"), concurrency=2)
    provider.gate.clear()
    async with running(provider, time) as pool:
        slow = asyncio.create_task(pool.embed(named("slow")))
        blocked = asyncio.create_task(pool.embed(named("blocked")))
        await time.held.wait()
        provider.gate.set()
        outcomes = await asyncio.gather(slow, blocked)
    assert [len(outcome.vectors) for outcome in outcomes] == [1, 1]


async def test_one_worker_probes_while_the_others_wait() -> None:
    time = FakeTime(held_from_s=5)
    provider = FakeProvider(*(RetryableError("down") for _ in range(9)), concurrency=3)
    async with running(provider, time) as pool:
        jobs = [asyncio.create_task(pool.embed(named(str(number)))) for number in range(3)]
        await time.held.wait()
        while len(provider.calls) < 9:
            await provider.started.acquire()
        stats = pool.stats()
        assert time.pauses.count(5.0) == 1
        assert stats.retry_in_s == 5.0
        pool.breaker.wake()
        outcomes = await asyncio.gather(*jobs)
    assert len(provider.calls) == 9 + 3
    assert [same(outcome.vectors, [str(n)]) for n, outcome in enumerate(outcomes)] == [True] * 3


async def test_a_rebuild_tries_a_blocked_provider_once_that_is_due() -> None:
    time = FakeTime(held_from_s=5)
    provider = FakeProvider(*(PermanentError(f"bad key {n}") for n in range(3)))
    async with running(provider, time) as pool:
        with pytest.raises(PermanentError, match="bad key 0"):
            await pool.embed_now(named("a"))
        with pytest.raises(PermanentError, match="bad key 0"):
            await pool.embed_now(named("a"))
        assert len(provider.calls) == 1
        time.now += 10_000
        with pytest.raises(PermanentError, match="bad key 1"):
            await pool.embed_now(named("a"))
        pool.breaker.wake()
        with pytest.raises(PermanentError, match="bad key 2"):
            await pool.embed_now(named("a"))
        pool.breaker.wake()
        assert same((await pool.embed_now(named("a"))).vectors, ["a"])
        assert len(provider.calls) == 4
        assert not pool.blocked.is_set()


async def test_a_query_that_insists_and_works_wakes_a_blocked_pool() -> None:
    time = FakeTime(held_from_s=1)
    provider = FakeProvider(PermanentError("bad key"))
    async with running(provider, time) as pool:
        job = asyncio.create_task(pool.embed(named("a")))
        await time.held.wait()
        with pytest.raises(PermanentError, match="bad key"):
            await pool.embed_query("nobody is asked")
        assert provider.queries == []
        await pool.embed_query("does it work again?", insist=True)
        assert same((await job).vectors, ["a"])


async def test_a_bad_text_found_while_probing_ends_the_outage() -> None:
    provider = FakeProvider(PermanentError("down"))
    provider.poison = {"b"}
    async with running(provider) as pool:
        outcome = await pool.embed(named("a", "b"))
        assert not pool.blocked.is_set()
    assert same(outcome.vectors, ["a"])
    assert outcome.bad == [("b", "poison")]


# Windows


async def test_a_long_text_is_embedded_in_windows_and_comes_back_as_one() -> None:
    provider = FakeProvider()
    provider.window_units = 20
    provider.batch_items = 2
    text = "the first line\nthe second line\nthe third line"
    async with running(provider) as pool:
        outcome = await pool.embed([("long", text), ("short", "a word")])
    assert provider.calls == [["the first line", "the second line"], ["the third line", "a word"]]
    size = 4 * DIMS
    (long, joined), short = outcome.vectors
    parts = [joined[at : at + size] for at in range(0, len(joined), size)]
    assert (long, len(parts)) == ("long", 3)
    assert same(list(zip(text.split("\n"), parts, strict=True)), text.split("\n"))
    assert same([("a word", short[1])], ["a word"])
    assert (outcome.dims, outcome.bad) == (DIMS, [])


async def test_a_text_with_one_bad_window_has_no_vector() -> None:
    provider = FakeProvider()
    provider.window_units = 20
    provider.poison = {"the second line"}
    async with running(provider) as pool:
        outcome = await pool.embed([("long", "the first line\nthe second line"), ("b", "b")])
    assert outcome.bad == [("long", "poison")]
    assert same(outcome.vectors, ["b"])


# Cancellation and the end


@pytest.mark.parametrize("where", ["queued", "in flight", "blocked", "no room in the queue"])
async def test_a_cancelled_job_leaves_no_trace(where: str) -> None:
    time = FakeTime(held_from_s=1)
    provider = FakeProvider(*([PermanentError("down")] if where == "blocked" else []))
    provider.gate.clear()
    async with running(provider, time, queue_size=1) as pool:
        first = asyncio.create_task(pool.embed(named("first")))
        await provider.started.acquire()
        second = asyncio.create_task(pool.embed(named("second")))
        third = asyncio.create_task(pool.embed(named("third")))
        await asyncio.sleep(0)
        assert pool._jobs.qsize() == 1
        victim = {"queued": second, "no room in the queue": third}.get(where, first)
        if where == "blocked":
            provider.gate.set()
            await time.held.wait()
            # The next job to probe must wait too; then the probe of the victim may end.
            time.held_from_s = float("inf")
        victim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await victim
        provider.gate.set()
        kept = [job for job in (first, second, third) if job is not victim]
        outcomes = await asyncio.gather(*kept)
    assert [len(outcome.vectors) for outcome in outcomes] == [1, 1]
    name = {"queued": "second", "no room in the queue": "third"}.get(where, "first")
    answered = [call for call in provider.calls if call != [name]]
    assert sorted(answered) == sorted([text] for text in {"first", "second", "third"} - {name})
    assert provider.calls.count([name]) == (1 if victim is first else 0)


async def test_an_unexpected_error_escapes_and_those_who_wait_are_told() -> None:
    provider = FakeProvider(ZeroDivisionError("a bug"))
    jobs: asyncio.Queue[object] = asyncio.Queue()
    pool = EmbedPool(jobs, provider)  # type: ignore[arg-type]
    first = asyncio.create_task(pool.embed(named("first")))
    second = asyncio.create_task(pool.embed(named("second")))
    await asyncio.sleep(0)
    with pytest.raises(ExceptionGroup) as caught:
        await pool.run()
    assert caught.group_contains(ZeroDivisionError)
    for job in (first, second):
        with pytest.raises(RetryableError, match="stopped"):
            await job
    with pytest.raises(RetryableError, match="stopped"):
        await pool.embed(named("too late"))


async def test_stopping_the_pool_frees_those_who_wait_for_room() -> None:
    provider = FakeProvider()
    provider.gate.clear()
    async with running(provider, queue_size=1) as pool:
        jobs = [asyncio.create_task(pool.embed(named(str(number)))) for number in range(4)]
        await provider.started.acquire()
    outcomes = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RetryableError] * 4


# Queries


async def test_a_query_passes_bulk_work_that_hangs() -> None:
    provider = FakeProvider()
    provider.gate.clear()
    async with running(provider) as pool:
        job = asyncio.create_task(pool.embed(named("bulk")))
        await provider.started.acquire()
        found = await pool.embed_query("question")
        assert not job.done()
        provider.gate.set()
        await job
    assert found.shape == (DIMS,)
    assert found.dtype == np.float32
    assert np.allclose(found, np.frombuffer(unit_bytes("question"), "<f4"))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0


async def test_equal_queries_share_one_call_and_later_ones_need_none() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        first, second = await asyncio.gather(pool.embed_query("q"), pool.embed_query("q"))
        third = await pool.embed_query("q")
    assert provider.queries == ["q"]
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)


async def test_a_cancelled_query_takes_nobody_with_it() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        first = asyncio.create_task(pool.embed_query("q"))
        second = asyncio.create_task(pool.embed_query("q"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).shape == (DIMS,)
        with pytest.raises(asyncio.CancelledError):
            await first
    assert provider.queries == ["q"]


async def test_only_the_latest_queries_are_remembered() -> None:
    provider = FakeProvider()
    async with running(provider) as pool:
        for number in range(CACHED):
            await pool.embed_query(str(number))
        await pool.embed_query("0")
        await pool.embed_query("one more")
        await pool.embed_query("0")
        assert len(provider.queries) == CACHED + 1
        await pool.embed_query("1")
        assert len(provider.queries) == CACHED + 2


async def test_a_query_is_tried_twice_and_its_error_not_remembered() -> None:
    time = FakeTime()
    provider = FakeProvider(*(RetryableError(f"down {number}") for number in range(2)))
    async with running(provider, time) as pool:
        for _ in range(3):  # the later ones fail immediately
            with pytest.raises(RetryableError, match="down 1"):
                await pool.embed_query("q")
        assert provider.queries == ["q"] * 2
        time.now += COOL_DOWN_S
        assert (await pool.embed_query("q")).shape == (DIMS,)
    assert provider.queries == ["q"] * 3
    assert time.pauses == [0.5]


async def test_a_query_that_fails_keeps_nothing_of_its_request() -> None:
    class Answer:
        """A vendor's answer."""

    answers: list[weakref.ref[Answer]] = []

    class Refusing(FakeProvider):
        async def embed_query(self, text: str) -> FloatMatrix:
            answer = Answer()
            answers.append(weakref.ref(answer))
            raise RetryableError("quota", after_s=9.0)

    gc.disable()
    try:
        async with running(Refusing()) as pool:
            with contextlib.suppress(RetryableError):
                await pool.embed_query("q")
            await asyncio.sleep(0)
            assert [answer() for answer in answers] == [None]
    finally:
        gc.enable()


async def test_a_query_that_nobody_waits_for_is_taken_back() -> None:
    provider = Hanging()
    async with running(provider) as pool:
        first, second = (asyncio.create_task(pool.embed_query("q")) for _ in range(2))
        await provider.started.acquire()
        first.cancel()
        await asyncio.wait({first})
        assert provider.under_way == 1
        second.cancel()
        await asyncio.wait({second})
        await asyncio.sleep(0)
        assert provider.under_way == 0


async def test_a_query_whose_caller_lost_patience_goes_on_for_the_next() -> None:
    provider = Hanging()
    async with running(provider) as pool:
        with pytest.raises(RetryableError, match="not embedded within 0 s"):
            await pool.embed_query("q", patience_s=0.0)
        provider.gate.set()
        assert (await pool.embed_query("q")).shape == (DIMS,)
    assert len(provider.queries) == 1


async def test_a_loaded_local_model_is_asked_in_the_callers_own_task() -> None:
    provider = Hanging()
    provider.remote = False
    async with running(provider) as pool:
        with pytest.raises(ImpatientError, match="not embedded within 0 s"):
            await pool.embed_query("q", patience_s=0.0)
        tasks = asyncio.all_tasks()
        provider.gate.set()
        assert (await pool.embed_query("q", patience_s=600.0)).shape == (DIMS,)
        assert (await pool.embed_query("q", patience_s=0.0)).shape == (DIMS,)
        assert asyncio.all_tasks() == tasks
    assert len(provider.queries) == 2


@pytest.mark.parametrize(
    "error",
    [PermanentError("bad key"), BadTextError("poison"), RetryableError("quota", after_s=9.0)],
)
async def test_a_query_is_not_retried_when_that_is_no_use(error: Exception) -> None:
    provider = FakeProvider(error)
    async with running(provider) as pool:
        with pytest.raises(type(error), match=str(error)):
            await pool.embed_query("q")
    assert provider.queries == ["q"]


async def test_a_query_gives_up_on_a_provider_that_hangs() -> None:
    provider = Hanging()
    provider.query_timeout_s = 0.0
    async with running(provider) as pool:
        with pytest.raises(RetryableError, match="too long"):
            await pool.embed_query("q")


async def test_a_query_vector_that_is_no_direction_is_an_error() -> None:
    async with running(FakeProvider(np.zeros((1, DIMS), np.float32))) as pool:
        with pytest.raises(BadTextError, match="not finite"):
            await pool.embed_query("q")


async def test_a_limit_that_is_none_for_texts_halves_the_batch() -> None:
    provider = FakeProvider(BatchTooLargeError("maximum is 100 MB", limit=100))
    async with running(provider) as pool:
        outcome = await pool.embed(named(*(str(number) for number in range(64))))
    assert len(outcome.vectors) == 64
    assert [len(call) for call in provider.calls] == [64, 32, 32]
