"""Supervisor of the agents of one daemon: starts, stops, finds and restarts them."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from memoryd.agent.agent import Agent
from memoryd.config.load import AgentConfig, default_agent
from memoryd.config.validate import ConfigError
from memoryd.errors import (
    AlreadyRunningError,
    IndexRefusedError,
    RequestFailedError,
    SocketError,
    unavailable,
)
from memoryd.fs.hang import DiskWaits
from memoryd.index.driver import Connection, Error, Fault, fault_of
from memoryd.index.write_outage import reason
from memoryd.retry import Backoff
from memoryd.supervisor import GRACE_S, HARD_S, Actor, supervise
from memoryd_client.wire.protocol import ErrorCode

log = logging.getLogger(__name__)

EXPLAINED = (OSError, Error, ConfigError, AlreadyRunningError, SocketError, IndexRefusedError)
"""Errors of the environment, which may pass: an agent is started again after one."""
RETRY_FIRST_S = 5.0
RETRY_MAX_S = 300.0
START_S = 20.0
"""Seconds to wait for an agent to start. Its disk may hang, and other agents have to start."""
STOP_S = GRACE_S + 9 * HARD_S
"""Seconds for all agents to stop, side by side: one has 8 actors and an index to close."""
HEALTHY_S = 10.0
"""Seconds for every index to answer the watchdog."""
GIVE_UP_S = 1.0
"""Seconds that a starting agent may have waited for a disk before a stop cancels the start."""

_LATER = "the agent starts when it does"

AgentState = Literal["starting", "ready", "stopping", "failed"]


Opened = tuple[Agent, list[Actor]]
"""An open agent with its actors in data-path order."""
Open = Callable[[AgentConfig, Callable[[], None], DiskWaits], AbstractAsyncContextManager[Opened]]
"""Opens an agent, given a function that restarts it soon and the record of its threads' disk waits.
While a thread waits, nothing is open yet that needs an orderly close."""


@dataclass(slots=True, eq=False)
class AgentSlot:
    """One agent of the daemon. `agent` is set while it is ready, `error` after it has failed."""

    config: AgentConfig
    backoff: Backoff
    state: AgentState = "starting"
    agent: Agent | None = None
    error: Exception | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    requests: set[asyncio.Task[object]] = field(default_factory=set)
    again: bool = False
    waits: DiskWaits = field(default_factory=DiskWaits)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def reason(self) -> str | None:
        """Why the agent failed, or which disk delays its start, for people."""
        if self.error is None:
            hung = self.waits.warnings(_LATER) if self.state == "starting" else []
            return hung[0] if hung else None
        cause = self.error.__cause__
        return f"{self.error}: {cause}" if cause is not None else str(self.error)


class AgentSupervisor:
    """Actor that runs one agent for each configuration.

    It restarts an agent that fails with an error in `explained` after a pause. Any other error ends
    the supervisor.
    """

    def __init__(
        self,
        open_agent: Open,
        *,
        explained: tuple[type[Exception], ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem: str | None = None
        self._open = open_agent
        self._explained = explained
        self._clock = clock
        self._hosted: dict[str, AgentSlot] = {}
        self._changed = asyncio.Event()
        self._closed_by_s: float | None = None

    def all(self) -> list[AgentSlot]:
        """Return all agents in the order in which they were started."""
        return list(self._hosted.values())

    async def start(self, config: AgentConfig) -> AgentSlot:
        """Start an agent; returns when it is ready or has failed, or still `starting`."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S, clock=self._clock)
        hosted = self._hosted[config.agent] = AgentSlot(config, backoff)
        await self._launch(hosted)
        return hosted

    async def stop(self, agent: str) -> None:
        """Stop an agent gracefully and remove it; its requests fail."""
        hosted = self._hosted[agent]
        await self._halt(hosted)
        self._hosted.pop(agent, None)

    async def release_pages(self) -> None:
        """Free the pages of all indexes that their idle connections keep in memory."""
        for hosted in self.all():
            if hosted.agent is not None:
                await hosted.agent.index.store.release_pages()

    async def restart(self, hosted: AgentSlot) -> None:
        """Stop an agent gracefully and start it again; return as `start` does."""
        self._restart_soon(hosted)
        await self._until_ready(hosted)

    async def run(self) -> None:
        """Supervise the agents until cancelled, then stop them side by side.

        Failed agents are restarted with growing pauses. Raises errors that are not in `explained`.
        """
        try:
            while True:
                await self._wait()
                for hosted in self.all():
                    if hosted.error is not None and not self._is_explained(hosted.error):
                        raise hosted.error
                for hosted in self.all():
                    if hosted.state == "failed" and hosted.backoff.is_due:
                        hosted.stop = asyncio.Event()
                        await self._launch(hosted)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop all agents side by side, within `STOP_S`. Idempotent."""
        if self._closed_by_s is None:
            self._closed_by_s = self._clock() + STOP_S
        halts = {asyncio.create_task(self._halt(h)): h.config.agent for h in self.all()}
        if halts:
            left_s = max(0.0, self._closed_by_s - self._clock())
            _, late = await asyncio.wait(halts, timeout=left_s)
            for task in late:
                task.cancel()
                log.error("agent %s did not stop within %g s", halts[task], STOP_S)

    async def healthy(self) -> bool:
        """Return whether readers and writer of every index answer, for the watchdog of systemd.

        A failing disk and a failed agent don't count: a restart of the daemon would not help.
        """
        try:
            async with asyncio.timeout(HEALTHY_S):
                for hosted in self.all():
                    if hosted.agent is not None and hosted.state == "ready":
                        store = hosted.agent.index.store
                        await store.readers.read(_trivial)
                        if store.writable:
                            await store.database.run(_trivial)
        except TimeoutError:
            return False
        except (Error, ValueError):
            pass  # it has answered; ValueError: with a connection that was just closed
        return True

    def keep(self, config: AgentConfig) -> None:
        """Give an agent an equal configuration whose file permissions may have changed."""
        hosted = self._hosted[config.agent]
        hosted.config = config
        if hosted.agent is not None:
            hosted.agent.config = config

    def retry(self) -> None:
        """Restart every failed agent now."""
        for hosted in self._hosted.values():
            hosted.backoff.wake()
        self._changed.set()

    def find(self, agent: str | None, folder: str) -> AgentSlot:
        """Return the agent that a client names, else that of its folder as `default_agent` does.

        Raises `RequestFailedError`.
        """
        if agent is not None:
            if agent in self._hosted:
                return self._hosted[agent]
            raise _unknown(f"no such agent: {agent[:100]!r}", list(self._hosted))
        if len(self._hosted) == 1:  # most daemons have one agent, and need no path
            return next(iter(self._hosted.values()))
        config = default_agent([hosted.config for hosted in self.all()], Path(folder or "/"))
        if config is not None:
            return self._hosted[config.agent]
        raise _unknown("several agents are running and the request names none", list(self._hosted))

    @contextmanager
    def serving(self, hosted: AgentSlot) -> Iterator[Agent]:
        """Give the agent for the duration of a request, which a stop of the agent cancels.

        Raises `RequestFailedError` if the agent is not ready or stops.
        """
        name = hosted.config.agent
        if hosted.agent is None or hosted.state != "ready":
            because = f": {hosted.reason}" if hosted.reason else ""
            raise unavailable(f"agent {name} is {hosted.state}{because}")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - requests are tasks
        hosted.requests.add(task)
        try:
            yield hosted.agent
        except asyncio.CancelledError:
            if hosted.state == "ready" or task.uncancel() > 0:
                raise
            raise unavailable(f"agent {name} was stopped") from None
        except Exception as error:
            if (refusal := _of_index(hosted, error)) is None:
                raise
            raise refusal from error
        finally:
            hosted.requests.discard(task)

    async def _launch(self, hosted: AgentSlot) -> None:
        hosted.state, hosted.error = "starting", None
        hosted.ready.clear()
        name = f"agent {hosted.config.agent}"
        hosted.task = asyncio.create_task(self._live(hosted), name=name)
        hosted.task.add_done_callback(lambda _: hosted.ready.set())
        hosted.task.add_done_callback(lambda _: self._changed.set())
        await self._until_ready(hosted)

    async def _until_ready(self, hosted: AgentSlot) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await hosted.ready.wait()
        if hosted.state == "starting":
            log.warning("agent %s: %s", hosted.config.agent, hosted.reason or "still starting")

    def _restart_soon(self, hosted: AgentSlot) -> None:
        if hosted.state == "ready":
            hosted.again = True
            hosted.ready.clear()
            hosted.stop.set()

    async def _live(self, hosted: AgentSlot) -> None:
        try:
            while True:
                await self._live_once(hosted)
                if not hosted.again:
                    break
                hosted.again = False
                hosted.state, hosted.stop = "starting", asyncio.Event()
        except Exception as error:
            hosted.error, hosted.state = error, "failed"
            hosted.backoff.fail()
            log.warning("agent %s: %s", hosted.config.agent, hosted.reason)
        finally:
            hosted.agent = None

    async def _live_once(self, hosted: AgentSlot) -> None:
        restart = partial(self._restart_soon, hosted)
        async with self._open(hosted.config, restart, hosted.waits) as (agent, actors):
            hosted.agent, hosted.state = agent, "ready"
            hosted.backoff.reset()
            hosted.ready.set()
            try:
                await supervise(
                    actors,
                    hosted.stop,
                    on_stopping=lambda: _cancel_requests(hosted),
                    explained=self._explained,
                )
            finally:
                hosted.agent = None

    def _is_explained(self, error: Exception) -> bool:
        return isinstance(error.__cause__ or error, self._explained)

    async def _halt(self, hosted: AgentSlot) -> None:
        hosted.state, hosted.again = "stopping", False
        hosted.stop.set()
        while (task := hosted.task) is not None and not task.done():
            if hosted.agent is None and hosted.waits.overdue(GIVE_UP_S) and not task.cancelling():
                task.cancel()
            await asyncio.wait({task}, timeout=GIVE_UP_S)

    async def _wait(self) -> None:
        """Wait until an agent has ended, or the next one is due to be tried again."""
        pauses_s = [h.backoff.retry_in_s or 0.0 for h in self.all() if h.state == "failed"]
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pauses_s, default=None)):
                await self._changed.wait()
        self._changed.clear()


def _trivial(connection: Connection) -> None:
    connection.execute("SELECT 1").fetchone()


def _cancel_requests(hosted: AgentSlot) -> None:
    """Cancel the running requests of an agent that stops."""
    hosted.state = "stopping"
    for task in hosted.requests:
        task.cancel()


def _of_index(hosted: AgentSlot, error: Exception) -> RequestFailedError | None:
    """Return the error to answer for an error of the index, None for other errors."""
    name, fault = hosted.config.agent, fault_of(error)
    if fault is Fault.CORRUPT:
        message = f"the index of agent {name} is corrupt ({error}) and is being repaired"
        hint = "retry in a moment; `memctl status` shows the result"
    elif fault is Fault.SURROUNDINGS and isinstance(error, Error):
        message = f"can't read the index of agent {name}: {reason(error)}"
        hint = f"check the disk of {hosted.config.db_path}"
    else:
        return None
    return unavailable(message, hint)


def _unknown(message: str, agents: list[str]) -> RequestFailedError:
    known = ", ".join(agents) or "none"
    return RequestFailedError(
        ErrorCode.UNKNOWN_AGENT,
        f"{message} (running: {known})",
        hint="use --agent or a workspace; `memctl agents` lists the agents",
    )
