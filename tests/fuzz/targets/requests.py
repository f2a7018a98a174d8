"""Requests to a complete daemon after the greeting, as frames of arbitrary content or as bytes."""

import asyncio
import json
from collections import Counter
from contextlib import suppress

import msgspec

from fuzz.serving import Served
from memoryd_client.schema.memory import BODY_OF_OP
from memoryd_client.wire.framing import HEADER_BYTES, FrameBuffer, FrameError, pack
from memoryd_client.wire.protocol import (
    Cancel,
    Error,
    Hello,
    Item,
    Op,
    Progress,
    Request,
    Result,
    Welcome,
    decode_client_frame,
    decode_server_frame,
)

SEEDS = [
    b"search\0" + json.dumps({"query": "blue sky -fish path:memory", "explain": True}).encode(),
    b'search\0{"query":"","since":"2026-01-01","mode":"vector","sources":["memory","x"]}',
    b'get\0{"path":"memory/../MEMORY.md","start_line":2,"lines":0}',
    b'get\0{"path":"sessions/sessions/s1.jsonl","raw":true}\nget\0{"path":"/etc/passwd\\u0000"}',
    b"files\0{}\nsessions\0{}\nstatus\0{}\nconfig\0{}\nping\0{}\nagents\0{}\nprobe\0{}",
    b'sync\0{"vectors":false}\nindex\0{"force":false}\nevents\0{}\nreload\0{}',
    b'forget\0{"session":"s1"}\nsession_start\0{"session":"s1"}\n',
    b'export\0{"after":"sessions/x"}\nimport\0{"transcripts":["eA=="],"dry_run":true}',
    b'transcript_updated\0{"path":"/x"}\nadd\0{"workspace":"x"}\ndrop\0{"agent":"x"}',
    b'context\0{"chat_type":"group"}\ncontext\0{"max_chars":1,"now":"x"}\ncontext\0{}',
    b'promote\0{"apply":true,"candidate":"3f2a","limit":2}\npromote\0{}',
    b'recall\0{"message":"the blue sky"}\nrecall\0{"message":"","max_chars":0}',
    b'fact_store\0{"text":"Ana moved"}\nfact_recall\0{"query":"Ana"}\nfacts\0{"limit":1}',
    b'fact_capture\0{"text":"I like tea"}',
    b'fact_forget\0{"query":"Ana moved"}\nfact_forget\0{"id":"x"}',
    b"no such op\0[1,2]\nping\0null\nping",
    b"\xff" + pack(Request(1, "ping")) + pack(Cancel(1)) + pack(Request(1, "ping")),
    b"\xff" + pack(Hello(1, 1)),
    b"\xff\x00\x00\x00\x00",
]
DICTIONARY = [*(op.value.encode() + b"\0{" for op in Op), b'"path":', b'"query":"', b'"session":']
DICTIONARY += [b'"workspace":"', b"MEMORY.md", b"memory/", b"sessions/", b"\\u0000", b"null", b"\n"]
DICTIONARY += [b"9223372036854775807", b"-1", b"1e400", b"[]", b"true", b'"agent":', b"\\ud800"]
MAX_BYTES = 512
PATIENCE_S = 15.0
"""Seconds that an answer may take; less than the limit for a hang."""
LAST_ID = 2**62
_served = Served()


def check(data: bytes) -> None:
    """Send the input: each request gets exactly one last frame, none `internal`, or a close.

    After an initial byte FF the rest is sent unchanged. Otherwise each line is a request: op, NUL,
    a body in JSON.
    """
    _served.loop.run_until_complete(_check(data[1:] if data[:1] == b"\xff" else _frames(data)))


def close() -> None:
    """Stop the daemon."""
    _served.close()


def _frames(data: bytes) -> bytes:
    frames: list[bytes] = []
    for number, line in enumerate(data.split(b"\n")[:8]):
        op, _, text = line.partition(b"\0")
        try:
            body = msgspec.msgpack.encode(json.loads(text or b"{}"))
        except (ValueError, RecursionError, TypeError, OverflowError):
            body = text or b"\x80"
        frames.append(pack(Request(number, op.decode("utf-8", "replace"), msgspec.Raw(body))))
    return b"".join(frames)


async def _check(sent: bytes) -> None:
    asked = _asked(sent)
    reader, writer = await _served.connect()
    writer.write(pack(Hello(1, 1, "fuzz", "/")))
    answers = _Answers(reader)
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert isinstance(await answers.next(), Welcome)
            with suppress(ConnectionError):
                writer.write(sent)
                if asked is not None:
                    writer.write(b"".join(pack(Cancel(number)) for number in asked))
                    writer.write(pack(Request(LAST_ID, "ping")))
                else:
                    writer.write_eof()
                await writer.drain()
            ended = await _read(answers, None if asked is None else asked + Counter({LAST_ID: 1}))
        if asked is not None:
            assert not ended, "a valid connection was closed"
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        _served.check()


async def _read(answers: "_Answers", asked: Counter[int] | None) -> bool:
    """Read until each request has its last frame or the connection ends; return the latter."""
    seen: Counter[int] = Counter()
    while (frame := await answers.next()) is not None:
        if isinstance(frame, Progress | Item):
            continue
        assert isinstance(frame, Result | Error)
        if isinstance(frame, Error):
            assert frame.code != "internal", frame
        if frame.id is None:
            assert asked is None, frame
            continue
        seen[frame.id] += 1
        if asked is not None:
            assert seen[frame.id] <= asked[frame.id], "a request was answered twice"
            if seen == asked:
                return False
    return True


def _asked(sent: bytes) -> Counter[int] | None:
    """Return the number of requests per id, or None unless the bytes are complete frames."""
    asked: Counter[int] = Counter()
    size = 0
    try:
        for body in FrameBuffer().feed(sent):
            size += HEADER_BYTES + len(body)
            frame = decode_client_frame(body)
            if isinstance(frame, Hello) or frame.id == LAST_ID:
                return None
            if isinstance(frame, Request):
                asked[frame.id] += 1
    except (FrameError, msgspec.DecodeError):
        return None
    return asked if size == len(sent) else None


class _Answers:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._buffer = FrameBuffer()
        self._frames: list[bytes] = []

    async def next(self) -> object:
        """Return the next frame, or None at the end."""
        while not self._frames:
            try:
                data = await self._reader.read(65_536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._frames += self._buffer.feed(data)
        return decode_server_frame(self._frames.pop(0))


assert set(BODY_OF_OP) == set(Op)
