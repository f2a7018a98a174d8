"""Switch to the fallback provider after a permanent failure of the first one."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
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


class Fallback:
    """In: the state of the provider. Out: the choice of another one, to the writer; a restart.

    It never switches back, because the vectors of both providers would be paid for repeatedly.
    """

    def __init__(
        self,
        writer: asyncio.Queue[ToWriter],
        *,
        hold: CircuitBreaker,
        failed: str,
        fallback: str,
        instead_of: str,
        restart: Callable[[], None],
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        """`failed` is the provider to watch, `instead_of` the configured one."""
        self._writer = writer
        self._hold = hold
        self._failed = failed
        self._fallback = fallback
        self._instead_of = instead_of
        self._restart = restart
        self._sleep = sleep

    async def run(self) -> None:
        """Wait for a permanent failure of the provider, then restart the agent."""
        while not self._failed_permanently():
            await self._hold.blocked.wait()
            if not self._failed_permanently():
                await self._sleep(CHECK_S)
        why = self._hold.reason or ""
        log.warning("%s failed permanently, switching to %s: %s", self._failed, self._fallback, why)
        choice = Choice(
            self._fallback, "fallback", f"{self._failed} failed: {why}", self._instead_of
        )
        message = Choose(choice)
        await self._writer.put(message)
        await message.done
        self._restart()
        await asyncio.get_running_loop().create_future()

    def _failed_permanently(self) -> bool:
        error = self._hold.error
        if isinstance(error, PermanentError):
            return error.for_good
        return error is not None and not error.busy and (self._hold.failing_s or 0.0) >= OUTAGE_S
