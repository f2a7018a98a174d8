"""Recovery of an agent with a corrupt index: the agent restarts, and opening repairs the index.

An SQLite error of a request or an actor, or the checker, reveals corruption. Until the restart is
complete, requests fail with `unavailable`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import msgspec

from memoryd.index import schema
from memoryd.index.driver import Connection, CorruptIndexError, Error, Fault, fault_of, sqlite
from memoryd.index.forget import Tombstone
from memoryd.index.repair.checks import Problem, problem_of
from memoryd.index.repair.recover import (
    Corruption,
    FailingDiskError,
    Recovered,
    inspect,
    recover,
    take_note,
)
from memoryd.index.store import Store, StoreOptions
from memoryd.index.write_outage import advice, reason
from memoryd.supervisor import Actor, innermost

log = logging.getLogger(__name__)

InThread = Callable[[Callable[[], Corruption | None]], Awaitable[Corruption | None]]
Corruptions = dict[Path, Corruption]
"""Corruption found in open indexes, by path, until the next opening repairs them."""
_MAX_REPAIRS = 2
"""Repairs of one opening: after one in place, further damage may come to light."""


@dataclass(eq=False)
class Recovery:
    """Repairs an index when it is opened, and restarts the agent for that.

    `tombstones` holds the record of forgotten transcripts, None until the agent has read it.
    """

    options: StoreOptions
    findings: Corruptions
    restart: Callable[[], None]
    tombstones: Collection[Tombstone] | None = None

    async def check(self, in_thread: InThread = asyncio.to_thread) -> None:
        """Repair corruption that is known, or visible without opening the file.

        `in_thread` runs disk access. Raises `IndexRefusedError`, `FailingDiskError`, or the disk's
        error.
        """
        path = self.options.path
        with _environment_errors(path):
            seen = await in_thread(partial(inspect, path))
            if (finding := self.findings.get(path, seen)) is not None:
                await self._recover(finding)
                self.findings.pop(path, None)

    async def open(self, store: Store) -> Recovered | None:
        """Open the index, and repair it if it is corrupt. Raises as `check` does.

        Returns the result of the last repair, to be reported.
        """
        with _environment_errors(store.path):
            for repairs in range(_MAX_REPAIRS + 1):
                try:
                    await store.open()
                    if store.writable:
                        await store.database.run(_check_columns)
                    break
                except Exception as error:
                    if (problem := _at_opening(error)) is None or repairs == _MAX_REPAIRS:
                        raise
                    await store.close()
                    await self._recover(Corruption(problem))
        store.readers.on_error = self.note
        if not store.writable:
            return None
        return await store.database.run(partial(take_note, path=store.path))

    def report(self, problem: Problem) -> None:
        """Restart the agent for a problem; the first one counts."""
        path = self.options.path
        if path not in self.findings:
            log.warning("index %s is corrupt, repairing it: %s", path, problem.message)
            known = self.tombstones
            self.findings[path] = Corruption(problem, None if known is None else frozenset(known))
        self.restart()

    def note(self, error: Exception) -> None:
        """Report an error if it reveals corruption."""
        if fault_of(error) is Fault.CORRUPT:
            self.report(problem_of(error))

    def guarded(self, actor: Actor) -> Actor:
        """Return an actor that neither ends nor drains when the index is corrupt."""
        drain = None if actor.drain is None else partial(self._drain, actor.drain)
        return replace(actor, run=partial(self._run, actor), drain=drain)

    async def _run(self, actor: Actor) -> None:
        try:
            await actor.run()
        except Exception as error:
            inner = innermost(error)
            if not isinstance(inner, Exception) or fault_of(inner) is not Fault.CORRUPT:
                raise
            self.note(inner)
            await asyncio.get_running_loop().create_future()

    async def _drain(self, drain: Callable[[], Awaitable[None]]) -> None:
        if self.options.path not in self.findings:
            await drain()

    async def _recover(self, finding: Corruption) -> None:
        options = self.options
        await recover(options.path, options.workspace, finding, extension=options.extension)


@contextmanager
def _environment_errors(path: Path) -> Iterator[None]:
    """Reword an error of the environment: why the index can't be opened, and what to do."""
    try:
        yield
    except FailingDiskError:
        raise
    except (Error, OSError) as error:
        if fault_of(error) is not Fault.SURROUNDINGS:
            raise
        message = f"can't open the index {path}: {reason(error)}; {advice(error)}"
        raise OSError(message) from None


def _check_columns(connection: Connection) -> None:
    """Raise `CorruptIndexError` for a missing column: a bit of its name may have changed."""
    if missing := _expected_columns() - columns_of(connection):
        raise CorruptIndexError(f"there is no column {min(missing)}")


@cache
def _expected_columns() -> set[str]:
    with closing(sqlite.connect(":memory:", isolation_level=None)) as model:
        schema.create(model, Path())
        return columns_of(model)


def columns_of(connection: Connection) -> set[str]:
    """Return the columns of all tables but virtual ones, as `table.column`."""
    found = connection.execute(
        "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"
    )
    return {name for (name,) in found.fetchall()}


def _at_opening(error: Exception) -> Problem | None:
    """Return the corruption behind an error at opening, None if the index is not the cause.

    Opening reads the tables as the schema defines them, so that unexpected rows are corruption too.
    """
    if fault_of(error) is Fault.CORRUPT:
        return problem_of(error)
    if isinstance(error, Error) and fault_of(error) is Fault.OTHER:
        return Problem("content", str(error))
    if isinstance(error, ValueError | TypeError | msgspec.MsgspecError):
        return Problem("content", f"its rows can't be read: {error}")
    return None
