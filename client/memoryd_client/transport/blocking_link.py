"""One open connection of the blocking client."""

import socket
import time
from collections.abc import Generator
from contextlib import suppress

from memoryd_client import errors
from memoryd_client.schema.memory import Event, EventsResult
from memoryd_client.transport.dial import Dialler, Target, greeting_limit_s, start_daemon
from memoryd_client.wire import codec
from memoryd_client.wire.protocol import Error, Item, Progress, Result, ServerFrame, Welcome
from memoryd_client.wire.requests import Call, ProgressCallback, ResultT, TimeLimit

CANCEL_TIMEOUT_S = 1.0
"""Seconds to send a `Cancel` before the connection is closed."""


def open_link(
    target: Target, *, since: float, wait_s: float, limit_s: float | None
) -> "BlockingLink":
    """Connect and greet, for a call with `limit_s` seconds.

    Waits for a missing daemon for `wait_s` seconds from `since`, by `time.monotonic`.
    """
    dialler = Dialler(target, since=since, wait_s=wait_s)
    while True:
        dialled = dialler.dial()
        if dialled is None:
            start_daemon(target.path)
        elif isinstance(dialled, float):
            time.sleep(dialled)
        else:
            try:
                return BlockingLink(dialled, target, greeting_limit_s(wait_s, limit_s))
            except (errors.ConnectionLostError, errors.ShuttingDownError) as error:
                # The daemon is stopping and has no request of ours yet.
                time.sleep(dialler.pause_s(error))


def follow(
    target: Target,
    call: Call[EventsResult],
    agent: str | None,
    *,
    wait_s: float,
    limit_s: float | None,
) -> Generator[Event, None, None]:
    """Connect as `open_link` does, subscribe to the events of `agent` and yield them."""
    link = open_link(target, since=time.monotonic(), wait_s=wait_s, limit_s=limit_s)
    yield from link.events(call, agent)


class BlockingLink:
    """One open connection, used by one thread at a time.

    Anything that leaves the byte stream uncertain, such as an interrupt or a partly sent frame,
    closes it, which cancels the requests in flight.
    """

    def __init__(self, connection: socket.socket, target: Target, greeting_s: float) -> None:
        self._socket = connection
        self._conversation = codec.Conversation(target.name, target.folder, target.kind)
        self._frames: list[ServerFrame] = []
        try:
            self._send(self._conversation.hello(), greeting_s)
            self._conversation.welcome(self._next_frame(time.monotonic() + greeting_s))
        except _TimeUpError:
            self.close()
            raise codec.no_greeting(target.path, greeting_s) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        """True after `close` or a failure."""
        return self._socket.fileno() < 0

    def is_stale(self) -> bool:
        """Return whether the daemon closed the connection since the last call.

        Reads and drops the late ends of abandoned requests.
        """
        if self.is_closed or any(codec.is_farewell(frame) for frame in self._frames):
            return True
        self._frames.clear()
        self._socket.settimeout(0)
        try:
            while data := self._socket.recv(codec.RECEIVE_BYTES):
                if any(codec.is_farewell(frame) for frame in self._conversation.feed(data)):
                    return True
        except BlockingIOError:
            return False
        except (OSError, errors.ProtocolMismatchError):
            return True
        except BaseException:
            self.close()
            raise
        return True

    def run(
        self,
        call: Call[ResultT],
        agent: str | None,
        limit: TimeLimit,
        on_progress: ProgressCallback,
    ) -> ResultT:
        """Send `call` and return its result."""
        left_s = limit.left_s()
        request_id, data = self._conversation.request(call, agent, left_s)
        end = None if left_s is None else time.monotonic() + left_s
        try:
            self._send(data, left_s)
            answer = self._answer(request_id, end, on_progress)
        except BaseException as error:
            self._cancel(request_id)
            if isinstance(error, _TimeUpError):
                raise codec.timed_out(call, limit) from None
            if not isinstance(error, Exception):
                # An interrupt may come between receiving bytes and storing them.
                self.close()
            raise
        return codec.outcome(call, answer)

    def events(self, call: Call[EventsResult], agent: str | None) -> Generator[Event, None, None]:
        """Send `call` and yield its events; closes the connection at the end."""
        request_id, data = self._conversation.request(call, agent, None)
        try:
            self._send(data, None)
            while not isinstance(frame := self._next_frame(None), Result | Error):
                if isinstance(frame, Item):
                    yield codec.event(frame)
            codec.outcome(call, frame)
        finally:
            self._cancel(request_id)
            self.close()

    def _answer(
        self, request_id: int, end: float | None, on_progress: ProgressCallback
    ) -> Result | Error:
        while True:
            frame = self._next_frame(end)
            if isinstance(frame, Welcome) or frame.id != request_id:
                continue
            if isinstance(frame, Result | Error):
                return frame
            if isinstance(frame, Progress):
                on_progress(frame.completed, frame.total, frame.label)

    def _next_frame(self, end: float | None) -> ServerFrame:
        """Return the next frame. Raises, and closes, on an error of the whole connection."""
        while not self._frames:
            data = self._receive(end)
            try:
                self._frames = self._conversation.feed(data)
            except errors.ProtocolMismatchError:
                self.close()
                raise
        frame = self._frames.pop(0)
        if codec.is_farewell(frame):
            self.close()
            raise errors.from_frame(frame)
        return frame

    def _receive(self, end: float | None) -> bytes:
        left_s = None if end is None else end - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise _TimeUpError
        try:
            self._socket.settimeout(left_s)
            data = self._socket.recv(codec.RECEIVE_BYTES)
        except TimeoutError:
            raise _TimeUpError from None
        except OSError as error:
            self.close()
            raise codec.lost(error) from error
        if not data:
            self.close()
            raise codec.lost()
        return data

    def _send(self, data: bytes, limit_s: float | None) -> None:
        try:
            self._socket.settimeout(limit_s)
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # The daemon has closed; its reason can still be read.
            return
        except (TimeoutError, BlockingIOError):
            self.close()
            raise _TimeUpError from None
        except OSError as error:
            self.close()
            raise codec.lost(error) from error
        except BaseException:
            self.close()
            raise

    def _cancel(self, request_id: int) -> None:
        if self.is_closed:
            return
        with suppress(_TimeUpError, errors.ConnectionLostError):
            self._send(codec.cancel(request_id), CANCEL_TIMEOUT_S)


class _TimeUpError(Exception):
    """The time of a call is up; distinct from a `TimeoutError` of the caller's callback."""
