"""JSON-RPC 2.0 messages of MCP, one per line, in both generations of the protocol. Pure.

Up to 2025-11-25 a connection begins with `initialize`. From 2026-07-28 on each request carries its
version in `_meta`, and its result names its kind and the server.
"""

from typing import Any

import msgspec
from msgspec import Struct

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022
"""The version in `_meta` is not one of ours (2026-07-28)."""
RESOURCE_NOT_FOUND = -32002
"""No such resource, up to 2025-11-25; later versions use `INVALID_PARAMS`."""

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
RequestId = int | str


class RpcError(Exception):
    """An error in place of a result. `request_id` is None if the request has no usable id."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        data: object = None,
        request_id: RequestId | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id


class RpcCall(Struct, frozen=True):
    """A request, or a notification if `id` is None. `modern`: it carries its own version."""

    method: str
    params: dict[str, Any]
    id: RequestId | None = None
    modern: bool = False


class RpcResult(Struct, frozen=True):
    """A result. `fresh_ms` and `is_public` say how long and for whom it holds; None: not at all."""

    fields: dict[str, Any]
    fresh_ms: int | None = None
    is_public: bool = False


def read(line: bytes) -> RpcCall | None:
    """Return the request or notification of a line; None for an answer, which needs none.

    Raises `RpcError`.
    """
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "a message must be an object; batches are not supported")
    request_id = message.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
        raise RpcError(INVALID_REQUEST, "id must be a string or an integer")
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return None
    if not isinstance(method, str) or message.get("jsonrpc") != "2.0":
        problem = 'a request needs "jsonrpc": "2.0" and a method'
        raise RpcError(INVALID_REQUEST, problem, request_id=request_id)
    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object", request_id=request_id)
    return RpcCall(method, params, request_id, _is_modern(params, request_id))


def _is_modern(params: dict[str, Any], request_id: RequestId | None) -> bool:
    """Return whether a request carries its version. Raises `RpcError` if it is not one of ours."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or _VERSION_KEY not in meta:
        return False
    version = meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"{_VERSION_KEY} must be a string", request_id=request_id)
    if version not in MODERN_VERSIONS:
        raise RpcError(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            data={"supported": list(MODERN_VERSIONS), "requested": version},
            request_id=request_id,
        )
    return True


def write(call: RpcCall, result: RpcResult, server: dict[str, Any]) -> bytes:
    """Return the line that answers a request; `server` introduces this program."""
    fields = result.fields
    if call.modern:
        fields = {**fields, "resultType": "complete", "_meta": {_SERVER_KEY: server}}
        if result.fresh_ms is not None:
            scope = "public" if result.is_public else "private"
            fields |= {"ttlMs": result.fresh_ms, "cacheScope": scope}
    return _line({"jsonrpc": "2.0", "id": call.id, "result": fields})


def write_error(error: RpcError, request_id: RequestId | None = None) -> bytes:
    """Return the line that reports an error, for its own request or for `request_id`."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    answered = error.request_id if request_id is None else request_id
    return _line({"jsonrpc": "2.0", "id": answered, "error": body})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
