"""The headers of model files."""

import io
import struct
from contextlib import suppress

from memoryd.embed.gguf_facts import GgufError, read_facts

_ONE = struct.pack("<Q", 8) + b"general." + struct.pack("<I", 8) + struct.pack("<Q", 1) + b"x"
_HEAD = b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
SEEDS = [
    _HEAD + _ONE + struct.pack("<Q", 1) + b"n" + struct.pack("<II", 4, 7),
    _HEAD + _ONE + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 4, 2) + bytes(8),
    _HEAD + struct.pack("<Q", 10) + b"tokenizer." + struct.pack("<I", 9),
    b"GGUF" + struct.pack("<IQQ", 2, 2**63, 2**64 - 1),
    _HEAD + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 8, 2**64 - 1),
    _HEAD + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 9, 5),
]
DICTIONARY = [b"GGUF", struct.pack("<I", 9), struct.pack("<I", 8), struct.pack("<Q", 2**64 - 1)]
MAX_BYTES = 1_024


def check(data: bytes) -> None:
    """Read the header; only a `GgufError` may result."""
    with suppress(GgufError):
        for key, value in read_facts(io.BytesIO(data)).items():
            assert isinstance(key, str)
            assert isinstance(value, int | float | str | bool)
