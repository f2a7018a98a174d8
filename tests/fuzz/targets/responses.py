"""HTTP answers as raw bytes: headers, encodings, lengths, and early ends."""

import asyncio
import gzip
import os
from contextlib import suppress
from unittest import mock

from memoryd.config.settings import Remote, Settings
from memoryd.embed.provider import ProviderError
from memoryd.embed.vendors import remote
from memoryd.embed.vendors.factory import make_remote
from memoryd.embed.vendors.remote import RemoteProvider

KEY = "opensesame-1234567890"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BODY = b'{"data":[{"embedding":[1,2],"index":0}],"usage":{"total_tokens":3}}'
PACKED = gzip.compress(BODY, mtime=0)
SEEDS = [
    OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED,
    OK + b"Content-Encoding: br\r\n\r\n" + PACKED,
    OK + b"Content-Length: 99999999999999999999\r\n\r\n" + BODY,
    OK + b"Content-Length: -1\r\nContent-Length: 7\r\n\r\n" + BODY,
    OK + b"\r\n" + BODY,
    b"HTTP/1.1 429 Slow\r\nRetry-After: -99999999999999999999\r\n\r\n" + KEY.encode(),
    b"HTTP/1.1 429 Slow\r\nRetry-After: 1e308\r\nretry-after-ms: NaN\r\n\r\n{}",
    b"HTTP/1.1 503 \xff\xfe\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 +9999\r\n\r\n<html>",
    b"HTTP/1.1 301 Gone\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + OK + b"\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/9.9 999 x\r\nA: " + b"a" * 9_000 + b"\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"",
]
DICTIONARY = [b"HTTP/1.1 ", b"\r\n", b"\r\n\r\n", b"Retry-After: ", b"Content-Length: "]
DICTIONARY += [b"Transfer-Encoding: chunked", b"Content-Encoding: ", b"gzip", b"deflate", b"zstd"]
DICTIONARY += [b"Set-Cookie: a=b", b"Location: ", b"Connection: close", b"charset=", b"\0"]
MAX_BYTES = 2_048
MOST_BYTES = 1024 * 1024
PATIENCE_S = 10.0


class _Server:
    """A server that sends the same bytes on every connection and closes it."""

    def __init__(self) -> None:
        self.answer = b""
        self.loop = asyncio.new_event_loop()
        self.address: str | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._send, "127.0.0.1", 0)
        _, port = self._server.sockets[0].getsockname()
        self.address = f"http://127.0.0.1:{port}/v1"

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()


_server = _Server()


def check(data: bytes) -> None:
    """Answer with the bytes: an embedding or a provider's error results, and contains no key."""
    _server.answer = data
    _server.loop.run_until_complete(_ask())


def close() -> None:
    """Stop listening."""
    _server.loop.run_until_complete(_server.loop.shutdown_asyncgens())
    _server.loop.close()


async def _ask() -> None:
    if _server.address is None:
        await _server.start()
    with mock.patch.dict(os.environ, {"OPENAI_API_KEY": KEY, "NO_PROXY": "*"}):
        settings = Settings(remote=Remote(base_url=_server.address))
        provider = make_remote("openai", settings)
        with mock.patch.object(remote, "max_answer_bytes", return_value=MOST_BYTES):
            try:
                await _embed(provider)
            finally:
                await provider.close()


async def _embed(provider: RemoteProvider) -> None:
    said = ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            rows = await provider.embed_query("hello")
        assert rows.shape[0] == 1
    except ProviderError as error:
        said = str(error)
    assert len(said) < 1_000
    assert KEY not in said
