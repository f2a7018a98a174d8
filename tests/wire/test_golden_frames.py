"""Every frame and body of the protocol, byte for byte, so that no change is accidental.

Each example has one `NAME.hex`: a frame with its length, or a body without one. After a deliberate
change, rewrite the files and review the diff:

    MEMORYD_WRITE_GOLDEN=1 python -m pytest tests/wire
"""

import os
from pathlib import Path

import msgspec
import pytest
from golden_examples import BODIES, FRAMES

from memoryd_client.schema import (
    agents,
    facts,
    memory,
    notes,
    promotion,
    recall,
    search,
    stale,
    status,
    transcripts,
)
from memoryd_client.wire import protocol
from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import Body, Frame

FOLDER = Path(__file__).parent
EXAMPLES: dict[str, Frame | Body] = {**FRAMES, **BODIES}
HEX_DIGITS_PER_LINE = 64


def encoded(example: Frame | Body) -> bytes:
    return pack(example) if isinstance(example, Frame) else protocol.encode(example)


def golden(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text())


def write_golden(name: str) -> None:
    digits = encoded(EXAMPLES[name]).hex()
    lines = [
        digits[start : start + HEX_DIGITS_PER_LINE]
        for start in range(0, len(digits), HEX_DIGITS_PER_LINE)
    ]
    (FOLDER / f"{name}.hex").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_encoding_is_what_it_was(name: str) -> None:
    if "MEMORYD_WRITE_GOLDEN" in os.environ:
        write_golden(name)
    assert encoded(EXAMPLES[name]).hex() == golden(name).hex()


@pytest.mark.parametrize("name", FRAMES)
def test_golden_frame_is_understood(name: str) -> None:
    (body,) = FrameBuffer().feed(golden(name))
    sent_by_client = isinstance(FRAMES[name], protocol.ClientFrame)
    decode = protocol.decode_client_frame if sent_by_client else protocol.decode_server_frame
    assert decode(body) == FRAMES[name]


@pytest.mark.parametrize("name", BODIES)
def test_golden_body_is_understood(name: str) -> None:
    assert msgspec.msgpack.decode(golden(name), type=type(BODIES[name])) == BODIES[name]


def test_there_is_no_other_golden_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.hex")} == set(EXAMPLES)


def test_every_struct_of_the_protocol_has_an_example() -> None:
    declared = {
        cls
        for module in (
            protocol,
            facts,
            memory,
            notes,
            promotion,
            recall,
            search,
            stale,
            agents,
            transcripts,
            status,
        )
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, Frame | Body) and cls not in (Frame, Body)
    }
    assert declared == {struct for example in EXAMPLES.values() for struct in structs(example)}


def structs(value: object) -> set[type]:
    if isinstance(value, list):
        return {struct for element in value for struct in structs(element)}
    if isinstance(value, msgspec.Struct):
        fields = [getattr(value, name) for name in value.__struct_fields__]
        return {type(value)} | structs(fields)
    return set()


@pytest.mark.parametrize("name", BODIES)
def test_a_field_of_a_later_version_is_skipped(name: str) -> None:
    fields = msgspec.msgpack.decode(golden(name))
    later = msgspec.msgpack.encode({**fields, "of_a_later_version": [1, {"a": None}]})
    assert msgspec.msgpack.decode(later, type=type(BODIES[name])) == BODIES[name]
