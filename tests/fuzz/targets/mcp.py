"""Lines of an MCP client: the server cuts, reads and checks them, and answers what it can."""

import json
from contextlib import suppress
from pathlib import Path

from memctl.mcp import jsonrpc, methods
from memctl.mcp.jsonrpc import RpcCall, RpcError
from memctl.mcp.server import LineBuffer
from memoryd_client import tools
from memoryd_client.errors import BadRequestError

GOLDEN = Path(__file__).parents[2] / "fixtures" / "mcp" / "transcript.jsonl"
REQUESTS = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[::2]]
SEEDS = [
    *(json.dumps({"jsonrpc": "2.0", "id": 1, **request}).encode() for request in REQUESTS),
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
    b'{"jsonrpc":"2.0","id":"a","result":{}}\r\n\n[]\n{"id":1.5}\n{',
]
DICTIONARY = [b'"_meta":{', b'"arguments":', b"io.modelcontextprotocol/protocolVersion"]
MAX_BYTES = 2_048


def check(data: bytes) -> None:
    """Cut the bytes in two ways, which must agree, and answer each line."""
    lines = _cut([data])
    assert _cut([data[at : at + 1] for at in range(len(data))]) == lines
    for line in lines:
        try:
            call = jsonrpc.read(line)
            answer = None if call is None else _answer(call)
        except RpcError as error:
            answer = jsonrpc.write_error(error)
        if answer is not None:
            assert answer.endswith(b"\n")
            assert answer.count(b"\n") == 1
            assert set(json.loads(answer)) in (
                {"jsonrpc", "id", "result"},
                {"jsonrpc", "id", "error"},
            )


def _cut(pieces: list[bytes]) -> list[bytes]:
    buffer = LineBuffer()
    lines = [line for piece in pieces for line in buffer.feed(piece)] + buffer.end()
    return [line for line in lines if line is not None]


def _answer(call: RpcCall) -> bytes | None:
    """Return the answer to a request that needs no daemon; read the arguments of a tool."""
    methods.check(call)
    if (answer := methods.IMMEDIATE.get(call.method)) is not None:
        return jsonrpc.write(call, answer(call), methods.SERVER)
    if call.method == "tools/call":
        with suppress(BadRequestError):
            arguments = call.params.get("arguments") or {}
            tools.read_arguments(call.params["name"], arguments).options()
    return None
