"""Errors that a person or a client is shown, each with the next step as its hint."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `fs` is used without msgspec too
    from memoryd_client.wire.protocol import ErrorCode

ECHO_CHARS = 100
"""Maximum characters of a client's input that an error repeats."""


@dataclass
class RequestFailedError(Exception):
    """A request can't be answered; the connection sends it as an `Error` frame."""

    code: "ErrorCode"
    message: str
    hint: str = ""
    retryable: bool = False


def bad_request(message: str, hint: str = "") -> RequestFailedError:
    """Return the error for a request that can't succeed as it is."""
    from memoryd_client.wire.protocol import ErrorCode

    return RequestFailedError(ErrorCode.BAD_REQUEST, message, hint)


def unavailable(message: str, hint: str = "") -> RequestFailedError:
    """Return the error for a request that may succeed later."""
    from memoryd_client.wire.protocol import ErrorCode

    return RequestFailedError(ErrorCode.UNAVAILABLE, message, hint, retryable=True)


class HintedError(Exception):
    """An error with the next step as its `hint`; as text "message; hint"."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


class SocketError(HintedError):
    """The socket, a lock or the index can't be placed at its path."""


class AlreadyRunningError(HintedError):
    """Another process holds the lock; the message names it."""


class IndexRefusedError(HintedError):
    """The file can't be used as the index and was not changed."""
