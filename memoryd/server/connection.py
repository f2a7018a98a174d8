"""One client connection: handshake, requests in flight, and one final frame per request."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from memoryd.errors import ECHO_CHARS, RequestFailedError
from memoryd.server.limits import Load, too_much
from memoryd_client.schema.memory import BODY_OF_OP
from memoryd_client.wire.framing import FrameBuffer, FrameError, FrameTooLargeError, pack
from memoryd_client.wire.protocol import (
    HELLO_TIMEOUT_S,
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Body,
    Cancel,
    Error,
    ErrorCode,
    Frame,
    Hello,
    Item,
    Op,
    Progress,
    Request,
    Result,
    Welcome,
    decode_body,
    decode_client_frame,
    raw,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and the channel for its progress and streamed items.

    `agent` is the named agent, if any; `folder` the client's absolute current directory, or "".
    `kind` is that of the client, as in `Hello`.
    `offer` drops frames for slow clients, and `stream` waits. `deadline_s` are the seconds that the
    request may take, None without a limit.
    """

    request_id: int
    agent: str | None
    folder: str
    offer: Callable[[Frame], None]
    stream: Callable[[Frame], Awaitable[None]]
    deadline_s: float | None = None
    kind: str = ""

    def progress(self, completed: int, total: int, label: str) -> None:
        """Send the progress of the request, unless the client reads slowly."""
        self.offer(Progress(self.request_id, completed, total, label))

    async def item(self, body: Body) -> None:
        """Send one element of a streamed answer, and wait until the client can take more."""
        await self.stream(Item(self.request_id, raw(body)))


MAX_IN_FLIGHT = 32
WRITE_TIMEOUT_S = 10.0
FRAME_TIMEOUT_S = 30.0
"""Maximum seconds between the first and the last byte of a frame."""
CLOSE_TIMEOUT_S = 1.0
"""Less than the time that an actor has at a stop."""
READ_BYTES = 64 * 1024

PROGRESS_BACKLOG_BYTES = 64 * 1024
NOT_OURS = (b"GET ", b"POST", b"HEAD", b'{"', b"{\n")

Handler = Callable[[Body, Caller], Awaitable[Body]]
Denial = Callable[[Op], RequestFailedError | None]
"""Returns the error for an operation that a socket does not permit, None if it does."""


Greeted = Callable[[Hello], None]
"""Called with the first frame of each client."""


def no_denial(op: Op) -> None:
    """Permit every operation."""


