"""Checks the open index after each start and once a day, beside all other work."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from memoryd.index.driver import (
    SQLITE_VERSION,
    Connection,
    DamagedIndexError,
    Error,
    Fault,
    fault_of,
)
from memoryd.index.repair.checks import (
    Problem,
    check_chunks,
    check_pages,
    check_vectors,
    check_words,
)
from memoryd.index.store import Store

log = logging.getLogger(__name__)

DAY_S = 86_400.0
AGAIN_S = 600.0
"""After a check that could not be made: the disk is full, or fails."""
_REST = 4.0
"""So many times as long as a portion takes the checker rests after it."""
_WITH_FTS5 = (3, 44)
"""From this SQLite on, the check of pages is one of FTS5's tables too."""

Portion = Callable[[Connection, int], tuple[int | None, Problem | None]]


@dataclass(frozen=True, slots=True)
class CheckerStats:
    """How many checks were made, and how long the last one took, with its rests."""

    checks: int
    last_took_s: float | None


class Checker:
    """In: the index, read in portions. Out: the first problem, to `found`; then it waits."""

    def __init__(
        self,
        store: Store,
        *,
        found: Callable[[Problem], None],
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._found = found
        self._sleep = sleep
        self._checks = 0
        self._last_took_s: float | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        await self._store.matrix_ready.wait()
        while True:
            started_s = time.monotonic()
            try:
                problem = await self.check()
            except (TypeError, ValueError) as error:
                raise DamagedIndexError(f"a row can't be read: {error}") from error
            except Error as error:
                if fault_of(error) is Fault.DAMAGED:
                    raise
                log.info("%s can't be checked now: %s", self._store.path, error)
                await self._sleep(AGAIN_S)
                continue
            self._checks += 1
            self._last_took_s = time.monotonic() - started_s
            if problem is not None:
                self._found(problem)
                await asyncio.get_running_loop().create_future()
            log.info("%s is whole", self._store.path)
            await self._sleep(DAY_S)

    def stats(self) -> CheckerStats:
        """Return the counters."""
        return CheckerStats(self._checks, self._last_took_s)

    async def check(self) -> Problem | None:
        """Return what is wrong with the index, or None. Raises what SQLite says of damaged pages.

        An index that takes this one's place meanwhile is checked from its beginning.
        """
        generation = None
        while generation != self._store.generation:
            generation = self._store.generation
            problem = await self._check_once(generation)
        return problem

    async def _check_once(self, generation: int) -> Problem | None:
        store = self._store
        derived = await store.readers.read_patiently(check_pages)
        if derived is not None and derived.table is None:
            return derived
        words, vec = store.tables.fts, store.tables.vec
        # Terms of another memoryd may be others; a rebuild is on its way then.
        same_terms = store.identity.tokenizer == store.wanted.tokenizer
        for portion in (
            partial(check_chunks, words=words and same_terms),
            partial(check_vectors, vec=vec),
        ):
            after: int | None = 0
            while after is not None and generation == store.generation:
                started_s = time.monotonic()
                after, problem = await store.readers.read(partial(_portion, portion, after))
                if problem is not None and problem.table is None:
                    return problem
                derived = derived or problem
                await self._sleep(_REST * (time.monotonic() - started_s))
        if derived is None and words and store.writable and _version() < _WITH_FTS5:
            derived = await store.database.run(check_words)
        # Told last: what is filled again from damaged rows can't be compared with them any more.
        return derived


def _portion(
    check: Portion, after: int, connection: Connection
) -> tuple[int | None, Problem | None]:
    return check(connection, after)


def _version() -> tuple[int, ...]:
    return tuple(map(int, SQLITE_VERSION.split(".")))
