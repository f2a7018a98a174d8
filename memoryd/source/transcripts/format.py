"""Protocol of a transcript format, and its messages."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

Record = dict[str, Any]
"""Decoded line of a transcript."""


class Message(Struct, frozen=True):
    """Message without envelopes and the agent's markup, not redacted yet.

    `at` is Unix time in seconds, None if unknown.
    """

    role: Literal["user", "assistant"]
    text: str
    at: float | None = None


class TranscriptFormat(Protocol):
    """Transcript format of an agent, one record a line. Stateless: any line may come first."""

    name: str

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether a file that begins with these records (up to 50) has this format."""

    def session(self, head: Sequence[Record]) -> str:
        """Return the session id, "" if the head has none."""

    def message(self, record: Record) -> Message | None:
        """Return the message of a record, None if it has none. Never raises."""


class LeftOutError(OSError):
    """Readable transcript that is left out; the message has the reason."""
