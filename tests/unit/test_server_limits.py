"""Limits on the memory, time and number of clients, and the order of eviction."""

import asyncio
import logging
import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from waiting import settle

from memoryd.server import connection, limits, server
from memoryd.server.endpoint import Endpoint
from memoryd.server.limits import FAIR_BYTES, MAX_INCOMING_BYTES, MAX_OUTGOING_BYTES, Load, Seldom
from memoryd.server.server import Server
from memoryd_client.schema.memory import PingResult
from memoryd_client.shared.lock_holder import this_process
from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import (
    Error,
    Hello,
    Op,
    Request,
    Result,
    ServerFrame,
    Welcome,
    decode_server_frame,
)

WELCOME = Welcome(1, "test", 1, "boot", [])


class Share:
    """A client that holds this much memory."""

    def __init__(self, incoming: int = 0, outgoing: int = 0) -> None:
        self.incoming, self.outgoing = incoming, outgoing

    def incoming_bytes(self) -> int:
        return self.incoming

    def outgoing_bytes(self) -> int:
        return self.outgoing


def test_who_sends_little_is_never_refused() -> None:
    load = Load()
    modest, greedy = Share(incoming=FAIR_BYTES), Share(incoming=MAX_INCOMING_BYTES)
    load.clients = {modest, greedy}
    assert not load.is_too_much_from(modest)
    assert load.is_too_much_from(greedy)
    load.clients = {greedy}
    assert not load.is_too_much_from(greedy)


def test_who_reads_is_answered_whatever_waits_for_others() -> None:
    load = Load()
    reading, deaf = Share(), Share(outgoing=MAX_OUTGOING_BYTES - 10)
    load.clients = {reading, deaf}
    assert not load.is_too_much_for(reading, 10_000_000)
    assert not load.is_too_much_for(deaf, 10)
    assert load.is_too_much_for(deaf, 11)


def test_a_warning_that_comes_again_is_counted_and_told_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    seldom = Seldom(logging.getLogger("test"), every_s=60.0, clock=lambda: now)
    for _ in range(5):
        seldom.warning("no room for %s", "a client")
    now = 160.0
    seldom.warning("no room for %s", "another")
    now = 220.0
    seldom.warning("no room for %s", "a third")
    assert [record.getMessage() for record in caplog.records] == [
        "no room for a client",
        "no room for another (4 more since the last time)",
        "no room for a third",
    ]


class Guest:
    """A client in this event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffer = FrameBuffer()
        self.frames: list[bytes] = []

    async def greet(self) -> ServerFrame | None:
        self.reader, self.writer = await asyncio.open_unix_connection(self.path)
        self.writer.write(pack(Hello(1, 1)))
        return await self.receive()

    async def receive(self) -> ServerFrame | None:
        while not self.frames:
            if not (data := await self.reader.read(65536)):
                return None
            self.frames += self.buffer.feed(data)
        return decode_server_frame(self.frames.pop(0))

    async def ping(self) -> ServerFrame | None:
        self.writer.write(pack(Request(1, "ping")))
        return await self.receive()


class House:
    """A server with room for three clients, whose pings block until `release`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s"
        self.release = asyncio.Event()
        self.release.set()
        self.guests: list[Guest] = []

    async def ping(self, body: Any, caller: Any) -> PingResult:
        await self.release.wait()
        return PingResult(1, "x", 0.0)

    async def guest(self) -> tuple[Guest, ServerFrame | None]:
        guest = Guest(self.path)
        self.guests.append(guest)
        return guest, await guest.greet()


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(server, "CHECK_S", 0.01)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        house = House(Path(name))
        with Endpoint(house.path, this_process()) as door:
            serving = Server(door, handlers={Op.PING: house.ping}, welcome=WELCOME)
            task = asyncio.create_task(serving.run())
            yield house
            task.cancel()
            await asyncio.wait({task})
        for guest in house.guests:
            guest.writer.close()


