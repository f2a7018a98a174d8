"""The automatic start of a daemon, in both clients; the tests replace `autostart`."""

import os
import socket
import sys
import types
from collections.abc import Callable

import pytest
from both_clients import Connect, with_both_clients
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from golden_bodies import golden

from memoryd_client import errors
from memoryd_client.schema.memory import PingResult

pytestmark = with_both_clients

PONG = golden("ping_result", PingResult)


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], bool]]:
    """Replace `autostart` by the functions in a list, one for each request to start."""
    actions: list[Callable[[], bool]] = []
    module = types.ModuleType("memoryd_client.launcher.autostart")
    module.autostart = lambda path: actions.pop(0)()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "memoryd_client.launcher.autostart", module)
    return actions


def test_a_daemon_is_started_when_there_is_none_without_waiting_first(
    connect: Connect, starter: list[Callable[[], bool]]
) -> None:
    daemon = FakeDaemon(answering(PONG))

    def start() -> bool:
        daemon.start()
        return True

    starter.append(start)
    with connect(daemon.path, wait_s=0) as client:
        assert client.ping() == PONG
    daemon.close()


def test_it_is_started_for_a_stale_socket_too(
    connect: Connect, starter: list[Callable[[], bool]]
) -> None:
    daemon = FakeDaemon(answering(PONG))
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(daemon.path)

    def start() -> bool:
        os.unlink(daemon.path)
        daemon.start()
        return True

    starter.append(start)
    with connect(daemon.path, wait_s=0) as client:
        assert client.ping() == PONG
    daemon.close()


def test_where_that_is_not_wanted_it_is_waited_for(
    connect: Connect,
    starter: list[Callable[[], bool]],
    during_first_pause: list[Callable[[], None]],
) -> None:
    daemon = FakeDaemon(answering(PONG))
    starter.append(lambda: False)
    during_first_pause.append(daemon.start)
    with connect(daemon.path, wait_s=STUCK_TIMEOUT_S) as client:
        assert client.ping() == PONG
    assert starter == []
    daemon.close()


def test_a_start_that_fails_is_told(connect: Connect, starter: list[Callable[[], bool]]) -> None:
    def fail() -> bool:
        raise errors.DaemonNotRunningError("memoryd ended with exit code 78")

    starter.append(fail)
    daemon = FakeDaemon()
    with (
        pytest.raises(errors.DaemonNotRunningError, match="exit code 78"),
        connect(daemon.path),
    ):
        pass
    daemon.close()


def test_a_client_can_be_told_to_start_nothing(
    connect: Connect, starter: list[Callable[[], bool]]
) -> None:
    daemon = FakeDaemon()
    with (
        pytest.raises(errors.DaemonNotRunningError, match="no memoryd is running"),
        connect(daemon.path, wait_s=0, autostart=False),
    ):
        pass
    daemon.close()


def test_nothing_is_started_where_a_daemon_could_not_listen(
    connect: Connect, starter: list[Callable[[], bool]]
) -> None:
    with (
        pytest.raises(errors.DaemonNotRunningError, match="Not a directory"),
        connect("/dev/null/s"),
    ):
        pass


def test_a_daemon_that_dies_under_a_call_is_started_again(
    connect: Connect, starter: list[Callable[[], bool]]
) -> None:
    second = FakeDaemon(answering(PONG))

    def die(peer: Peer) -> None:
        peer.greet()
        peer.request()
        os.unlink(first.path)

    def start() -> bool:
        # The second daemon replaces the first at its path.
        second.path = first.path
        second.start()
        return True

    first = FakeDaemon(die)
    starter.append(start)
    with first, connect(first.path, wait_s=0) as client:
        assert client.ping() == PONG
    second.close()
