"""Limits on requests and tokens a minute, with queries first."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

WINDOW_S = 60.0
FAIR_AFTER_S = 5 * WINDOW_S
"""Seconds after which waiting bulk work goes before queries."""


@dataclass(slots=True)
class Taken:
    """An admitted request: its time, and the tokens it counts for."""

    at_s: float
    tokens: int


class RateLimits:
    """Delays requests so that no 60 seconds exceed the limits; 0 means no limit.

    A request larger than the limit passes alone. `first` requests (queries) go before waiting ones,
    except one that has waited for `FAIR_AFTER_S`.
    """

    def __init__(
        self,
        *,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._clock = clock
        self._sleep = sleep
        self._taken: deque[Taken] = deque()
        self._sum = 0
        self._turn, self._first_turn = asyncio.Lock(), asyncio.Lock()
        self._firsts = 0
        self._no_firsts = asyncio.Event()
        self._no_firsts.set()
        self._fair = asyncio.Event()
        self._fair.set()
        self.waited_s = 0.0
        self.waits = 0

    async def take(self, tokens: int, *, first: bool = False) -> Taken:
        """Wait until a request of `tokens` tokens may be sent."""
        if not self._requests and not self._tokens:
            return Taken(self._clock(), tokens)
        if first:
            self._firsts += 1
            self._no_firsts.clear()
            try:
                async with self._first_turn:
                    return await self._wait(tokens, first=True)
            finally:
                self._firsts -= 1
                if not self._firsts:
                    self._no_firsts.set()
        async with self._turn:
            return await self._wait(tokens, first=False)

    def correct(self, taken: Taken, tokens: int) -> None:
        """Replace a request's estimate with the tokens that the provider reports."""
        if taken in self._taken:
            self._sum += tokens - taken.tokens
        taken.tokens = tokens

    async def _wait(self, tokens: int, *, first: bool) -> Taken:
        started_s = self._clock()
        waited = False
        try:
            while True:
                if first:
                    await self._fair.wait()
                elif self._clock() - started_s >= FAIR_AFTER_S:
                    self._fair.clear()
                else:
                    await self._no_firsts.wait()
                if (pause_s := self._pause_s(tokens)) <= 0:
                    break
                waited = True
                await self._sleep(pause_s)
        finally:
            if not first:
                self._fair.set()
        now_s = self._clock()
        if waited:
            self.waits += 1
            self.waited_s += now_s - started_s
        taken = Taken(now_s, tokens)
        self._taken.append(taken)
        self._sum += tokens
        return taken

    def _pause_s(self, tokens: int) -> float:
        now_s = self._clock()
        while self._taken and self._taken[0].at_s <= now_s - WINDOW_S:
            self._sum -= self._taken.popleft().tokens
        crowded = 0 < self._requests <= len(self._taken)
        heavy = 0 < self._tokens < self._sum + tokens and bool(self._taken)
        if not (crowded or heavy):
            return 0.0
        return self._taken[0].at_s + WINDOW_S - now_s
