"""What clients may keep of the daemon's memory, all together, and how often the log tells of it."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from memoryd_client.wire.protocol import Error, ErrorCode

MEBIBYTE = 1024 * 1024
MAX_INCOMING_BYTES = 64 * MEBIBYTE
"""Requests that have come in part, or are being worked on."""
MAX_OUTGOING_BYTES = 64 * MEBIBYTE
"""Answers that wait for clients to read them."""
FAIR_BYTES = 256 * 1024
"""So much of a client's requests is taken whatever others do."""


class LimitedConnection(Protocol):
    """One connection, as far as its share of the memory goes."""

    def incoming_bytes(self) -> int:
        """Return how much of its requests is kept."""

    def outgoing_bytes(self) -> int:
        """Return how much it has not read yet."""


class Load:
    """What all clients have in memory. Who has the least of it is never refused."""

    def __init__(self) -> None:
        self.clients: set[LimitedConnection] = set()

    def is_too_much_from(self, client: LimitedConnection) -> bool:
        """Tell whether a client that has sent so much has to wait for others, or for itself."""
        if client.incoming_bytes() <= FAIR_BYTES:
            return False
        return sum(c.incoming_bytes() for c in self.clients) > MAX_INCOMING_BYTES

    def is_too_much_for(self, client: LimitedConnection, more: int) -> bool:
        """Tell whether a client that doesn't read can't have an answer of `more` bytes as well."""
        if not client.outgoing_bytes():
            return False
        return sum(c.outgoing_bytes() for c in self.clients) + more > MAX_OUTGOING_BYTES


def too_much(request_id: int | None = None) -> Error:
    """Return what a client is told that has to wait; without an id, it is hung up on."""
    return Error(
        ErrorCode.BUSY,
        f"requests of {MAX_INCOMING_BYTES // MEBIBYTE} MiB are being worked on",
        request_id,
        hint="send smaller requests, or fewer at a time",
        retryable=True,
    )


class Seldom:
    """A warning that comes back again and again: logged once in a while, with a count."""

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
        self._untold = 0

    def warning(self, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged a moment ago; then count it."""
        now_s = self._clock()
        if now_s < self._next_s:
            self._untold += 1
            return
        more = f" ({self._untold} more since the last time)" if self._untold else ""
        self._log.warning(message + more, *arguments)
        self._untold, self._next_s = 0, now_s + self._every_s
