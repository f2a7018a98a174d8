"""Frames of the wire protocol; the structs in `schema` are their bodies.

One frame is a big-endian u32 length followed by one MessagePack map (see `framing`).
Envelopes are decoded before bodies, so that a bad body can be answered by its id. Names are
snake_case; fields are only ever added, with defaults. `docs/protocol.md` documents these modules.
"""

from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024
HELLO_TIMEOUT_S = 5.0
CAPABILITIES = (
    "search",
    "get",
    "sync",
    "index",
    "status",
    "config",
    "cancel",
    "progress",
    "agents",
    "files",
    "sessions",
    "forget",
    "probe",
    "events",
    "context",
    "recall",
    "note",
    "promote",
    "stale",
    "facts",
)


class Op(StrEnum):
    """Operations of a `Request`."""

    PING = "ping"
    STATUS = "status"
    CONFIG = "config"
    SEARCH = "search"
    GET = "get"
    CONTEXT = "context"
    RECALL = "recall"
    SYNC = "sync"
    INDEX = "index"
    FILES = "files"
    SESSIONS = "sessions"
    FORGET = "forget"
    EXPORT = "export"
    IMPORT = "import"
    NOTE = "note"
    PROMOTE = "promote"
    STALE = "stale"
    FACT_STORE = "fact_store"
    FACT_RECALL = "fact_recall"
    FACT_FORGET = "fact_forget"
    FACTS = "facts"
    FACT_CAPTURE = "fact_capture"
    PROBE = "probe"
    SESSION_START = "session_start"
    TRANSCRIPT_UPDATED = "transcript_updated"
    EVENTS = "events"
    AGENTS = "agents"
    ADD = "add"
    DROP = "drop"
    RELOAD = "reload"


class ErrorCode(StrEnum):
    """Reason for a failed request. Strings are stable; `memctl` maps them to exit codes."""

    BAD_REQUEST = "bad_request"
    UNKNOWN_OP = "unknown_op"
    DUPLICATE_ID = "duplicate_id"
    NOT_FOUND = "not_found"
    UNKNOWN_AGENT = "unknown_agent"
    DENIED = "denied"
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    FRAME_TOO_LARGE = "frame_too_large"
    BAD_FRAME = "bad_frame"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"


class Frame(Struct, tag_field="type", omit_defaults=True):
    """Base of all envelopes; the map's `type` key names the subclass."""


class Hello(Frame, tag="hello"):
    """First frame of a client: the protocol versions that it supports, inclusive.

    `folder` is the client's current directory, absolute. A request without an agent goes to the
    agent whose workspace contains it. `kind` is `agent` for the program of an agent, whose searches
    may be counted; `tool`, any other kind and "" are not.
    """

    protocol_min: int
    protocol_max: int
    client: str = ""
    folder: str = ""
    kind: str = ""


class Request(Frame, tag="request"):
    """One call. `id` is chosen by the client and unique while in flight.

    Without `agent`, it goes to the agent whose workspace contains the client's folder, else to the
    daemon's default agent.
    """

    id: int
    op: str
    body: Raw = Raw(b"\x80")
    deadline_ms: int | None = None
    agent: str | None = None


class Cancel(Frame, tag="cancel"):
    """Asks the daemon to stop request `id`, which is still answered exactly once."""

    id: int


class Welcome(Frame, tag="welcome"):
    """First frame of the daemon: the protocol version in use and its capabilities.

    `restricted`: the socket permits only reading operations; `capabilities` names them.
    """

    protocol: int
    server: str
    pid: int
    boot_id: str
    capabilities: list[str]
    max_frame_bytes: int = MAX_FRAME_BYTES
    restricted: bool = False


class Progress(Frame, tag="progress"):
    """Progress of a request; dropped if the client reads slowly."""

    id: int
    completed: int
    total: int
    label: str = ""


class Item(Frame, tag="item"):
    """One element of a streamed answer. Never dropped."""

    id: int
    body: Raw


class Result(Frame, tag="result"):
    """Successful end of request `id`."""

    id: int
    body: Raw


class Error(Frame, tag="error"):
    """Unsuccessful end of request `id`, or of the connection without an id."""

    code: str
    message: str
    id: int | None = None
    hint: str = ""
    retryable: bool = False
    retry_after_ms: int | None = None


ClientFrame = Hello | Request | Cancel
ServerFrame = Welcome | Progress | Item | Result | Error


class Body(Struct, omit_defaults=False):
    """Base of request and result bodies. Unknown fields are ignored."""


BodyT = TypeVar("BodyT")

_encoder = msgspec.msgpack.Encoder()
_client_frames: msgspec.msgpack.Decoder[ClientFrame] = msgspec.msgpack.Decoder(ClientFrame)
_server_frames: msgspec.msgpack.Decoder[ServerFrame] = msgspec.msgpack.Decoder(ServerFrame)


def encode(value: object) -> bytes:
    """Encode a frame or a body as MessagePack."""
    return _encoder.encode(value)


def raw(body: Body) -> Raw:
    """Encode a body for embedding into an envelope."""
    return Raw(_encoder.encode(body))


def decode_client_frame(data: bytes | memoryview) -> ClientFrame:
    """Decode a frame of a client. Raises `msgspec.DecodeError`."""
    return _decoded(_client_frames, data)


def decode_server_frame(data: bytes | memoryview) -> ServerFrame:
    """Decode a frame of the daemon. Raises `msgspec.DecodeError`."""
    return _decoded(_server_frames, data)


def decode_body(data: bytes | Raw, form: type[BodyT]) -> BodyT:
    """Decode the body of a request, a result or an item. Raises `msgspec.DecodeError`."""
    return _decoded(msgspec.msgpack.Decoder(form), data)


def _decoded(decoder: msgspec.msgpack.Decoder[BodyT], data: bytes | memoryview | Raw) -> BodyT:
    try:
        return decoder.decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
