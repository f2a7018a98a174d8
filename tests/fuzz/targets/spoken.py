"""Text that agents wrap around messages, and keys of transcripts, both matched by patterns."""

from memoryd.messages import split_lines
from memoryd.source.transcripts.detect import excluded_key
from memoryd.source.transcripts.spoken import ReadingRules, spoken
from memoryd.source.transcripts.strip import clean, said, seconds

SEEDS = [
    b"[WhatsApp +1 2026-01-02 10:00 UTC] hello",
    b"<system-reminder>\nx\n</system-reminder>\nsaid",
    b"Sender (untrusted metadata):\n```json\n{}\n```\nsaid",
    b"<think>hm</think>[[reply_to_current]] yes",
    b"System: [2026] x\n\n# Files mentioned by the user:\n\n## My request for Codex:\nsaid",
    b"Untrusted context (metadata, do not):\nSource: x\n",
    b"agent:main:cron:daily:run:1",
    b"2026-11-28T10:00:00.123456789Z",
    'Conversation info: ⟦openclaw:ctx⟧\n```json\n{"sender":{"id":"7"}}\n```\nsaid'.encode(),
    b'Conversation info (untrusted metadata):\n```json\n{"is_group_chat":true}\n```\nsaid',
    b"[WhatsApp Family id:1@g.us 2026-01-02 10:00 UTC] Eve: <<<EXTERNAL_UNTRUSTED_CONTENT>>>\nx",
]
DICTIONARY = [b"<system-reminder>", b"</system-reminder>", b"[cron:", b"(untrusted metadata):"]
DICTIONARY += [b"```json", b"\n```", b"<think>", b"</think>", b"[[reply_to:", b"HEARTBEAT_OK"]
DICTIONARY += [
    b"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
    b"System: [",
    b"[Current message",
    b"-00:00",
]
MAX_BYTES = 2_048
RULES = ReadingRules(lambda text: text, frozenset({"7"}))
STRANGER = (
    "Conversation info (untrusted metadata):\n```json\n"
    '{"sender_id": "8", "sender": "Mallory", "is_group_chat": true}\n```\n\n'
)


def check(data: bytes) -> None:
    """Clean the text: the result is one line, and a message is text, that the index can store."""
    text = data.decode("utf-8", "surrogateescape")
    lines = [clean("user", text), clean("assistant", text)]
    if (message := said("user", text)) is not None:
        parts = list(spoken(message, RULES))
        assert parts
        lines += [part.text for part in parts]
        # Behind a stranger's metadata, nothing speaks for the owner.
        theirs = said("user", STRANGER + text)
        for part in [] if theirs is None else spoken(theirs, RULES):
            assert not part.voice.trusted
    assert all(len(split_lines(line)) <= 1 for line in lines[:2])
    for line in lines:
        assert line == line.strip()
        line.encode()
        assert "\0" not in line
    excluded_key(text)
    at = seconds(text)
    assert at is None or 0 <= abs(at) < 1e12
