"""What each request does that concerns the daemon as a whole, and which agent the others go to."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from memoryd import __version__
from memoryd.api.handlers import Operations
from memoryd.config.load import AgentConfig, ConfigError, real_path
from memoryd.daemon.agents import AgentSlot, AgentSupervisor
from memoryd.daemon.reload import Reloader
from memoryd.errors import RequestFailedError
from memoryd.events import KINDS, MAX_LISTENERS, EventBus
from memoryd.server.connection import Caller, Handler
from memoryd_client.schema import agents as wire
from memoryd_client.schema import memory
from memoryd_client.wire.protocol import Body, ErrorCode, Op

DEGRADED_EVERY_S = 1.0
"""How often a listener is told of what has stopped working, or works again."""

ANSWER_S = 60.0
"""For what waits for nothing but the index and the disk: these hang if it takes longer."""

NUMBER = re.compile(r"\d+")

Degraded = dict[tuple[str, str], str]
"""What does not work, by agent and reason; without its numbers, which change all the time."""

Method = Callable[[Operations, Any, Caller], Awaitable[Body]]

OF_ONE_AGENT: dict[Op, Method] = {
    Op.STATUS: Operations.status,
    Op.CONFIG: Operations.config,
    Op.SEARCH: Operations.search,
    Op.GET: Operations.get,
    Op.SYNC: Operations.sync,
    Op.FILES: Operations.files,
    Op.SESSIONS: Operations.sessions,
    Op.FORGET: Operations.forget,
    Op.PROBE: Operations.probe,
    Op.SESSION_START: Operations.session_start,
    Op.TRANSCRIPT_UPDATED: Operations.transcript_updated,
}


UNLIMITED = frozenset({Op.SYNC, Op.FORGET, Op.PROBE})
"""Those of one agent that take as long as what they wait for."""


class DaemonOperations:
    """The ops of the daemon; those of one agent are handed on to the one that is meant."""

    def __init__(self, host: AgentSupervisor, reloader: Reloader, events: EventBus) -> None:
        self._host = host
        self._reloader = reloader
        self._events = events
        self._started_s = time.monotonic()

    def table(self) -> Mapping[Op, Handler]:
        """Return the function of each op."""
        return {
            Op.PING: self.ping,
            **{op: self._of_agent(op, method) for op, method in OF_ONE_AGENT.items()},
            Op.INDEX: self.index,
            Op.EVENTS: self.events,
            Op.AGENTS: self.agents,
            Op.ADD: self.add,
            Op.DROP: self.drop,
            Op.RELOAD: self.reload,
        }

    async def ping(self, body: Body, caller: Caller) -> memory.PingResult:
        """Say that the daemon is alive."""
        uptime_s = time.monotonic() - self._started_s
        return memory.PingResult(os.getpid(), __version__, uptime_s)

    async def index(self, body: Any, caller: Caller) -> memory.IndexResult:
        """Bring an agent's index up to date; with another provider, the agent starts anew."""
        hosted = self._host.find(caller.agent, caller.folder)
        if body.provider is not None:
            with self._host.serving(hosted) as opened:
                restart = await opened.operations.choose(body.provider)
            if restart:
                await self._host.restart(hosted)
        with self._host.serving(hosted) as opened:
            return await opened.operations.index(body, caller)

    async def agents(self, body: Body, caller: Caller) -> wire.AgentsResult:
        """List the agents."""
        try:
            current = self._host.find(caller.agent, caller.folder).config.agent
        except RequestFailedError:
            current = None
        return wire.AgentsResult([summary(h) for h in self._host.all()], current)

    async def add(self, body: Any, caller: Caller) -> wire.AddResult:
        """Serve one more workspace, from now on."""
        path = Path(body.workspace)
        if not path.is_absolute():
            raise RequestFailedError(
                ErrorCode.BAD_REQUEST, f"workspace must be an absolute path, not {body.workspace!r}"
            )
        try:
            hosted, added = await self._reloader.add(path)
        except ConfigError as error:
            raise RequestFailedError(ErrorCode.BAD_REQUEST, str(error)) from error
        return wire.AddResult(summary(hosted), added)

    async def drop(self, body: Any, caller: Caller) -> wire.DropResult:
        """Serve a workspace that was added no longer."""
        named = await asyncio.to_thread(real_path, Path(body.agent))
        config = await self._reloader.drop(self._named(body.agent, named))
        return wire.DropResult(config.agent, str(config.workspace), str(config.db_path))

    async def reload(self, body: Body, caller: Caller) -> wire.ReloadResult:
        """Read the configuration again."""
        try:
            return await self._reloader.reload()
        except ConfigError as error:
            raise RequestFailedError(
                ErrorCode.BAD_REQUEST, str(error), "the old configuration stays in force"
            ) from error

    async def events(self, body: Any, caller: Caller) -> memory.EventsResult:
        """Send what happens, until the request is cancelled."""
        wrong = [kind for kind in body.kinds or () if kind not in KINDS]
        if wrong:
            raise RequestFailedError(
                ErrorCode.BAD_REQUEST,
                f"there is no kind of event {wrong[0][:100]!r}; known: {', '.join(KINDS)}",
            )
        if caller.agent is not None:
            self._host.find(caller.agent, caller.folder)
        if self._events.listeners() >= MAX_LISTENERS:
            raise RequestFailedError(
                ErrorCode.BUSY, f"{MAX_LISTENERS} clients follow events already", retryable=True
            )
        with self._events.subscribe(body.kinds, caller.agent) as subscription:
            # So that a client knows from when on nothing escapes it.
            subscription.offer(memory.Event("listening", caller.agent or "", time.time()))
            before = self._degraded()
            while True:
                await subscription.wait(DEGRADED_EVERY_S)
                now = self._degraded()
                for kind, agent, reason in changes(before, now):
                    subscription.offer(memory.Event(kind, agent, time.time(), text=reason))
                before = now
                while (event := subscription.take()) is not None:
                    await caller.item(event)

    def _of_agent(self, op: Op, method: Method) -> Handler:
        limit_s = None if op in UNLIMITED else ANSWER_S

        async def handle(body: Body, caller: Caller) -> Body:
            with self._host.serving(self._host.find(caller.agent, caller.folder)) as opened:
                try:
                    async with asyncio.timeout(limit_s) as limit:
                        return await method(opened.operations, body, caller)
                except TimeoutError:
                    if not limit.expired():
                        raise
                    raise RequestFailedError(
                        ErrorCode.UNAVAILABLE,
                        f"{op} was not answered within {ANSWER_S:g} s: the disk or the index hangs",
                        hint="`memctl status` and the log may tell more",
                        retryable=True,
                    ) from None

        return handle

    def _named(self, agent: str, folder: Path | None) -> AgentConfig:
        """Return the agent of an id, or of a workspace. Raises `RequestFailedError`."""
        for hosted in self._host.all():
            if hosted.config.workspace == folder:
                return hosted.config
        return self._host.find(agent, "").config

    def _degraded(self) -> Degraded:
        return {
            (hosted.config.agent, NUMBER.sub("#", reason)): reason
            for hosted in self._host.all()
            for reason in summary(hosted).degraded
        }


def changes(before: Degraded, now: Degraded) -> list[tuple[str, str, str]]:
    """Return the events between two states: kind, agent and reason."""
    worse = [("degraded", key[0], now[key]) for key in sorted(now.keys() - before.keys())]
    gone = sorted(before.keys() - now.keys())
    return worse + [("recovered", key[0], before[key]) for key in gone]


def summary(hosted: AgentSlot) -> wire.AgentSummary:
    """Return an agent as a list of agents shows it."""
    config, opened = hosted.config, hosted.opened
    shown = wire.AgentSummary(
        agent=config.agent,
        state=hosted.state,
        workspace_dir=str(config.workspace),
        db_path=str(config.db_path),
        origin=config.origin,
        reason=hosted.reason,
    )
    if hosted.reason is not None:
        shown.degraded = [hosted.reason]
    if opened is not None:
        agent = opened.agent
        shown.files, shown.chunks = (
            len(agent.index.store.catalog.rows),
            agent.index.store.catalog.chunks,
        )
        shown.pending_files, shown.pending_vectors = agent.pending_files(), agent.pending_chunks()
        shown.degraded = opened.operations.degraded()
    return shown
