"""Rate limits: no 60 seconds exceed them, queries go first, and no caller starves."""

import asyncio
import gc
import heapq
import itertools
from collections.abc import Coroutine
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import settle

from memoryd.embed.rate_limit import WINDOW_S, RateLimits, Taken


class VirtualTime:
    """A clock that jumps to the next sleeper when all tasks wait."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + seconds, next(self._numbers), woken))
        await woken

    async def run(self, *work: Coroutine[Any, Any, None]) -> None:
        """Run to the end in virtual time."""
        tasks = [asyncio.create_task(part) for part in work]
        await settle()
        rounds = itertools.count()
        while not all(task.done() for task in tasks) and next(rounds) < 1_000:
            if self._sleepers:
                self.now_s, _, woken = heapq.heappop(self._sleepers)
                if not woken.done():
                    woken.set_result(None)
            await settle()
        assert all(task.done() for task in tasks), "a task waits forever"
        await asyncio.gather(*tasks)


def limits_at(time: VirtualTime, requests: int = 0, tokens: int = 0) -> RateLimits:
    return RateLimits(
        requests_per_minute=requests, tokens_per_minute=tokens, clock=time, sleep=time.sleep
    )


class Ask(NamedTuple):
    """A request: its arrival, the estimated and reported tokens, and the delay of the report."""

    at_s: int
    tokens: int
    first: bool
    told: int | None
    later_s: int


ASKS = st.lists(
    st.builds(
        Ask,
        at_s=st.integers(0, 200),
        tokens=st.integers(0, 150),
        first=st.booleans(),
        told=st.none() | st.integers(0, 300),
        later_s=st.integers(0, 90),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=80)
@given(asks=ASKS, requests=st.integers(0, 4), tokens=st.sampled_from([0, 1, 60, 100]))
def test_no_minute_sees_more_than_was_allowed_and_nobody_starves(
    asks: list[Ask], requests: int, tokens: int
) -> None:
    time = VirtualTime()
    passed: list[tuple[int, Taken]] = []

    async def scenario() -> None:
        limits = limits_at(time, requests, tokens)

        async def one(number: int, ask: Ask) -> None:
            await time.sleep(ask.at_s)
            taken = await limits.take(ask.tokens, first=ask.first)
            passed.append((number, taken))
            assert taken == Taken(time.now_s, ask.tokens)
            window = [other for _, other in passed if other.at_s > time.now_s - WINDOW_S]
            assert not requests or len(window) <= requests
            # Reported tokens count from the report on; a request above the limit runs alone.
            assert not tokens or len(window) == 1 or sum(other.tokens for other in window) <= tokens
            if ask.told is not None:
                await time.sleep(ask.later_s)
                limits.correct(taken, ask.told)

        await time.run(*(one(number, ask) for number, ask in enumerate(asks)))

    asyncio.run(scenario())
    assert len(passed) == len(asks)
    for first in (True, False):  # alternately, with others of their kind
        order = [number for number, _ in passed if asks[number].first == first]
        assert [asks[number].at_s for number in order] == sorted(asks[n].at_s for n in order)
    if not requests and not tokens:
        assert all(taken.at_s == asks[number].at_s for number, taken in passed)


async def passing(limits: RateLimits, log: list[str], name: str, tokens: int = 1) -> None:
    await limits.take(tokens, first=name.startswith("query"))
    log.append(name)


async def test_queries_pass_all_that_waits() -> None:
    time = VirtualTime()
    limits = limits_at(time, requests=1)
    log: list[str] = []
    await time.run(
        *(
            passing(limits, log, name)
            for name in ("bulk 1", "bulk 2", "bulk 3", "query 1", "query 2")
        )
    )
    # The first one did not wait.
    assert log == ["bulk 1", "query 1", "query 2", "bulk 2", "bulk 3"]
    assert time.now_s == 4 * WINDOW_S


async def test_a_query_passes_one_that_waits_for_its_pause() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=100)
    log: list[str] = []

    async def query() -> None:
        await time.sleep(30)
        await passing(limits, log, "query", 100)

    await time.run(passing(limits, log, "bulk 1", 90), passing(limits, log, "bulk 2", 90), query())
    assert log == ["bulk 1", "query", "bulk 2"]


async def test_a_small_query_passes_a_large_request_at_once() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=100)
    await limits.take(60)
    large = asyncio.create_task(limits.take(60))
    await settle()
    assert (await limits.take(40, first=True)).at_s == 0.0
    large.cancel()


async def test_what_is_larger_than_the_bound_passes_alone() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=100)
    times: list[float] = []

    async def one(tokens: int) -> None:
        times.append((await limits.take(tokens)).at_s)

    await time.run(one(1_000), one(10), one(500), one(90))
    assert times == [0.0, 60.0, 120.0, 180.0]


async def test_room_is_there_when_the_oldest_has_gone_by() -> None:
    time = VirtualTime()
    limits = limits_at(time, requests=2)
    times: list[float] = []

    async def one(at_s: float) -> None:
        await time.sleep(at_s)
        times.append((await limits.take(1)).at_s)

    await time.run(one(0), one(20), one(21), one(22), one(141))
    assert times == [0.0, 20.0, 60.0, 80.0, 141.0]


async def test_a_correction_makes_room_or_takes_it() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=100)
    first = await limits.take(100)
    limits.correct(first, 30)
    second = await limits.take(70)
    assert second.at_s == 0.0
    limits.correct(second, 20)
    assert (await limits.take(50)).at_s == 0.0
    limits.correct(second, 21)
    await time.run(passing(limits, [], "bulk"))
    assert time.now_s == 60.0


async def test_a_correction_that_comes_late_changes_nothing() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=100)
    gone = await limits.take(100)
    time.now_s = 60.0
    other = await limits.take(40)
    limits.correct(gone, 1_000)
    assert (await limits.take(60)).at_s == 60.0
    assert (gone.tokens, other.tokens) == (1_000, 40)


@pytest.mark.parametrize("first", [True, False])
async def test_whoever_is_cancelled_while_waiting_counts_for_nothing(*, first: bool) -> None:
    time = VirtualTime()
    limits = limits_at(time, requests=1)
    await limits.take(1)
    waiting = [asyncio.create_task(limits.take(1, first=first)) for _ in range(2)]
    await settle()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    log: list[str] = []
    await time.run(passing(limits, log, "bulk"), passing(limits, log, "query"))
    assert log == ["query", "bulk"]
    assert time.now_s == 2 * WINDOW_S


async def test_what_was_waited_is_counted() -> None:
    time = VirtualTime()
    limits = limits_at(time, requests=1)
    await limits.take(1)
    assert (limits.waits, limits.waited_s) == (0, 0.0)
    time.now_s = 15.0
    await time.run(passing(limits, [], "bulk"))
    assert (limits.waits, limits.waited_s) == (1, 45.0)


async def test_no_bounds_mean_no_waits() -> None:
    limits = limits_at(VirtualTime())
    for _ in range(1_000):
        await limits.take(1_000_000)
    assert limits.waits == 0


async def test_steady_queries_do_not_starve_a_large_request() -> None:
    time = VirtualTime()
    limits = limits_at(time, tokens=10_000)
    log: list[str] = []

    async def queries() -> None:
        for _ in range(400):
            await time.sleep(5)
            await passing(limits, log, "query", 800)

    await time.run(
        queries(), passing(limits, log, "bulk 1", 8_000), passing(limits, log, "bulk 2", 8_000)
    )
    assert log.index("bulk 2") < 120


async def test_one_that_is_cancelled_after_long_leaves_the_way_to_queries() -> None:
    time = VirtualTime()
    limits = limits_at(time, requests=1)
    await limits.take(1)
    bulk = asyncio.create_task(limits.take(1))
    await settle()
    bulk.cancel()
    await settle()
    log: list[str] = []

    async def query() -> None:
        log.append(f"{(await limits.take(1, first=True)).at_s:g}")

    await time.run(query())
    assert log == [f"{WINDOW_S:g}"]


def remembered() -> int:
    return sum(isinstance(thing, Taken) for thing in gc.get_objects())


async def test_where_nothing_is_bounded_no_request_is_remembered() -> None:
    limits = limits_at(VirtualTime())
    before = remembered()  # by other tests
    for _ in range(1_000):
        limits.correct(await limits.take(10), 20)
    assert remembered() <= before + 1
