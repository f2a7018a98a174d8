"""Switch to the fallback provider after a permanent failure of the first one."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from memoryd.embed.circuit_breaker import CircuitBreaker
from memoryd.embed.provider import PermanentError
from memoryd.identity import Choice
from memoryd.messages import Choose, ToWriter

log = logging.getLogger(__name__)

OUTAGE_S = 3_600.0
"""Seconds after which an outage counts as permanent. A rate limit or used-up quota never does."""
CHECK_S = 5.0
"""Seconds between checks while the provider is blocked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """In: the state of the provider. Out: the choice of another one, to the writer; a restart.

    `failed` is the provider to watch, `instead_of` the configured one. It never switches back,
    because the vectors of both providers would be paid for repeatedly.
    """

    writer: asyncio.Queue[ToWriter]
    hold: CircuitBreaker
    failed: str
    fallback: str
    instead_of: str
    restart: Callable[[], None]
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    async def run(self) -> None:
        """Wait for a permanent failure of the provider, then restart the agent."""
        while not self._failed_permanently():
            await self.hold.blocked.wait()
            if not self._failed_permanently():
                await self.sleep(CHECK_S)
        why = self.hold.reason or ""
        log.warning("%s failed permanently, switching to %s: %s", self.failed, self.fallback, why)
        why = f"{self.failed} failed: {why}"
        message = Choose(Choice(self.fallback, "fallback", why, self.instead_of))
        await self.writer.put(message)
        await message.done
        self.restart()
        await asyncio.get_running_loop().create_future()

    def _failed_permanently(self) -> bool:
        error = self.hold.error
        if isinstance(error, PermanentError):
            return error.for_good
        return error is not None and not error.busy and (self.hold.failing_s or 0.0) >= OUTAGE_S
