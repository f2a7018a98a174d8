"""The state of a provider that is out of order: why, since when, and when it is tried again."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from memoryd.embed.provider import PermanentError, RetryableError
from memoryd.messages import first_of

JITTER = 0.2
FIRST_S = 5.0
MAX_S = 300.0
AFTER_MAX_S = 3_600.0
"""The longest pause that a provider may ask for: a daily quota is looked at once an hour."""


class CircuitBreaker:
    """`blocked` is set while the provider doesn't work; pauses between tries double."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.blocked = asyncio.Event()
        self.error: RetryableError | PermanentError | None = None
        self._sleep = sleep
        self._clock = clock
        self._jitter = jitter
        self._since_s = self._retry_at_s = self._step_s = 0.0
        self._woken = asyncio.Event()

    @property
    def reason(self) -> str | None:
        """Why it is blocked, for people; None if it isn't."""
        return None if self.error is None else str(self.error)

    @property
    def for_s(self) -> float | None:
        """For how long it has been blocked."""
        return None if self.error is None else self._clock() - self._since_s

    @property
    def retry_in_s(self) -> float | None:
        """In how long it is tried again."""
        return None if self.error is None else max(0.0, self._retry_at_s - self._clock())

    def start(self, error: RetryableError | PermanentError) -> None:
        """Enter the blocked state, or stay in it for longer."""
        now_s = self._clock()
        if self.error is None:
            self._since_s, self._step_s = now_s, FIRST_S
        else:
            self._step_s = min(2 * self._step_s, MAX_S)
        if isinstance(error, PermanentError):
            self._step_s = MAX_S
        self.error = error
        self._retry_at_s = now_s + self.pause_s(error, self._step_s)
        self.blocked.set()

    def release(self) -> None:
        """Leave the blocked state: the provider has answered."""
        self.error = None
        self.blocked.clear()
        self._woken.set()
        self._woken.clear()  # those who wait now have been woken by then

    def wake(self) -> None:
        """Have it tried now."""
        if self.error is not None:
            self._woken.set()

    async def until_retry(self) -> None:
        """Wait for the time of the next try, or for `wake`."""
        if self.error is None:
            return
        await first_of(self._sleep(self._retry_at_s - self._clock()), self._woken.wait())
        self._woken.clear()

    def pause_s(self, error: RetryableError | PermanentError, step_s: float) -> float:
        """Return the pause after an error: what the provider asks for, or the step and jitter.

        None at all is no pause: one that asks for 0 seconds again and again is not hammered at.
        """
        if isinstance(error, RetryableError) and error.after_s:
            return min(error.after_s, AFTER_MAX_S)
        return step_s * (1 + JITTER * self._jitter())
