"""Workers of one provider: batches, and the bisection that finds a bad text.

Bulk work arrives as jobs in a queue and is never abandoned: `PersistentClient` retries it, and
`blocked` is set while the provider fails. `QueryEmbedder` embeds queries.
"""

import asyncio
import copy
import logging
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memoryd.embed.budget import Budget
from memoryd.embed.circuit_breaker import CircuitBreaker
from memoryd.embed.persistent_client import PersistentClient
from memoryd.embed.provider import (
    BadTextError,
    BatchTooLargeError,
    Provider,
    RetryableError,
    in_batches,
    utf8_bytes,
)
from memoryd.embed.provider_client import ProviderClient
from memoryd.embed.query_embedder import QueryEmbedder, QueryVector
from memoryd.embed.rate_limit import RateLimits
from memoryd.embed.windows import windows
from memoryd.fs.hang import retrieve_error
from memoryd.messages import Text
from memoryd.retry import first_of
from memoryd.text.token_estimate import weigh

log = logging.getLogger(__name__)

VECTOR_TRIES = 3
"""Requests for a text whose vector is invalid, before it is set aside."""

SPLIT_BYTES = 256
"""Bytes; a refused text that is shorter is not too long for any model."""

Name = tuple[str, tuple[int, ...]]
"""(hash of a text, number of a window in it, and of each part of that window)"""
Window = tuple[Name, str]


