"""What a transcript format is: which records it has, and what people and the assistant said."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

Record = dict[str, Any]
"""One line of a transcript, decoded."""


class Message(Struct, frozen=True):
    """What somebody said, cleaned: no envelopes, no markup of the agent, not redacted yet.

    `at` is seconds of Unix time, None where the record does not say.
    """

    role: Literal["user", "assistant"]
    text: str
    at: float | None = None


class TranscriptFormat(Protocol):
    """One agent's way to write transcripts, a record a line. Stateless: any line may come first."""

    name: str

    def fits(self, head: Sequence[Record]) -> bool:
        """Say whether a file that begins with these records (up to 50) is of this format."""

    def session(self, head: Sequence[Record]) -> str:
        """Return the id of the session, "" where the head does not say."""

    def message(self, record: Record) -> Message | None:
        """Return what a record says, None for all that is no conversation. Never raises."""


class LeftOutError(OSError):
    """A file is read, and is no conversation of people, or none that is wanted; it says why."""