class ClientConnection:
    """Connection of one client, until it disconnects, breaks the protocol or is closed."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        handlers: Mapping[Op, Handler],
        welcome: Welcome,
        load: Load,
        denial: Denial = no_denial,
        greeted: Greeted = lambda hello: None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handlers = handlers
        self._denial = denial
        self._greeted = greeted
        self._welcome = welcome
        self._frames: list[bytes] = []
        self._buffer = FrameBuffer()
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._in_flight_bytes = 0
        self._idle_since_s: float | None = None
        self._load = load
        self._folder = self._kind = ""
        self._closing = False
        self._stopping = False

    def incoming_bytes(self) -> int:
        """Return the bytes of requests in memory."""
        return self._in_flight_bytes + self._buffer.unfinished_bytes

    def outgoing_bytes(self) -> int:
        """Return the bytes of answers that the client has not read yet."""
        return self._writer.transport.get_write_buffer_size()

    def idle_s(self) -> float:
        """Return the seconds since the last request ended; 0 while one is in flight."""
        if self._in_flight or self._idle_since_s is None or self._buffer.unfinished_bytes:
            return 0.0
        return asyncio.get_running_loop().time() - self._idle_since_s

    async def run(self) -> None:
        """Serve the client. Returns normally however the connection ends."""
        self._load.clients.add(self)
        try:
            if await self._handshake():
                self._rest()
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
            self._load.clients.discard(self)
            await self._hang_up()

    async def refuse(self, code: ErrorCode, message: str) -> None:
        """Send an error and close the connection."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self._send(Error(code, message, retryable=code is ErrorCode.BUSY))
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Close the connection, even if the client does not read the remaining data."""
        self._writer.close()
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._writer.wait_closed()
        finally:
            # uvloop's loop does not close while a transport has data to send.
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
            await self._send(Error(ErrorCode.BAD_FRAME, f"not a valid frame: {error}"))
            return False
        if not isinstance(hello, Hello):
            await self._send(Error(ErrorCode.BAD_FRAME, "the first frame must be hello"))
            return False
        if hello.protocol_max < PROTOCOL_MIN or hello.protocol_min > PROTOCOL_MAX:
            message = (
                f"this memoryd speaks protocol {PROTOCOL_MIN} to {PROTOCOL_MAX}, the client"
                f" {hello.protocol_min} to {hello.protocol_max}; upgrade the older one"
            )
            await self._send(Error(ErrorCode.UNSUPPORTED_PROTOCOL, message))
            return False
        self._folder, self._kind = hello.folder, hello.kind
        self._greeted(hello)
        await self._send(self._welcome)
        return True

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        while (data := await self._next_frame()) is not None:
            try:
                frame = decode_client_frame(data)
            except msgspec.DecodeError as error:
                await self._send(Error(ErrorCode.BAD_FRAME, f"not a valid frame: {error}"))
                return
            match frame:
                case Request():
                    await self._accept(frame, len(data), group)
                case Cancel():
                    if (task := self._in_flight.get(frame.id)) is not None:
                        task.cancel()
                case Hello():
                    await self._send(Error(ErrorCode.BAD_FRAME, "hello may come only once"))
                    return

    async def _next_frame(self, data: bytes = b"") -> bytes | None:
        """Return the next frame, or None at the end of the stream or after a bad frame."""
        try:
            self._frames += self._buffer.feed(data)
            whole_by_s: float | None = None
            while not self._frames:
                if whole_by_s is None and self._buffer.unfinished_bytes:
                    whole_by_s = asyncio.get_running_loop().time() + FRAME_TIMEOUT_S
                if whole_by_s is None:
                    data = await self._reader.read(READ_BYTES)
                else:
                    async with asyncio.timeout_at(whole_by_s):
                        data = await self._reader.read(READ_BYTES)
                if not data:
                    return None
                self._frames += self._buffer.feed(data)
                if self._load.is_too_much_from(self):
                    await self._send(too_much())
                    return None
        except TimeoutError:
            late = f"a frame was incomplete after {FRAME_TIMEOUT_S:g} s"
            await self._send(Error(ErrorCode.BAD_FRAME, late))
            return None
        except FrameError as error:
            large = isinstance(error, FrameTooLargeError)
            code = ErrorCode.FRAME_TOO_LARGE if large else ErrorCode.BAD_FRAME
            await self._send(Error(code, str(error)))
            return None
        return self._frames.pop(0)

    async def _accept(self, request: Request, size: int, group: asyncio.TaskGroup) -> None:
        if request.id in self._in_flight:
            message = f"request {request.id} is still in flight"
            await self._send(Error(ErrorCode.DUPLICATE_ID, message, request.id))
        elif len(self._in_flight) >= MAX_IN_FLIGHT:
            message = f"{MAX_IN_FLIGHT} requests are in flight on this connection"
            hint = "wait for an answer before you send the next request"
            busy = Error(ErrorCode.BUSY, message, request.id, hint=hint, retryable=True)
            await self._send(busy)
        else:
            self._in_flight_bytes += size
            if self._load.is_too_much_from(self):
                self._in_flight_bytes -= size
                await self._send(too_much(request.id))
                return
            task = group.create_task(self._answer(request, size), name=f"request: {request.op}")
            self._in_flight[request.id] = task
            # A task that is cancelled before its first step never runs and sends no answer.
            await asyncio.sleep(0)

    async def _answer(self, request: Request, size: int) -> None:
        try:
            last: Frame = await self._result(request)
        except asyncio.CancelledError:
            if self._closing:
                if self._stopping:
                    self._send_stopping(request.id)
                raise
            last = Error(ErrorCode.CANCELLED, "the request was cancelled", request.id)
        # Free the id before the client can read the final frame, so that it can reuse the id.
        del self._in_flight[request.id]
        self._in_flight_bytes -= size
        self._rest()
        try:
            self._write(last)
            del last  # The pending data is kept once, not twice.
            await self._drain()
        except FrameTooLargeError as error:
            hint = "request less at a time"
            await self._send(Error(ErrorCode.FRAME_TOO_LARGE, str(error), request.id, hint=hint))
        except (ConnectionError, TimeoutError):
            self._writer.transport.abort()

    def _rest(self) -> None:
        """Record the time at which a request or the handshake ended."""
        self._idle_since_s = asyncio.get_running_loop().time()

    def _send_stopping(self, request_id: int) -> None:
        message = "memoryd is stopping; retry when it is running again"
        with contextlib.suppress(ConnectionError):
            self._write(Error(ErrorCode.SHUTTING_DOWN, message, request_id, retryable=True))

    async def _result(self, request: Request) -> Frame:
        try:
            op = Op(request.op)
            if (denied := self._denial(op)) is not None:
                return _failure(request, denied)
            handler = self._handlers[op]
        except (ValueError, KeyError):
            known = ", ".join(self._handlers)
            message = f"unknown op {request.op[:ECHO_CHARS]!r}; known ops: {known}"
            return Error(ErrorCode.UNKNOWN_OP, message, request.id)
        try:
            body = decode_body(request.body, BODY_OF_OP[op])
        except msgspec.DecodeError as error:
            return Error(ErrorCode.BAD_REQUEST, f"{op}: {error}", request.id)
        deadline_s = None if request.deadline_ms is None else request.deadline_ms / 1000
        caller = Caller(
            request.id,
            request.agent,
            self._folder,
            self._offer,
            self._stream,
            deadline_s,
            self._kind,
        )
        try:
            async with asyncio.timeout(deadline_s) as limit:
                result = await handler(body, caller)
            return Result(request.id, raw(result))
        except RequestFailedError as error:
            return _failure(request, error)
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                message = f"{op} took longer than its deadline of {request.deadline_ms} ms"
                return Error(ErrorCode.DEADLINE, message, request.id, retryable=True)
            error_id = secrets.token_hex(4)
            log.exception("internal error %s in %s", error_id, op)
            return Error(ErrorCode.INTERNAL, f"internal error {error_id}; see the log", request.id)

    def _offer(self, frame: Frame) -> None:
        """Write an optional frame, unless much data is pending for the client."""
        if self._writer.transport.get_write_buffer_size() < PROGRESS_BACKLOG_BYTES:
            with contextlib.suppress(ConnectionError):
                self._write(frame)

    async def _stream(self, frame: Frame) -> None:
        """Write a frame and wait without a limit until the client reads."""
        self._write(frame)
        await self._writer.drain()

    async def _send(self, frame: Frame) -> None:
        """Write one frame. Raises `TimeoutError` if the client does not read in time."""
        self._write(frame)
        await self._drain()

    async def _drain(self) -> None:
        if not self._writer.transport.get_write_buffer_size():
            return  # the system has taken all of it; a limit would cost more than the rest
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await self._writer.drain()

    def _write(self, frame: Frame) -> None:
        """Pass one frame to the transport. Raises `ConnectionError` if it is closed."""
        data = pack(frame)
        if self._writer.is_closing():
            # asyncio's transports would drop the frame, uvloop's raise RuntimeError.
            raise ConnectionResetError("the connection is closed")
        if self._load.is_too_much_for(self, len(data)):
            self._writer.transport.abort()
            raise ConnectionResetError(
                "the client does not read, and the clients' pending answers exceed the limit"
            )
        self._writer.write(data)


def _failure(request: Request, error: RequestFailedError) -> Error:
    return Error(error.code, error.message, request.id, hint=error.hint, retryable=error.retryable)
