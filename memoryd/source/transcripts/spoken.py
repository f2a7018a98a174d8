"""Messages as they are indexed and shown: lines of text with their voices, secrets masked."""

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from memoryd.source.transcripts.format import Message, Part
from memoryd.source.transcripts.sender import normal_id
from memoryd.text.voice import ASSISTANT, Voice, shown_name
from memoryd_client.schema.search import Origin, Role

_READING = 3
"""Number of the rules that decide what is read; a new one has all transcripts read again."""
_ROLES = {"user": "User", "assistant": "Assistant"}


class Spoken(NamedTuple):
    """A line of one speaker, as indexed. `name` is its text without the speaker, for tombstones."""

    text: str
    name: str
    voice: Voice


class ReadingRules(NamedTuple):
    """ReadingRules for reading messages: `redact` masks secrets, `owners` are the ids of the owner.

    `forgotten` tells whether a message with this `Spoken.name` was forgotten.
    """

    redact: Callable[[str], str]
    owners: frozenset[str] = frozenset()
    forgotten: Callable[[str], bool] = lambda name: False

    @property
    def reading(self) -> str:
        """A short name of the rules that decide who speaks: a change has texts read again."""
        rules = msgspec.json.encode([_READING, sorted(self.owners)])
        return hashlib.sha256(rules).hexdigest()[:16]


def owner_ids(configured: tuple[str, ...]) -> frozenset[str]:
    """Return the configured ids of the owner in the form in which they are compared."""
    return frozenset(map(normal_id, configured)) - {""}


def spoken(message: Message, rules: ReadingRules) -> Iterator[Spoken]:
    """Yield the lines of a message that were not forgotten, one for each part."""
    # Forgotten by name, whoever is said to speak: neither a new owner brings a message back, nor
    # do the parts of one that was forgotten as a whole.
    if rules.forgotten(_name(message, message.text, rules)):
        return
    own = voice_of(message, rules.owners)
    own = own._replace(speaker=shown_name(rules.redact(own.speaker)))
    for part in message.parts or (Part(message.text),):
        name = _name(message, part.text, rules)
        if not rules.forgotten(name):
            voice = _outside(part) if part.outside and own.trusted else own
            yield Spoken(f"{voice.label}: {rules.redact(part.text)}", name, voice)


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


def _outside(part: Part) -> Voice:
    return Voice(Role.USER, Origin.UNTRUSTED, part.speaker, part.channel)


def _name(message: Message, text: str, rules: ReadingRules) -> str:
    return f"{_ROLES[message.role]}: {rules.redact(text)}"
