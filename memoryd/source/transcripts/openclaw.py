"""OpenClaw format: a `session` header, then a tree of typed records including messages."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import BY_A_PROGRAM, Message, Record, Title, title_of
from memoryd.source.transcripts.strip import said


class OpenClaw:
    """`{"type": "message", "id", "parentId", "timestamp", "message": {"role", "content"}}`."""

    name = "openclaw"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether there is a header, or a message of the tree."""
        return any(_is_header(record) or _is_of_tree(record) for record in head)

    def session(self, head: Sequence[Record]) -> str:
        """Return the id in the header."""
        return next((record["id"] for record in head if _is_header(record)), "")

    def message(self, record: Record) -> Message | None:
        """Return a message of the user or the assistant, not one sent by another session."""
        message = record.get("message")
        if record.get("type") != "message" or not isinstance(message, dict):
            return None
        role = message.get("role")
        if role == "user" and is_from_a_session(record, message):
            return None
        return said(
            role,
            message.get("content"),
            message.get("timestamp"),
            record.get("timestamp"),
            record=message.get("__openclaw"),
        )

    def title(self, record: Record) -> Title | None:
        """Return the name of the session."""
        named = record.get("type") == "session_info"
        return title_of(record.get("name"), BY_A_PROGRAM) if named else None


def _is_header(record: Record) -> bool:
    return record.get("type") == "session" and isinstance(record.get("id"), str)


def _is_of_tree(record: Record) -> bool:
    return (
        record.get("type") == "message"
        and "parentId" in record
        and isinstance(record.get("message"), dict)
    )


def is_from_a_session(*records: Record) -> bool:
    """Return whether another session or the program itself sent a user's message."""
    origins = (record.get("provenance") for record in records)
    kinds = (origin.get("kind") for origin in origins if isinstance(origin, dict))
    return any(isinstance(kind, str) and kind != "external_user" for kind in kinds)
