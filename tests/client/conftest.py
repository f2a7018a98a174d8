from collections.abc import Callable, Iterator

import pytest
from fake_daemon import STUCK_TIMEOUT_S
from waiting import Standing


@pytest.fixture(autouse=True)
def _no_daemon_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the configuration of whoever runs the tests says."""
    monkeypatch.setenv("MEMORYD_NO_AUTOSTART", "1")


@pytest.fixture(autouse=True)
def _greetings_may_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is so busy that a thread of the test has no turn for seconds."""
    monkeypatch.setattr("memoryd_client.transport.dial.HELLO_TIMEOUT_S", STUCK_TIMEOUT_S)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    """Have the time that calls have left stand still; they are waited for by the real clock."""
    clock = Standing()
    for module in ("wire.requests", "client"):
        monkeypatch.setattr(f"memoryd_client.{module}.time", clock)
    return clock


@pytest.fixture
def during_first_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """Run what the test puts into the list when a client first pauses between two attempts."""
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
