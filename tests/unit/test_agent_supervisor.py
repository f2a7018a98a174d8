"""Failed agents are retried while others work, and all stop in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import settle

from memoryd.config.load import AgentConfig
from memoryd.config.settings import Settings
from memoryd.daemon.agents import RETRY_FIRST_S, STOP_S, AgentSlot, AgentSupervisor, Opened
from memoryd.errors import RequestFailedError
from memoryd.fs.hang import DiskWaits
from memoryd.supervisor import GRACE_S, HARD_S, Actor, ActorFailedError


def config(agent: str) -> AgentConfig:
    return AgentConfig(
        agent, Path("/w") / agent, Path("/i") / agent, Settings(), {}, (), "configuration"
    )


class Farm:
    """Agents of one actor each, which work until the test makes them fail."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.broken: dict[str, Exception] = {}
        self.failing: dict[str, asyncio.Future[None]] = {}
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.restart: dict[str, Callable[[], None]] = {}
        self.host = AgentSupervisor(self.open, explained=(OSError,), clock=lambda: self.now_s)

    @asynccontextmanager
    async def open(
        self, config: AgentConfig, restart: Callable[[], None], waits: DiskWaits
    ) -> AsyncIterator[Opened]:
        name = config.agent
        self.opened.append(name)
        self.restart[name] = restart
        if name in self.broken:
            raise self.broken[name]
        self.failing[name] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            await self.failing[name]

        try:
            yield cast(Any, object()), [Actor("work", work)]
        finally:
            self.closed.append(name)

    async def start(self, *agents: str) -> None:
        for agent in agents:
            await self.host.start(config(agent))

    def state(self, agent: str) -> str:
        return next(h for h in self.host.all() if h.config.agent == agent).state

    def hosted(self, agent: str) -> AgentSlot:
        return self.host.find(agent, "")


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    made = Farm()
    yield made
    await made.host.close()


async def test_an_agent_that_fails_is_tried_again_while_another_works(farm: Farm) -> None:
    await farm.start("a", "b")
    running = asyncio.create_task(farm.host.run())
    farm.failing["b"].set_exception(OSError("the disk is full"))
    await settle()
    assert (farm.state("a"), farm.state("b")) == ("ready", "failed")
    assert farm.hosted("b").reason == "work ended: the disk is full"
    assert farm.closed == ["b"]
    assert farm.hosted("b").backoff.retry_in_s == RETRY_FIRST_S
    farm.host.retry()
    await settle()
    assert (farm.state("b"), farm.hosted("b").reason) == ("ready", None)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(farm.closed) == ["a", "b", "b"]


async def test_tries_become_rarer_until_one_succeeds(farm: Farm) -> None:
    farm.broken["b"] = OSError("no such folder")
    await farm.start("a", "b")
    running = asyncio.create_task(farm.host.run())
    pauses = []
    for _ in range(8):
        await settle()
        pauses.append(farm.hosted("b").backoff.retry_in_s)
        farm.host.retry()
    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    del farm.broken["b"]
    await settle()
    farm.host.retry()
    await settle()
    assert farm.state("b") == "ready"
    running.cancel()
    await asyncio.wait({running})


async def test_when_all_have_failed_each_is_tried_again(farm: Farm) -> None:
    await farm.start("a", "b")
    running = asyncio.create_task(farm.host.run())
    for agent in ("a", "b"):
        farm.failing[agent].set_exception(OSError(f"{agent} is out of space"))
        await settle()
    assert (farm.state("a"), farm.state("b")) == ("failed", "failed")
    assert not running.done()
    farm.host.retry()
    await settle()
    assert (farm.state("a"), farm.state("b")) == ("ready", "ready")
    running.cancel()
    await asyncio.wait({running})


async def test_a_host_whose_last_agent_was_stopped_waits_for_others(farm: Farm) -> None:
    await farm.start("a")
    running = asyncio.create_task(farm.host.run())
    await settle()
    await farm.host.stop("a")
    await settle()
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_a_bug_in_one_agent_ends_the_host(farm: Farm) -> None:
    await farm.start("a", "b")
    running = asyncio.create_task(farm.host.run())
    farm.failing["b"].set_exception(ValueError("a bug"))
    with pytest.raises(ActorFailedError):
        await running
    assert sorted(farm.closed) == ["a", "b"]


async def test_requests_are_given_up_when_their_agent_stops(farm: Farm) -> None:
    await farm.start("a", "b")
    begun = asyncio.Event()

    async def request() -> None:
        with farm.host.serving(farm.hosted("b")):
            begun.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(request())
    await begun.wait()
    await farm.host.stop("b")
    with pytest.raises(RequestFailedError) as given_up:
        await waiting
    assert given_up.value.message == "agent b was stopped"
    assert given_up.value.retryable
    with pytest.raises(RequestFailedError) as unknown:
        farm.hosted("b")
    assert unknown.value.code == "unknown_agent"


async def test_a_request_that_is_cancelled_by_its_client_stays_cancelled(farm: Farm) -> None:
    await farm.start("a")

    async def request() -> None:
        with farm.host.serving(farm.hosted("a")):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(request())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert farm.hosted("a").requests == set()


async def test_a_failed_agent_says_why_it_does_not_answer(farm: Farm) -> None:
    farm.broken["b"] = OSError("no such folder")
    await farm.start("a", "b")
    with pytest.raises(RequestFailedError) as refused, farm.host.serving(farm.hosted("b")):
        raise AssertionError("the failed agent accepted a request")
    assert refused.value.message == "agent b is failed: no such folder"


def test_the_longest_stop_has_room_for_every_actor() -> None:
    assert STOP_S >= GRACE_S + 7 * HARD_S
