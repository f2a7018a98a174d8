"""Deletion of the files that ended batch jobs have left at the vendor.

The input of a job has the texts, its output their vectors. They are deleted when the vectors are
stored or the job was given up. The row of the job stays in the index until that has succeeded, so
that a restart goes on; embedding waits for none of it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from memoryd.embed.batch.api import BatchApi
from memoryd.embed.provider import ProviderError
from memoryd.messages import BatchJobRow, JobChange, ToWriter
from memoryd.retry import Backoff, first_of

log = logging.getLogger(__name__)

ENDED = 0
"""`attempts` of a job of which only the files at the vendor are left."""
FIRST_S = 60.0
MAX_S = 3_600.0
GIVE_UP_S = 30 * 86_400.0
"""Seconds after which the vendors have deleted the files themselves."""


@dataclass(frozen=True, slots=True)
class VendorFilesStats:
    """Number of ended jobs whose files are not deleted yet, and the last error."""

    jobs: int
    last_error: str | None


class VendorFiles:
    """In: ended jobs. Out: removal of their rows, to the writer, once their files are gone."""

    def __init__(
        self,
        api: BatchApi,
        writer: asyncio.Queue[ToWriter],
        *,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take the collaborators; the other arguments are for tests."""
        self._api = api
        self._writer = writer
        self._wall_clock = wall_clock
        self._jobs: dict[str, BatchJobRow] = {}
        self._added = asyncio.Event()
        self._backoff = Backoff(FIRST_S, MAX_S, jitter=jitter, sleep=sleep, clock=clock)
        self._last_error: str | None = None

    def stats(self) -> VendorFilesStats:
        """Return the current state."""
        return VendorFilesStats(len(self._jobs), self._last_error)

    def add(self, job: BatchJobRow) -> None:
        """Take an ended job whose row says so."""
        self._jobs[job.key] = job
        self._added.set()

    async def run(self) -> None:
        """Delete files until cancelled."""
        while True:
            await self._added.wait()
            self._added.clear()
            failed = False
            for job in list(self._jobs.values()):
                failed |= not await self._delete(job)
            if not failed:
                self._last_error = None
                self._backoff.reset()
                continue
            self._backoff.fail()
            await first_of(self._backoff.wait(), self._added.wait())
            self._added.set()

    async def _delete(self, job: BatchJobRow) -> bool:
        """Delete the files of one job. Return False if that fails."""
        try:
            await self._api.delete_files(job.remote_id, job.key)
        except ProviderError as error:
            if self._last_error != str(error):
                log.warning("files of batch job %s are not deleted: %s", job.key, error)
            self._last_error = str(error)
            if self._wall_clock() - job.created_at < GIVE_UP_S:
                return False
        message = JobChange(job, over=True)
        await self._writer.put(message)
        await message.done
        del self._jobs[job.key]
        return True
