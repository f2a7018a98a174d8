"""`memctl mcp` as a process, with a scripted daemon behind it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon, Peer, answering
from golden_bodies import golden
from mcp_session import MODERN, McpSession
from waiting import PATIENCE_S

import memoryd_client
from memctl.mcp import jsonrpc, methods
from memctl.mcp.server import MAX_LINE_BYTES, LineBuffer
from memoryd_client.schema.search import SearchResult
from memoryd_client.wire.protocol import Error, ErrorCode

FOUND = golden("search_result", SearchResult)
SERVER = "io.modelcontextprotocol/serverInfo"


@pytest.fixture
def alone() -> Iterator[McpSession]:
    """A server without a daemon."""
    with McpSession("--socket", "/nowhere/s", "--wait", "0") as session:
        yield session


# Introductions


@pytest.mark.parametrize("version", jsonrpc.HANDSHAKE_VERSIONS)
def test_initialize_takes_the_version_of_the_client(alone: McpSession, version: str) -> None:
    answer = alone.ask("initialize", protocolVersion=version, capabilities={}, clientInfo={})
    assert answer == {
        "protocolVersion": version,
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": {
            "name": "memoryd",
            "title": "memoryd",
            "version": memoryd_client.__version__,
        },
        "instructions": methods.INSTRUCTIONS,
    }
    alone.notify("notifications/initialized")
    assert alone.ask("ping") == {}


def test_initialize_with_another_version_gets_the_newest_handshake(alone: McpSession) -> None:
    for version in ("2026-07-28", "1999-01-01", None, 7):
        assert alone.ask("initialize", protocolVersion=version)["protocolVersion"] == "2025-11-25"


def test_discover(alone: McpSession) -> None:
    answer = alone.ask("server/discover", _meta=MODERN)
    assert answer["supportedVersions"] == ["2026-07-28"]
    assert answer["instructions"].count(". ") == 1
    assert answer["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
    assert (answer["resultType"], answer["cacheScope"]) == ("complete", "public")
    assert answer["ttlMs"] > 0
    assert answer["_meta"][SERVER]["name"] == "memoryd"


def test_each_modern_result_names_its_kind_and_the_server(alone: McpSession) -> None:
    for method, is_listed in (
        ("tools/list", True),
        ("prompts/list", True),
        ("resources/templates/list", True),
        ("ping", False),
    ):
        answer = alone.ask(method, _meta=MODERN)
        assert answer["resultType"] == "complete"
        assert answer["_meta"][SERVER]["name"] == "memoryd"
        assert ("ttlMs" in answer) is is_listed
        assert "resultType" not in alone.ask(method)


def test_an_unknown_modern_version_is_refused(alone: McpSession) -> None:
    key = "io.modelcontextprotocol/protocolVersion"
    alone.request("tools/list", _meta={key: "2031-01-01"})
    assert alone.receive()["error"] == {
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": {"supported": ["2026-07-28"], "requested": "2031-01-01"},
    }
    assert alone.refused("tools/list", _meta={key: 7})[0] == -32602


# Definitions


def test_the_definitions_are_small_and_annotated(alone: McpSession) -> None:
    listed = alone.ask("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == ["memory_search", "memory_get"]
    assert len(json.dumps(listed).encode()) < 2_000
    for tool in listed:
        assert tool["annotations"] == {
            "readOnlyHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert tool["_meta"] == {"anthropic/alwaysLoad": True}
        assert "outputSchema" not in tool


def test_the_prompt_and_the_templates_are_described(alone: McpSession) -> None:
    (prompt,) = alone.ask("prompts/list")["prompts"]
    assert prompt["description"]
    templates = alone.ask("resources/templates/list")["resourceTemplates"]
    uris = [template["uriTemplate"] for template in templates]
    assert uris == ["memory://note/{+path}", "memory://recall/{message}"]


# Errors of the protocol


def test_what_is_no_request_is_refused(alone: McpSession) -> None:
    for line, code, request_id in (
        (b"{", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, None),
        (b"[" * 5_000, -32700, None),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
        (b"7", -32600, None),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"id": 1, "method": "ping"}', -32600, 1),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 7}', -32600, "a"),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": []}', -32602, "a"),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "tools/drop"}', -32601, "a"),
    ):
        alone.send(line)
        answer = alone.receive()
        assert (answer["error"]["code"], answer["id"]) == (code, request_id), line
    # Nothing answers blank lines, notifications, and answers.
    alone.send(b" \r")
    alone.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
    alone.send({"jsonrpc": "2.0", "method": "no/such/notification", "params": {}})
    alone.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert alone.ask("ping") == {}


def test_a_message_that_is_too_long_is_skipped(alone: McpSession) -> None:
    alone.send(b"x" * (MAX_LINE_BYTES + 70_000))
    assert alone.receive()["error"]["code"] == -32700
    assert alone.ask("ping") == {}


def test_what_is_not_there_is_refused(alone: McpSession) -> None:
    code, message = alone.refused("tools/call", name="memory_drop", arguments={})
    assert (code, "memory_search, memory_get" in message) == (-32602, True)
    assert alone.refused("tools/call", name="memory_search", arguments=[1])[0] == -32602
    meta = {"memoryd/chatType": "crowd"}
    code, message = alone.refused("tools/call", name="memory_search", arguments={}, _meta=meta)
    assert (code, message) == (
        -32602,
        "memoryd/chatType must be one of direct, group, channel",
    )
    assert alone.refused("resources/read", uri="file:///etc/passwd")[0] == -32002
    assert alone.refused("resources/read", uri="file:///etc/passwd", _meta=MODERN)[0] == -32602
    assert alone.refused("resources/list", cursor=7)[0] == -32602
    assert alone.refused("prompts/get", name="other", arguments={"topic": "x"})[0] == -32602
    assert alone.refused("prompts/get", name="recall", arguments={"topic": " "})[0] == -32602
    assert alone.refused("prompts/get", name="recall", arguments=7)[0] == -32602


def test_lines_are_cut_wherever_the_bytes_are_split() -> None:
    buffer = LineBuffer()
    assert buffer.feed(b"a") == []
    assert buffer.feed(b"b\nc\n\nd") == [b"ab", b"c", b""]
    assert buffer.end() == [b"d"]
    assert buffer.feed(b"\n" + b"x" * (MAX_LINE_BYTES + 1)) == [b"d", None]
    assert buffer.feed(b"y" * (MAX_LINE_BYTES + 1)) == []
    assert buffer.end() == []
    assert buffer.feed(b"z\nnext\n") == [b"next"]
    assert buffer.end() == []


# Tools and the daemon


def test_wrong_arguments_are_explained_to_the_model(alone: McpSession) -> None:
    said = alone.tool("memory_search", fails=True)
    assert said == (
        "Error: memory_search: missing required field `query`. Hint: it takes query, maxResults, "
        "corpus, since, until."
    )
    said = alone.tool("memory_search", fails=True, query="x", limit=3)
    assert "unknown field `limit`" in said
    said = alone.tool("memory_search", fails=True, query="x", corpus="wiki")
    assert "Invalid enum value 'wiki': `corpus`" in said
    said = alone.tool("memory_search", fails=True, query="x", maxResults=0)
    assert "Expected `int` >= 1: `maxResults`" in said
    assert "it takes path, from, lines" in alone.tool("memory_get", fails=True)


def test_without_a_daemon_the_model_reads_how_to_start_one(alone: McpSession) -> None:
    said = alone.tool("memory_search", fails=True, query="tea")
    assert said.startswith("Memory is unavailable: no memoryd is running at /nowhere/s.")
    assert "`memctl start`" in said
    assert "do not answer as if memory had nothing" in said
    code, message = alone.refused("resources/list")
    assert (code, "no memoryd is running" in message) == (-32603, True)
    assert alone.refused("prompts/get", name="recall", arguments={"topic": "x"})[0] == -32603


def test_a_call_waits_for_a_daemon_that_restarts() -> None:
    daemon = FakeDaemon(answering(FOUND))
    with McpSession("--socket", daemon.path, "--wait", str(PATIENCE_S)) as session:
        request_id = session.request("tools/call", name="memory_search", arguments={"query": "tea"})
        assert session.ask("ping") == {}
        with daemon:
            answer = session.receive()
            assert answer["id"] == request_id
            assert answer["result"]["isError"] is False


def test_calls_run_at_the_same_time_and_answer_when_they_are_done() -> None:
    both = threading.Barrier(2)

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        both.wait(PATIENCE_S)
        peer.answer(request, FOUND)
        peer.hung_up()

    with (
        FakeDaemon(script, script, together=True) as daemon,
        McpSession("--socket", daemon.path, "--wait", "5") as session,
    ):
        ids = {
            session.request("tools/call", name="memory_search", arguments={"query": query})
            for query in ("tea", "coffee")
        }
        assert {session.receive()["id"] for _ in ids} == ids


def test_a_cancelled_call_is_never_answered() -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        asked.set()
        goes_on.wait(PATIENCE_S)
        with suppress(BrokenPipeError):  # the server may have left
            peer.answer(request, FOUND)
        peer.hung_up()

    with (
        FakeDaemon(script, answering(FOUND), together=True) as daemon,
        McpSession("--socket", daemon.path, "--wait", "5") as session,
    ):
        call = {"name": "memory_search", "arguments": {"query": "tea"}}
        request_id = session.request("tools/call", **call)
        assert asked.wait(PATIENCE_S)
        session.notify("notifications/cancelled", requestId=request_id, reason="changed my mind")
        session.notify("notifications/cancelled", requestId=[])
        assert session.ask("ping") == {}
        goes_on.set()
        assert session.tool("memory_search", query="coffee")
        assert session.ask("ping") == {}


def test_an_id_in_use_is_refused() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        goes_on.wait(PATIENCE_S)
        peer.answer(request, FOUND)
        peer.hung_up()

    goes_on = threading.Event()
    call = {
        "jsonrpc": "2.0",
        "id": "same",
        "method": "tools/call",
        "params": {"name": "memory_search", "arguments": {"query": "tea"}},
    }
    with (
        FakeDaemon(script) as daemon,
        McpSession("--socket", daemon.path, "--wait", "5") as session,
    ):
        session.send(call)
        session.send(call)
        assert session.receive()["error"]["code"] == -32600
        goes_on.set()
        assert session.receive()["result"]["isError"] is False


def test_a_call_that_takes_too_long_is_answered_with_its_limit() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        peer.hung_up()

    with (
        FakeDaemon(script, script, together=True) as daemon,
        McpSession("--socket", daemon.path, "--timeout", "0.2") as session,
    ):
        said = session.tool("memory_search", fails=True, query="tea")
        assert "Memory is unavailable: " in said
        # A busy machine spends some hundredths before the call.
        assert re.search(r" within 0\.(2|1\d?) s\.", said)
        assert session.refused("resources/list")[0] == -32603


def test_a_failure_of_the_daemon_is_a_text() -> None:
    script = answering(
        Error(ErrorCode.BAD_REQUEST, "since must be a date"),
        Error(ErrorCode.UNAVAILABLE, "the agent is starting"),
    )
    with FakeDaemon(script) as daemon, McpSession("--socket", daemon.path) as session:
        said = session.tool("memory_search", fails=True, query="tea", since="soon")
        assert said == "Error: since must be a date."
        said = session.tool("memory_search", fails=True, query="tea")
        assert said.startswith("Memory is unavailable: the agent is starting.")


# Streams and signals


def test_requests_are_answered_before_the_end_of_input_ends_it() -> None:
    with FakeDaemon(answering(FOUND)) as daemon:
        call = {"name": "memory_search", "arguments": {"query": "tea"}}
        lines = [
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        ]
        done = subprocess.run(
            [sys.executable, "-m", "memctl", "--socket", daemon.path, "mcp"],
            env={**os.environ, "PYTHONPATH": str(Path(memoryd_client.__file__).parents[1])},
            input="\n".join(map(json.dumps, lines)),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {1, 2}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(alone: McpSession, number: signal.Signals) -> None:
    alone.ask("ping")
    alone.process.send_signal(number)
    assert alone.process.wait(PATIENCE_S) in (-signal.SIGTERM, 130)


def test_nothing_else_gets_between_the_messages() -> None:
    """Prints of our own and of children go to standard error, and find no input."""
    code = (
        "import subprocess, sys\n"
        "from memctl.mcp import methods\n"
        "from memctl.mcp.jsonrpc import RpcResult\n"
        "def loud(call):\n"
        "    print('printed', flush=True)\n"
        "    subprocess.run(['sh', '-c', 'cat; echo from a child'], check=True)\n"
        "    return RpcResult({})\n"
        "methods.IMMEDIATE['ping'] = loud\n"
        "from memctl.main import main\n"
        "sys.exit(main(['mcp']))\n"
    )
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(memoryd_client.__file__).parents[1])},
        input=message * 2,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n' * 2
    assert done.stderr == b"printed\nfrom a child\n" * 2
    assert done.returncode == 0


def test_it_works_without_standard_error() -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m memctl mcp 2>&-"],
        env={**os.environ, "PYTHONPATH": str(Path(memoryd_client.__file__).parents[1])},
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
