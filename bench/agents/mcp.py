"""Start and calls of `memctl mcp`, in turn with a bare echo server on the same library.

A start ends with the answer to `initialize`. The echo server imports msgspec, reads and decodes
lines, and answers each with the same text, so its times are those of Python, msgspec and pipes.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.corpus import Prose, write_notes
from bench.daemon import READY_S, daemon, environment, place, resident_bytes, until_ready
from bench.figures import Report, at_most, percentile
from memoryd_client import tools
from memoryd_client.client import Client

NOTES = 200
STARTS = 60
QUICK_STARTS = 20
CALLS = 400
QUICK_CALLS = 100
ECHO = """\
import os
import msgspec
rest = b""
while data := os.read(0, 65536):
    *lines, rest = (rest + data).split(b"\\n")
    for line in lines:
        message = msgspec.json.decode(line)
        result = {"content": [{"type": "text", "text": "x" * 4000}], "isError": False}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        os.write(1, msgspec.json.encode(answer) + b"\\n")
"""
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class StdioServer:
    """A running server and the client's side of its pipes."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Return the answer to one request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def call_s(self, query: str) -> float:
        """Return the seconds of one search."""
        arguments = {"name": tools.SEARCH, "arguments": {"query": query}}
        started = time.perf_counter()
        answer = self.ask("tools/call", arguments)
        taken_s = time.perf_counter() - started
        assert answer["result"]["isError"] is False, answer
        return taken_s


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[tuple[StdioServer, float]]:
    """Start a server; yield it and the seconds until it has answered `initialize`."""
    started = time.perf_counter()
    server = StdioServer(command)
    try:
        assert "result" in server.ask("initialize", _INITIALIZE)
        yield server, time.perf_counter() - started
    finally:
        server.process.kill()
        server.process.communicate()


def run(report: Report, *, quick: bool) -> None:
    """Measure starts, memory and calls."""
    with place() as where:
        where.configure('provider = "none"')
        write_notes(where.workspace, NOTES, Prose(), sections=1)
        memctl = str(Path(sys.executable).with_name("memctl"))
        ours = [memctl, "--socket", where.socket, "mcp"]
        bare = [sys.executable, "-c", ECHO]
        _starts(report, ours, bare, QUICK_STARTS if quick else STARTS)
        with daemon(where):
            until_ready(where)
            with Client(where.socket, wait_s=READY_S) as client:
                client.sync()
                questions = [
                    Prose(seed=n).question() for n in range(QUICK_CALLS if quick else CALLS)
                ]
                _calls(report, ours, bare, client, questions)


def _starts(report: Report, ours: list[str], bare: list[str], times: int) -> None:
    ours_s: list[float] = []
    bare_s: list[float] = []
    resident_mb = 0.0
    for _ in range(times + 1):
        with serving(ours) as (server, taken_s):
            ours_s.append(taken_s)
            resident_mb = resident_bytes(server.process.pid) / 1e6
        with serving(bare) as (_, taken_s):
            bare_s.append(taken_s)
    # The first runs compile modules and warm the system's caches.
    del ours_s[0], bare_s[0]
    ratio = percentile(ours_s, 50) / percentile(bare_s, 50)
    report.add_times("start of memctl mcp", ours_s, at_most(150.0, checked=False))
    report.add_times("start of a bare echo server", bare_s)
    report.add("start of memctl mcp ÷ bare echo server, p50", ratio, "×", at_most(3.0))
    report.add("memory of memctl mcp after its start", resident_mb, "MB", at_most(20.0))


def _calls(
    report: Report, ours: list[str], bare: list[str], client: Client, questions: list[str]
) -> None:
    ours_s: list[float] = []
    bare_s: list[float] = []
    direct_s: list[float] = []
    with serving(ours) as (server, _), serving(bare) as (echo, _):
        for question in questions:
            client.search(question)  # fills the caches that only the first search fills
            ours_s.append(server.call_s(question))
            bare_s.append(echo.call_s(question))
            started = time.perf_counter()
            client.search(question)
            direct_s.append(time.perf_counter() - started)
    added_ms = (percentile(ours_s, 50) - percentile(direct_s, 50)) * 1000
    report.add_times("memory_search by MCP", ours_s)
    report.add_times("the same search by the client", direct_s)
    report.add_times("call of a bare echo server", bare_s)
    report.add("cost of MCP per call, p50", added_ms, "ms", at_most(2.0, checked=False))
