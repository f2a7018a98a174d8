"""Changes to the fallback provider when the first one has failed for good."""

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
"""An outage that lasts so long counts as for good; a rate limit or a used up quota never does."""
LOOK_S = 5.0


class Fallback:
    """In: the state of the provider. Out: the choice of another one, to the writer; a restart.

    It never goes back by itself: both providers' vectors would be paid for again and again.
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
        """`failed` is the provider that is watched, `instead_of` the one that is configured."""
        self._writer = writer
        self._hold = hold
        self._failed = failed
        self._fallback = fallback
        self._instead_of = instead_of
        self._restart = restart
        self._sleep = sleep

    async def run(self) -> None:
        """Watch until the provider has failed for good, have the agent restarted, and wait."""
        while not self._is_gone():
            await self._hold.blocked.wait()
            if not self._is_gone():
                await self._sleep(LOOK_S)
        why = self._hold.reason or ""
        log.warning(
            "%s has failed for good, %s takes its place: %s", self._failed, self._fallback, why
        )
        choice = Choice(
            self._fallback, "fallback", f"{self._failed} failed: {why}", self._instead_of
        )
        message = Choose(choice)
        await self._writer.put(message)
        await message.done
        self._restart()
        await asyncio.get_running_loop().create_future()

    def _is_gone(self) -> bool:
        error = self._hold.error
        if isinstance(error, PermanentError):
            return error.for_good
        return error is not None and not error.busy and (self._hold.failing_s or 0.0) >= OUTAGE_S
