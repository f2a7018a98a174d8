"""The end of one actor ends all, and a stop follows the data path."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from memoryd import supervisor as supervise_module
from memoryd.supervisor import Actor, ActorFailedError, done_before, supervise

Run = Callable[[], Coroutine[Any, Any, None]]


class Daemon:
    """Actors named `a`, `b`, … and a record of their events."""

    def __init__(self, *names: str) -> None:
        self.diary: list[str] = []
        self.stop = asyncio.Event()
        self.running = {name: asyncio.Event() for name in names}
        self._runs: dict[str, Run] = {}

    def let(self, name: str, run: Run) -> None:
        """Replace the waiting of an actor by another action."""
        self._runs[name] = run

    async def run(self, *, drain: Run | None = None, drained: str = "c") -> None:
        await supervise(
            [
                Actor(
                    name,
                    self._actor(name),
                    drain=(drain or self._drain) if name == drained else None,
                )
                for name in self.running
            ],
            self.stop,
            on_stopping=lambda: self.diary.append("stopping"),
        )

    async def all_running(self) -> None:
        await asyncio.gather(*(running.wait() for running in self.running.values()))

    def _actor(self, name: str) -> Run:
        async def run() -> None:
            self.running[name].set()
            try:
                await self._runs.get(name, forever)()
            except asyncio.CancelledError:
                self.diary.append(f"{name} stopped")
                raise

        return run

    async def _drain(self) -> None:
        self.diary.append("drained")


async def forever() -> None:
    await asyncio.Event().wait()


async def returning() -> None:
    return


async def raising() -> None:
    raise ValueError("broken")


async def cancelling_itself() -> None:
    raise asyncio.CancelledError


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise_module, "GRACE_S", 0.0)
    monkeypatch.setattr(supervise_module, "HARD_S", 0.0)


async def test_a_stop_is_orderly_with_the_drain_in_its_place() -> None:
    daemon = Daemon("a", "b", "c")
    running = asyncio.create_task(daemon.run())
    await daemon.all_running()
    assert daemon.diary == []
    daemon.stop.set()
    await running
    assert daemon.diary == ["stopping", "a stopped", "b stopped", "drained", "c stopped"]


async def test_what_comes_after_the_drain_still_runs_during_it() -> None:
    daemon = Daemon("a", "b", "c")

    async def drain() -> None:
        await asyncio.sleep(0)
        assert "c stopped" not in daemon.diary

    daemon.stop.set()
    await daemon.run(drain=drain)
    assert daemon.diary[-1] == "c stopped"


@pytest.mark.parametrize("run", [returning, raising])
async def test_an_actor_that_ends_ends_all_in_their_order(run: Run) -> None:
    daemon = Daemon("a", "b", "c", "d")
    daemon.let("c", run)
    with pytest.raises(ActorFailedError, match=r"^c ended$") as failed:
        await daemon.run()
    assert daemon.diary == ["stopping", "a stopped", "b stopped", "d stopped"]
    assert isinstance(failed.value.__cause__, ValueError) is (run is raising)


async def test_an_actor_that_is_cancelled_from_within_has_ended_too() -> None:
    """Awaiting a future that another task has cancelled has this effect."""
    daemon = Daemon("a", "b")
    daemon.let("b", cancelling_itself)
    with pytest.raises(ActorFailedError, match=r"^b ended$"):
        await daemon.run()


async def test_nothing_is_drained_when_an_actor_has_failed() -> None:
    daemon = Daemon("a", "b", "c")
    daemon.let("a", raising)
    with pytest.raises(ActorFailedError):
        await daemon.run()
    assert "drained" not in daemon.diary


async def test_an_actor_may_end_at_the_moment_of_the_stop() -> None:
    daemon = Daemon("a", "b")
    daemon.stop.set()
    daemon.let("a", raising)
    with pytest.raises(ActorFailedError, match="a ended"):
        await daemon.run()


async def test_a_drain_that_hangs_is_cut_off(
    no_patience: None, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Daemon("a", "b", "c")
    daemon.stop.set()
    await daemon.run(drain=forever)
    assert daemon.diary == ["stopping", "a stopped", "b stopped", "c stopped"]
    assert "which the next start resumes" in caplog.text


async def test_an_actor_that_does_not_stop_is_left_behind(
    no_patience: None, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Daemon("a", "b", "c")
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    daemon.let("a", stubborn)
    running = asyncio.create_task(daemon.run())
    await daemon.all_running()
    daemon.stop.set()
    await running
    assert daemon.diary == ["stopping", "b stopped", "drained", "c stopped"]
    assert "a did not stop within" in caplog.text
    let_go.set()


async def test_an_actor_that_fails_while_it_stops_is_told(caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon("a", "b")

    async def failing_late() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            raise ValueError("broken at the end") from None

    daemon.let("a", failing_late)
    running = asyncio.create_task(daemon.run())
    await daemon.all_running()
    daemon.stop.set()
    await running
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        "a failed: broken at the end"
    ]
    assert "broken at the end" in caplog.text


async def test_a_drain_that_fails_ends_the_rest_all_the_same() -> None:
    daemon = Daemon("a", "b", "c")
    daemon.stop.set()
    with pytest.raises(ValueError, match="broken"):
        await daemon.run(drain=raising)
    await asyncio.sleep(0)
    assert daemon.diary[-1] == "c stopped"


async def test_all_end_when_the_supervisor_is_cancelled() -> None:
    daemon = Daemon("a", "b")
    running = asyncio.create_task(daemon.run())
    await daemon.all_running()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.sleep(0)
    assert sorted(daemon.diary) == ["a stopped", "b stopped"]


async def test_work_that_is_done_before_the_stop_is_done() -> None:
    stop = asyncio.Event()
    assert await done_before(stop, asyncio.sleep(0))
    with pytest.raises(ValueError, match="broken"):
        await done_before(stop, raising())


async def test_work_that_hangs_is_given_up_at_the_stop() -> None:
    stop = asyncio.Event()
    given_up = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    doing = asyncio.create_task(done_before(stop, hang()))
    await asyncio.sleep(0)
    stop.set()
    assert not await doing
    await given_up.wait()
