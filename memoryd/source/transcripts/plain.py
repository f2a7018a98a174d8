"""Plain transcript format for custom agents."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import BY_A_PERSON, Message, Record, Title, title_of
from memoryd.source.transcripts.openclaw import is_from_a_session
from memoryd.source.transcripts.strip import said


class Plain:
    """`{"role", "content", "timestamp"?}`, or `{"type": "message", "message": {…}}` around it.

    `content` is a text or blocks of type `text`; `session_id` or `sessionId` names the session,
    `title` in a record without a message the conversation.
    """

    name = "plain"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether a record has a role and content."""
        return any(
            isinstance(inner.get("role"), str) and "content" in inner for inner in map(_inner, head)
        )

    def session(self, head: Sequence[Record]) -> str:
        """Return the first session id."""
        ids = (record.get(name) for record in head for name in ("session_id", "sessionId"))
        return next((found for found in ids if isinstance(found, str)), "")

    def message(self, record: Record) -> Message | None:
        """Return a message of the user or the assistant."""
        inner = _inner(record)
        if inner.get("role") == "user" and is_from_a_session(record, inner):
            return None
        return said(
            inner.get("role"), inner.get("content"), inner.get("timestamp"), record.get("timestamp")
        )

    def title(self, record: Record) -> Title | None:
        """Return the title in a record that is no message."""
        is_message = isinstance(_inner(record).get("role"), str)
        return None if is_message else title_of(record.get("title"), BY_A_PERSON)


def _inner(record: Record) -> Record:
    message = record.get("message")
    return message if record.get("type") == "message" and isinstance(message, dict) else record
