"""Senders of messages, as OpenClaw's metadata in the messages name them.

Metadata precede the words of a message, and a stranger may write the same into his own. So the
first block of a kind names the sender, and he is the owner only if all blocks agree.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from memoryd.source.transcripts.format import Sender
from memoryd.text.voice import shown_name

CONTEXT_MARK = "⟦openclaw:ctx⟧"
"""OpenClaw's mark of metadata since version 2026.8; before, they were called untrusted."""
_TITLE = r"[A-Z][^\n:()]{0,80}"
LABEL = rf"{_TITLE}(?: \(untrusted(?: metadata|, [^()\n]{{0,80}})\):|: {CONTEXT_MARK})[ \t]*"
"""First line of a block of metadata."""
_BLOCK = re.compile(rf"^(?:\[[^\]\n]{{1,200}}\] )?(?P<label>{LABEL})\n[ \t]*```json[ \t]*$", re.M)
_FENCE_END = "\n```"
_PROSE = re.compile(
    rf"^{_TITLE}(?: \(untrusted, [^()\n]{{0,80}}\):|: {CONTEXT_MARK})[ \t]*\n(?![ \t]*```json)",
    re.M,
)
"""Messages of others without quotation marks around them, whose end is not certain."""
_CHATS = ("group_subject", "group_channel", "conversation_label", "thread_label", "group_space")

_CHANNELS = (
    "WhatsApp|Telegram|Discord|Slack|Signal|iMessage|BlueBubbles|LINE|Matrix|WebChat|IRC|Nostr"
    "|Google Chat|Microsoft Teams|MS ?Teams|Mattermost|Feishu|Lark|Zalo|Twitch|Nextcloud Talk"
)
ENVELOPE = (
    rf"\[(?P<app>{_CHANNELS})\b(?P<label>[^\]\n]{{0,300}})"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\]\n]{0,40}\]"
)
"""The text before a message in old versions: `[WhatsApp Family 2026-01-05 10:00 UTC] Ana: …`."""
_ENVELOPES = re.compile(rf"^(?:{ENVELOPE})[ \t]*", re.M)
_HISTORY = re.compile(r"^\[Chat messages since your last reply", re.M)
_BY_NUMBER = ("WhatsApp", "Signal", "iMessage", "BlueBubbles")
"""Channels whose direct chats are named by the other's number."""
_WHEN = re.compile(r"(?: \+\d+[smhd])?(?: (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$")
_ID = re.compile(r"(?:^| )(?:(?:user|channel|group) )?id:(\S+)")
_FROM_ID = re.compile(r"(?:^| )(?:(?:user|channel|group) )?id:\S.*$")
_NUMBER = re.compile(r"\+\d{3,15}")
_GROUP = re.compile(r"@g\.us| #| Guild | (?:channel|group) id:| id:-\d")
_SPEAKS = re.compile(r"([^:\n]{1,80}): ")
_WHATSAPP_ID = re.compile(r"(\d{5,15})(?::\d+)?@(?:s\.whatsapp\.net|c\.us)")
_FORWARDED = re.compile(r"\[Forwarded from (?P<name>[^\]\n]{1,200}?)(?: at [^\]\n]{1,60})?\]")
_FORWARDED_BY = ("from", "title", "username")
_OPEN_ID = re.compile(r"\s*o[un]_[0-9a-f]{16,64}: ")
_MESSAGE_ID = re.compile(r"^\[message_id: om_", re.M)
"""Behind this line, Feishu's channel writes the sender before his words."""
_IDS = ("sender_id", "id", "e164")
_NAMING = ("Conversation info", "Sender", "Forwarded")
"""Blocks that name a sender."""


class Block(NamedTuple):
    """Block of metadata from `start` to `end`; `data` is None if it can't be read."""

    start: int
    end: int
    title: str
    data: dict[str, Any] | None


def metadata(text: str) -> Iterator[Block]:
    """Yield the labelled JSON about author and chat, except unclosed blocks."""
    done = 0
    while label := _BLOCK.search(text, done):
        end = text.find(_FENCE_END, label.end())
        if end < 0:
            break
        done = end + len(_FENCE_END)
        title = re.split(r" \(|:", label["label"], maxsplit=1)[0]
        yield Block(label.start(), done, title, _decoded(text[label.end() : end]))


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


class Envelope(NamedTuple):
    """Chat that an envelope names: the channel's name, and a label with an id or without."""

    app: str
    label: str


def read_sender(text: str, words: str, envelope: Envelope | None) -> tuple[Sender, str]:
    """Return the sender that the metadata in a message name, and the words without his name.

    `words` are those behind the wrappers, `envelope` the one right before them. Never raises.
    """
    blocks = list(metadata(text))
    sender = _in_blocks(blocks, text)
    if envelope is not None:
        alone = not any(block.title in ("Conversation info", "Sender") for block in blocks)
        sender, words = _in_envelope(sender, words, envelope, alone=alone)
    words = _without_sender(sender, words, text)
    named = (data.get(key) for data in _data(blocks, "Forwarded") for key in _FORWARDED_BY)
    name = next(filter(None, map(shown_name, named)), "")
    if not name and (found := _FORWARDED.match(words)):
        name = shown_name(found["name"])
    if name:
        sender = replace(sender, name=name, has_others=True)
    return sender, words


