"""Retry timing: pauses that grow with each failure, and an early wake-up."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

JITTER = 0.2


@dataclass(eq=False)
class Backoff:
    """Pauses between tries: `first_s` after one failure, then `factor` longer, up to `max_s`."""

    first_s: float
    max_s: float
    _: KW_ONLY
    factor: float = 2.0
    jitter: Callable[[], float] = lambda: 0.0
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    _woken: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _since_s: float | None = field(default=None, init=False)
    _step_s: float = field(default=0.0, init=False)
    _retry_at_s: float = field(default=0.0, init=False)

    @property
    def failing_s(self) -> float | None:
        """Seconds since the first failure, None if there is none."""
        return None if self._since_s is None else self.clock() - self._since_s

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until the next try, None without a failure. `wake` does not change it."""
        return None if self._since_s is None else max(0.0, self._retry_at_s - self.clock())

    @property
    def is_due(self) -> bool:
        """True if it is time for the next try."""
        return self._woken.is_set() or self.retry_in_s == 0

    def jittered(self, pause_s: float) -> float:
        """Return a pause, longer by a random part of `JITTER`."""
        return pause_s * (1 + JITTER * self.jitter())

    def fail(self, pause_s: float | None = None, *, at_max: bool = False) -> None:
        """Schedule the next try: after `pause_s`, or after the next (`at_max`: longest) step."""
        step_s = min(self.factor * self._step_s, self.max_s) or self.first_s
        self._step_s = self.max_s if at_max else step_s
        now_s = self.clock()
        self._since_s = now_s if self._since_s is None else self._since_s
        self._retry_at_s = now_s + (self.jittered(self._step_s) if pause_s is None else pause_s)
        self._woken.clear()  # the try that has just failed has answered it

    def reset(self) -> None:
        """Start over after a success, and end the waits in progress."""
        self._since_s, self._step_s = None, 0.0
        self._woken.set()
        self._woken.clear()  # tasks that wait now have been woken by then

    def wake(self) -> None:
        """Make the next try due now; no effect without a failure."""
        if self._since_s is not None:
            self._woken.set()

    async def wait(self) -> None:
        """Wait for the time of the next try, or for `wake`; no wait without a failure."""
        if (pause_s := self.retry_in_s) is not None:
            await first_of(self.sleep(pause_s), self._woken.wait())
            self._woken.clear()


async def first_of(*waits: Awaitable[Any]) -> None:
    """Wait for the first to finish, then cancel all that are not tasks."""
    made = [asyncio.ensure_future(wait) for wait in waits if not isinstance(wait, asyncio.Task)]
    tasks = [wait for wait in waits if isinstance(wait, asyncio.Task)]
    try:
        await asyncio.wait([*made, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in made:
            future.cancel()
