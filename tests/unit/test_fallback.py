"""The fallback provider replaces a permanently failed provider once, and only that one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from remotes import FakeClock
from waiting import settle

from memoryd.agent.embedding import CHECK_S, OUTAGE_S, Fallback
from memoryd.embed.circuit_breaker import CircuitBreaker
from memoryd.embed.provider import PermanentError, RetryableError
from memoryd.identity import Choice
from memoryd.messages import Choose, ToWriter

OUTAGE = RetryableError("openai answered 503: overloaded", answered=True)
BAD_KEY = PermanentError("openai answered 401: no such key")
QUOTA = PermanentError("the quota is used up", for_good=False)
RATE_LIMIT = RetryableError("openai answered 429", after_s=20.0)


class Scene:
    """A running fallback whose own checks advance the clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.hold = CircuitBreaker(sleep=self.clock.sleep, clock=self.clock, jitter=lambda: 0.0)
        self.writer: asyncio.Queue[ToWriter] = asyncio.Queue()
        self.restarts = 0
        self.looks = 0
        self._until_s = float("inf")
        self._moved = asyncio.Event()
        self._reached = asyncio.Event()
        self.fallback = Fallback(
            writer=self.writer,
            hold=self.hold,
            failed="openai",
            fallback="local",
            instead_of="auto",
            restart=self.restart,
            sleep=self.look,
        )

    def restart(self) -> None:
        self.restarts += 1

    async def look(self, seconds: float) -> None:
        """Advance the clock by one interval, up to the limit that `go_on` sets."""
        self.looks += 1
        while self.clock.now_s + seconds > self._until_s:
            self._reached.set()
            self._moved.clear()
            await self._moved.wait()
        await self.clock.sleep(seconds)

    async def go_on(self, seconds: float) -> None:
        """Advance the clock by this time."""
        self._until_s = self.clock.now_s + seconds
        self._reached.clear()
        self._moved.set()
        await self._reached.wait()

    async def choose(self) -> Choose:
        """Return the choice that the writer receives."""
        message = await self.writer.get()
        assert isinstance(message, Choose)
        return message


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    it = Scene()
    task = asyncio.create_task(it.fallback.run())
    try:
        yield it
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_what_fails_for_good_is_replaced_at_once() -> None:
    async with scene() as it:
        it.hold.trip(BAD_KEY)
        message = await it.choose()
        assert message.choice == Choice("local", "fallback", f"openai failed: {BAD_KEY}", "auto")
        assert (it.clock.now_s, it.looks) == (0.0, 0)


async def test_the_agent_restarts_once_when_the_choice_is_written() -> None:
    async with scene() as it:
        it.hold.trip(BAD_KEY)
        message = await it.choose()
        await settle()
        assert it.restarts == 0
        message.done.set_result(None)
        await settle()
        assert it.restarts == 1
        # No later event triggers the change again.
        it.hold.trip(BAD_KEY)
        it.hold.reset()
        it.hold.trip(PermanentError("another"))
        await settle()
        assert it.restarts == 1
        assert it.writer.empty()


async def test_the_writers_queue_is_waited_for() -> None:
    async with scene() as it:
        it.writer._maxsize = 1  # type: ignore[attr-defined]
        it.writer.put_nowait(Choose(Choice("x", "asked", "", "auto")))
        it.hold.trip(BAD_KEY)
        await settle()
        assert it.restarts == 0
        await it.choose()
        assert (await it.choose()).choice.provider == "local"


async def test_an_outage_counts_as_for_good_after_an_hour() -> None:
    async with scene() as it:
        it.hold.trip(OUTAGE)
        message = await it.choose()
        assert it.clock.now_s == OUTAGE_S
        assert set(it.clock.pauses) == {CHECK_S}
        assert "503" in message.choice.why


@pytest.mark.parametrize("error", [OUTAGE, RATE_LIMIT, QUOTA])
async def test_what_passes_within_the_hour_is_waited_for(
    error: RetryableError | PermanentError,
) -> None:
    async with scene() as it:
        for _ in range(3):
            it.hold.trip(error)  # retried, without success
            await it.go_on(OUTAGE_S / 3 - CHECK_S)
        assert it.writer.empty()
        assert it.restarts == 0


async def test_what_works_now_and_then_is_not_given_up() -> None:
    async with scene() as it:
        for _ in range(3):
            it.hold.trip(OUTAGE)
            await it.go_on(OUTAGE_S - CHECK_S)
            it.hold.reset()
        assert it.writer.empty()


async def test_an_outage_that_ends_in_a_bad_key_is_for_good() -> None:
    async with scene() as it:
        it.hold.trip(OUTAGE)
        while not it.looks:
            await asyncio.sleep(0)
        it.hold.trip(BAD_KEY)
        message = await it.choose()
        assert it.clock.now_s <= 10 * CHECK_S
        assert "401" in message.choice.why


async def test_a_provider_that_works_is_never_looked_at() -> None:
    async with scene() as it:
        await settle()
        assert it.looks == 0
        assert it.writer.empty()


async def test_a_pause_between_tries_does_not_hide_for_how_long_it_has_failed() -> None:
    clock = FakeClock()
    hold = CircuitBreaker(sleep=clock.sleep, clock=clock, jitter=lambda: 0.0)
    hold.trip(OUTAGE)
    for _ in range(20):
        await hold.wait()
        hold.trip(OUTAGE)
    assert hold.failing_s == clock.now_s > OUTAGE_S
    assert hold.retry_in_s == 300.0
