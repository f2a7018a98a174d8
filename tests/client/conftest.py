from collections.abc import Callable, Iterator

import pytest
from fake_daemon import STUCK_TIMEOUT_S
from waiting import Standing


@pytest.fixture(autouse=True)
def _no_daemon_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the automatic start, whatever the configuration of the user who runs the tests."""
    monkeypatch.setenv("MEMORYD_NO_AUTOSTART", "1")


@pytest.fixture(autouse=True)
def _greetings_may_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the limit of the greeting: a busy machine may not schedule a thread for seconds."""
    monkeypatch.setattr("memoryd_client.transport.dial.HELLO_TIMEOUT_S", STUCK_TIMEOUT_S)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    """Freeze the remaining time of calls; the calls are still awaited by the real clock."""
    clock = Standing()
    for module in ("wire.requests", "transport.turns"):
        monkeypatch.setattr(f"memoryd_client.{module}.time", clock)
    return clock


@pytest.fixture
def during_first_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """Run the functions in the list when a client first pauses between two attempts."""
    actions: list[Callable[[], None]] = []

    def pause(seconds: float) -> None:
        while actions:
            actions.pop()()

    async def async_pause(seconds: float) -> None:
        pause(seconds)

    monkeypatch.setattr("memoryd_client.transport.blocking_link.time.sleep", pause)
    monkeypatch.setattr("memoryd_client.transport.async_link.asyncio.sleep", async_pause)
    yield actions
    assert not actions, "the client never paused"
