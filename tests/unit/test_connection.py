"""One connection whose handlers are controlled by the test."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

import pytest

from memoryd.errors import RequestFailedError
from memoryd.server.connection import MAX_IN_FLIGHT, Caller, ClientConnection, Handler
from memoryd.server.limits import Load
from memoryd_client.schema.memory import PingResult
from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import (
    Body,
    Cancel,
    Error,
    ErrorCode,
    Frame,
    Hello,
    Op,
    Progress,
    Request,
    Result,
    ServerFrame,
    Welcome,
    decode_server_frame,
)

DONE = PingResult(1, "x", 0.0)
WELCOME = Welcome(1, "test", 1, "boot", [])


class Wire:
    """A connection in this event loop and the client's end of it."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.begun = asyncio.Event()
        self.handler: Handler = self.wait
        self.buffer = FrameBuffer()
        self.frames: list[bytes] = []
        self.load = Load()

    async def wait(self, body: Body, caller: Caller) -> Body:
        self.begun.set()
        await self.release.wait()
        return DONE

    async def handle(self, body: Body, caller: Caller) -> Body:
        return await self.handler(body, caller)

    async def open(self) -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        connection = ClientConnection(
            reader, writer, handlers={Op.PING: self.handle}, welcome=WELCOME, load=self.load
        )
        self.serving = asyncio.create_task(connection.run())
        self.reader, self.writer = await asyncio.open_unix_connection(sock=ours)
        self.send(Hello(1, 1))
        assert await self.receive() == WELCOME

    async def close(self) -> None:
        self.writer.close()
        await self.serving

    def send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(map(pack, frames)))

    async def receive(self) -> ServerFrame:
        while not self.frames:
            data = await self.reader.read(65536)
            assert data, "closed"
            self.frames += self.buffer.feed(data)
        return decode_server_frame(self.frames.pop(0))

    async def error(self) -> Error:
        frame = await self.receive()
        assert isinstance(frame, Error), frame
        return frame


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    opened = Wire()
    await opened.open()
    yield opened
    await opened.close()


async def test_more_requests_than_may_be_in_flight_are_answered_busy(wire: Wire) -> None:
    wire.send(*(Request(n, "ping") for n in range(MAX_IN_FLIGHT + 3)))
    for number in range(MAX_IN_FLIGHT, MAX_IN_FLIGHT + 3):
        refused = await wire.error()
        assert (refused.code, refused.id, refused.retryable) == ("busy", number, True)
        assert refused.hint
    wire.release.set()
    answered = [await wire.receive() for _ in range(MAX_IN_FLIGHT)]
    assert {a.id for a in answered if isinstance(a, Result)} == set(range(MAX_IN_FLIGHT))


async def test_an_id_in_flight_can_not_be_used_again(wire: Wire) -> None:
    wire.send(Request(1, "ping"), Request(1, "ping"))
    duplicate = await wire.error()
    assert (duplicate.code, duplicate.id) == ("duplicate_id", 1)
    wire.release.set()
    assert isinstance(await wire.receive(), Result)


@pytest.mark.parametrize("started", [True, False])
async def test_a_cancelled_request_is_answered_once(wire: Wire, started: bool) -> None:
    wire.send(Request(1, "ping"))
    if started:
        await wire.begun.wait()
    wire.send(Cancel(1), Cancel(1))
    cancelled = await wire.error()
    assert (cancelled.code, cancelled.id) == ("cancelled", 1)
    wire.release.set()
    wire.send(Request(1, "ping"))
    assert isinstance(await wire.receive(), Result)


async def test_a_deadline_ends_the_request_and_not_the_connection(wire: Wire) -> None:
    wire.send(Request(1, "ping", deadline_ms=1))
    late = await wire.error()
    assert (late.code, late.id, late.retryable) == ("deadline", 1, True)
    wire.release.set()
    wire.send(Request(2, "ping"))
    assert isinstance(await wire.receive(), Result)


async def test_a_time_out_inside_is_not_the_clients_deadline(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(body: Body, caller: Caller) -> Body:
        raise TimeoutError

    wire.handler = fail
    wire.send(Request(1, "ping", deadline_ms=60_000))
    assert (await wire.error()).code == "internal"


async def test_an_internal_error_shows_no_more_than_its_number(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(body: Body, caller: Caller) -> Body:
        raise RuntimeError("sk-secret in a traceback")

    wire.handler = fail
    wire.send(Request(1, "ping"))
    error = await wire.error()
    assert error.code == "internal"
    assert "secret" not in error.message
    number = error.message.split()[2].rstrip(";")
    assert [r for r in caplog.records if number in r.getMessage() and r.levelno == logging.ERROR]


async def test_a_handler_says_what_is_wrong_and_what_to_do(wire: Wire) -> None:
    async def fail(body: Body, caller: Caller) -> Body:
        raise RequestFailedError(ErrorCode.NOT_FOUND, "it is not there", "look elsewhere")

    wire.handler = fail
    wire.send(Request(1, "ping"))
    error = await wire.error()
    assert (error.code, error.message, error.hint) == (
        "not_found",
        "it is not there",
        "look elsewhere",
    )


async def test_progress_comes_before_the_result_and_may_be_dropped(wire: Wire) -> None:
    async def work(body: Body, caller: Caller) -> Body:
        for step in range(20_000):
            caller.progress(step, 20_000, "working on something with a long name " * 5)
        return DONE

    wire.handler = work
    wire.send(Request(1, "ping"))
    steps = []
    while isinstance(frame := await wire.receive(), Progress):
        steps.append(frame.completed)
    assert isinstance(frame, Result)
    assert steps == sorted(steps)
    assert 0 < len(steps) < 20_000


async def test_hanging_up_cancels_what_is_in_flight() -> None:
    wire = Wire()
    ended = asyncio.Event()

    async def hang(body: Body, caller: Caller) -> Body:
        wire.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return DONE

    wire.handler = hang
    await wire.open()
    wire.send(Request(1, "ping"))
    await wire.begun.wait()
    await wire.close()
    assert ended.is_set()
