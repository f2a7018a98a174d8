"""Dates of a transcript, from the times of its messages. Pure."""

from datetime import datetime
from typing import NamedTuple

from memoryd.messages import NO_FACTS, FileFacts, TranscriptState
from memoryd.source.transcripts.format import Message
from memoryd.text.periods import Period

LATEST_S = 7_258_118_400
"""The year 2200; a later time is an error, or not in seconds."""


class Times(NamedTuple):
    """Unix times of the earliest and the latest message of a transcript; None: none is known."""

    first: float | None = None
    last: float | None = None

    @classmethod
    def of(cls, state: TranscriptState | None) -> "Times":
        """Return the times of the messages read so far."""
        return cls() if state is None else cls(state.first_at, state.last_at)

    def with_message(self, message: Message) -> "Times":
        """Return the times with those of another message."""
        if (at := _known(message)) is None:
            return self
        first, last = self.first or at, self.last or at
        return Times(min(first, at), max(last, at))

    def facts(self) -> FileFacts:
        """Return the facts of the transcript: its local days."""
        if self.first is None or self.last is None:
            return NO_FACTS
        days = (datetime.fromtimestamp(at).date() for at in (self.first, self.last))
        return FileFacts(date=str(Period(*days)))


def day_of(message: Message) -> str:
    """Return the local day of a message, "" if its time is unknown."""
    at = _known(message)
    return "" if at is None else datetime.fromtimestamp(at).date().isoformat()


def _known(message: Message) -> float | None:
    return message.at if message.at is not None and 0 < message.at < LATEST_S else None
