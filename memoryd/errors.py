"""Errors for people and clients, each with the next step as its hint."""

from dataclasses import dataclass

from memoryd_client.wire.protocol import ErrorCode

ECHO_CHARS = 100
"""Maximum characters of a client's input that an error repeats."""


@dataclass
class RequestFailedError(Exception):
    """A handler's answer with an `Error` frame."""

    code: ErrorCode
    message: str
    hint: str = ""
    retryable: bool = False
