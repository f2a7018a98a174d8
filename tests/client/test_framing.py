from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd_client.schema.search import SearchBody as Body
from memoryd_client.wire.framing import (
    HEADER_BYTES,
    EmptyFrameError,
    FrameBuffer,
    FrameTooLargeError,
    pack,
)
from memoryd_client.wire.protocol import Cancel, Request, decode_client_frame, raw

bodies = st.lists(st.binary(min_size=1, max_size=300), max_size=8)
surrogates = st.characters(exclude_categories=["Cs"])


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "big") + body


@st.composite
def split_streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Frame bodies, and their stream cut at arbitrary positions."""
    frames = draw(bodies)
    stream = b"".join(framed(body) for body in frames)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    edges = [0, *cuts, len(stream)]
    return frames, [stream[a:b] for a, b in pairwise(edges)]


@given(split_streams())
def test_frames_do_not_depend_on_how_the_stream_is_split(
    case: tuple[list[bytes], list[bytes]],
) -> None:
    frames, pieces = case
    buffer = FrameBuffer()
    assert [frame for piece in pieces for frame in buffer.feed(piece)] == frames


@given(bodies)
def test_a_stream_may_come_byte_by_byte(frames: list[bytes]) -> None:
    buffer = FrameBuffer()
    stream = b"".join(framed(body) for body in frames)
    received = [frame for byte in stream for frame in buffer.feed(bytes([byte]))]
    assert received == frames


@given(
    limit=st.integers(1, 2**32 - 2),
    data=st.data(),
    cut=st.integers(0, HEADER_BYTES - 1),
)
def test_an_oversized_frame_is_refused_by_its_header_alone(
    limit: int, data: st.DataObject, cut: int
) -> None:
    length = data.draw(st.integers(limit + 1, 2**32 - 1))
    header = length.to_bytes(HEADER_BYTES, "big")
    buffer = FrameBuffer(limit=limit)
    assert buffer.feed(header[:cut]) == []
    with pytest.raises(FrameTooLargeError) as caught:
        buffer.feed(header[cut:])
    assert (caught.value.length, caught.value.limit) == (length, limit)


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    assert FrameBuffer(limit=5).feed(framed(b"12345")) == [b"12345"]


def test_an_empty_frame_is_an_error() -> None:
    with pytest.raises(EmptyFrameError):
        FrameBuffer().feed(bytes(HEADER_BYTES))


def test_a_frame_outlives_the_memory_it_was_received_in() -> None:
    received = bytearray(framed(b"abc"))
    frames = FrameBuffer().feed(memoryview(received))
    received[:] = bytes(len(received))
    assert frames == [b"abc"]


@given(
    request_id=st.integers(0, 2**63 - 1),
    op=st.text(surrogates),
    query=st.text(surrogates),
    deadline_ms=st.none() | st.integers(1, 2**31),
)
def test_what_is_packed_comes_out_again(
    request_id: int, op: str, query: str, deadline_ms: int | None
) -> None:
    frame = Request(request_id, op, raw(Body(query)), deadline_ms)
    (body,) = FrameBuffer().feed(pack(frame))
    assert decode_client_frame(body) == frame


def test_packing_refuses_what_the_receiver_would_refuse() -> None:
    size = len(pack(Cancel(1))) - HEADER_BYTES
    assert pack(Cancel(1), limit=size)
    with pytest.raises(FrameTooLargeError):
        pack(Cancel(1), limit=size - 1)
