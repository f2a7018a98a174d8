"""Counts failed batch jobs, and turns batch jobs off after repeated failures."""

import logging

log = logging.getLogger(__name__)

LIMIT = 2
"""Consecutive failures that turn batch jobs off."""


class BatchMode:
    """Counts consecutive failures; at `LIMIT` it turns batch jobs off, until `reset`."""

    def __init__(self) -> None:
        self.failures = 0
        self.off_reason: str | None = None
        self.last_error: str | None = None

    def failed(self, reason: str, *, count: int = 1) -> None:
        """Note a failed job; its texts are embedded without a job."""
        self.last_error = reason
        self.failures += count
        if self.failures >= LIMIT:
            self.turn_off(reason)

    def turn_off(self, reason: str) -> None:
        """Stop creating jobs."""
        self.last_error = reason
        if self.off_reason is None:
            self.off_reason = f"{reason.rstrip('.')}; `memctl probe` turns it on again if it works"
            log.warning("the batch API is turned off: %s", reason)

    def reset(self) -> None:
        """Create jobs again: the API answers."""
        self.failures, self.off_reason, self.last_error = 0, None, None
