"""The stream of events, in the blocking and the asyncio client."""

import threading
from collections.abc import Callable
from contextlib import closing

import msgspec
import pytest
from both_clients import Connect, with_both_clients
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from golden_bodies import golden

from memoryd_client import errors
from memoryd_client.schema.memory import Event, EventsBody, EventsResult, PingResult
from memoryd_client.wire.protocol import Error, Op, Request

pytestmark = with_both_clients

PONG = golden("ping_result", PingResult)
FOUND = Event("searched", "main", 1795834800.5, count=3)
INDEXED = golden("event", Event)


def subscribed(peer: Peer) -> Request:
    peer.greet()
    request = peer.request()
    assert request.op == Op.EVENTS
    return request


def test_events_come_one_by_one(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        request = subscribed(peer)
        peer.item(request, FOUND)
        peer.item(request, INDEXED)
        peer.answer(request, EventsResult())

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path)
        assert list(client.events()) == [FOUND, INDEXED]
        client.close()


@pytest.mark.parametrize("kinds", [None, ["searched", "degraded"]])
def test_kinds_and_agent_are_asked_for_and_no_deadline(
    connect: Connect, kinds: list[str] | None
) -> None:
    def script(peer: Peer) -> None:
        request = subscribed(peer)
        assert msgspec.msgpack.decode(request.body, type=EventsBody) == EventsBody(kinds)
        assert (request.agent, request.deadline_ms) == ("work", None)
        peer.answer(request, EventsResult())

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path, agent="work")
        assert list(client.events(kinds)) == []
        client.close()


def test_closing_the_stream_cancels_and_hangs_up(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        request = subscribed(peer)
        peer.item(request, FOUND)
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path)
        with closing(client.events()) as events:
            assert next(events) == FOUND
        client.close()


def test_a_loop_that_is_left_ends_the_stream(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        request = subscribed(peer)
        peer.item(request, FOUND)
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path)
        for event in client.events():
            assert event == FOUND
            break
        client.close()


def test_the_stream_leaves_the_connection_of_other_calls_alone(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        request = subscribed(peer)
        peer.item(request, FOUND)
        assert peer.cancel().id == request.id

    with FakeDaemon(answering(PONG, PONG), script, together=True) as daemon:
        client = connect(daemon.path)
        assert client.ping() == PONG
        with closing(client.events()) as events:
            assert next(events) == FOUND
            assert client.ping() == PONG
        client.close()


@pytest.mark.parametrize(
    ("last_words", "kind"),
    [
        (lambda peer, request: None, errors.ConnectionLostError),
        (
            lambda peer, request: peer.refuse(request, "shutting_down"),
            errors.ShuttingDownError,
        ),
        (
            lambda peer, request: peer.send(Error("shutting_down", "memoryd is stopping")),
            errors.ShuttingDownError,
        ),
        (
            lambda peer, request: peer.connection.sendall(b"\xff" * 8),
            errors.ProtocolMismatchError,
        ),
        (lambda peer, request: peer.item(request, PONG), errors.ProtocolMismatchError),
        (
            lambda peer, request: peer.refuse(request, "bad_request", "no such kind"),
            errors.BadRequestError,
        ),
    ],
)
def test_what_ends_the_stream_is_raised_and_it_is_not_taken_up_again(
    connect: Connect,
    last_words: Callable[[Peer, Request], None],
    kind: type[errors.MemorydError],
) -> None:
    arrived = threading.Event()

    def script(peer: Peer) -> None:
        request = subscribed(peer)
        peer.item(request, FOUND)
        assert arrived.wait(STUCK_TIMEOUT_S)
        last_words(peer, request)

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path)
        events = client.events()
        assert next(events) == FOUND
        arrived.set()
        with pytest.raises(kind):
            next(events)
        assert list(events) == []
        client.close()


def test_nobody_to_follow_is_told(connect: Connect) -> None:
    daemon = FakeDaemon()
    client = connect(daemon.path, wait_s=0)
    with pytest.raises(errors.DaemonNotRunningError):
        next(client.events())
    client.close()
    daemon.close()


def test_many_events_at_once_are_all_there(connect: Connect) -> None:
    many = [msgspec.structs.replace(FOUND, count=number) for number in range(5000)]

    def script(peer: Peer) -> None:
        request = subscribed(peer)
        for event in many:
            peer.item(request, event)
        peer.answer(request, EventsResult())

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path)
        assert list(client.events()) == many
        client.close()
