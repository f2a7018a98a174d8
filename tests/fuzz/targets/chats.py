"""Transcripts of OpenClaw's older store: JSON5 documents."""

from fuzz.scratch import folder
from memoryd.source.transcripts import openclaw_json5

SEEDS = [
    b"{id: 'x', messages: [{role: 'user', content: 'hi'}, {message: {role: 'assistant',"
    b" content: [{type: 'text', text: 'yes'}]}}], compactions: ['sum', {summary: 'x'}]}",
    b"// comment\n{messages: [1, null, 'x', [], {role: 0x10, content: +Infinity, timestamp: .5}],}",
    b"\xef\xbb\xbf{messages:[]}",
]
DICTIONARY = [b"messages", b"compactions", b"role", b"content", b"summary", b"0x", b"NaN", b"\\u"]
DICTIONARY += [b"/*", b"*/", b"//", b"timestamp", b"1e999", b"[[[[", b"sessionId"]
MAX_BYTES = 8_192


def check(data: bytes) -> None:
    """Load the bytes as a transcript; only an `OSError` may result."""
    path = folder() / "chat.json5"
    path.write_bytes(data)
    try:
        chat, stat, _, inode = openclaw_json5.load(path, path.parent)
    except OSError as error:
        if not error.strerror:
            raise
        return
    said = [openclaw_json5.message(item) for _, item in openclaw_json5.numbered(chat)]
    for message in said:
        if message is not None:
            message.text.encode()
    count = sum(message is not None for message in said)
    state = openclaw_json5.state(chat, stat, inode, count, owner="", reading="")
    assert state.lines == len(said)
