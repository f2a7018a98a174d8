"""Transcripts of every format, read at once, in two steps, and as excerpts."""

import tempfile
from functools import partial
from pathlib import Path

from fuzz.scratch import folder
from memoryd.config.settings import Settings
from memoryd.source.transcripts import delta
from memoryd.source.transcripts.delta import DeltaOptions
from memoryd.source.transcripts.detect import by_name, detect
from memoryd.source.transcripts.spoken import ReadingRules
from memoryd.text.redact import Redactor

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
SEEDS = [
    b"\x40" + data[:1_500]
    for file in sorted(FIXTURES.rglob("*.jsonl"))
    for data in (file.read_bytes(),)
]
SEEDS += [
    b'\x10{"role":"user","content":"hello","timestamp":1}\n{"role":"assistant","content":"yes"}\n',
    b'\x20{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":[{"type":'
    b'"text","text":"hi \\ud83e"}]}}\nno json\n\n',
    b'\x30{"type":"session","id":"x"}\n{"type":"message","parentId":"x","message":{"role":"user",'
    b'"content":"[cron:x] y"}}\n',
    b'\x30{"type":"session_meta","payload":{"id":"t","source":{"subagent":1}}}\n'
    b'{"type":"event_msg","payload":{"type":"user_message","message":"ask"}}\n',
]
DICTIONARY = [b'{"type":"', b'"message":{"role":"user","content":"', b'"payload":{', b'"text"']
DICTIONARY += [b"response_item", b"event_msg", b"session_meta", b"agent_message", b"\\ud83e", b"\n"]
DICTIONARY += [b"timestamp", b"sessionId", b"parentId", b'"assistant"', b"\xef\xbb\xbf", b"[[[["]
MAX_BYTES = 1_536
_redact = Redactor()
OPTIONS = DeltaOptions(
    detect=partial(detect, enabled=Settings().sessions.formats),
    by_name=by_name,
    base=lambda path: path.parent,
    rules=ReadingRules(_redact),
    unpack_in=Path(tempfile.gettempdir()),
    tokens=32,
    max_bytes=400,
)


def check(data: bytes) -> None:
    """Read the input in two parts, cut as the first byte says; the chunks stay the same."""
    cut, content = data[:1], data[1:]
    path = folder() / "t.jsonl"
    path.write_bytes(content)
    try:
        whole = delta.read_delta(path, base=None, options=OPTIONS)
    except OSError as error:
        if not error.strerror:
            raise
        return
    lines = content.count(b"\n")
    for chunk in whole.chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= lines
        assert len(chunk.text.encode()) <= OPTIONS.max_bytes
        assert len(chunk.line_map.split(",")) == chunk.text.count("\n") + 1
    for raw in (False, True):
        excerpt = delta.read_records(
            path, options=OPTIONS, start_line=1, max_lines=50, max_chars=1_000, raw=raw
        )
        assert sum(map(len, excerpt.lines)) <= 1_000
        "".join(excerpt.lines).encode()
    _in_two_steps(path, content, (cut[0] if cut else 0) * len(content) // 255, whole)


def _in_two_steps(path: Path, content: bytes, at: int, whole: delta.TranscriptDelta) -> None:
    path.write_bytes(content[:at])
    try:
        first = delta.read_delta(path, base=None, options=OPTIONS)
    except OSError:
        return
    with path.open("ab") as file:
        file.write(content[at:])
    second = delta.read_delta(path, base=first.state, options=OPTIONS)
    kept = [chunk for chunk in first.chunks if chunk.start_line < second.from_line]
    if second.state.generation == 0:
        assert kept + second.chunks == whole.chunks
    else:
        assert second.chunks == whole.chunks
