"""Calls for bulk work that retry until the provider answers, with a brief and a long retry.

Brief: a few tries in quick succession. Long: the circuit breaker blocks the provider, and one
worker tries it at growing intervals while the others wait.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from memoryd.embed.circuit_breaker import CircuitBreaker, asked_pause_s
from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    FloatMatrix,
    PermanentError,
    RetryableError,
)
from memoryd.embed.provider_client import ProviderClient

ATTEMPT_PAUSES_S = (0.5, 1.0)
"""Seconds between calls in quick succession; if the last one fails too, the pool is blocked."""
BRIEF_PAUSE_S = 8.0
"""Seconds; a provider that asks for a longer pause blocks the pool at once."""


class PersistentClient:
    """The provider for bulk work; `retries` counts calls that repeat a failed one."""

    def __init__(
        self,
        client: ProviderClient,
        breaker: CircuitBreaker,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self.retries = 0
        self._client = client
        self._breaker = breaker
        self._sleep = sleep
        self._prober = asyncio.Lock()

    async def documents(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        """Embed texts as `ProviderClient.documents` does, however long it takes.

        Raises `BadTextError` alone: the provider works, and refuses or fails at these texts.
        """
        breaker = self._breaker
        while True:
            if breaker.error is None:
                try:
                    return await self._try_briefly(texts)
                except (RetryableError, PermanentError) as error:
                    await self._check_texts(error)
                    if breaker.error is None:
                        breaker.trip(error)
            # While the provider is blocked, one worker tries it and the others wait.
            async with self._prober:
                await breaker.wait()
                if breaker.error is None:
                    continue
                self.retries += 1
                try:
                    return await self._try_once(texts)
                except (RetryableError, PermanentError) as error:
                    await self._check_texts(error)
                    breaker.trip(error)

    async def _try_briefly(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        for step_s in ATTEMPT_PAUSES_S:
            try:
                return await self._try_once(texts)
            except RetryableError as error:
                pause_s = asked_pause_s(error) or self._breaker.jittered(step_s)
                if pause_s > BRIEF_PAUSE_S:
                    raise
            self.retries += 1
            await self._sleep(pause_s)
        return await self._try_once(texts)

    async def _try_once(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        try:
            checked = await self._client.documents(texts)
        except BadTextError as error:
            too_many = isinstance(error, BatchTooLargeError)
            if not too_many and len(texts) == 1 and not await self._client.works():
                problem = f"The provider refuses every text: {error}"
                raise PermanentError(problem, for_good=False) from error
            self._breaker.reset()
            raise
        self._breaker.reset()
        return checked

    async def _check_texts(self, error: RetryableError | PermanentError) -> None:
        """Raise `BadTextError` if the provider works, and fails at these texts alone."""
        if isinstance(blamed := await self._client.blame(error), BadTextError):
            self._breaker.reset()
            raise blamed from error
