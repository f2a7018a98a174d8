"""One client: handshake, requests in flight, and exactly one last frame for each of them."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from memoryd.serve.caller import Caller
from memoryd_client.bodies import BODY_OF_OP
from memoryd_client.framing import FrameBuffer, FrameError, FrameTooLargeError, pack
from memoryd_client.protocol import (
    HELLO_TIMEOUT_S,
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Body,
    Cancel,
    Error,
    ErrorCode,
    Frame,
    Hello,
    Op,
    Request,
    Result,
    Welcome,
    decode_body,
    decode_client_frame,
    raw,
)

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 32
WRITE_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 1.0
"""Less than what an actor has to end at a stop."""
READ_BYTES = 64 * 1024
ECHO_CHARS = 100
"""So much of what a client sent is repeated in an error."""
PROGRESS_BACKLOG_BYTES = 64 * 1024
NOT_OURS = (b"GET ", b"POST", b"HEAD", b'{"', b"{\n")

Handler = Callable[[Body, Caller], Awaitable[Body]]


@dataclass
class RequestFailedError(Exception):
    """What a handler raises to answer with an `Error` frame."""

    code: ErrorCode
    message: str
    hint: str = ""
    retryable: bool = False


class Connection:
    """Serves one client until it goes, misbehaves or `close` is called."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        handlers: Mapping[Op, Handler],
        welcome: Welcome,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handlers = handlers
        self._welcome = welcome
        self._frames: list[bytes] = []
        self._buffer = FrameBuffer()
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._folder = ""
        self._closing = False
        self._stopping = False

    async def run(self) -> None:
        """Serve. Returns normally however the connection ends."""
        try:
            if await self._handshake():
                async with asyncio.TaskGroup() as group:
                    try:
                        await self._serve(group)
                    except asyncio.CancelledError:
                        self._stopping = True
                        raise
                    finally:
                        self._closing = True
                        for task in self._in_flight.values():
                            task.cancel()
        except* (ConnectionError, TimeoutError):
            pass
        finally:
            await self._hang_up()

    async def refuse(self, code: ErrorCode, message: str) -> None:
        """Say why this client is not served, and close."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self._send(Error(code, message, retryable=code is ErrorCode.BUSY))
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Close, whether the client takes what it has not read yet or not."""
        self._writer.close()
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.wait_closed()
        finally:
            # uvloop's loop does not close as long as a transport has something to send.
            self._writer.transport.abort()

    async def _handshake(self) -> bool:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            first = await self._reader.read(READ_BYTES)
            if first.startswith(NOT_OURS):
                self._writer.write(b"This is memoryd's socket; use memctl to talk to it.\n")
                return False
            data = await self._next_frame(first)
        if data is None:
            return False
        try:
            hello = decode_client_frame(data)
        except msgspec.DecodeError as error:
            await self._send(Error(ErrorCode.BAD_FRAME, f"not a frame of memoryd: {error}"))
            return False
        if not isinstance(hello, Hello):
            await self._send(Error(ErrorCode.BAD_FRAME, "the first frame must be hello"))
            return False
        if hello.protocol_max < PROTOCOL_MIN or hello.protocol_min > PROTOCOL_MAX:
            await self._send(
                Error(
                    ErrorCode.UNSUPPORTED_PROTOCOL,
                    f"this memoryd speaks protocol {PROTOCOL_MIN} to {PROTOCOL_MAX}, the client"
                    f" {hello.protocol_min} to {hello.protocol_max}; upgrade the older one",
                )
            )
            return False
        self._folder = hello.folder
        await self._send(self._welcome)
        return True

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        while (data := await self._next_frame()) is not None:
            try:
                frame = decode_client_frame(data)
            except msgspec.DecodeError as error:
                await self._send(Error(ErrorCode.BAD_FRAME, f"not a frame of memoryd: {error}"))
                return
            match frame:
                case Request():
                    await self._accept(frame, group)
                case Cancel():
                    if (task := self._in_flight.get(frame.id)) is not None:
                        task.cancel()
                case Hello():
                    await self._send(Error(ErrorCode.BAD_FRAME, "hello may come only once"))
                    return

    async def _next_frame(self, data: bytes = b"") -> bytes | None:
        """Return the next frame, or None at the end of the stream or when it is broken."""
        try:
            self._frames += self._buffer.feed(data)
            while not self._frames:
                data = await self._reader.read(READ_BYTES)
                if not data:
                    return None
                self._frames += self._buffer.feed(data)
        except FrameError as error:
            large = isinstance(error, FrameTooLargeError)
            code = ErrorCode.FRAME_TOO_LARGE if large else ErrorCode.BAD_FRAME
            await self._send(Error(code, str(error)))
            return None
        return self._frames.pop(0)

    async def _accept(self, request: Request, group: asyncio.TaskGroup) -> None:
        if request.id in self._in_flight:
            await self._send(
                Error(
                    ErrorCode.DUPLICATE_ID, f"request {request.id} is still in flight", request.id
                )
            )
        elif len(self._in_flight) >= MAX_IN_FLIGHT:
            await self._send(
                Error(
                    ErrorCode.BUSY,
                    f"{MAX_IN_FLIGHT} requests are in flight on this connection",
                    request.id,
                    hint="wait for an answer, then send the next request",
                    retryable=True,
                )
            )
        else:
            task = group.create_task(self._answer(request), name=f"request: {request.op}")
            self._in_flight[request.id] = task
            # A task that is cancelled before its first step never runs, and could not answer.
            await asyncio.sleep(0)

    async def _answer(self, request: Request) -> None:
        try:
            last: Frame = await self._result(request)
        except asyncio.CancelledError:
            if self._closing:
                if self._stopping:
                    self._say_stopping(request.id)
                raise
            last = Error(ErrorCode.CANCELLED, "the request was cancelled", request.id)
        # The id is free before its last frame can be read, so that it may be used again at once.
        del self._in_flight[request.id]
        try:
            await self._send(last)
        except FrameTooLargeError as error:
            hint = "ask for less at a time"
            await self._send(Error(ErrorCode.FRAME_TOO_LARGE, str(error), request.id, hint=hint))
        except (ConnectionError, TimeoutError):
            self._writer.transport.abort()

    def _say_stopping(self, request_id: int) -> None:
        message = "memoryd is stopping; ask again when it is back"
        with contextlib.suppress(ConnectionError):
            self._write(Error(ErrorCode.SHUTTING_DOWN, message, request_id, retryable=True))

    async def _result(self, request: Request) -> Frame:
        try:
            op = Op(request.op)
            handler = self._handlers[op]
        except (ValueError, KeyError):
            known = ", ".join(self._handlers)
            return Error(
                ErrorCode.UNKNOWN_OP,
                f"there is no op {request.op[:ECHO_CHARS]!r}; known: {known}",
                request.id,
            )
        try:
            body = decode_body(request.body, BODY_OF_OP[op])
        except msgspec.DecodeError as error:
            return Error(ErrorCode.BAD_REQUEST, f"{op}: {error}", request.id)
        deadline = None if request.deadline_ms is None else request.deadline_ms / 1000
        try:
            async with asyncio.timeout(deadline) as limit:
                result = await handler(body, self._caller(request))
            return Result(request.id, raw(result))
        except RequestFailedError as error:
            return Error(
                error.code, error.message, request.id, hint=error.hint, retryable=error.retryable
            )
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                message = f"{op} took longer than its deadline of {request.deadline_ms} ms"
                return Error(ErrorCode.DEADLINE, message, request.id, retryable=True)
            error_id = secrets.token_hex(4)
            log.exception("internal error %s in %s", error_id, op)
            return Error(
                ErrorCode.INTERNAL, f"internal error {error_id}; the log says more", request.id
            )

    def _caller(self, request: Request) -> Caller:
        return Caller(
            request.id,
            agent=request.agent,
            folder=self._folder,
            offer=self._offer,
            stream=self._stream,
        )

    def _offer(self, frame: Frame) -> None:
        """Write a frame that nobody needs, unless too much waits for the client already."""
        if self._writer.transport.get_write_buffer_size() < PROGRESS_BACKLOG_BYTES:
            with contextlib.suppress(ConnectionError):
                self._write(frame)

    async def _stream(self, frame: Frame) -> None:
        """Write a frame; wait as long as it takes until the client reads, and ask for nothing."""
        self._write(frame)
        await self._writer.drain()

    async def _send(self, frame: Frame) -> None:
        """Write one frame. Raises `TimeoutError` when the client does not read for too long."""
        self._write(frame)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self._writer.drain()

    def _write(self, frame: Frame) -> None:
        """Hand one frame to the transport. Raises `ConnectionError` when that is closed."""
        data = pack(frame)
        if self._writer.is_closing():
            # asyncio's transports would drop it, uvloop's raise RuntimeError.
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)