def _without_sender(sender: Sender, words: str, text: str) -> str:
    """Return words without the id or the name of Feishu's sender before them."""
    lead = _OPEN_ID.match(words)
    if lead is None and sender.name and _MESSAGE_ID.search(text):
        lead = re.compile(rf"\s*{re.escape(sender.name)}: ").match(words)
    return words if lead is None else words[lead.end() :]


def with_record(sender: Sender, record: object) -> Sender:
    """Return a sender with what OpenClaw has recorded about him beside the message."""
    if not isinstance(record, dict):
        return sender
    says, id_ = record.get("senderIsOwner"), normal_id(record.get("senderId"))
    if not isinstance(says, bool) and not id_:
        return sender
    if id_:
        name = "" if sender.has_others else shown_name(record.get("senderName"))
        ids = {id_, _at(record.get("senderUsername"))} - {""}
        sender = replace(sender, name=name or sender.name, ids=frozenset(ids), uncertain=False)
    return replace(sender, is_owner=says is True)


def normal_id(value: object) -> str:
    """Return an id in the form in which ids are compared, "" for anything but an id."""
    if not isinstance(value, str):
        return ""
    value = value.strip()
    if number := _WHATSAPP_ID.fullmatch(value):
        return f"+{number[1]}"
    if value.startswith("+"):
        return "+" + re.sub(r"[\s()./-]", "", value[1:])
    return value.casefold() if value.startswith("@") else value


def _at(username: object) -> str:
    return normal_id(f"@{username}") if isinstance(username, str) and username else ""


def _data(blocks: list[Block], title: str) -> list[dict[str, Any]]:
    return [block.data or {} for block in blocks if block.title.startswith(title)]


def _in_blocks(blocks: list[Block], text: str) -> Sender:
    """Return the sender that blocks of metadata name: the first ones, unless others disagree."""
    chats, people = _data(blocks, "Conversation info"), _data(blocks, "Sender")
    chat, person = (chats or [{}])[0], (people or [{}])[0]
    unread = any(block.data is None and block.title.startswith(_NAMING) for block in blocks)
    in_group = (
        unread
        or any(map(_is_group, chats))
        or bool(_HISTORY.search(text))
        or any(_GROUP.search(found["label"]) for found in _ENVELOPES.finditer(text))
    )
    inner = chat.get("sender")
    inside = inner if isinstance(inner, dict) else {}
    names = (
        *(part.get(key) for part in (inside, person) for key in ("name", "username")),
        *(inner, person.get("label"), chat.get("sender_id"), person.get("id")),
    )
    labels = (_FROM_ID.sub("", label) for key in _CHATS if isinstance(label := chat.get(key), str))
    ids = _ids(chat), _ids(person)
    agree = all(_ids(data) == ids[0] for data in chats) and all(
        _ids(data) == ids[1] for data in people
    )
    return Sender(
        name=next(filter(None, map(shown_name, names)), ""),
        channel=next(filter(None, map(shown_name, labels)), "") if in_group else "",
        ids=ids[0] | ids[1],
        in_group=in_group,
        uncertain=unread or not agree or bool(ids[0] and ids[1] and not ids[0] & ids[1]),
        has_others=in_group and bool(_PROSE.search(text)),
    )


def _ids(data: dict[str, Any]) -> frozenset[str]:
    """Return the ids in a block; never a display name, because everybody chooses his own."""
    inner = data.get("sender")
    found = {_at(data.get("username")), *(normal_id(data.get(key)) for key in _IDS)}
    if isinstance(inner, dict):
        found |= _ids(inner)
    return frozenset(found - {""})


def _is_group(chat: dict[str, Any]) -> bool:
    if chat.get("is_group_chat") is True:
        return True
    return any(isinstance(chat.get(key), str) for key in _CHATS)


def _in_envelope(
    sender: Sender, words: str, envelope: Envelope, *, alone: bool
) -> tuple[Sender, str]:
    """Add what an envelope says; `alone`: nothing else names the sender."""
    app, label = envelope.app, _WHEN.sub("", envelope.label.rstrip()).strip()
    name, ids = shown_name(_FROM_ID.sub("", label)), _ID.findall(label)
    id_ = normal_id(ids[-1]) if ids else ""
    if not id_ and app in _BY_NUMBER and _NUMBER.fullmatch(label):
        id_ = label
    is_direct = bool(_NUMBER.fullmatch(id_)) or (app == "Telegram" and id_.isdigit())
    speaks = _SPEAKS.match(words)
    if not _GROUP.search(f" {label}") and (is_direct or speaks is None) and not sender.in_group:
        return (replace(sender, name=name, ids=frozenset({id_} - {""})) if alone else sender), words
    sender = replace(sender, channel=sender.channel or name or app, in_group=True)
    if alone:
        # Everybody chooses the name before his words, so it is never proof of the owner.
        sender = replace(sender, uncertain=True)
        if speaks is not None:
            return replace(sender, name=shown_name(speaks[1])), words[speaks.end() :]
    return sender, words
