"""Errors that a person or a client is shown, each with the next step as its hint."""

from dataclasses import dataclass

from memoryd_client.wire.protocol import ErrorCode

ECHO_CHARS = 100
"""So much of what a client sent is repeated in an error."""


@dataclass
class RequestFailedError(Exception):
    """What a handler raises to answer with an `Error` frame."""

    code: ErrorCode
    message: str
    hint: str = ""
    retryable: bool = False
