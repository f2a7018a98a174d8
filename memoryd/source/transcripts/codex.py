"""Codex CLI format: lines of `{timestamp, type, payload}` in two lanes, items and events.

Both lanes contain every turn. Most user items were not typed by a person, so users are read from
events, and the assistant from items. Rollouts of early versions have no messages among their items,
so everything is read from events; rollouts of some clients have no events of the user, so
everything is read from items. Typed text is an event `user_message`; since version 0.148 it is an
`item_completed` with a `UserMessage`.
"""

import re
from collections.abc import Sequence
from typing import Any

from memoryd.source.transcripts.format import BY_A_PERSON, Message, Record, Title, title_of
from memoryd.source.transcripts.strip import own_words, said

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_INJECTED = re.compile(
    r"\s*(?:</?(?:user_shell_command|user_action|skill|image|goal_context)\b"
    r"|Another language model started to solve this problem and produced a summary\b"
    r"|Warning: The maximum number of unified exec processes\b)"
)
"""Items of the user's role that no person typed, beside the wrappers of all agents."""


class Codex:
    """Rollout with both lanes."""

    name = "codex"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether a line has a known payload."""
        return any(_payload(record, *_TYPES) for record in head)

    def session(self, head: Sequence[Record]) -> str:
        """Return the first thread id, because later ones are the parents'."""
        ids = (_payload(record, "session_meta").get("id") for record in head)
        return next((found for found in ids if isinstance(found, str)), "")

    def message(self, record: Record) -> Message | None:
        """Return a user's message from an event, the assistant's from an item."""
        return _answered(record) or _typed(record)

    def title(self, record: Record) -> Title | None:
        """Return the name of the thread."""
        payload = _payload(record, "event_msg")
        named = payload.get("type") == "thread_name_updated"
        return title_of(payload.get("thread_name"), BY_A_PERSON) if named else None


class CodexEvents(Codex):
    """Rollout of an early version, with all messages in events."""

    name = "codex-events"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether the events have an answer and the items have no message."""
        items = (_payload(record, "response_item").get("type") for record in head)
        events = (_payload(record, "event_msg").get("type") for record in head)
        return "message" not in items and "agent_message" in events

    def message(self, record: Record) -> Message | None:
        """Return a message of the user or the assistant from an event."""
        payload = _payload(record, "event_msg")
        if payload.get("type") == "agent_message":
            return said("assistant", payload.get("message"), record.get("timestamp"))
        return _typed(record)


class CodexItems(Codex):
    """Rollout with all messages in items."""

    name = "codex-items"

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether the items have a person's message and the events have none."""
        return any(map(_typed_item, head)) and not any(map(_typed, head))

    def message(self, record: Record) -> Message | None:
        """Return a message of the user or the assistant from an item."""
        return _answered(record) or _typed_item(record)


def _answered(record: Record) -> Message | None:
    content = _item_content(record, "assistant")
    return said("assistant", content, record.get("timestamp"))


def _typed_item(record: Record) -> Message | None:
    content = _item_content(record, "user")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    typed = [
        block
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict)
        and isinstance(text := block.get("text"), str)
        and own_words(text)
        and not _INJECTED.match(text)
    ]
    return said("user", typed, record.get("timestamp"))


def _item_content(record: Record, role: str) -> object:
    payload = _payload(record, "response_item")
    is_message = payload.get("type") == "message" and payload.get("role") == role
    return payload.get("content") if is_message else None


def _typed(record: Record) -> Message | None:
    payload = _payload(record, "event_msg")
    item = payload.get("item")
    content: object = None
    if payload.get("type") == "user_message" and payload.get("kind", "plain") == "plain":
        content = payload.get("message")
    elif payload.get("type") == "item_completed" and isinstance(item, dict):
        content = item.get("content") if item.get("type") == "UserMessage" else None
    return said("user", content, record.get("timestamp"))


def _payload(record: Record, *types: str) -> dict[str, Any]:
    """Return the payload of a record of one of these types, else an empty one."""
    payload = record.get("payload")
    return payload if record.get("type") in types and isinstance(payload, dict) else {}
