"""Voices, which say whose words each line of a chunk is, and of which day. Pure."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Annotated, NamedTuple

import msgspec

from memoryd_client.schema.search import Origin, Role

MAX_NAME_CHARS = 80
"""Maximum length of a speaker or a channel, because strangers choose them."""
_TRUST = {origin: rank for rank, origin in enumerate(Origin)}
_MAX_LINES = 1_000_000
"""Maximum number of lines of a chunk, far more than any has, because the index may be corrupt."""
_UNSEEN = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff]+"
)
_LIKE_A_LABEL = re.compile(r":(?= |$)")


class EntrySource(NamedTuple):
    """Source of a written entry as its comment states it; all are "" if unknown.

    `conversation` and `supersedes` are citations, `observed` is a time in RFC 3339.
    """

    conversation: str = ""
    observed: str = ""
    supersedes: str = ""


NOT_STATED = EntrySource()


class Voice(NamedTuple):
    """Role, origin, speaker, channel and day of a line; the last three are "" if unknown.

    `day`, `YYYY-MM-DD`, is the local day of a message. `source` is that of a written entry, None
    for any other line.
    """

    role: Role
    origin: Origin
    speaker: str = ""
    channel: str = ""
    day: str = ""
    source: EntrySource | None = None

    @property
    def trusted(self) -> bool:
        """Return whether the words are not a stranger's."""
        return self.origin is not Origin.UNTRUSTED

    @property
    def label(self) -> str:
        """The name that precedes a message: `User`, `Assistant`, or a stranger's."""
        if self.role is Role.ASSISTANT:
            return "Assistant"
        if self.trusted:
            return "User"
        speaker, channel = (_LIKE_A_LABEL.sub("", name) for name in self[2:4])
        if speaker and channel:
            return f"{speaker} ({channel})"
        name = speaker or channel or "Unknown"
        return f'"{name}"' if name.casefold() in ("user", "assistant") else name


NOTE = Voice(Role.NOTE, Origin.OWNER)
ASSISTANT = Voice(Role.ASSISTANT, Origin.AGENT)
UNREAD = Voice(Role.USER, Origin.UNTRUSTED)
"""The voice of a transcript's chunk before memoryd has read the transcript again."""


class _Run(NamedTuple):
    lines: Annotated[int, msgspec.Meta(ge=1)]
    role: Role
    origin: Origin
    speaker: str
    channel: str
    day: str = ""
    source: EntrySource | None = None


def shown_name(value: object) -> str:
    """Return a name on one line without invisible characters, "" for anything but a text."""
    if not isinstance(value, str):
        return ""
    return _on_a_line(value)[:MAX_NAME_CHARS].strip()


def first_words(text: str) -> str:
    """Return the first words of a text, shown like a name; `…` ends those of a longer one."""
    line = _on_a_line(text)
    if len(line) <= MAX_NAME_CHARS:
        return line
    words = line[: MAX_NAME_CHARS - 1]
    if line[len(words)] != " " and " " in words:
        words = words.rpartition(" ")[0]
    return words.rstrip() + "…"


def _on_a_line(text: str) -> str:
    return _UNSEEN.sub(" ", text[: 4 * MAX_NAME_CHARS]).strip()


def least_trusted(origins: Iterable[Origin]) -> Origin:
    """Return the least trusted of one or more origins."""
    return max(origins, key=_TRUST.__getitem__)


def without_days(encoded: str) -> str:
    """Return encoded voices without days, which depend on the time zone of the reading."""
    try:
        voices = decode_voices(encoded) if encoded else []
    except msgspec.MsgspecError:
        return encoded
    return encode_voices(voice._replace(day="") for voice in voices) if voices else ""


def day_of(voices: Iterable[Voice]) -> str:
    """Return the first known day, "" if none is."""
    return next((voice.day for voice in voices if voice.day), "")


def is_consistent(origin: str, encoded: str, lines: int) -> bool:
    """Return whether a chunk of so many lines can have this origin and these encoded voices."""
    if not encoded:
        return origin in (Origin.OWNER, Origin.UNTRUSTED)
    try:
        voices = decode_voices(encoded)
    except msgspec.MsgspecError:
        return False
    return len(voices) == lines and origin == least_trusted(voice.origin for voice in voices)


def encode_voices(voices: Iterable[Voice]) -> str:
    """Return the voices of a chunk's lines as the index stores them.

    A JSON array with an array for each run of lines: their number, then the fields of `Voice`,
    without a day and a source at its end that are unknown.
    """
    runs = [
        (len(list(same)), *(voice if voice.source else voice[:5] if voice.day else voice[:4]))
        for voice, same in groupby(voices)
    ]
    return msgspec.json.encode(runs).decode()


def decode_voices(encoded: str) -> list[Voice]:
    """Return the voice of each line. Raises `MsgspecError`, also for no lines or too many."""
    runs = msgspec.json.decode(encoded, type=list[_Run])
    if not runs or sum(run.lines for run in runs) > _MAX_LINES:
        raise msgspec.ValidationError("a chunk has another number of lines")
    return [Voice(*run[1:]) for run in runs for _ in range(run.lines)]
