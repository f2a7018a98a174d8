"""One open connection of the asyncio client."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import NamedTuple

from memoryd_client import errors
from memoryd_client.schema.memory import Event, EventsResult
from memoryd_client.transport.dial import Dialler, Target, greeting_limit_s, start_daemon
from memoryd_client.wire import codec
from memoryd_client.wire.protocol import Error, Item, Progress, Result, ServerFrame, Welcome
from memoryd_client.wire.requests import Call, ProgressCallback, ResultT, TimeLimit

CLOSE_TIMEOUT_S = 1.0
"""Seconds to flush a closing connection."""

ENDING_S = 2.0
"""Seconds for a stopping daemon to close the connection after its first such answer."""


class Streams(NamedTuple):
    """A connection after the handshake."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    conversation: codec.Conversation


async def open_streams(
    target: Target, *, since: float, wait_s: float, limit_s: float | None
) -> Streams:
    """Connect and greet, for a call with `limit_s` seconds.

    Waits for a missing daemon for `wait_s` seconds from `since`, by `time.monotonic`.
    """
    dialler = Dialler(target, since=since, wait_s=wait_s)
    while True:
        dialled = dialler.dial()
        if dialled is None:
            await asyncio.to_thread(start_daemon, target.path)
        elif isinstance(dialled, float):
            await asyncio.sleep(dialled)
        else:
            conversation = codec.Conversation(target.name, target.folder, target.kind)
            # If the daemon has closed already, its reason can still be read.
            with suppress(BrokenPipeError, ConnectionResetError):
                dialled.send(conversation.hello())
            reader, writer = await asyncio.open_unix_connection(sock=dialled)
            streams = Streams(reader, writer, conversation)
            try:
                await _greet(streams, target, greeting_limit_s(wait_s, limit_s))
            except (errors.ConnectionLostError, errors.ShuttingDownError) as error:
                # The daemon is stopping and has no request of ours yet.
                await asyncio.sleep(dialler.pause_s(error))
            else:
                return streams


async def _greet(streams: Streams, target: Target, greeting_s: float) -> None:
    """Read the daemon's greeting. Closes the connection on failure."""
    reader, writer, conversation = streams
    try:
        async with asyncio.timeout(greeting_s):
            frames: list[ServerFrame] = []
            while not frames:
                data = await reader.read(codec.RECEIVE_BYTES)
                if not data:
                    raise codec.lost()
                frames = conversation.feed(data)
        conversation.welcome(frames[0])
    except BaseException as error:
        writer.close()
        if isinstance(error, TimeoutError):
            raise codec.no_greeting(target.path, greeting_s) from None
        if isinstance(error, OSError):
            raise codec.lost(error) from error
        raise


async def follow(
    target: Target,
    call: Call[EventsResult],
    agent: str | None,
    *,
    wait_s: float,
    limit_s: float | None,
) -> AsyncGenerator[Event, None]:
    """Connect as `open_streams` does, subscribe to the events of `agent` and yield them.

    Reads no faster than its caller, so that the daemon queues, and drops, surplus events.
    """
    streams = await open_streams(target, since=time.monotonic(), wait_s=wait_s, limit_s=limit_s)
    reader, writer, conversation = streams
    try:
        request_id, data = conversation.request(call, agent, None)
        try:
            writer.write(data)
            while data := await reader.read(codec.RECEIVE_BYTES):
                for frame in conversation.feed(data):
                    if isinstance(frame, Item):
                        yield codec.event(frame)
                    elif isinstance(frame, Error):
                        raise errors.from_frame(frame)
                    elif isinstance(frame, Result):
                        return
            raise codec.lost()
        except OSError as error:
            raise codec.lost(error) from error
        finally:
            _cancel(writer, request_id)
    finally:
        await _hang_up(writer)


def _cancel(writer: asyncio.StreamWriter, request_id: int) -> None:
    """Ask the daemon to stop a request."""
    # uvloop's closed transports raise instead of dropping data.
    if not writer.is_closing():
        writer.write(codec.cancel(request_id))


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection, even if the daemon does not read the pending bytes."""
    writer.close()
    try:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


class _Waiter(NamedTuple):
    """A waiting caller: gets the last frame of a request, or the reason why there is none."""

    end: asyncio.Future[Result | Error | Exception]
    on_progress: ProgressCallback


class AsyncLink:
    """One open connection and its reading task.

    `is_ending` is set by the first answer of `shutting_down`.
    """

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer, self._conversation = streams
        self._waiters: dict[int, _Waiter] = {}
        self._reading = asyncio.create_task(self._read(), name="memoryd-client reader")
        self.is_closed = False
        self.is_ending = False

    async def close(self) -> None:
        """End the reader and the connection; waiters get `ConnectionLostError`."""
        self._reading.cancel()
        # Unlike awaiting the task, this separates its cancellation from ours.
        try:
            await asyncio.wait([self._reading])
        finally:
            # A task that is cancelled before its first step never runs its clean-up.
            await _hang_up(self._writer)
        if not self._reading.cancelled():
            self._reading.result()

    async def ended(self) -> None:
        """Wait for a stopping daemon to answer the requests in flight and close."""
        await asyncio.wait([self._reading], timeout=ENDING_S)

    async def run(
        self,
        call: Call[ResultT],
        agent: str | None,
        limit: TimeLimit,
        on_progress: ProgressCallback,
    ) -> ResultT:
        """Send `call` and return its result; calls may run concurrently."""
        left_s = limit.left_s()
        request_id, data = self._conversation.request(call, agent, left_s)
        end: asyncio.Future[Result | Error | Exception]
        end = asyncio.get_running_loop().create_future()
        self._waiters[request_id] = _Waiter(end, on_progress)
        try:
            async with asyncio.timeout(left_s):
                self._writer.write(data)
                # The reader also sees a broken connection, and may know the reason.
                with suppress(OSError):
                    await self._writer.drain()
                answer = await end
        except TimeoutError:
            _cancel(self._writer, request_id)
            raise codec.timed_out(call, limit) from None
        except asyncio.CancelledError:
            _cancel(self._writer, request_id)
            raise
        finally:
            del self._waiters[request_id]
        if isinstance(answer, Exception):
            raise answer
        return codec.outcome(call, answer)

    async def _read(self) -> None:
        farewell: Error | None = None
        fault: OSError | None = None
        try:
            while farewell is None and (data := await self._reader.read(codec.RECEIVE_BYTES)):
                for frame in self._conversation.feed(data):
                    if codec.is_farewell(frame):
                        farewell = frame
                    else:
                        self._deliver(frame)
        except errors.ProtocolMismatchError as error:
            farewell = Error(error.code, error.message, hint=error.hint)
        except OSError as error:
            fault = error
        finally:
            self.is_closed = True
            self._writer.close()
            for waiter in self._waiters.values():
                if not waiter.end.done():
                    waiter.end.set_result(farewell or codec.lost(fault))

    def _deliver(self, frame: ServerFrame) -> None:
        """Hand a frame to its waiter; drop the late end of an abandoned request."""
        if isinstance(frame, Welcome) or frame.id is None:
            return
        if isinstance(frame, Error) and frame.code == errors.ShuttingDownError.code:
            self.is_ending = True
        waiter = self._waiters.get(frame.id)
        if waiter is None or waiter.end.done():
            return
        if isinstance(frame, Result | Error):
            waiter.end.set_result(frame)
        elif isinstance(frame, Progress):
            try:
                waiter.on_progress(frame.completed, frame.total, frame.label)
            except Exception as error:
                # A callback's exception ends only its own call.
                waiter.end.set_result(error)
                _cancel(self._writer, frame.id)
