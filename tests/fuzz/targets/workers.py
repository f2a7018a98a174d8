"""Messages between the daemon and the process of a local model, in both directions."""

import asyncio
import io
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import msgspec
import numpy as np

from memoryd.embed import local
from memoryd.embed.local_process import Worker
from memoryd.embed.provider import FloatMatrix, ProviderError
from memoryd.embed.worker import FRAME_HEADER, EmbedReply, EmbedRequest, LoadedModel, answer, pack

ONE = np.array([0.6, 0.8], "<f4").tobytes()
SEEDS = [
    b"\x00" + pack(EmbedReply(0, ONE)) + pack(EmbedReply(1, ONE)) + pack(EmbedReply(2, ONE + ONE)),
    b"\x02the line of a traceback\nerror loading model: no such tensor\0"
    + pack(EmbedReply(0, ONE)),
    b"\x01" + pack(EmbedReply(0, ONE)),
    b"\x00" + pack(EmbedReply(0, b"")) + pack(EmbedReply(1, b"")),
    b"\x00" + pack(EmbedReply(0, ONE)) + pack(EmbedReply(1, bytes(8))) + pack(EmbedReply(7, ONE)),
    b"\x00" + pack(EmbedReply(0, ONE)) + pack(EmbedReply(1, b"\0\0\xc0\x7f" * 2)),
    b"\x00\xff\xff\xff\xff" + pack(EmbedReply(0, ONE)) * 3,
    b"\x00\x00\x00\x00\x05" + b"\x91" * 5,
    b"\x04" + ONE + b"\n" + ONE + b"\n" + ONE,
    b"\x00" + pack(EmbedRequest(1, ["a", "b"])) + pack(EmbedRequest(2, [])),
]
DICTIONARY = [b"\x82\xa2id", b"\xa7vectors\xc4\x08", b"\xa5texts\x91", b"\xc0", b"\0\0\x80\x7f"]
DICTIONARY += [ONE, b"\xcf" + b"\xff" * 8, b"\xc6\xff\xff\xff\xff", FRAME_HEADER.pack(2**24)]
MAX_BYTES = 512
_PATIENCE_S = 0.002
"""Seconds to wait for messages that never arrive."""
_ENGINE = replace(local.bundled(), dims=None, check=lambda: None)


def check(data: bytes) -> None:
    """Read the bytes as output of a model's process, and as requests to it.

    The first byte has flags: whether the process lives on without output, whether the part before a
    NUL is its stderr, and whether each line is the vectors of one reply.
    """
    how, sent = (data[0] if data else 0), data[1:]
    stderr = b""
    if how & 2:
        stderr, _, sent = sent.partition(b"\0")
    if how & 4:
        vectors = sent.split(b"\n")
        sent = b"".join(pack(EmbedReply(number, part)) for number, part in enumerate(vectors))

    async def start(*_: object, reason_mark: str = "") -> Worker:
        worker = Worker(reason_mark=reason_mark)
        _Process(worker).say(sent, stderr, ends=not how & 1)
        return worker

    with mock.patch.object(Worker, "start", start):
        _loop.run_until_complete(_embed())
    _asked(sent)


_loop = asyncio.new_event_loop()


async def _embed() -> None:
    provider = local.LocalProvider(
        replace(_ENGINE, load_timeout_s=_PATIENCE_S, answer_timeout_s=_PATIENCE_S),
        idle_unload_s=60.0,
    )
    try:
        await _take(1, provider.embed_query("where?"))
        await _take(2, provider.embed_documents(["here", "there"]))
        assert provider.dims is None or provider.dims > 0
    finally:
        await provider.close()
    assert provider.stats().pid is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _take(count: int, call: Coroutine[Any, Any, FloatMatrix]) -> None:
    said = ""
    try:
        rows = await call
        assert rows.shape[0] == count
        assert rows.shape[1] > 0
    except ProviderError as error:
        said = str(error)
    assert len(said) < 1_000


class _Process:
    """A replacement for a process whose whole output is known, and for its pipes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._code: int | None = None
        self._loop = asyncio.get_running_loop()
        worker.connection_made(cast(Any, self))

    def say(self, sent: bytes, stderr: bytes, *, ends: bool) -> None:
        self._loop.call_soon(self._worker.pipe_data_received, 1, sent)
        self._loop.call_soon(self._worker.pipe_data_received, 2, stderr)
        if ends:
            self._loop.call_soon(self.kill)

    def get_pipe_transport(self, fd: int) -> "_Process":
        return self

    def get_pid(self) -> int:
        return 1

    def get_returncode(self) -> int | None:
        return self._code

    def kill(self) -> None:
        if self._code is None:
            self._code = -9
            self._loop.call_soon(self._worker.pipe_connection_lost, 1, None)
            self._loop.call_soon(self._worker.process_exited)
            self._loop.call_soon(self._worker.connection_lost, None)

    def write(self, data: bytes) -> None:
        assert len(data) > FRAME_HEADER.size

    def is_closing(self) -> bool:
        return self._code is not None

    def close(self) -> None:
        pass


def _asked(sent: bytes) -> None:
    """Answer as the process does: one frame for each request, in order."""
    replies = io.BytesIO()
    asked: list[list[str]] = []

    def encode(texts: list[str]) -> bytes:
        asked.append(texts)
        return ONE * len(texts)

    with suppress(ValueError):
        answer(io.BytesIO(sent), replies, LoadedModel(encode))
    replies.seek(0)
    answers = []
    while header := replies.read(FRAME_HEADER.size):
        body = replies.read(FRAME_HEADER.unpack(header)[0])
        answers.append(msgspec.msgpack.decode(body, type=EmbedReply))
    assert [len(reply.vectors) for reply in answers] == [len(ONE) * len(texts) for texts in asked]
