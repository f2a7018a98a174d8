"""Batch jobs of one index: created from pending texts, recorded, polled and downloaded.

A job is recorded in the index before it is submitted, and carries our own name at the vendor:
after a crash it is found by its id or by that name, and its vectors are not paid for twice.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from memoryd.config.settings import Batch
from memoryd.embed.batch.api import BatchApi, JobState
from memoryd.embed.batch.files import BatchFile, Output, collect, download_output, halves
from memoryd.embed.batch.mode import BatchMode
from memoryd.embed.batch.vendor_files import ENDED, VendorFiles
from memoryd.embed.provider import BatchTooLargeError, PermanentError, ProviderError, RetryableError
from memoryd.embed.provider_client import ProviderClient
from memoryd.identity import Identity
from memoryd.messages import BatchJobRow, JobChange, Text, ToWriter
from memoryd.retry import Backoff, first_of

log = logging.getLogger(__name__)

SEND_PAUSES_S = (0.3, 1.0)
POLL_GROWTH = 1.5
POLL_MAX_S = 300.0
WAIT_S = 1.0
"""Seconds between checks whether the index accepts vectors again."""


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job in progress: its state in the vendor's words, its creation time, its polls."""

    job: BatchJobRow
    shown: str
    made_s: float
    polls: Backoff


@dataclass(frozen=True, slots=True)
class JobStats:
    """One job: the vendor's id (ours, until it has one), its state, size and age."""

    id: str
    state: str
    texts: int
    age_s: float


class JobIndex(Protocol):
    """The index whose texts are embedded; what is uploaded is written to the folder of `path`."""

    path: Path

    def target_identity(self, *, during_outage: bool) -> Identity | None:
        """Return the identity to embed for; while it is None, jobs are left alone."""

    async def batch_jobs(self) -> list[BatchJobRow]:
        """Return the jobs that a former process left."""


