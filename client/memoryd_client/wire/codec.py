"""The client's half of one connection, without I/O: bytes in, frames out, and back."""

from typing import TypeGuard

import msgspec

from memoryd_client import errors
from memoryd_client.schema.memory import Event
from memoryd_client.wire.framing import FrameBuffer, FrameError, FrameTooLargeError, pack
from memoryd_client.wire.protocol import (
    MAX_FRAME_BYTES,
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Cancel,
    Error,
    Hello,
    Item,
    Request,
    Result,
    ServerFrame,
    Welcome,
    decode_body,
    decode_server_frame,
    raw,
)
from memoryd_client.wire.requests import Call, ResultT, TimeLimit

RECEIVE_BYTES = 64 * 1024
"""How much to read from the socket at once."""


class Conversation:
    """Numbers requests, cuts and decodes what the daemon sends.

    `name` introduces the client; `folder` is its current directory, or "".
    """

    def __init__(self, name: str, folder: str) -> None:
        self._name = name
        self._folder = folder
        self._incoming = FrameBuffer()
        self._last_id = 0
        self._send_limit_bytes = MAX_FRAME_BYTES

    def hello(self) -> bytes:
        """Return the first bytes to send."""
        return pack(Hello(PROTOCOL_MIN, PROTOCOL_MAX, self._name, self._folder))

    def welcome(self, frame: ServerFrame) -> None:
        """Take the daemon's first frame.

        Raises `ProtocolMismatchError` if it speaks another protocol version, `RequestError` if it
        refuses this client.
        """
        if isinstance(frame, Error):
            raise errors.from_frame(frame)
        if not isinstance(frame, Welcome):
            raise _not_memoryd()
        if not PROTOCOL_MIN <= frame.protocol <= PROTOCOL_MAX:
            raise errors.ProtocolMismatchError(
                f"{frame.server} speaks protocol {frame.protocol}, this client "
                f"{PROTOCOL_MIN} to {PROTOCOL_MAX}",
                hint="upgrade memoryd and memoryd-client to the same version",
            )
        self._send_limit_bytes = frame.max_frame_bytes

    def feed(self, data: bytes) -> list[ServerFrame]:
        """Take the next bytes received and return the frames they complete.

        Raises `ProtocolMismatchError` if they make no sense; the connection is then of no use.
        """
        try:
            return [decode_server_frame(body) for body in self._incoming.feed(data)]
        except (FrameError, msgspec.DecodeError) as error:
            raise _not_memoryd() from error

    def request(
        self, call: Call[ResultT], agent: str | None, limit_s: float | None
    ) -> tuple[int, bytes]:
        """Return a fresh id and the bytes that ask `agent` for `call` within `limit_s` seconds.

        Raises `TooLargeError` if the arguments don't fit into one frame, `BadRequestError` if they
        hold what is no Unicode.
        """
        self._last_id += 1
        deadline_ms = None if limit_s is None else max(1, round(limit_s * 1000))
        try:
            frame = Request(self._last_id, call.op, raw(call.body), deadline_ms, agent)
            return self._last_id, pack(frame, limit=self._send_limit_bytes)
        except UnicodeEncodeError:
            raise errors.BadRequestError(
                f"an argument of {call.op} holds characters that are no Unicode",
                hint="give names and dates as UTF-8",
            ) from None
        except FrameTooLargeError as error:
            raise errors.TooLargeError(
                f"the {call.op} request takes {error.length} bytes, "
                f"the daemon accepts {error.limit}",
                hint="send less text in one request",
            ) from None


def cancel(request_id: int) -> bytes:
    """Return the bytes that ask the daemon to stop working on a request."""
    return pack(Cancel(request_id))


def is_farewell(frame: ServerFrame) -> TypeGuard[Error]:
    """Tell whether a frame is the error that ends the whole connection."""
    return isinstance(frame, Error) and frame.id is None


def outcome(call: Call[ResultT], frame: Result | Error) -> ResultT:
    """Return what `call` was answered with.

    Raises the `MemorydError` it was answered with, or `ProtocolMismatchError` if the answer is
    none this client understands.
    """
    if isinstance(frame, Error):
        raise errors.from_frame(frame)
    try:
        return decode_body(frame.body, call.result)
    except msgspec.DecodeError as error:
        raise errors.ProtocolMismatchError(
            f"the answer to {call.op} is not what this client expects: {error}",
            hint="upgrade memoryd and memoryd-client to the same version",
        ) from error


def event(frame: Item) -> Event:
    """Return the event in a frame. Raises `ProtocolMismatchError` if it holds none."""
    try:
        return decode_body(frame.body, Event)
    except msgspec.DecodeError as error:
        raise errors.ProtocolMismatchError(
            f"an event is not what this client expects: {error}",
            hint="upgrade memoryd and memoryd-client to the same version",
        ) from error


def check_repeat(call: Call[ResultT], loss: errors.MemorydError, *, was_repeated: bool) -> None:
    """Return if `call`, whose connection ended with `loss`, is to be sent once more.

    Else raises what its caller has to know: `loss` when the daemon said itself that it is not
    done, a `ConnectionLostError` of more words when it did not.
    """
    if call.repeatable and not was_repeated:
        return
    if not isinstance(loss, errors.ConnectionLostError):
        raise loss
    if call.repeatable:
        raise errors.ConnectionLostError(
            f"the connection to memoryd was lost twice before {call.op} was answered",
            hint="memoryd may have crashed: its log says more",
        ) from loss
    raise errors.ConnectionLostError(
        f"the connection to memoryd was lost before {call.op} was answered: "
        "whether it was done is unknown",
        hint="look at `memctl status` before asking again",
        retryable=False,
    ) from loss


def timed_out(call: Call[ResultT], limit: TimeLimit) -> errors.RequestTimeoutError:
    """Return the error for a call that was not answered within its time."""
    return errors.RequestTimeoutError(
        f"{call.op} was not answered within {limit.limit_s or 0.0:g} s",
        hint="try again with a longer timeout, or look at `memctl status`",
    )


def no_greeting(path: str, limit_s: float) -> errors.RequestTimeoutError:
    """Return the error for a daemon that takes connections but says nothing."""
    return errors.RequestTimeoutError(
        f"memoryd at {path} takes connections but did not greet within {limit_s:g} s",
        hint="it may be starting or stuck: look at its log",
    )


def lost(detail: object = None) -> errors.ConnectionLostError:
    """Return the error for a connection that ended before the answer came."""
    reason = f": {detail}" if detail else ""
    return errors.ConnectionLostError(
        f"the connection to memoryd was lost{reason}", hint="the next call connects again"
    )


def _not_memoryd() -> errors.ProtocolMismatchError:
    return errors.ProtocolMismatchError(
        "what answers at the socket does not speak memoryd's protocol",
        hint="check MEMORYD_SOCKET, and that memoryd and memoryd-client are of the same version",
    )
