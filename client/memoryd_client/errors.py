"""Errors of the client library, all derived from `MemorydError`."""

from memoryd_client.wire.protocol import Error, ErrorCode


class MemorydError(Exception):
    """Base of all errors of this library.

    `code` is a short stable string, an `ErrorCode` if the daemon sent it; `message` is the problem,
    `hint` the next step (or ""), `retryable` whether the same call may succeed later.
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
    """No process listens at the socket, or it can't be reached."""

    code = "not_running"
    retryable = True


class ConnectionLostError(MemorydError):
    """The connection ended before the answer; the request may or may not have run."""

    code = "connection_lost"
    retryable = True


class ProtocolMismatchError(MemorydError):
    """Client and daemon share no protocol version, or the peer is not memoryd."""

    code = ErrorCode.UNSUPPORTED_PROTOCOL.value


class RequestTimeoutError(MemorydError):
    """No answer came in time; the client asked the daemon to cancel the request."""

    code = "timeout"
    retryable = True


class RequestError(MemorydError):
    """The daemon answered with an error. `retry_after_ms`, if set, is its advice for a retry."""

    code = ErrorCode.INTERNAL.value
    retry_after_ms: int | None = None


class BadRequestError(RequestError):
    """The daemon rejects the request; the message names the field."""

    code = ErrorCode.BAD_REQUEST.value


class UnknownOpError(RequestError):
    """The daemon's version does not support this operation."""

    code = ErrorCode.UNKNOWN_OP.value


class TooLargeError(RequestError):
    """The request, or its answer, exceeds one frame."""

    code = ErrorCode.FRAME_TOO_LARGE.value


class NotFoundError(RequestError):
    """No memory file has that path."""

    code = ErrorCode.NOT_FOUND.value


class UnknownAgentError(RequestError):
    """The daemon serves no agent with this id, or none for the client's folder."""

    code = ErrorCode.UNKNOWN_AGENT.value


class DeniedError(RequestError):
    """Access is denied: to the daemon for this user, or to this path for every user."""

    code = ErrorCode.DENIED.value


class BusyError(RequestError):
    """The daemon is overloaded; try again."""

    code = ErrorCode.BUSY.value
    retryable = True


class UnavailableError(RequestError):
    """A part that the request needs is unavailable; the message names it."""

    code = ErrorCode.UNAVAILABLE.value
    retryable = True


class CancelledRequestError(RequestError):
    """The request was cancelled."""

    code = ErrorCode.CANCELLED.value


class DeadlineError(RequestError, RequestTimeoutError):
    """The daemon ended the request at its deadline."""

    code = ErrorCode.DEADLINE.value


class ShuttingDownError(RequestError):
    """The daemon is stopping."""

    code = ErrorCode.SHUTTING_DOWN.value
    retryable = True


_CLASS_OF_CODE = {cls.code: cls for cls in RequestError.__subclasses__()}


def from_frame(frame: Error) -> MemorydError:
    """Return the exception for an `Error` frame; `RequestError` for an unknown code."""
    if frame.code == ErrorCode.UNSUPPORTED_PROTOCOL:
        return ProtocolMismatchError(frame.message, hint=frame.hint)
    error = _CLASS_OF_CODE.get(frame.code, RequestError)(
        frame.message, code=frame.code, hint=frame.hint, retryable=frame.retryable
    )
    error.retry_after_ms = frame.retry_after_ms
    return error
