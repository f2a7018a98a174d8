"""Connecting to the daemon and greeting it, in the blocking and the asyncio client."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from both_clients import SHORT_S, Connect, with_both_clients
from fake_daemon import STUCK_TIMEOUT_S, WELCOME, FakeDaemon, Peer, answering
from golden_bodies import golden

from memoryd_client import errors
from memoryd_client.schema.memory import PingResult
from memoryd_client.wire.protocol import Error, Hello

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
        connect(daemon.path, wait_s=0),
    ):
        pass


def test_a_daemon_that_is_on_its_way_down_is_waited_out(connect: Connect) -> None:
    def hang_up(peer: Peer) -> None:
        peer.next(Hello)

    def say_goodbye(peer: Peer) -> None:
        peer.next(Hello)
        peer.send(Error("shutting_down", "memoryd is stopping"))

    with (
        FakeDaemon(hang_up, say_goodbye, answering(PONG)) as daemon,
        connect(daemon.path, wait_s=STUCK_TIMEOUT_S) as client,
    ):
        assert client.ping() == PONG


def test_the_folder_is_the_one_the_client_was_made_in(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []

    def script(peer: Peer) -> None:
        folders.append(peer.greet().folder)
        peer.answer(peer.request(), PONG)

    with FakeDaemon(script, script) as daemon:
        monkeypatch.chdir(tmp_path)
        client = connect(daemon.path)
        monkeypatch.chdir("/")
        for _ in range(2):
            client.ping()
        client.close()
    assert folders == [str(tmp_path)] * 2


def test_a_folder_that_is_gone_is_no_folder(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    with (
        FakeDaemon(lambda peer: folders.append(peer.greet().folder)) as daemon,
        connect(daemon.path),
    ):
        pass
    assert folders == [""]


def test_requests_name_the_agent_of_the_moment(connect: Connect) -> None:
    agents: list[str | None] = []

    def script(peer: Peer) -> None:
        peer.greet()
        for _ in range(3):
            request = peer.request()
            agents.append(request.agent)
            peer.answer(request, PONG)

    with FakeDaemon(script) as daemon, connect(daemon.path, agent="work") as client:
        client.ping()
        client.agent = "home"
        client.ping()
        client.agent = None
        client.ping()
    assert agents == ["work", "home", None]


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
