"""How the blocking and the asyncio client reach and greet the daemon."""

import socket
from collections.abc import Callable, Iterator

import msgspec
import pytest
from both_clients import SHORT_S, Connect, with_both_clients
from fake_daemon import STUCK_TIMEOUT_S, WELCOME, FakeDaemon, Peer, answering
from golden_bodies import golden

from memoryd_client import errors
from memoryd_client.bodies import PingResult
from memoryd_client.protocol import Error, Hello

pytestmark = with_both_clients

PONG = golden("ping_result", PingResult)

# --- greeting ----------------------------------------------------------------------------------


def test_another_protocol_version_is_refused(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)
        peer.send(msgspec.structs.replace(WELCOME, protocol=7))
        assert peer.hung_up()

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.ProtocolMismatchError, match="protocol 7"),
        connect(daemon.path),
    ):
        pass


def test_a_daemon_that_can_not_speak_our_version_says_so(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)
        peer.send(Error("unsupported_protocol", "this memoryd speaks 2 to 3", hint="upgrade"))
        assert peer.hung_up()

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.ProtocolMismatchError, match="2 to 3"),
        connect(daemon.path),
    ):
        pass


def test_a_refusal_before_the_hello_is_heard(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.send(Error("denied", "this memoryd belongs to uid 1000"))

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.DeniedError, match="uid 1000"),
        connect(daemon.path),
    ):
        pass


def test_some_other_server_is_told_from_memoryd(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.ProtocolMismatchError, match="MEMORYD_SOCKET"),
        connect(daemon.path),
    ):
        pass


def test_a_daemon_that_hangs_up_at_once_is_a_lost_connection(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.ConnectionLostError),
        connect(daemon.path),
    ):
        pass


def test_a_daemon_that_does_not_greet_is_given_up(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)
        assert peer.hung_up()

    with (
        FakeDaemon(script) as daemon,
        pytest.raises(errors.RequestTimeoutError, match="did not greet"),
        connect(daemon.path, timeout_s=SHORT_S),
    ):
        pass


# --- reaching the daemon -----------------------------------------------------------------------


def test_no_daemon_is_told_at_once_without_waiting(connect: Connect) -> None:
    daemon = FakeDaemon()
    with (
        pytest.raises(errors.DaemonNotRunningError, match="memoryd --workspace DIR") as caught,
        connect(daemon.path, wait_s=0),
    ):
        pass
    assert daemon.path in caught.value.message
    daemon.close()


def test_the_wait_for_a_daemon_is_bounded(connect: Connect) -> None:
    daemon = FakeDaemon()
    with pytest.raises(errors.DaemonNotRunningError), connect(daemon.path, wait_s=SHORT_S):
        pass
    daemon.close()


def test_the_socket_of_a_daemon_that_is_gone_counts_as_no_daemon(connect: Connect) -> None:
    daemon = FakeDaemon()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(daemon.path)
    with (
        pytest.raises(errors.DaemonNotRunningError, match="no memoryd is running"),
        connect(daemon.path, wait_s=0),
    ):
        pass
    daemon.close()


def test_waiting_is_no_use_when_the_path_can_not_work(connect: Connect) -> None:
    with (
        pytest.raises(errors.DaemonNotRunningError, match="Not a directory") as caught,
        connect("/dev/null/s", wait_s=STUCK_TIMEOUT_S),
    ):
        pass
    assert not caught.value.retryable


@pytest.fixture
def during_first_pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """Run what the test puts into the list when a client first pauses between two attempts."""
    actions: list[Callable[[], None]] = []

    def pause(seconds: float) -> None:
        while actions:
            actions.pop()()

    async def async_pause(seconds: float) -> None:
        pause(seconds)

    monkeypatch.setattr("memoryd_client.sync.time.sleep", pause)
    monkeypatch.setattr("memoryd_client.aio.asyncio.sleep", async_pause)
    yield actions
    assert not actions, "the client never paused"


def test_a_daemon_that_starts_late_is_waited_for(
    connect: Connect, during_first_pause: list[Callable[[], None]]
) -> None:
    daemon = FakeDaemon(answering(PONG))
    during_first_pause.append(daemon.start)
    with connect(daemon.path, wait_s=STUCK_TIMEOUT_S) as client:
        assert client.ping() == PONG
    daemon.close()


def test_a_socket_path_the_system_can_not_take_is_refused(connect: Connect) -> None:
    with pytest.raises(ValueError, match="MEMORYD_SOCKET"):
        connect("/tmp/" + "x" * 200)


def test_the_environment_says_where_the_daemon_is(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeDaemon(answering(PONG)) as daemon:
        monkeypatch.setenv("MEMORYD_SOCKET", daemon.path)
        with connect() as client:
            assert client.ping() == PONG
