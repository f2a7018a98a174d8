"""What can go wrong when talking to memoryd: one small tree under `MemorydError`."""

from memoryd_client.wire.protocol import Error, ErrorCode


class MemorydError(Exception):
    """Base of all errors of this library.

    `code` is a short stable string, one of `ErrorCode` when the daemon sent it; `message` says
    what went wrong, `hint` what to do about it (or ""), `retryable` whether the same call may
    succeed later.
    """

    code: str = "error"
    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str = "",
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class DaemonNotRunningError(MemorydError):
    """Nobody listens at the socket, or it can't be reached."""

    code = "not_running"
    retryable = True


class ConnectionLostError(MemorydError):
    """The connection ended before the answer came; whether the request was done is unknown."""

    code = "connection_lost"
    retryable = True


class ProtocolMismatchError(MemorydError):
    """Client and daemon have no protocol version in common, or the peer is no memoryd at all."""

    code = ErrorCode.UNSUPPORTED_PROTOCOL.value


class RequestTimeoutError(MemorydError):
    """The answer did not come in time; the daemon was asked to stop working on it."""

    code = "timeout"
    retryable = True


class RequestError(MemorydError):
    """The daemon answered with an error. `retry_after_ms`, if set, is its advice when to retry."""

    code = ErrorCode.INTERNAL.value
    retry_after_ms: int | None = None


class BadRequestError(RequestError):
    """The request makes no sense to the daemon; the message names the field."""

    code = ErrorCode.BAD_REQUEST.value


class UnknownOpError(RequestError):
    """The daemon is too old or too new for this operation."""

    code = ErrorCode.UNKNOWN_OP.value


class TooLargeError(RequestError):
    """The request, or its answer, doesn't fit into one frame."""

    code = ErrorCode.FRAME_TOO_LARGE.value


class NotFoundError(RequestError):
    """No memory file has that path."""

    code = ErrorCode.NOT_FOUND.value


class UnknownAgentError(RequestError):
    """The daemon serves no agent of this id, or none that a client in this folder would mean."""

    code = ErrorCode.UNKNOWN_AGENT.value


class DeniedError(RequestError):
    """Access is not allowed: to the daemon for this user, or to this path for anybody."""

    code = ErrorCode.DENIED.value


class BusyError(RequestError):
    """The daemon has too much in hand; try again."""

    code = ErrorCode.BUSY.value
    retryable = True


class UnavailableError(RequestError):
    """Something the request needs is out of order; the message says what."""

    code = ErrorCode.UNAVAILABLE.value
    retryable = True


class CancelledRequestError(RequestError):
    """The request was cancelled."""

    code = ErrorCode.CANCELLED.value


class DeadlineError(RequestError, RequestTimeoutError):
    """The daemon itself noticed that the time was up."""

    code = ErrorCode.DEADLINE.value


class ShuttingDownError(RequestError):
    """The daemon is on its way down."""

    code = ErrorCode.SHUTTING_DOWN.value
    retryable = True


_CLASSES: tuple[type[RequestError], ...] = (
    BadRequestError,
    UnknownOpError,
    TooLargeError,
    NotFoundError,
    UnknownAgentError,
    DeniedError,
    BusyError,
    UnavailableError,
    CancelledRequestError,
    DeadlineError,
    ShuttingDownError,
)
_CLASS_OF_CODE = {cls.code: cls for cls in _CLASSES}


def from_frame(frame: Error) -> MemorydError:
    """Return the exception an `Error` frame stands for; a code not known here: `RequestError`."""
    if frame.code == ErrorCode.UNSUPPORTED_PROTOCOL:
        return ProtocolMismatchError(frame.message, hint=frame.hint)
    error = _CLASS_OF_CODE.get(frame.code, RequestError)(
        frame.message, code=frame.code, hint=frame.hint, retryable=frame.retryable
    )
    error.retry_after_ms = frame.retry_after_ms
    return error
