"""Whether a provider's batch API is used: it is turned off where it keeps failing. Shared."""

import logging

log = logging.getLogger(__name__)

LIMIT = 2


class BatchMode:
    """Counts failures in a row; at `LIMIT` it is off, until `reset`."""

    def __init__(self) -> None:
        self.failures = 0
        self.off_reason: str | None = None
        self.last_error: str | None = None

    def worked(self) -> None:
        """Note that a job has brought vectors."""
        self.failures = 0

    def failed(self, reason: str, *, count: int = 1) -> None:
        """Note that a job has failed; its texts are embedded otherwise."""
        self.last_error = reason
        self.failures += count
        if self.failures >= LIMIT:
            self.turn_off(reason)

    def turn_off(self, reason: str) -> None:
        """Use it no more."""
        self.last_error = reason
        if self.off_reason is None:
            self.off_reason = f"{reason} `memctl probe` turns it on again when it works."
            log.warning("the batch API is not used any more: %s", reason)

    def reset(self) -> None:
        """Use it again: it answers."""
        self.failures, self.off_reason, self.last_error = 0, None, None
