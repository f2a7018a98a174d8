"""Bytes on the socket: both ends cut them into frames and decode the frames."""

from contextlib import suppress
from pathlib import Path

import msgspec

from memoryd_client import errors
from memoryd_client.schema.memory import BODY_OF_OP
from memoryd_client.wire.codec import Conversation
from memoryd_client.wire.framing import FrameBuffer, FrameError
from memoryd_client.wire.protocol import decode_client_frame, decode_server_frame, encode

GOLDEN = Path(__file__).parents[2] / "wire"
HEADER = b"\x00\x00\x00\x0d"
SEEDS = [
    *(bytes.fromhex(file.read_text()) for file in sorted(GOLDEN.glob("*.hex"))),
    b"\x00\x00\x00\x01\x80" * 3,
    b"\xff\xff\xff\xff",
]
SEEDS += [len(seed).to_bytes(4, "big") + seed for seed in SEEDS]
DICTIONARY = [b"\xa4type", b"\xa5hello", b"\xa7request", b"\xa6cancel", b"\xa2id", b"\xa4body"]
MAX_BYTES = 1_024
LIMIT_BYTES = 512


def check(data: bytes) -> None:
    """Cut the bytes in two ways, which must agree, and decode each frame as every possible type."""
    whole = _cut([data])
    assert _cut([data[at : at + 1] for at in range(len(data))]) == whole
    for body in (*whole[0], data):
        for decode in (decode_client_frame, decode_server_frame):
            with suppress(msgspec.DecodeError):
                frame = decode(body)
                assert decode(encode(frame)) == frame
        for form in BODY_OF_OP.values():
            with suppress(ValueError, RecursionError):
                msgspec.msgpack.decode(body, type=form)
    with suppress(errors.ProtocolMismatchError):
        Conversation("fuzz", "/").feed(data)


def _cut(pieces: list[bytes]) -> tuple[list[bytes], str]:
    """Return the frames of a stream that arrives in pieces, and the error at its end."""
    buffer = FrameBuffer(limit=LIMIT_BYTES)
    frames: list[bytes] = []
    for piece in pieces:
        try:
            frames += buffer.feed(piece)
        except FrameError as error:
            # The frames before it in the same piece are lost with the connection.
            return [], str(error)
    return frames, ""
