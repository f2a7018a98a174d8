"""Protocol of a transcript format, and its messages."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

Record = dict[str, Any]
"""Decoded line of a transcript."""


class Sender(Struct, frozen=True):
    """Sender of a user's message, as the agent's metadata name it.

    `ids` are stable: account ids, telephone numbers, and `@` names. `is_owner` is what the agent's
    own record says, None if nothing. `uncertain`: metadata contradict each other or can't be read.
    `has_others`: some of the words may be others', for example in a forwarded message.
    """

    name: str = ""
    channel: str = ""
    ids: frozenset[str] = frozenset()
    in_group: bool = False
    is_owner: bool | None = None
    uncertain: bool = False
    has_others: bool = False


DIRECT, GROUP, CHANNEL = "direct", "group", "channel"
"""Kinds of chats."""


def chat_type_of(*found: str) -> str:
    """Return the kind of a chat by several signs; one that was ever direct is private."""
    known = [kind for kind in found if kind in (DIRECT, GROUP, CHANNEL)]
    return DIRECT if DIRECT in known else known[0] if known else ""


class Part(Struct, frozen=True):
    """A part of a message: the sender's own words, or marked content from `outside`.

    `speaker` and `channel` are those that the head of outside content names.
    """

    text: str
    outside: bool = False
    speaker: str = ""
    channel: str = ""


class Message(Struct, frozen=True):
    """Message without envelopes and the agent's markup, not redacted yet.

    `at` is Unix time in seconds, None if unknown. `text` is the whole message in its lines; `parts`
    has its words one speaker at a time, and is empty if they are `text`.
    """

    role: Literal["user", "assistant"]
    text: str
    at: float | None = None
    sender: Sender = Sender()
    parts: tuple[Part, ...] = ()

    @property
    def chat_type(self) -> str:
        """Return the kind of chat that the sender's metadata tell, "" for none."""
        return GROUP if self.sender.in_group else DIRECT if self.sender.ids else ""


class Title(NamedTuple):
    """Title of a conversation; the latest of the highest `rank` counts.

    `leaf` is the last record of the conversation that it is of, "" for that of the transcript.
    """

    text: str
    rank: int
    leaf: str = ""


BY_A_PROGRAM, BY_A_PERSON = 1, 3
"""Ranks of titles by their author."""


def title_of(text: object, rank: int, leaf: object = "") -> Title | None:
    """Return a title, None for anything but a text with words."""
    if not isinstance(text, str) or not text.strip():
        return None
    return Title(text, rank, leaf if isinstance(leaf, str) else "")


def record_id(record: Record) -> str:
    """Return the id of a record that copies of it share, "" if it has none."""
    id_ = record.get("uuid")
    return id_ if isinstance(id_, str) else ""


class TranscriptFormat(Protocol):
    """Transcript format of an agent, one record a line. Stateless: any line may come first."""

    name: str

    def fits(self, head: Sequence[Record]) -> bool:
        """Return whether a file that begins with these records (up to 50) has this format."""

    def session(self, head: Sequence[Record]) -> str:
        """Return the session id, "" if the head has none."""

    def message(self, record: Record) -> Message | None:
        """Return the message of a record, None if it has none. Never raises."""

    def title(self, record: Record) -> Title | None:
        """Return the title of a conversation that a record gives, None if none. Never raises."""


class LeftOutError(OSError):
    """Readable transcript that is left out; the message has the reason."""
