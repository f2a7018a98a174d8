"""OpenClaw: a header of type `session`, then a tree of typed records, messages among them."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.strip import said

_FROM_PEOPLE = "external_user"


class OpenClaw:
    """`{"type": "message", "id", "parentId", "timestamp", "message": {"role", "content"}}`."""

    name = "openclaw"

    def fits(self, head: Sequence[Record]) -> bool:
        """Look for the header, or for a message of the tree where the header can't be read."""
        return any(_is_header(record) or _is_of_tree(record) for record in head)

    def session(self, head: Sequence[Record]) -> str:
        """Return the id of the header."""
        return next((record["id"] for record in head if _is_header(record)), "")

    def message(self, record: Record) -> Message | None:
        """Return what a user or the assistant said, not what another session sent as a user."""
        message = record.get("message")
        if record.get("type") != "message" or not isinstance(message, dict):
            return None
        role = message.get("role")
        if role == "user" and _is_from_a_session(message.get("provenance")):
            return None
        return said(role, message.get("content"), message.get("timestamp"), record.get("timestamp"))


def _is_header(record: Record) -> bool:
    return record.get("type") == "session" and isinstance(record.get("id"), str)


def _is_of_tree(record: Record) -> bool:
    return (
        record.get("type") == "message"
        and "parentId" in record
        and isinstance(record.get("message"), dict)
    )


def _is_from_a_session(provenance: object) -> bool:
    kind = provenance.get("kind") if isinstance(provenance, dict) else None
    return isinstance(kind, str) and kind != _FROM_PEOPLE
