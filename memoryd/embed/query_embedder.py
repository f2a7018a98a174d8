"""Embeds queries ahead of bulk work; identical queries in flight share one call and are cached."""

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
from memoryd.fs.hang import retrieve_error

CACHED = 256
MAX_IN_FLIGHT = 256
"""Maximum queries at the provider, including those that no caller awaits any longer."""
PAUSE_S = 0.5
"""Seconds before the only retry."""
COOL_DOWN_S = 5.0
"""Seconds after a failed query in which further ones fail at once."""

QueryVector = NDArray[np.float32]


@dataclass(slots=True, eq=False)
class _Call:
    task: asyncio.Task[QueryVector]
    waiting: int = 0
    detached: bool = False


class ImpatientError(RetryableError):
    """The caller's patience ended; the query is embedded nevertheless, for later callers."""


class QueryEmbedder:
    """Embeds queries. While the provider is blocked, they fail at once."""

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
        self._in_flight: dict[str, _Call] = {}
        self._failed: ProviderError | None = None
        self._failed_until_s = 0.0

    async def embed(
        self, text: str, *, patience_s: float | None = None, insist: bool = False
    ) -> QueryVector:
        """Embed one query. Returns shape (dims,), read-only, length 1. Raises `ProviderError`.

        A cancelled caller withdraws its request. One whose patience ends leaves it running for
        later callers, unless a model on this machine is loaded. `insist` also calls a blocked
        provider.
        """
        text = self._calls.ready(text)
        if (vector := self._known.get(text)) is not None:
            if self._calls.dims in (None, len(vector)):
                self._known.move_to_end(text)
                return vector
            del self._known[text]
        if not insist:
            self._refuse()
        if not self._calls.provider.remote and self._calls.provider.is_ready:
            return await self._embed_at_once(text, patience_s)
        call = self._in_flight.get(text)
        if call is None:
            if len(self._in_flight) >= MAX_IN_FLIGHT:
                raise RetryableError(
                    f"{MAX_IN_FLIGHT} queries are waiting for the provider already."
                )
            call = _Call(
                asyncio.create_task(self._embed(text, self._timeout_s), name="embed query")
            )
            call.task.add_done_callback(partial(self._forget, text))
            self._in_flight[text] = call
        call.waiting += 1
        try:
            await asyncio.wait({call.task}, timeout=patience_s)
            if patience_s is not None and not call.task.done():
                call.detached = True
                raise ImpatientError(_late(patience_s))
            if call.task.cancelled():
                raise RetryableError("Embedding has been stopped.")
            return call.task.result()
        finally:
            call.waiting -= 1
            if not call.waiting and not call.detached:
                call.task.cancel()
            # The error's traceback contains this frame, and the task contains the error: a cycle
            # that would keep the vendor's whole answer until the next full collection.
            del call

    def stop(self) -> None:
        """Cancel all requests."""
        for call in self._in_flight.values():
            call.task.cancel()

    def _forget(self, text: str, task: asyncio.Task[QueryVector]) -> None:
        del self._in_flight[text]
        retrieve_error(task)

    def _refuse(self) -> None:
        """Raise the provider's error, unless the next try is due."""
        error: ProviderError | None = self._breaker.error if self._breaker.retry_in_s else None
        if self._clock() < self._failed_until_s:
            error = error or self._failed
        if error is not None:
            raise copy.copy(error)  # raising one object repeatedly would collect tracebacks

    async def _embed_at_once(self, text: str, patience_s: float | None) -> QueryVector:
        """Embed a query without a task to share: it would take longer than most such models."""
        if patience_s is None:
            return await self._embed(text, self._timeout_s)
        try:
            async with asyncio.timeout(patience_s):
                return await self._embed(text, None)
        except TimeoutError:
            raise ImpatientError(_late(patience_s)) from None

    async def _embed(self, text: str, timeout_s: float | None) -> QueryVector:
        try:
            async with asyncio.timeout(timeout_s):
                rows, reasons = await self._ask(text)
            if reasons[0]:
                raise BadTextError(reasons[0])
        except TimeoutError:
            raise self._note(RetryableError("The provider took too long for the query.")) from None
        except RetryableError as error:
            self._note(error)
            raise
        except PermanentError as error:
            if isinstance(blamed := await self._calls.blame(error), BadTextError):
                raise blamed from None
            self._breaker.trip(error)
            raise
        self._failed = None
        self._breaker.reset()
        vector: QueryVector = rows[0]
        vector.flags.writeable = False
        self._known[text] = vector
        if len(self._known) > CACHED:
            self._known.popitem(last=False)
        return vector

    def _note(self, error: RetryableError) -> RetryableError:
        # Without its traceback, which references the whole request.
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


def _late(patience_s: float) -> str:
    return f"the query was not embedded within {patience_s:g} s"
