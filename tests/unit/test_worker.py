"""The protocol of a local model's process."""

import io

import msgspec
import pytest

from memoryd.embed.worker import (
    FRAME_HEADER,
    MAX_FRAME_BYTES,
    EmbedReply,
    EmbedRequest,
    LoadedModel,
    answer,
    pack,
)


def answered(sent: bytes) -> list[EmbedReply]:
    """Return the process's answers; a text's vector is its number of bytes."""
    replies = io.BytesIO()
    answer(io.BytesIO(sent), replies, LoadedModel(lambda texts: bytes(map(len, texts))))
    data, found = replies.getvalue(), []
    while data:
        (size,) = FRAME_HEADER.unpack(data[: FRAME_HEADER.size])
        body, data = data[FRAME_HEADER.size :][:size], data[FRAME_HEADER.size + size :]
        found.append(msgspec.msgpack.decode(body, type=EmbedReply))
    return found


def test_each_request_is_answered_in_order_until_they_end() -> None:
    sent = pack(EmbedRequest(1, ["a", "bc"])) + pack(EmbedRequest(2, []))
    for cut in range(1, FRAME_HEADER.size + 2):
        loaded, *replies = answered(sent + pack(EmbedRequest(3, ["x"]))[:-cut])
        assert loaded.id == 0
        assert [(reply.id, reply.vectors) for reply in replies] == [(1, b"\1\2"), (2, b"")]


@pytest.mark.parametrize(
    "sent",
    [
        FRAME_HEADER.pack(MAX_FRAME_BYTES + 1),
        FRAME_HEADER.pack(2**32 - 1) + b"x",
        FRAME_HEADER.pack(3) + b"\x81\xa1a",
        FRAME_HEADER.pack(100_000) + b"\x91" * 100_000,
        FRAME_HEADER.pack(0),
    ],
)
def test_what_is_no_request_ends_it(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        answered(sent)
