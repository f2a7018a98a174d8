"""What becomes of an agent whose index is damaged: it starts anew, and the index is put right then.

While it runs, damage shows in an error of SQLite, at a request or in an actor, or the checker finds
it. The agent is started again; meanwhile requests to it end with `unavailable`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from memoryd.index.driver import Error, Fault, fault_of
from memoryd.index.forget import Tombstone
from memoryd.index.repair.checks import Problem, problem_of
from memoryd.index.repair.recover import (
    Corruption,
    FailingDiskError,
    Recovered,
    look,
    recover,
    take_note,
)
from memoryd.index.store import Store, StoreOptions
from memoryd.index.write_outage import advice, reason
from memoryd.supervisor import Actor, innermost

log = logging.getLogger(__name__)

InThread = Callable[[Callable[[], Corruption | None]], Awaitable[Corruption | None]]
Corruptions = dict[Path, Corruption]
"""What was found while an index was open, until the next opening puts it right."""


class Recovery:
    """Puts an index right when it is opened, and has the agent started anew when need be.

    `tombstones` is to hold all that was forgotten, where the agent knows it.
    """

    def __init__(
        self, options: StoreOptions, findings: Corruptions, restart: Callable[[], None]
    ) -> None:
        self.tombstones: Collection[Tombstone] | None = None
        self.options = options
        self._findings = findings
        self._restart = restart

    async def look(self, in_thread: InThread = asyncio.to_thread) -> None:
        """Put right what is known, or can be seen before the file is opened.

        `in_thread` runs what waits for the disk. Raises `IndexRefusedError`, `FailingDiskError`, or
        the disk's error.
        """
        path = self.options.path
        with _surroundings(path):
            seen = await in_thread(partial(look, path))
            if (finding := self._findings.get(path, seen)) is not None:
                await self._recover(finding)
                self._findings.pop(path, None)

    async def open(self, store: Store) -> Recovered | None:
        """Open the index; if it is damaged, put it right first. Raises as `look` does.

        Returns what became of one that was damaged, to be told.
        """
        with _surroundings(store.path):
            try:
                await store.open()
            except Exception as error:
                if (problem := _at_opening(error)) is None:
                    raise
                await self._recover(Corruption(problem))
                await store.open()
        store.readers.on_error = self.note
        if not store.writable:
            return None
        return await store.database.run(partial(take_note, path=store.path))

    def report(self, problem: Problem) -> None:
        """Have the agent started anew for a problem; the first one counts."""
        path = self.options.path
        if path not in self._findings:
            log.warning("%s is damaged, and is put right now: %s", path, problem.message)
            known = self.tombstones
            self._findings[path] = Corruption(problem, None if known is None else frozenset(known))
        self._restart()

    def note(self, error: Exception) -> None:
        """Report an error, if it tells of damage."""
        if fault_of(error) is Fault.DAMAGED:
            self.report(problem_of(error))

    def guarded(self, actor: Actor) -> Actor:
        """Return an actor that does not end, nor drain, when the index is damaged."""
        drain = None if actor.drain is None else partial(self._drain, actor.drain)
        return replace(actor, run=partial(self._run, actor), drain=drain)

    async def _run(self, actor: Actor) -> None:
        try:
            await actor.run()
        except Exception as error:
            inner = innermost(error)
            if not isinstance(inner, Exception) or fault_of(inner) is not Fault.DAMAGED:
                raise
            self.note(inner)
            await asyncio.get_running_loop().create_future()

    async def _drain(self, drain: Callable[[], Awaitable[None]]) -> None:
        if self.options.path not in self._findings:
            await drain()

    async def _recover(self, finding: Corruption) -> None:
        options = self.options
        await recover(options.path, options.workspace, finding, extension=options.extension)


@contextmanager
def _surroundings(path: Path) -> Iterator[None]:
    """Say what an index can't be opened for, and what to do, where it is not to blame itself."""
    try:
        yield
    except FailingDiskError:
        raise
    except (Error, OSError) as error:
        if fault_of(error) is not Fault.SURROUNDINGS:
            raise
        message = f"the index {path} can't be opened: {reason(error)}; {advice(error)}"
        raise OSError(message) from None


def _at_opening(error: Exception) -> Problem | None:
    """Return what an error says of an index that is being opened, None if it is not to blame.

    Its tables are read then as they must be: what does not fit them is damage, too.
    """
    if fault_of(error) is Fault.DAMAGED:
        return problem_of(error)
    if isinstance(error, Error) and fault_of(error) is Fault.OTHER:
        return Problem("content", str(error))
    if isinstance(error, ValueError | TypeError | msgspec.MsgspecError):
        return Problem("content", f"its rows can't be read: {error}")
    return None
