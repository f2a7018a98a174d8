"""The way of a query: past all bulk work, shared with the same query of others, remembered."""

import asyncio
import copy
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.embed.circuit_breaker import CircuitBreaker
from memoryd.embed.provider import BadTextError, PermanentError, ProviderError, RetryableError
from memoryd.embed.provider_client import ProviderClient

REMEMBERED = 256
MAX_ASKED = 256
"""Queries that are with the provider; those that nobody waits for any longer are among them."""
PAUSE_S = 0.5
"""Before the one retry."""
COOL_DOWN_S = 5.0
"""After a query has failed, so long nobody waits for another one."""

QueryVector = NDArray[np.float32]


@dataclass(slots=True, eq=False)
class _Asked:
    task: asyncio.Task[QueryVector]
    waiting: int = 0
    wanted: bool = False


class Queries:
    """Embeds queries. While the provider is out of order, it refuses them at once."""

    def __init__(
        self,
        calls: ProviderClient,
        breaker: CircuitBreaker,
        *,
        timeout_s: float,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._breaker = breaker
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._clock = clock
        self._known: OrderedDict[str, QueryVector] = OrderedDict()
        self._asked: dict[str, _Asked] = {}
        self._failed: ProviderError | None = None
        self._failed_until_s = 0.0

    async def embed(
        self, text: str, *, patience_s: float | None = None, insist: bool = False
    ) -> QueryVector:
        """Embed one query. Returns shape (dims,), read-only, length 1. Raises `ProviderError`.

        A caller that is cancelled takes its request back; one whose patience ends leaves it to
        those who ask next. `insist` asks a provider that is known to be out of order too.
        """
        text = self._calls.ready(text)
        if (vector := self._known.get(text)) is not None:
            if self._calls.dims in (None, len(vector)):
                self._known.move_to_end(text)
                return vector
            del self._known[text]
        if not insist:
            self._refuse()
        asked = self._asked.get(text)
        if asked is None:
            if len(self._asked) >= MAX_ASKED:
                raise RetryableError(f"{MAX_ASKED} queries are waiting for the provider already.")
            asked = _Asked(asyncio.create_task(self._embed(text), name="embed query"))
            asked.task.add_done_callback(partial(self._forget, text))
            self._asked[text] = asked
        asked.waiting += 1
        try:
            await asyncio.wait({asked.task}, timeout=patience_s)
            if not asked.task.done():
                asked.wanted = True
                raise RetryableError(f"the query was not embedded within {patience_s:g} s")
            if asked.task.cancelled():
                raise RetryableError("Embedding has been stopped.")
            return asked.task.result()
        finally:
            asked.waiting -= 1
            if not asked.waiting and not asked.wanted:
                asked.task.cancel()
            # An error has this frame in its traceback, and the task the error: a circle, which
            # would keep the vendor's whole answer until the next full collection.
            del asked

    def stop(self) -> None:
        """Take all requests back."""
        for asked in self._asked.values():
            asked.task.cancel()

    def _forget(self, text: str, task: asyncio.Task[QueryVector]) -> None:
        del self._asked[text]
        if not task.cancelled():
            task.exception()  # perhaps nobody is left to see it

    def _refuse(self) -> None:
        """Raise what is wrong with the provider, unless it is time to try it again."""
        error: ProviderError | None = self._breaker.error if self._breaker.retry_in_s else None
        if self._clock() < self._failed_until_s:
            error = error or self._failed
        if error is not None:
            raise copy.copy(error)  # one that is raised again and again collects tracebacks

    async def _embed(self, text: str) -> QueryVector:
        try:
            async with asyncio.timeout(self._timeout_s):
                rows, reasons = await self._ask(text)
            if reasons[0]:
                raise BadTextError(reasons[0])
        except TimeoutError:
            raise self._note(RetryableError("The provider took too long for the query.")) from None
        except RetryableError as error:
            self._note(error)
            raise
        except PermanentError as error:
            self._breaker.trip(error)
            raise
        self._failed = None
        self._breaker.reset()
        vector: QueryVector = rows[0]
        vector.flags.writeable = False
        self._known[text] = vector
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return vector

    def _note(self, error: RetryableError) -> RetryableError:
        # Without its traceback, which has all of the request in it.
        self._failed, self._failed_until_s = copy.copy(error), self._clock() + COOL_DOWN_S
        return error

    async def _ask(self, text: str) -> tuple[NDArray[np.float32], list[str]]:
        try:
            return await self._calls.query(text)
        except RetryableError as error:
            if error.after_s is not None:
                raise
        await self._sleep(PAUSE_S)
        return await self._calls.query(text)