async def test_where_all_are_busy_of_late_one_more_is_refused(house: House) -> None:
    for _ in range(3):
        assert (await house.guest())[1] == WELCOME
    _, answer = await house.guest()
    assert isinstance(answer, Error)
    assert (answer.code, answer.retryable) == ("busy", True)
    assert isinstance(await house.guests[0].ping(), Result)


async def test_who_has_had_nothing_to_do_for_longest_makes_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.0)
    working, first, second = [(await house.guest())[0] for _ in range(3)]
    house.release.clear()
    working.writer.write(pack(Request(1, "ping")))
    _, answer = await house.guest()
    assert answer == WELCOME
    assert await first.receive() is None, "the connection was closed"
    house.release.set()
    assert isinstance(await working.receive(), Result)
    assert isinstance(await second.ping(), Result)


async def test_who_works_or_is_in_the_middle_of_a_word_makes_no_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 1e-9)
    house.release.clear()
    for _ in range(3):
        guest, _ = await house.guest()
        guest.writer.write(pack(Request(1, "ping")))
        guest.writer.write(struct.pack(">I", 100))
        await guest.writer.drain()
    await settle()
    _, answer = await house.guest()
    assert isinstance(answer, Error)
    assert answer.code == "busy"


async def test_a_frame_that_never_comes_whole_ends_the_connection(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_TIMEOUT_S", 0.01)
    guest, _ = await house.guest()
    # An idle connection has no incomplete frame, so it may be silent for any time.
    for _ in range(3):
        await asyncio.sleep(0.01)
    assert isinstance(await guest.ping(), Result)
    guest.writer.write(struct.pack(">I", 100) + b"half")
    answer = await guest.receive()
    assert isinstance(answer, Error)
    assert (answer.code, answer.id) == ("bad_frame", None)
    assert await guest.receive() is None


async def test_a_frame_that_trickles_in_is_given_no_more_time_for_each_byte(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FRAME_TIMEOUT_S", 0.05)
    guest, _ = await house.guest()
    receiving = asyncio.create_task(guest.receive())
    guest.writer.write(struct.pack(">I", 1_000_000))
    sending = guest.writer.get_extra_info("socket").fileno()
    while not receiving.done():
        with suppress(
            OSError
        ):  # the server has closed the connection, but its answer is still readable
            os.write(sending, b"x")
        await asyncio.sleep(0.005)
    assert isinstance(receiving.result(), Error)


async def test_a_fault_in_one_connection_is_no_matter_to_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    guest, _ = await house.guest()
    with monkeypatch.context() as broken:
        broken.setattr(server, "peer_uid", lambda client: 1 / 0)
        other = Guest(house.path)
        house.guests.append(other)
        with pytest.raises(ConnectionError):
            await other.greet()
    assert isinstance(await guest.ping(), Result)
    assert [record.getMessage() for record in caplog.records] == ["connection failed"]


async def test_small_requests_that_are_worked_on_take_no_more_than_their_share(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_INCOMING_BYTES", FAIR_BYTES)
    house.release.clear()
    flooding, _ = await house.guest()
    small, _ = await house.guest()
    body = Raw(msgspec.msgpack.encode({"unknown": "x" * 50_000}))
    for request_id in range(1, 7):
        flooding.writer.write(pack(Request(request_id, "ping", body)))
        await flooding.writer.drain()
    answer = await flooding.receive()
    assert isinstance(answer, Error)
    assert (answer.code, answer.id, answer.retryable) == ("busy", 6, True)
    small.writer.write(pack(Request(1, "ping", body)))
    house.release.set()
    assert isinstance(await small.receive(), Result)
    answers = [await flooding.receive() for _ in range(5)]
    assert all(isinstance(answer, Result) for answer in answers)
    assert isinstance(await flooding.ping(), Result), "there is room again"


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


async def test_a_door_that_was_removed_lets_clients_in_again(house: House) -> None:
    inside, _ = await house.guest()
    house.path.unlink()
    while not listens(house.path):  # the path exists before the socket listens
        await asyncio.sleep(0)
    assert (await house.guest())[1] == WELCOME
    assert isinstance(await inside.ping(), Result)
