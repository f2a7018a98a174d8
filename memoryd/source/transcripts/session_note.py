"""Text of a session note: the last messages of a conversation as list items. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from memoryd.chunk.provenance import provenance
from memoryd.source.notes.entry import entry_lines, with_comment
from memoryd.source.transcripts.kept import KeptMessage
from memoryd.text.voice import Voice
from memoryd_client.schema.search import Origin, Role
from memoryd_client.shared.citation import cite

MESSAGES = 15
MAX_MESSAGE_CHARS = 2_000
_COMMAND = re.compile(r"/[a-zA-Z][\w:.-]*(?:[ \t].*)?")
"""A command to the agent. A path has a further slash."""


def session_note(
    messages: Sequence[KeptMessage], *, path: str, note_id: str, observed: str
) -> list[str]:
    """Return the lines of a note about the last messages of the transcript with a name.

    Commands and repeated messages are left out. None if the owner says nothing in them.
    """
    said = list(_said(messages))[-MESSAGES:]
    if not any(
        voice.role is Role.USER and voice.origin is Origin.OWNER
        for message in said
        for _, voice in message.parts
    ):
        return []
    lines: list[str] = []
    for message in said:
        for text, voice in message.parts:
            if entry := entry_lines(_shortened(text)):
                fields = {
                    "id": note_id,
                    "origin": str(voice.origin),
                    "conversation": cite(path, message.line, message.line),
                    "observed": observed,
                }
                lines += with_comment(entry, provenance(fields))
    return lines


def _said(messages: Iterable[KeptMessage]) -> Iterator[KeptMessage]:
    """Yield the messages without commands and without those that repeat the one before."""
    before: list[tuple[str, Voice]] = []
    for message in messages:
        parts = [(text, voice._replace(day="")) for text, voice in message.parts]
        if parts != before and not all(_is_command(*part) for part in parts):
            yield message
        before = parts


def _is_command(text: str, voice: Voice) -> bool:
    words = text.removeprefix(f"{voice.label}: ")
    return voice.role is Role.USER and _COMMAND.fullmatch(words) is not None


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    return text[: MAX_MESSAGE_CHARS - 1].rstrip() + "…"
