"""Limits on the memory that all clients use together, and a rate limit for log warnings."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from memoryd_client.wire.protocol import Error, ErrorCode

MEBIBYTE = 1024 * 1024
MAX_INCOMING_BYTES = 64 * MEBIBYTE
"""Requests received in part or in progress."""
MAX_OUTGOING_BYTES = 64 * MEBIBYTE
"""Answers that clients have not read yet."""
FAIR_BYTES = 256 * 1024
"""Request bytes that each client may always use, whatever the others use."""


class LimitedConnection(Protocol):
    """A connection whose memory counts against the limits."""

    def incoming_bytes(self) -> int:
        """Return the bytes of its requests in memory."""

    def outgoing_bytes(self) -> int:
        """Return the bytes that the client has not read yet."""


class Load:
    """Memory in use by all clients. A client with the smallest share is never refused."""

    def __init__(self) -> None:
        self.clients: set[LimitedConnection] = set()

    def is_too_much_from(self, client: LimitedConnection) -> bool:
        """Return whether the client's next request must wait for memory."""
        if client.incoming_bytes() <= FAIR_BYTES:
            return False
        return sum(c.incoming_bytes() for c in self.clients) > MAX_INCOMING_BYTES

    def is_too_much_for(self, client: LimitedConnection, more: int) -> bool:
        """Return whether `more` bytes are too many for a client with unread answers."""
        if not client.outgoing_bytes():
            return False
        return sum(c.outgoing_bytes() for c in self.clients) + more > MAX_OUTGOING_BYTES


def too_much(request_id: int | None = None) -> Error:
    """Return the error for a client that must wait; without an id, it ends the connection."""
    return Error(
        ErrorCode.BUSY,
        f"requests of {MAX_INCOMING_BYTES // MEBIBYTE} MiB are in progress",
        request_id,
        hint="send smaller requests, or fewer at a time",
        retryable=True,
    )


class Seldom:
    """Logs a recurring warning once per interval, with a count."""

    def __init__(
        self,
        log: logging.Logger,
        *,
        every_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._every_s = every_s
        self._clock = clock
        self._next_s = 0.0
        self._suppressed = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, or only count it within the interval after the last one."""
        now_s = self._clock()
        if now_s < self._next_s:
            self._suppressed += 1
            return
        more = f" ({self._suppressed} more since the last warning)" if self._suppressed else ""
        self._log.warning(message + more, *arguments)
        self._suppressed, self._next_s = 0, now_s + self._every_s
