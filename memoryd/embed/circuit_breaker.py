"""Circuit breaker of one provider: why it is blocked, since when, and when it is tried again."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from memoryd.embed.provider import PermanentError, RetryableError
from memoryd.retry import Backoff

FIRST_S = 5.0
MAX_S = 300.0
AFTER_MAX_S = 3_600.0
"""Maximum pause that a provider may ask for: memoryd tries a used-up daily quota once an hour."""


class CircuitBreaker(Backoff):
    """State of a provider; `blocked` is set while it fails, and pauses between tries double."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(FIRST_S, MAX_S, jitter=jitter, sleep=sleep, clock=clock)
        self.blocked = asyncio.Event()
        self.error: RetryableError | PermanentError | None = None
        self._failed_again = asyncio.Event()

    @property
    def reason(self) -> str | None:
        """Why the provider is blocked, for people; None if it isn't."""
        return None if self.error is None else str(self.error)

    def trip(self, error: RetryableError | PermanentError) -> None:
        """Block the provider, or keep it blocked for longer."""
        self.error = error
        self.fail(asked_pause_s(error), at_max=isinstance(error, PermanentError))
        self.blocked.set()
        self._failed_again.set()
        self._failed_again.clear()  # tasks that wait now have been woken by then

    async def wait_for_failure(self) -> None:
        """Wait for the next failure. No wait while the provider is blocked and no try is due."""
        if self.error is None or not self.is_due:
            await self.blocked.wait()
        else:
            await self._failed_again.wait()

    def reset(self) -> None:
        """Unblock the provider: it has answered."""
        self.error = None
        self.blocked.clear()
        super().reset()


def asked_pause_s(error: RetryableError | PermanentError) -> float | None:
    """Return the pause that the provider asks for, capped. 0 s count as none, against hammering."""
    if isinstance(error, RetryableError) and error.after_s:
        return min(error.after_s, AFTER_MAX_S)
    return None
