"""Workers in front of one provider: batches, retries, and the search for the one bad text.

Bulk work comes as jobs from a queue and is never given up: when the provider fails for longer, the
pool is `blocked`, keeps its jobs and tries again ever more rarely. Queries take a way of their own.
"""

import asyncio
import functools
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.embed.provider import (
    BadTextError,
    FloatMatrix,
    PermanentError,
    Provider,
    ProviderError,
    RetryableError,
    fitted,
    in_batches,
    unit_rows,
    utf8_bytes,
)

ATTEMPT_PAUSES_S = (0.5, 1.0)
"""Between calls in quick succession; when the last one fails too, the pool is blocked."""
BRIEF_PAUSE_S = 8.0
"""A provider that asks for a longer pause than this blocks the pool at once."""
JITTER = 0.2
BLOCKED_FIRST_S = 5.0
BLOCKED_MAX_S = 300.0
AFTER_MAX_S = 3_600.0
"""The longest pause that a provider may ask for: a daily quota is looked at once an hour."""
QUERY_TIMEOUT_S = 60.0
QUERY_CACHE_ITEMS = 256

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedOutcome:
    """What became of a job: (hash, little-endian float32 unit vector) and (hash, reason) pairs."""

    vectors: list[tuple[str, bytes]]
    bad: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class EmbedJob:
    """(hash, text) pairs to embed. Cancelling `outcome` drops the job, wherever it is."""

    texts: list[tuple[str, str]]
    outcome: asyncio.Future[EmbedOutcome]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts are of texts, but `queued_jobs`; times are in seconds from now."""

    queued_jobs: int
    in_flight: int
    embedded: int
    failed: int
    blocked_reason: str | None
    blocked_for_s: float | None
    retry_in_s: float | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class _Block:
    reason: str
    since_s: float
    retry_at_s: float
    step_s: float


class EmbedPool:
    """In: jobs. Out: their outcomes. `blocked` is set while the provider doesn't work."""

    def __init__(
        self,
        jobs: asyncio.Queue[EmbedJob],
        provider: Provider,
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        query_timeout_s: float = QUERY_TIMEOUT_S,
    ) -> None:
        self.blocked = asyncio.Event()
        self._jobs = jobs
        self._provider = provider
        self._sleep = sleep
        self._clock = clock
        self._jitter = jitter
        self._query_timeout_s = query_timeout_s
        self._dims: int | None = None
        self._block: _Block | None = None
        self._woken = asyncio.Event()
        self._prober = asyncio.Lock()
        self._queries: OrderedDict[str, asyncio.Task[Vector]] = OrderedDict()
        self._stopped = False
        self._in_flight = self._embedded = self._failed = 0
        self._last_error: str | None = None

    async def run(self) -> None:
        """Work until cancelled. Whoever still waits for a job then gets a `RetryableError`."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._provider.concurrency):
                    group.create_task(self._work(), name=f"embed worker {number}")
        finally:
            self._stopped = True
            self._fail_queued()
            for query in self._queries.values():
                query.cancel()

    async def embed(self, texts: list[tuple[str, str]]) -> EmbedOutcome:
        """Embed (hash, text) pairs, however long it takes. Cancelling drops the job."""
        job = EmbedJob(texts, asyncio.get_running_loop().create_future())
        await self._jobs.put(job)
        if self._stopped:  # then nobody else makes room for those who still want to put theirs
            self._fail_queued()
        return await job.outcome

    async def embed_query(self, text: str) -> Vector:
        """Embed one query, past all bulk work. Returns shape (dims,), read-only, length 1.

        Raises `ProviderError`, after one retry at most.
        """
        text = fitted(text, self._provider.max_input_bytes)
        query = self._queries.get(text)
        if query is None:
            query = asyncio.create_task(self._query(text), name="embed query")
            query.add_done_callback(functools.partial(self._forget_failed, text))
            self._queries[text] = query
        self._queries.move_to_end(text)
        if len(self._queries) > QUERY_CACHE_ITEMS:
            self._queries.popitem(last=False)
        # Shared with the same query of others; and once paid for, it is worth having next time.
        return await asyncio.shield(query)

    def wake(self) -> None:
        """Make a blocked pool try now."""
        if self._block is not None:
            self._woken.set()

    def stats(self) -> PoolStats:
        """Return counts, and why and until when the pool is blocked, if it is."""
        now, block = self._clock(), self._block
        return PoolStats(
            queued_jobs=self._jobs.qsize(),
            in_flight=self._in_flight,
            embedded=self._embedded,
            failed=self._failed,
            blocked_reason=block.reason if block else None,
            blocked_for_s=now - block.since_s if block else None,
            retry_in_s=max(0.0, block.retry_at_s - now) if block else None,
            last_error=self._last_error,
        )

    async def _query(self, text: str) -> Vector:
        try:
            async with asyncio.timeout(self._query_timeout_s):
                rows = await self._ask_query(text)
        except TimeoutError as error:
            raise RetryableError("The provider took too long for the query.") from error
        units, reasons = self._checked(rows, 1)
        if reasons[0]:
            raise BadTextError(reasons[0])
        self.wake()
        vector: Vector = units[0]
        vector.flags.writeable = False
        return vector

    def _forget_failed(self, text: str, query: asyncio.Task[Vector]) -> None:
        if (query.cancelled() or query.exception()) and self._queries.get(text) is query:
            del self._queries[text]

    async def _ask_query(self, text: str) -> FloatMatrix:
        try:
            return await self._provider.embed_query(text)
        except RetryableError as error:
            if error.after_s is not None:
                raise
        await self._sleep(ATTEMPT_PAUSES_S[0])
        return await self._provider.embed_query(text)

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            self._in_flight += len(job.texts)
            try:
                if not job.outcome.done():
                    await self._serve(job)
            finally:
                _fail(job)
                self._in_flight -= len(job.texts)
                self._jobs.task_done()

    def _fail_queued(self) -> None:
        while not self._jobs.empty():
            _fail(self._jobs.get_nowait())

    async def _serve(self, job: EmbedJob) -> None:
        # A task of its own, so that a job that nobody wants any more ends at once, anywhere.
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._outcome(job.texts), name="embed job")
            job.outcome.add_done_callback(lambda _: task.cancel())
        if not job.outcome.done():
            job.outcome.set_result(task.result())

    async def _outcome(self, texts: list[tuple[str, str]]) -> EmbedOutcome:
        provider, outcome = self._provider, EmbedOutcome([], [])
        batches = in_batches(
            ((name, fitted(text, provider.max_input_bytes)) for name, text in texts),
            lambda pair: utf8_bytes(pair[1]),
            max_items=provider.batch_items,
            max_bytes=provider.batch_bytes,
        )
        for batch in batches:
            await self._embed_batch(batch, outcome)
        return outcome

    async def _embed_batch(self, batch: list[tuple[str, str]], outcome: EmbedOutcome) -> None:
        """Add a batch's vectors to the outcome; halve it as long as it holds a bad text."""
        try:
            units, reasons = await self._persist([text for _, text in batch])
        except BadTextError as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._embed_batch(batch[:middle], outcome)
                await self._embed_batch(batch[middle:], outcome)
                return
            units, reasons = np.zeros((1, 0), np.float32), [str(error)]
        for (name, _), unit, reason in zip(batch, units, reasons, strict=True):
            if reason:
                self._failed += 1
                outcome.bad.append((name, reason))
            else:
                self._embedded += 1
                outcome.vectors.append((name, unit.astype("<f4").tobytes()))

    async def _persist(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        """Return the provider's answer, checked, however often it has to be asked."""
        while True:
            if self._block is None:
                try:
                    return await self._attempt(texts)
                except (RetryableError, PermanentError) as error:
                    if self._block is None:
                        self._hold(error)
            # While the provider is out of order, one worker asks it and the others wait.
            async with self._prober:
                await self._until_retry()
                if self._block is None:
                    continue
                try:
                    return await self._call(texts)
                except (RetryableError, PermanentError) as error:
                    self._hold(error)

    async def _attempt(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        for step_s in ATTEMPT_PAUSES_S:
            try:
                return await self._call(texts)
            except RetryableError as error:
                pause_s = self._pause_s(error, step_s)
                if pause_s > BRIEF_PAUSE_S:
                    raise
            await self._sleep(pause_s)
        return await self._call(texts)

    async def _call(self, texts: list[str]) -> tuple[FloatMatrix, list[str]]:
        try:
            rows = await self._provider.embed_documents(texts)
            checked = self._checked(rows, len(texts))
        except ProviderError as error:
            self._last_error = str(error)
            if isinstance(error, BadTextError):
                self._release()
            raise
        self._release()
        return checked

    def _checked(self, rows: FloatMatrix, count: int) -> tuple[FloatMatrix, list[str]]:
        """Return rows of length 1, and for each the reason why it is none, or ""."""
        units, good = unit_rows(rows, count=count, dims=self._provider.dims or self._dims)
        self._dims = units.shape[1]
        return units, ["" if fine else "Its vector is zero or not finite." for fine in good]

    def _hold(self, error: RetryableError | PermanentError) -> None:
        """Enter the blocked state, or stay in it for longer."""
        now, block = self._clock(), self._block
        step_s = 2 * block.step_s if block else BLOCKED_FIRST_S
        if isinstance(error, PermanentError) or step_s > BLOCKED_MAX_S:
            step_s = BLOCKED_MAX_S
        self._block = _Block(
            reason=str(error),
            since_s=block.since_s if block else now,
            retry_at_s=now + self._pause_s(error, step_s),
            step_s=step_s,
        )
        self.blocked.set()

    def _release(self) -> None:
        """Leave the blocked state, if the pool is in it: the provider has answered."""
        self._block = None
        self.blocked.clear()
        self._woken.set()
        self._woken.clear()  # those who wait now have been woken by then

    async def _until_retry(self) -> None:
        """Wait for the time of the next try, or for `wake`."""
        if self._block is None:
            return
        pause = asyncio.ensure_future(self._sleep(self._block.retry_at_s - self._clock()))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((pause, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            woken.cancel()
        self._woken.clear()

    def _pause_s(self, error: RetryableError | PermanentError, step_s: float) -> float:
        """Return the pause after an error: what the provider asks for, or the step and jitter."""
        if isinstance(error, RetryableError) and error.after_s is not None:
            return min(error.after_s, AFTER_MAX_S)
        return step_s * (1 + JITTER * self._jitter())


def _fail(job: EmbedJob) -> None:
    if not job.outcome.done():
        job.outcome.set_exception(RetryableError("Embedding has been stopped."))
