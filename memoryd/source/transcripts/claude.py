"""Claude Code: records of type `user` and `assistant` among others, with the API's messages."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.strip import said

_SPOKEN = ("user", "assistant")
_NOT_SPOKEN = ("isMeta", "isCompactSummary", "isSidechain", "isApiErrorMessage")


class Claude:
    """`{"type": "user", "uuid", "sessionId", "timestamp", "message": {"role", "content"}}`."""

    name = "claude"

    def fits(self, head: Sequence[Record]) -> bool:
        """Look for a record of a conversation, or for the ids that others have too."""
        return any(_is_spoken(record) or _has_ids(record) for record in head)

    def session(self, head: Sequence[Record]) -> str:
        """Return the first session id."""
        ids = (record.get("sessionId") for record in head)
        return next((found for found in ids if isinstance(found, str)), "")

    def message(self, record: Record) -> Message | None:
        """Return what a person or the assistant said, not what the program says in their names."""
        if not _is_spoken(record) or any(record.get(mark) for mark in _NOT_SPOKEN):
            return None
        message = record["message"]
        role = message.get("role", record["type"])
        origin = record.get("origin")
        if role == "user" and isinstance(origin, dict) and origin.get("kind") != "human":
            return None
        return said(role, message.get("content"), record.get("timestamp"))


def _is_spoken(record: Record) -> bool:
    return record.get("type") in _SPOKEN and isinstance(record.get("message"), dict)


def _has_ids(record: Record) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("uuid"), str)
