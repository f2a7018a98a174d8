"""Client side of one connection, without I/O: bytes in, frames out, and back."""

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
"""Maximum bytes per read from the socket."""

_UPGRADE = "upgrade memoryd and memoryd-client to the same version"


class Conversation:
    """Numbers requests, and splits and decodes the daemon's bytes.

    `name` and `kind` introduce the client; `folder` is its current directory, or "".
    """

    def __init__(self, name: str, folder: str, kind: str = "") -> None:
        self._name = name
        self._folder = folder
        self._kind = kind
        self._incoming = FrameBuffer()
        self._last_id = 0
        self._send_limit_bytes = MAX_FRAME_BYTES

    def hello(self) -> bytes:
        """Return the first bytes to send."""
        return pack(Hello(PROTOCOL_MIN, PROTOCOL_MAX, self._name, self._folder, self._kind))

    def welcome(self, frame: ServerFrame) -> None:
        """Check the daemon's first frame.

        Raises `ProtocolMismatchError` if its protocol version differs, `RequestError` if it refuses
        this client.
        """
        if isinstance(frame, Error):
            raise errors.from_frame(frame)
        if not isinstance(frame, Welcome):
            raise _not_memoryd()
        if not PROTOCOL_MIN <= frame.protocol <= PROTOCOL_MAX:
            raise errors.ProtocolMismatchError(
                f"{frame.server} uses protocol {frame.protocol}, this client supports "
                f"{PROTOCOL_MIN} to {PROTOCOL_MAX}",
                hint=_UPGRADE,
            )
        self._send_limit_bytes = frame.max_frame_bytes

    def feed(self, data: bytes) -> list[ServerFrame]:
        """Take the next bytes received and return the frames they complete.

        Raises `ProtocolMismatchError` if they are invalid; the connection is then unusable.
        """
        try:
            return [decode_server_frame(body) for body in self._incoming.feed(data)]
        except (FrameError, msgspec.DecodeError) as error:
            raise _not_memoryd() from error

    def request(
        self, call: Call[ResultT], agent: str | None, limit_s: float | None
    ) -> tuple[int, bytes]:
        """Return a new id and the bytes of a request to `agent` with a limit of `limit_s` seconds.

        Raises `TooLargeError` if the arguments exceed one frame, `BadRequestError` if they contain
        invalid Unicode.
        """
        self._last_id += 1
        deadline_ms = None if limit_s is None else max(1, round(limit_s * 1000))
        try:
            frame = Request(self._last_id, call.op, raw(call.body), deadline_ms, agent)
            return self._last_id, pack(frame, limit=self._send_limit_bytes)
        except UnicodeEncodeError:
            raise errors.BadRequestError(
                f"an argument of {call.op} contains invalid Unicode",
                hint="pass names and dates as UTF-8",
            ) from None
        except FrameTooLargeError as error:
            raise errors.TooLargeError(
                f"the {call.op} request has {error.length} bytes, the daemon accepts {error.limit}",
                hint="send less text in one request",
            ) from None


def cancel(request_id: int) -> bytes:
    """Return the bytes that cancel a request."""
    return pack(Cancel(request_id))


def is_farewell(frame: ServerFrame) -> TypeGuard[Error]:
    """Return whether a frame is the error that ends the whole connection."""
    return isinstance(frame, Error) and frame.id is None


def outcome(call: Call[ResultT], frame: Result | Error) -> ResultT:
    """Return the result of `call`.

    Raises the `MemorydError` of an error frame, or `ProtocolMismatchError` if this client can't
    decode the answer.
    """
    if isinstance(frame, Error):
        raise errors.from_frame(frame)
    return _decoded(frame, call.result, f"the answer to {call.op}")


def event(frame: Item) -> Event:
    """Return the event in a frame. Raises `ProtocolMismatchError`."""
    return _decoded(frame, Event, "an event")


def _decoded(frame: Result | Item, form: type[ResultT], what: str) -> ResultT:
    try:
        return decode_body(frame.body, form)
    except msgspec.DecodeError as error:
        raise errors.ProtocolMismatchError(
            f"this client can't read {what}: {error}", hint=_UPGRADE
        ) from error


def check_repeat(call: Call[ResultT], loss: errors.MemorydError, *, was_repeated: bool) -> None:
    """Return if `call`, whose connection ended with `loss`, should be sent again.

    Otherwise raises `loss` if the daemon reported that the call is not done, or a more specific
    `ConnectionLostError`.
    """
    if call.repeatable and not was_repeated:
        return
    if not isinstance(loss, errors.ConnectionLostError):
        raise loss
    if call.repeatable:
        raise errors.ConnectionLostError(
            f"the connection to memoryd was lost twice before {call.op} was answered",
            hint="memoryd may have crashed; see its log",
        ) from loss
    raise errors.ConnectionLostError(
        f"the connection to memoryd was lost before {call.op} was answered; "
        "it may or may not have run",
        hint="check `memctl status` before trying again",
        retryable=False,
    ) from loss


def timed_out(call: Call[ResultT], limit: TimeLimit) -> errors.RequestTimeoutError:
    """Return the error for a call without an answer in time."""
    limit_s = round(limit.limit_s or 0.0, 2)  # rounded: a caller may pass what is left of its own
    return errors.RequestTimeoutError(
        f"no answer to {call.op} within {limit_s:g} s",
        hint="try again with a longer timeout, or check `memctl status`",
    )


def no_greeting(path: str, limit_s: float) -> errors.RequestTimeoutError:
    """Return the error for a daemon that accepts connections but does not greet."""
    return errors.RequestTimeoutError(
        f"memoryd at {path} accepts connections but did not greet within {limit_s:g} s",
        hint="it may be starting or stuck; see its log",
    )


def stopped(call: Call[ResultT]) -> errors.DaemonNotRunningError:
    """Return the error for a call during which the daemon was stopped, and not started again."""
    return errors.DaemonNotRunningError(
        f"memoryd was stopped before {call.op} was answered",
        hint="start it with `memctl start`; it resumes unfinished work",
    )


def lost(detail: object = None) -> errors.ConnectionLostError:
    """Return the error for a connection that ended before the answer."""
    reason = f": {detail}" if detail else ""
    return errors.ConnectionLostError(
        f"the connection to memoryd was lost{reason}", hint="the next call reconnects"
    )


def _not_memoryd() -> errors.ProtocolMismatchError:
    return errors.ProtocolMismatchError(
        "the process at the socket does not use memoryd's protocol",
        hint="check MEMORYD_SOCKET, and that memoryd and memoryd-client have the same version",
    )
