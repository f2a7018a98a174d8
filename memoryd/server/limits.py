"""Memory limits for all clients together, and rate-limited log warnings."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from memoryd_client.wire.protocol import Error, ErrorCode

MEBIBYTE = 1024 * 1024
MAX_INCOMING_BYTES = 64 * MEBIBYTE
"""Maximum bytes of incomplete and running requests."""
MAX_OUTGOING_BYTES = 64 * MEBIBYTE
"""Maximum bytes of answers that clients have not read yet."""
FAIR_BYTES = 256 * 1024
"""Bytes of requests that every client may send regardless of the others."""


class LimitedConnection(Protocol):
    """The memory use of one connection."""

    def incoming_bytes(self) -> int:
        """Return the bytes of requests in memory."""

    def outgoing_bytes(self) -> int:
        """Return the bytes of answers that the client has not read yet."""


class Load:
    """Memory use of all clients. Clients below `FAIR_BYTES` are never refused."""

    def __init__(self) -> None:
        self.clients: set[LimitedConnection] = set()

    def is_too_much_from(self, client: LimitedConnection) -> bool:
        """Return whether a client's requests exceed the common limit."""
        if client.incoming_bytes() <= FAIR_BYTES:
            return False
        return sum(c.incoming_bytes() for c in self.clients) > MAX_INCOMING_BYTES

    def is_too_much_for(self, client: LimitedConnection, more: int) -> bool:
        """Return whether `more` bytes for a client that does not read exceed the limit."""
        if not client.outgoing_bytes():
            return False
        return sum(c.outgoing_bytes() for c in self.clients) + more > MAX_OUTGOING_BYTES


def too_much(request_id: int | None = None) -> Error:
    """Return the error for a refused request; without an id, the connection is closed."""
    return Error(
        ErrorCode.BUSY,
        f"requests of {MAX_INCOMING_BYTES // MEBIBYTE} MiB are in progress already",
        request_id,
        hint="send smaller requests, or fewer at a time",
        retryable=True,
    )


@dataclass(eq=False)
class Seldom:
    """Rate limit for a repeated warning, with a count of the skipped ones."""

    log: logging.Logger
    every_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _next_s: float = field(default=0.0, init=False)
    _skipped: int = field(default=0, init=False)

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, or count it if one was logged less than `every_s` ago."""
        now_s = self.clock()
        if now_s < self._next_s:
            self._skipped += 1
            return
        more = f" ({self._skipped} more since the last time)" if self._skipped else ""
        self.log.warning(message + more, *arguments)
        self._skipped, self._next_s = 0, now_s + self.every_s
