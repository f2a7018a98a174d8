"""Operations on the daemon, and the dispatch of all others to an agent."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd import __version__
from memoryd.agent.agent import Agent
from memoryd.api import facts, files, handlers, probe, transcripts, transfer
from memoryd.api.context import context
from memoryd.api.forget import forget
from memoryd.api.get import get
from memoryd.api.health import degraded
from memoryd.api.note import note
from memoryd.api.promote import promote
from memoryd.api.recall import recall
from memoryd.api.recalls import COUNTED, count_recall, count_search
from memoryd.api.search import search
from memoryd.api.stale import stale
from memoryd.api.status import Daemon, status
from memoryd.config.load import AgentConfig, real_path
from memoryd.config.validate import ConfigError
from memoryd.daemon.agents import AgentSlot, AgentSupervisor
from memoryd.daemon.reload import Reloader
from memoryd.daemon.restricted import RestrictedSocket
from memoryd.errors import RequestFailedError, bad_request, unavailable
from memoryd.events import KINDS, MAX_LISTENERS, EventBus
from memoryd.server.connection import Caller, Handler
from memoryd_client.schema import agents as wire
from memoryd_client.schema import memory
from memoryd_client.schema.status import StatusResult
from memoryd_client.wire.protocol import Body, ErrorCode, Hello, Op

DEGRADED_EVERY_S = 1.0
"""Seconds between checks for `degraded` and `recovered` events."""

ANSWER_S = 60.0
"""Seconds for an operation that waits only for index and disk, which hang if it takes longer."""

NUMBER = re.compile(r"\d+")

Degraded = dict[tuple[str, str], str]
"""Problems by agent and reason; the key omits numbers, because they change all the time."""

Method = Callable[[Agent, Any], Awaitable[Body]]


@dataclass(frozen=True, slots=True)
class DaemonOperations:
    """Operations of the daemon. Operations of one agent go to the agent that the client selects.

    `config/operations.py` declares the effect of each. The restricted socket denies one without.
    """

    daemon: Daemon
    host: AgentSupervisor
    reloader: Reloader
    bus: EventBus
    restricted: RestrictedSocket

    def table(self) -> Mapping[Op, Handler]:
        """Return the handler of each operation."""
        of_agent = self._of_agent
        return {
            Op.PING: self.ping,
            Op.STATUS: of_agent(Op.STATUS, self._status),
            Op.CONFIG: of_agent(Op.CONFIG, handlers.config),
            Op.SEARCH: self.search,
            Op.GET: of_agent(Op.GET, get),
            Op.CONTEXT: of_agent(Op.CONTEXT, context),
            Op.RECALL: self.recall,
            Op.SYNC: self.sync,
            Op.FILES: of_agent(Op.FILES, files.page),
            Op.SESSIONS: of_agent(Op.SESSIONS, transcripts.page),
            Op.NOTE: of_agent(Op.NOTE, note),
            Op.PROMOTE: of_agent(Op.PROMOTE, promote),
            Op.STALE: of_agent(Op.STALE, stale, limit_s=None),
            Op.FACT_STORE: of_agent(Op.FACT_STORE, facts.store),
            Op.FACT_RECALL: of_agent(Op.FACT_RECALL, facts.recall),
            Op.FACT_FORGET: of_agent(Op.FACT_FORGET, facts.forget),
            Op.FACTS: of_agent(Op.FACTS, facts.page),
            Op.FACT_CAPTURE: of_agent(Op.FACT_CAPTURE, facts.capture),
            Op.FORGET: of_agent(Op.FORGET, forget, limit_s=None),
            Op.EXPORT: of_agent(Op.EXPORT, transfer.export, limit_s=None),
            Op.IMPORT: of_agent(Op.IMPORT, transfer.import_, limit_s=None),
            Op.PROBE: of_agent(Op.PROBE, probe.run, limit_s=None),
            Op.SESSION_START: of_agent(Op.SESSION_START, handlers.session_start),
            Op.TRANSCRIPT_UPDATED: of_agent(Op.TRANSCRIPT_UPDATED, handlers.transcript_updated),
            Op.INDEX: self.index,
            Op.EVENTS: self.events,
            Op.AGENTS: self.agents,
            Op.ADD: self.add,
            Op.DROP: self.drop,
            Op.RELOAD: self.reload,
        }

    def greeted(self, hello: Hello) -> None:
        """Prepare the model for the questions of a client that has come to stay."""
        if hello.client.startswith("memctl"):
            return  # its only request follows at once
        with suppress(RequestFailedError):
            agent = self.host.find(None, hello.folder).agent
            if agent is not None and agent.pending_chunks() < agent.index.store.catalog.chunks:
                agent.embedding.warm()

    async def ping(self, body: Body, caller: Caller) -> memory.PingResult:
        """Confirm that the daemon is alive."""
        uptime_s = time.monotonic() - self.daemon.started_s
        agents = [hosted.agent for hosted in self.host.all() if hosted.agent is not None]
        notices = dict.fromkeys(line for agent in agents for line in agent.notices())
        return memory.PingResult(os.getpid(), __version__, uptime_s, list(notices))

    async def search(self, body: Any, caller: Caller) -> Body:
        """Search the memory of an agent."""

        async def answer(agent: Agent, body: Any) -> Body:
            result = await search(agent, body, deadline_s=caller.deadline_s)
            if caller.kind == COUNTED:
                count_search(agent, body, result)
            return result

        return await self._of_agent(Op.SEARCH, answer)(body, caller)

    async def recall(self, body: Any, caller: Caller) -> Body:
        """Return what fits a message to an agent."""

        async def answer(agent: Agent, body: Any) -> Body:
            result = await recall(agent, body)
            if caller.kind == COUNTED:
                count_recall(agent, body, result)
            return result

        return await self._of_agent(Op.RECALL, answer)(body, caller)

    async def sync(self, body: Any, caller: Caller) -> memory.SyncResult:
        """Wait until everything that an agent noticed before is searchable."""
        with self.host.serving(self.host.find(caller.agent, caller.folder)) as agent:
            return await handlers.sync(agent, body, caller)

    async def index(self, body: Any, caller: Caller) -> memory.IndexResult:
        """Update the index of an agent; restart the agent if the provider changes."""
        hosted = self.host.find(caller.agent, caller.folder)
        if body.provider is not None:
            with self.host.serving(hosted) as agent:
                restart = await handlers.choose(agent, body.provider)
            if restart:
                await self.host.restart(hosted)
        with self.host.serving(hosted) as agent:
            return await handlers.index(agent, body, caller)

    async def agents(self, body: Body, caller: Caller) -> wire.AgentsResult:
        """List the agents."""
        try:
            current = self.host.find(caller.agent, caller.folder).config.agent
        except RequestFailedError:
            current = None
        return wire.AgentsResult([self._summary(h) for h in self.host.all()], current)

    async def add(self, body: Any, caller: Caller) -> wire.AddResult:
        """Add a workspace."""
        path = Path(body.workspace)
        if not path.is_absolute():
            raise bad_request(f"workspace must be an absolute path (got {body.workspace!r})")
        try:
            hosted, added = await self.reloader.add(path)
        except ConfigError as error:
            raise bad_request(str(error)) from error
        return wire.AddResult(self._summary(hosted), added)

    async def drop(self, body: Any, caller: Caller) -> wire.DropResult:
        """Drop an added workspace."""
        named = await asyncio.to_thread(real_path, Path(body.agent))
        config = await self.reloader.drop(self._named(body.agent, named))
        return wire.DropResult(config.agent, str(config.workspace), str(config.db_path))

    async def reload(self, body: Body, caller: Caller) -> wire.ReloadResult:
        """Read the configuration again."""
        try:
            return await self.reloader.reload()
        except ConfigError as error:
            raise bad_request(str(error), "the old configuration stays active") from error

    async def events(self, body: Any, caller: Caller) -> memory.EventsResult:
        """Send events until the request is cancelled."""
        wrong = [kind for kind in body.kinds or () if kind not in KINDS]
        if wrong:
            raise bad_request(
                f"unknown kind of event {wrong[0][:100]!r}; valid kinds: {', '.join(KINDS)}",
            )
        if caller.agent is not None:
            self.host.find(caller.agent, caller.folder)
        if self.bus.listeners() >= MAX_LISTENERS:
            raise RequestFailedError(
                ErrorCode.BUSY,
                f"the limit of {MAX_LISTENERS} clients that follow events is reached",
                retryable=True,
            )
        with self.bus.subscribe(body.kinds, caller.agent) as subscription:
            # The client receives every event after this one.
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

    async def _status(self, agent: Agent, body: Any) -> StatusResult:
        ids = [hosted.config.agent for hosted in self.host.all()]
        result = await status(agent, self.daemon, problem=self.host.problem, agents=ids)
        if self.restricted.path is not None:
            result.restricted_socket = str(self.restricted.path)
            result.allowed = self.restricted.allowed
        return result

    def _of_agent(self, op: Op, method: Method, limit_s: float | None = ANSWER_S) -> Handler:
        async def handle(body: Body, caller: Caller) -> Body:
            with self.host.serving(self.host.find(caller.agent, caller.folder)) as agent:
                try:
                    async with asyncio.timeout(limit_s) as limit:
                        return await method(agent, body)
                except TimeoutError:
                    if not limit.expired():
                        raise
                    raise unavailable(
                        f"{op} took longer than {ANSWER_S:g} s: the disk or the index hangs",
                        "see `memctl status` and the log",
                    ) from None

        return handle

    def _named(self, agent: str, folder: Path | None) -> AgentConfig:
        """Return the agent with an id or a workspace. Raises `RequestFailedError`."""
        for hosted in self.host.all():
            if hosted.config.workspace == folder:
                return hosted.config
        return self.host.find(agent, "").config

    def _summary(self, hosted: AgentSlot) -> wire.AgentSummary:
        """Return the entry of an agent in the list of agents."""
        config, agent = hosted.config, hosted.agent
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
        if agent is not None:
            catalog = agent.index.store.catalog
            shown.files, shown.chunks = len(catalog.rows), catalog.chunks
            shown.pending_files = agent.pending_files()
            shown.pending_vectors = agent.pending_chunks()
            shown.degraded = degraded(agent, self.host.problem)
        return shown

    def _degraded(self) -> Degraded:
        return {
            (hosted.config.agent, NUMBER.sub("#", reason)): reason
            for hosted in self.host.all()
            for reason in self._summary(hosted).degraded
        }


def changes(before: Degraded, now: Degraded) -> list[tuple[str, str, str]]:
    """Return the events between two states: kind, agent and reason."""
    worse = [("degraded", key[0], now[key]) for key in sorted(now.keys() - before.keys())]
    gone = sorted(before.keys() - now.keys())
    return worse + [("recovered", key[0], before[key]) for key in gone]
