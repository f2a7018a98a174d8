"""Answers are bounded by what was asked for, unpacked: a small bomb is refused early."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
from aiohttp.compression_utils import ZLibDecompressor
from identities import identity
from remotes import FakeClock, pool_of, remote, set_keys
from waiting import until

from memoryd.embed.answer_limit import (
    MOST_BYTES,
    ROOM_BYTES,
    max_answer_bytes,
    max_output_bytes,
)
from memoryd.embed.batch.api import JobState
from memoryd.embed.batch.files import download_output
from memoryd.embed.provider import RetryableError
from memoryd.embed.vendors.factory import make_batch
from memoryd.messages import BatchJobRow, ToWriter

MIB = 1024 * 1024
ONCE_UNPACKED = 2 * MIB
"""Bytes that may be unpacked beyond the maximum: aiohttp's own buffers."""


@cache
def bomb() -> bytes:
    """Return a list of numbers of 300 MiB, packed."""
    return gzip.compress(b"[" + b"0," * 150 * MIB + b"0]", compresslevel=1)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_keys(monkeypatch)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes of each piece that is unpacked."""
    sizes: list[int] = []
    unpack = ZLibDecompressor.decompress_sync

    def counted(self: ZLibDecompressor, data: bytes, max_length: int = 0) -> bytes:
        piece = unpack(self, data, max_length)
        sizes.append(len(piece))
        return piece

    monkeypatch.setattr(ZLibDecompressor, "decompress_sync", counted)
    return sizes


class Bomber:
    """A server that answers every request with the same packed body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.requests = 0
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(self.body)}"
            writer.write(f"{head}\r\n\r\n".encode() + self.body)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def bomber(body: bytes | None = None) -> AsyncIterator[Bomber]:
    made = Bomber(bomb() if body is None else body)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        server.close()


def test_a_maximum_follows_from_texts_and_dims() -> None:
    assert max_answer_bytes(64, 1_536) == ROOM_BYTES + 64 * 4_096 * 32
    assert max_answer_bytes(64, 8_192) == ROOM_BYTES + 64 * 8_192 * 32
    assert max_answer_bytes(1, None) < 2 * MIB
    assert max_answer_bytes(2_048, None) == MOST_BYTES
    assert max_output_bytes(10, 8) < max_output_bytes(10, None)


@pytest.mark.parametrize("dims", [8, 1_536, 3_072])
def test_the_longest_honest_answer_fits(dims: int) -> None:
    number = -1.2345678901234567e-308
    answer = json.dumps({"data": [{"embedding": [number] * dims}] * 8}, indent=1)
    assert len(answer) < max_answer_bytes(8, dims)


async def test_a_bomb_is_refused_before_it_is_unpacked(unpacked: list[int]) -> None:
    async with bomber() as server, remote("openai", server.url) as provider:
        with pytest.raises(RetryableError) as caught:
            await provider.embed_documents(["one", "two"])
    most = max_answer_bytes(2, None)
    assert str(caught.value) == (
        f"openai (127.0.0.1) sent more than {most / MIB:.1f} MiB, far more than the request asks"
        " for."
    )
    assert caught.value.answered
    assert most < sum(unpacked) <= most + ONCE_UNPACKED


async def test_a_bomb_is_no_reason_for_a_storm_of_requests() -> None:
    clock = FakeClock(held_from_s=5.0)
    async with (
        bomber() as server,
        remote("openai", server.url) as provider,
        pool_of(provider, clock) as pool,
    ):
        job = asyncio.create_task(pool.embed([("a", "one"), ("b", "two")]))
        await until(pool.blocked.is_set)
        # Three attempts, and one with a harmless text.
        assert server.requests == 4
        assert "far more than the request asks for" in (pool.stats().blocked_reason or "")
        job.cancel()


async def test_the_output_of_a_job_is_bounded_by_its_texts(
    unpacked: list[int], tmp_path: Path
) -> None:
    lines = gzip.compress((b'{"custom_id": "0"}' + b" " * 1_000 + b"\n") * 100_000)
    job = BatchJobRow("ours", "openai", "m", "k", 0.0, ["one", "two"])
    inbox: asyncio.Queue[ToWriter] = asyncio.Queue()
    async with bomber(lines) as server, remote("openai", server.url) as provider:
        api = make_batch(provider)
        assert api is not None
        with pytest.raises(RetryableError, match="far more than the request asks for"):
            await download_output(
                api,
                job,
                JobState("done", "completed", output="f"),
                writer=inbox,
                identity=lambda: identity("openai", "m", dims=8),
            )
    assert sum(unpacked) <= max_output_bytes(2, 8) + ONCE_UNPACKED


async def test_a_short_answer_is_bounded_too(unpacked: list[int]) -> None:
    async with bomber() as server, remote("openai", server.url) as provider:
        api = make_batch(provider)
        assert api is not None
        with pytest.raises(RetryableError, match=r"sent more than 8\.0 MiB"):
            await api.state("job")
    assert sum(unpacked) <= 8 * MIB + ONCE_UNPACKED