@dataclass(frozen=True, slots=True)
class EmbedOutcome:
    """Result of a job: (hash, little-endian float32 unit vectors) and (hash, reason) pairs.

    A text with several windows has one vector of `dims` numbers for each, concatenated. A text in
    neither list must be embedded again: the provider has changed its dims meanwhile.
    """

    vectors: list[tuple[str, bytes]]
    bad: list[tuple[str, str]]
    dims: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EmbedJob:
    """(hash, text) pairs to embed. Cancelling `outcome` drops the job in any state."""

    texts: list[Text]
    outcome: asyncio.Future[EmbedOutcome]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts of requests and texts (`items`); times are in seconds.

    `retries` are requests that repeat a failed one; `waits` those delayed by the rate limits.
    """

    requests: int
    items: int
    tokens: int
    retries: int
    failures: int
    waits: int
    waited_s: float
    max_items: int
    blocked_reason: str | None
    retry_in_s: float | None
    last_error: str | None


class EmbedPool:
    """In: jobs. Out: their outcomes. `blocked` is set while the provider fails."""

    def __init__(
        self,
        jobs: asyncio.Queue[EmbedJob],
        provider: Provider,
        *,
        limits: RateLimits | None = None,
        mask: Callable[[str], str] = str,
        budget: Budget | None = None,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`mask` removes secrets from texts that go to a server."""
        self._jobs = jobs
        self._provider = provider
        self.calls = ProviderClient(
            provider,
            limits=limits or RateLimits(clock=clock, sleep=sleep),
            mask=mask,
            budget=budget,
        )
        self.breaker = CircuitBreaker(sleep=sleep, clock=clock, jitter=jitter)
        self.blocked = self.breaker.blocked
        self._client = PersistentClient(self.calls, self.breaker, sleep=sleep)
        self._queries = QueryEmbedder(
            self.calls, self.breaker, timeout_s=provider.query_timeout_s, sleep=sleep, clock=clock
        )
        self._max_items = provider.batch_items
        self._units = provider.window_units
        self._accepted_units = 0
        self._stopped = False

    @property
    def window_units(self) -> int | None:
        """Quarter tokens of the windows of longer texts, None while texts are embedded whole."""
        return self._units

    async def run(self) -> None:
        """Work until cancelled. Pending jobs then fail with a `RetryableError`."""
        try:
            if (budget := self.calls.budget) is not None:
                with suppress(RetryableError):  # each request tries again, and reports it
                    await budget.load()
            async with asyncio.TaskGroup() as group:
                for number in range(self._provider.concurrency):
                    group.create_task(self._work(), name=f"embed worker {number}")
        finally:
            self._stopped = True
            self._fail_queued()
            self._queries.stop()

    async def embed(self, texts: list[Text]) -> EmbedOutcome:
        """Embed (hash, text) pairs, however long it takes. Cancelling drops the job."""
        job = EmbedJob(texts, asyncio.get_running_loop().create_future())
        await self._jobs.put(job)
        if self._stopped:  # no worker makes room for other callers that wait to put a job
            self._fail_queued()
        return await job.outcome

    async def embed_now(self, texts: list[Text]) -> EmbedOutcome:
        """Embed as `embed` does, but give up when the provider fails.

        A blocked provider is tried once its next try is due. Raises its `ProviderError`.
        """
        work = asyncio.ensure_future(self.embed(texts))
        work.add_done_callback(retrieve_error)
        try:
            await first_of(self.breaker.wait_for_failure(), work)
            if not work.done():
                raise copy.copy(self.breaker.error or RetryableError("The provider failed."))
            return work.result()
        finally:
            work.cancel()

    @property
    def is_ready(self) -> bool:
        """True if a query needs no preparation, such as loading a model."""
        return self._provider.is_ready

    async def embed_query(
        self, text: str, *, patience_s: float | None = None, insist: bool = False
    ) -> QueryVector:
        """Embed one query, ahead of bulk work. See `QueryEmbedder.embed`."""
        return await self._queries.embed(text, patience_s=patience_s, insist=insist)

    def stats(self) -> PoolStats:
        """Return counts, and the reason and retry time of a blocked pool."""
        counts, limits, breaker = self.calls.counts, self.calls.limits, self.breaker
        return PoolStats(
            requests=counts.requests,
            items=counts.items,
            tokens=self._provider.tokens_used,
            retries=self._client.retries,
            failures=counts.failures,
            waits=limits.waits,
            waited_s=limits.waited_s,
            max_items=self._max_items,
            blocked_reason=breaker.reason,
            retry_in_s=breaker.retry_in_s,
            last_error=counts.last_error,
        )

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                if not job.outcome.done():
                    await self._serve(job)
            finally:
                _fail(job)
                self._jobs.task_done()

    def _fail_queued(self) -> None:
        while not self._jobs.empty():
            _fail(self._jobs.get_nowait())

    async def _serve(self, job: EmbedJob) -> None:
        # A separate task, so that a cancelled job ends at once, anywhere.
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._outcome(job.texts), name="embed job")
            job.outcome.add_done_callback(lambda _: task.cancel())
        if not job.outcome.done():
            job.outcome.set_result(task.result())

    async def _outcome(self, texts: list[Text]) -> EmbedOutcome:
        found = _Found({}, {})
        batches = in_batches(
            (window for text in texts for window in self._windows(text)),
            lambda pair: utf8_bytes(pair[1]),
            max_items=self._max_items,
            max_bytes=self._provider.batch_bytes,
        )
        for batch in batches:
            await self._embed_batch(batch, found)
        return found.outcome(texts, self.calls.dims)

    def _windows(self, text: Text) -> Iterator[Window]:
        digest, ready = text[0], self.calls.ready(text[1])
        units = self._units
        parts = [ready] if units is None else windows(ready, units)
        yield from (((digest, (number,)), part) for number, part in enumerate(parts))

    async def _embed_batch(self, batch: list[Window], found: "_Found", tries: int = 1) -> None:
        """Add a batch's vectors to `found`; halve the batch as long as it contains a bad text."""
        if len(batch) > self._max_items:
            for start in range(0, len(batch), self._max_items):
                await self._embed_batch(batch[start : start + self._max_items], found, tries)
            return
        try:
            units, reasons = await self._client.documents([text for _, text in batch])
        except BadTextError as error:
            if len(batch) == 1:
                await self._split(batch[0], error, found)
            else:
                await self._embed_halves(batch, error, found, tries)
            return
        self._accepted_units = max(self._accepted_units, weigh(max((t for _, t in batch), key=len)))
        again: list[Window] = []
        for window, unit, reason in zip(batch, units, reasons, strict=True):
            name = window[0]
            if not reason:
                found.vectors[name] = unit.astype("<f4").tobytes()
            elif tries < VECTOR_TRIES:
                again.append(window)
            else:
                found.bad[name[0]] = reason
        if again:
            self._client.retries += 1
            await self._embed_batch(again, found, tries + 1)

    async def _split(self, window: Window, error: BadTextError, found: "_Found") -> None:
        """Embed a refused window in parts, and learn the length that the model accepts.

        Vendors report a text that is too long in many ways, so every refusal of one that can be
        split counts as one. A text with a part that is refused, too, is bad.
        """
        (digest, number), text = window
        units = weigh(text)
        parts = windows(text, units // 2)
        if utf8_bytes(text) < SPLIT_BYTES or len(parts) == 1:
            found.bad[digest] = str(error)
            return
        longest = units > self._accepted_units
        for at, part in enumerate(parts):
            await self._embed_batch([((digest, (*number, at)), part)], found)
            if digest in found.bad:
                return
        if longest and (self._units is None or units // 2 < self._units):
            self._units = min(self._accepted_units, units // 2)
            log.warning(
                "the model refuses long texts; they are embedded in parts of about %d tokens",
                self._units // 4,
            )

    async def _embed_halves(
        self, batch: list[Window], error: BadTextError, found: "_Found", tries: int
    ) -> None:
        """Embed a refused batch in parts, and learn the maximum number of texts."""
        before, part = self._max_items, (len(batch) + 1) // 2
        if isinstance(error, BatchTooLargeError):
            if error.limit is not None and error.limit < len(batch):
                part = error.limit
            self._max_items = part
        bad = len(found.bad)
        for start in range(0, len(batch), part):
            await self._embed_batch(batch[start : start + part], found, tries)
        if len(found.bad) == bad:  # no text is bad: the batch was too large
            self._max_items = min(self._max_items, part)
        else:
            self._max_items = before


@dataclass(slots=True)
class _Found:
    """Vectors by window, and errors by text."""

    vectors: dict[Name, bytes]
    bad: dict[str, str]

    def outcome(self, texts: list[Text], newest_dims: int | None) -> EmbedOutcome:
        """Return the concatenated vectors of each text.

        Omits texts with a bad window, or with a window of other than the newest dims.
        """
        found = {len(row) // 4 for row in self.vectors.values()}
        dims = newest_dims if len(found) > 1 else next(iter(found), None)
        rows: dict[str, list[bytes]] = {}
        left_out = set(self.bad)
        for (digest, _), row in sorted(self.vectors.items()):
            rows.setdefault(digest, []).append(row)
            if len(row) // 4 != dims:
                left_out.add(digest)
        good = [digest for digest, _ in texts if digest not in left_out]
        vectors = [(digest, b"".join(rows[digest])) for digest in good]
        return EmbedOutcome(vectors, list(self.bad.items()), dims)


def _fail(job: EmbedJob) -> None:
    if not job.outcome.done():
        job.outcome.set_exception(RetryableError("Embedding has been stopped."))