class Batches:
    """In: texts, from the feeder. Out: rows of jobs, and vectors, to the writer.

    `held` are the hashes of texts in jobs; `inline` those of texts that no job has brought a vector
    for, which are embedded as any other. `on_change` is called when texts have become free. `files`
    deletes what ended jobs leave at the vendor.
    """

    def __init__(
        self,
        writer: asyncio.Queue[ToWriter],
        index: JobIndex,
        *,
        api: BatchApi,
        mode: BatchMode,
        calls: ProviderClient,
        settings: Batch,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take the collaborators; the other arguments are for tests."""
        self.mode = mode
        self.on_change: Callable[[], None] = lambda: None
        self.held: set[str] = set()
        self.inline: set[str] = set()
        self._writer = writer
        self._api = api
        self._settings = settings
        self._index = index
        self._calls = calls
        self._sleep = sleep
        self._clock = clock
        self._wall_clock = wall_clock
        self._jitter = jitter
        self.files = VendorFiles(
            api, writer, sleep=sleep, clock=clock, wall_clock=wall_clock, jitter=jitter
        )
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[str, RunningJob] = {}
        self._changed = asyncio.Event()
        self._second_run: set[str] = set()

    async def run(self) -> None:
        """Resume the recorded jobs, and poll all jobs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self.files.run(), name="files of batch jobs")
            for job in await self._index.batch_jobs():
                if job.attempts == ENDED:
                    self.files.add(job)
                    continue
                self.held.update(job.hashes)
                group.create_task(self._take_up(job), name="batch job")
            while True:
                while self._identity() is None:
                    await self._sleep(WAIT_S)
                for running in list(self._running.values()):
                    if running.polls.is_due:
                        await self._poll(running)
                await self._until_due()

    def _identity(self) -> Identity | None:
        return self._index.target_identity(during_outage=True)

    @property
    def on(self) -> bool:
        """True while jobs are created."""
        return self.mode.off_reason is None and self._group is not None

    def wanted(self, waiting: int) -> bool:
        """Return whether `waiting` texts are enough for a job."""
        return waiting >= (self._settings.min_texts if self._settings.enabled == "auto" else 1)

    async def submit(self, pages: AsyncIterator[list[Text]]) -> None:
        """Create jobs from texts, and submit them."""
        calls, folder = self._calls, self._index.path.parent
        files = collect(
            pages, self._api, ready=calls.ready, folder=folder, max_tokens=calls.tokens_left
        )
        try:
            async for file in files:
                try:
                    await self._calls.spend(file.tokens)
                except RetryableError as error:
                    file.close()
                    self.mode.last_error = str(error)
                    break
                self.held.update(file.hashes)
                again = not self._second_run.isdisjoint(file.hashes)
                self._second_run.difference_update(file.hashes)
                await self._start(file, attempts=2 if again else 1)
        except OSError as error:
            self.mode.failed(f"The input file can't be written: {error.strerror}.")

    def stats(self) -> list[JobStats]:
        """Return all jobs."""
        now_s = self._wall_clock()
        return [
            JobStats(
                running.job.remote_id or running.job.key,
                running.shown,
                len(running.job.hashes),
                max(0.0, now_s - running.job.created_at),
            )
            for running in self._running.values()
        ]

    async def check(self) -> None:
        """Turn batch jobs on again if the API answers. Raises `ProviderError`."""
        await self._api.check()
        self.mode.reset()
        self.on_change()

    async def _start(self, file: BatchFile, *, attempts: int) -> None:
        """Record a job, then submit it in a task."""
        identity = self._identity()
        assert self._group is not None and identity is not None  # noqa: S101, PT018 - it is `on`
        job = BatchJobRow(
            key=secrets.token_hex(8),
            provider=identity.provider,
            model=identity.model,
            provider_key=identity.provider_key,
            created_at=self._wall_clock(),
            hashes=file.hashes,
            attempts=attempts,
        )
        await self._write(job)
        self._group.create_task(self._send(job, file), name="batch job")

    async def _send(self, job: BatchJobRow, file: BatchFile) -> None:
        """Submit a job; halve one that is too large."""
        await self._enter(job, "being sent")
        self._calls.counts.requests += 1
        try:
            remote_id = await self._submitted(job, file)
        except BatchTooLargeError as error:
            if len(job.hashes) > 1:
                folder = self._index.path.parent
                for half in await asyncio.to_thread(halves, file, self._api, folder):
                    await self._start(half, attempts=job.attempts)
                await self._end(job, free=False)
            else:
                await self._fail(job, str(error), ())
        except ProviderError as error:
            if isinstance(error, PermanentError) and error.missing:
                self.mode.turn_off(f"There is no batch API: {error}")
            await self._fail(job, str(error), ())
        except OSError as error:
            await self._fail(job, f"the input file can't be written: {error.strerror}", ())
        else:
            await self._sent(job, remote_id)
        finally:
            file.close()

    async def _submitted(self, job: BatchJobRow, file: BatchFile) -> str:
        for pause_s in SEND_PAUSES_S:
            try:
                with file.opened() as lines:
                    return await self._api.submit(lines, job.key)
            except RetryableError as error:
                wait_s = error.after_s or self._running[job.key].polls.jittered(pause_s)
            await self._sleep(min(wait_s, POLL_MAX_S))
        with file.opened() as lines:
            return await self._api.submit(lines, job.key)

    async def _take_up(self, job: BatchJobRow) -> None:
        """Resume a job of an earlier process."""
        await self._enter(job, "left by an earlier process")
        remote_id = job.remote_id
        try:
            remote_id = remote_id or await self._api.find(job.key)
        except ProviderError as error:
            log.warning("batch job %s can't be found: %s", job.key, error)
        if remote_id is None:  # it never reached the vendor
            await self._end(job)
        else:
            await self._sent(job, remote_id)

    async def _sent(self, job: BatchJobRow, remote_id: str) -> None:
        """Record the vendor's id of a job, and poll it from now on."""
        job = msgspec.structs.replace(job, remote_id=remote_id)
        await self._write(job)
        running = self._running[job.key]
        running.job, running.shown = job, "submitted"
        running.polls.fail(running.polls.first_s)
        log.info("batch job %s has %d texts", remote_id, len(job.hashes))
        self._changed.set()

    async def _poll(self, running: RunningJob) -> None:
        """Poll a job, and act on its state."""
        job = running.job
        try:
            state = await self._api.state(job.remote_id or "")
            running.shown = state.shown
            if state.state != "running":
                await self._finish(job, state)
                return
        except ProviderError as error:
            if isinstance(error, PermanentError) and error.missing:
                await self._fail(job, f"the provider does not know it: {error}", ())
                return
            running.shown = f"can't be polled: {error}"
            self.mode.last_error = str(error)
        if self._clock() - running.made_s >= self._settings.timeout_minutes * 60:
            await self._time_out(job)
            return
        running.polls.fail()

    async def _finish(self, job: BatchJobRow, state: JobState) -> None:
        """Store a job's vectors; other texts are embedded as usual. Raises `ProviderError`."""
        output = await self._download(job, state)
        if output.good and state.state == "done":
            self.mode.failures = 0
        missing = [digest for digest in job.hashes if digest not in output.good]
        reason = output.error or state.message or "there was no answer"
        if missing and output.good:
            log.warning(
                "batch job %s: %d texts without a vector: %s", job.key, len(missing), reason
            )
            self.mode.last_error = reason
            self.inline.update(missing)
        elif missing:
            await self._fail(job, reason, output.good)
            return
        await self._end(job)

    async def _download(self, job: BatchJobRow, state: JobState) -> Output:
        output = await download_output(
            self._api, job, state, writer=self._writer, identity=self._identity
        )
        self._calls.note_job(len(output.good), output.tokens)
        return output

    async def _time_out(self, job: BatchJobRow) -> None:
        """Stop waiting for a job: keep its results, and run the rest in at most one more job."""
        minutes = f"{self._settings.timeout_minutes:g} minutes"
        good: set[str] = set()
        try:
            await self._api.cancel(job.remote_id or "")
            state = await self._api.state(job.remote_id or "")
            good = (await self._download(job, state)).good
        except ProviderError as error:
            log.warning("batch job %s can't be cancelled: %s", job.key, error)
        if job.attempts > 1:
            await self._fail(job, f"It was not done in {minutes}, twice.", good, count=2)
            return
        log.warning("batch job %s was not done in %s; it is retried", job.key, minutes)
        self._second_run.update(set(job.hashes) - good)
        await self._end(job)

    async def _fail(
        self, job: BatchJobRow, reason: str, good: Iterable[str], *, count: int = 1
    ) -> None:
        """End a job that returned no vectors, or too few."""
        log.warning("batch job %s has failed: %s", job.key, reason)
        self.mode.failed(reason, count=count)
        self.inline.update(set(job.hashes).difference(good))
        await self._end(job)

    async def _enter(self, job: BatchJobRow, shown: str) -> None:
        """Wait until one more job may run."""
        await self._slots.acquire()
        polls = Backoff(
            self._settings.poll_interval_ms / 1000,
            POLL_MAX_S,
            factor=POLL_GROWTH,
            jitter=self._jitter,
            clock=self._clock,
        )
        most_s = self._settings.timeout_minutes * 60 / 2  # in case a clock was wrong
        age_s = min(max(0.0, self._wall_clock() - job.created_at), most_s)
        self._running[job.key] = RunningJob(job, shown, self._clock() - age_s, polls)

    async def _end(self, job: BatchJobRow, *, free: bool = True) -> None:
        """End a job, and free its texts unless other jobs have them."""
        ended = msgspec.structs.replace(job, hashes=[], attempts=ENDED)
        await self._write(ended)
        self.files.add(ended)
        del self._running[job.key]
        self._slots.release()
        if free:
            self.held.difference_update(job.hashes)
            self.on_change()

    async def _write(self, job: BatchJobRow) -> None:
        message = JobChange(job)
        await self._writer.put(message)
        await message.done

    async def _until_due(self) -> None:
        """Wait until a poll is due, or there is a new job."""
        waits: list[Awaitable[Any]] = [self._changed.wait()]
        due = [running.polls.retry_in_s for running in self._running.values()]
        if pauses_s := [pause_s for pause_s in due if pause_s is not None]:
            waits.append(self._sleep(min(pauses_s)))
        await first_of(*waits)
        self._changed.clear()
