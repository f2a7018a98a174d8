"""Gemini CLI format: a header, messages, and changes of the header and of earlier messages."""

from collections.abc import Sequence

from memoryd.source.transcripts.format import BY_A_PROGRAM, Message, Record, Title, title_of
from memoryd.source.transcripts.strip import said

_ROLES = {"user": "user", "gemini": "assistant"}


class Gemini:
    """`{"id", "timestamp", "type": "user" | "gemini", "content"}` after `{"sessionId", "kind"}`.

    `content` is a text or a list of parts, of which texts count. A message with tool calls repeats
    the one before it. Changes (`$set`) and rewinds are not followed.
    """

    name = "gemini"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether a record is the header or a message."""
        return any(_is_header(record) or _is_message(record) for record in head)

    def session(self, head: Sequence[Record]) -> str:
        """Return the session id of the header."""
        return next((record["sessionId"] for record in head if _is_header(record)), "")

    def message(self, record: Record) -> Message | None:
        """Return a message of the user or the model that has no tool calls yet."""
        if not _is_message(record) or "toolCalls" in record:
            return None
        content = record["content"]
        if isinstance(content, list):
            # The text of a thought is marked by `thought`.
            parts = [p for p in content if isinstance(p, dict) and not p.get("thought")]
            content = [{"type": "text", "text": part.get("text")} for part in parts]
        return said(_ROLES[record["type"]], content, record.get("timestamp"))

    def title(self, record: Record) -> Title | None:
        """Return the summary in the header, or in a change of it."""
        change = record.get("$set")
        part = change if isinstance(change, dict) else record if _is_header(record) else {}
        return title_of(part.get("summary"), BY_A_PROGRAM)


def _is_header(record: Record) -> bool:
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


def _is_message(record: Record) -> bool:
    return (
        record.get("type") in ("user", "gemini")
        and isinstance(record.get("id"), str)
        and "content" in record
    )
