"""Messages as they are indexed and shown: texts with their voices, secrets masked."""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from memoryd.source.transcripts.format import Message, Part
from memoryd.source.transcripts.sender import normal_id
from memoryd.source.transcripts.strip import on_one_line
from memoryd.source.transcripts.times import day_of
from memoryd.text.redact import RULES
from memoryd.text.voice import ASSISTANT, Voice, shown_name
from memoryd_client.schema.search import Origin, Role

_READING = 4
"""Number of the rules that decide what is read; a new one has all transcripts read again."""
_LIKE_A_SPEAKER = re.compile(r"\n(?=(?:User|Assistant):)")
_FURTHER_LINE = re.compile(r"\n(?!\n)")
_ROLES = {"user": "User", "assistant": "Assistant"}


class Spoken(NamedTuple):
    """Words of one speaker, as indexed. `name` identifies them for tombstones; it is not masked."""

    text: str
    name: str
    voice: Voice


class ReadingRules(NamedTuple):
    """ReadingRules for reading messages: `redact` masks secrets, `owners` are the ids of the owner.

    `forgotten` returns whether a message with this `Spoken.name` was forgotten.
    """

    redact: Callable[[str], str]
    owners: frozenset[str] = frozenset()
    forgotten: Callable[[str], bool] = lambda name: False

    @property
    def reading(self) -> str:
        """A short name of the rules for speakers and masks: a change has texts read again."""
        rules = msgspec.json.encode([_READING, RULES, sorted(self.owners)])
        return hashlib.sha256(rules).hexdigest()[:16]


def owner_ids(configured: tuple[str, ...]) -> frozenset[str]:
    """Return the configured ids of the owner in the form in which they are compared."""
    return frozenset(map(normal_id, configured)) - {""}


def spoken(message: Message, rules: ReadingRules) -> Iterator[Spoken]:
    """Yield the parts of a message that were not forgotten."""
    # Forgotten by name, whoever is said to speak: neither a new owner brings a message back, nor
    # do the parts of one that was forgotten as a whole.
    if rules.forgotten(_name(message, message.text)):
        return
    own = voice_of(message, rules.owners)
    own = own._replace(speaker=shown_name(rules.redact(own.speaker)), day=day_of(message))
    for part in message.parts or (Part(message.text),):
        name = _name(message, part.text)
        if not rules.forgotten(name):
            voice = _outside(part, own.day) if part.outside and own.trusted else own
            yield Spoken(_labelled(voice, _masked(part.text, rules.redact)), name, voice)


def voice_of(message: Message, owners: frozenset[str]) -> Voice:
    """Return whose words a message is. Only stable ids make a sender the owner."""
    if message.role == "assistant":
        return ASSISTANT
    sender = message.sender
    is_owner = not sender.in_group and not (owners and (sender.ids or sender.name))
    if sender.has_others:
        is_owner = False
    elif sender.is_owner is not None:
        is_owner = sender.is_owner or bool(owners & sender.ids)
    elif sender.uncertain:
        is_owner = False
    elif owners & sender.ids:
        is_owner = True
    origin = Origin.OWNER if is_owner else Origin.UNTRUSTED
    return Voice(Role.USER, origin, sender.name, sender.channel)


def _outside(part: Part, day: str) -> Voice:
    return Voice(Role.USER, Origin.UNTRUSTED, part.speaker, part.channel, day)


def _name(message: Message, text: str) -> str:
    """Return the role and the words on one line, whatever is masked and whoever speaks."""
    return f"{_ROLES[message.role]}: {on_one_line(text)}"


def _masked(text: str, redact: Callable[[str], str]) -> str:
    """Return a text in its lines with secrets masked, also those that a line end hides."""
    lines = redact(text)
    if "\n" not in text:
        return lines
    line = on_one_line(lines)
    masked = redact(line)
    return lines if masked == line else masked


def _labelled(voice: Voice, text: str) -> str:
    """Return words behind their speaker's label, such that no further line looks like another's."""
    indented = _LIKE_A_SPEAKER if voice.trusted else _FURTHER_LINE
    return f"{voice.label}: " + indented.sub("\n  ", text)
