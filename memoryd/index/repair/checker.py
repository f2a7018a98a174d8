"""Background check of the open index, after each start and once a day."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from memoryd.index.driver import (
    Connection,
    CorruptIndexError,
    Error,
    Fault,
    fault_of,
)
from memoryd.index.repair.checks import (
    Problem,
    check_pages,
    check_words,
    chunk_problems,
    end_of_portion,
    read_chunks,
    read_vectors,
    vector_problems,
)
from memoryd.index.schema import has_present_words
from memoryd.index.store import Store

log = logging.getLogger(__name__)

DAY_S = 86_400.0
AGAIN_S = 600.0
"""Seconds until the next try if the check failed, as on a full disk."""
_REST = 4.0
"""Rest after a portion, as a multiple of the time that it took."""

Portion = tuple[int | None, Problem | None]
"""The last id of a portion, None behind the last row, and the first problem."""


class Checker:
    """Actor that checks the index in portions, passes a problem to `found`, and then stops."""

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

    async def run(self) -> None:
        """Check until cancelled."""
        await self._store.matrix_ready.wait()
        while True:
            try:
                problem = await self.check()
            except (TypeError, ValueError) as error:
                raise CorruptIndexError(f"a row can't be read: {error}") from error
            except Error as error:
                if fault_of(error) is Fault.CORRUPT:
                    raise
                log.info("can't check index %s now: %s", self._store.path, error)
                await self._sleep(AGAIN_S)
                continue
            if problem is not None:
                self._found(problem)
                await asyncio.get_running_loop().create_future()
            log.info("index %s is intact", self._store.path)
            await self._sleep(DAY_S)

    async def check(self) -> Problem | None:
        """Return the index's first problem, or None. Raises SQLite's error for corrupt pages.

        If a rebuild replaces the index meanwhile, the check starts over.
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
        words = store.tables.fts and await store.readers.read(has_present_words)
        vec = store.tables.vec
        chunks = partial(_check_chunks, words=words)
        for check in (chunks, partial(_check_vectors, vec=vec)):
            after: int | None = 0
            while after is not None and generation == store.generation:
                started_s = time.monotonic()
                after, problem = await store.readers.read(partial(check, after=after))
                if problem is not None and problem.table is None:
                    return problem
                derived = derived or problem
                await self._sleep(_REST * (time.monotonic() - started_s))
        if derived is None and words and generation == store.generation:
            derived = await store.readers.read_patiently(check_words)
        # Reported last: tables refilled from corrupt rows would hide the corruption.
        return derived


def _check_chunks(connection: Connection, after: int, *, words: bool) -> Portion:
    last = end_of_portion(connection, "chunks", "row_id", after)
    chunks = read_chunks(connection, words=words, after=after, last=last or after)
    return last, _first(p for chunk in chunks for p in chunk_problems(chunk, words=words))


def _check_vectors(connection: Connection, after: int, *, vec: bool) -> Portion:
    last = end_of_portion(connection, "embedding_cache", "vector_id", after)
    vectors = read_vectors(connection, vec=vec, after=after, last=last or after)
    return last, _first(p for vector in vectors for p in vector_problems(vector))


def _first(problems: Iterator[Problem]) -> Problem | None:
    """Return the first problem that is not limited to a derived table, else the first one."""
    derived = next(problems, None)
    if derived is None or derived.table is None:
        return derived
    return next((problem for problem in problems if problem.table is None), derived)
