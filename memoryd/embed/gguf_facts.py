"""Metadata of a GGUF file, read without llama.cpp, in the model's own process only.

The format is that of the ggml project's `docs/gguf.md`, versions 2 and 3, little-endian: "GGUF", a
u32 version, a u64 count of tensors, a u64 count of key-value pairs, the pairs.
"""

import os
import struct
from typing import BinaryIO

from memoryd.embed.gguf_file import MAGIC

_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_TEXT_BYTES = 2**16
_MAX_ARRAY_BYTES = 2**30
_TOKENIZER = "tokenizer."
"""Prefix of the keys of the vocabulary, which is long and follows the model's own keys."""

Value = int | float | str | bool


class GgufError(ValueError):
    """The file is not a GGUF file, or its header is corrupt."""


def read_facts(file: BinaryIO) -> dict[str, Value]:
    """Return the scalar values before the vocabulary, by key.

    Raises `GgufError`.
    """
    facts: dict[str, Value] = {}
    try:
        if file.read(len(MAGIC)) != MAGIC:
            raise GgufError("it does not start with GGUF")
        if (version := _number(file, "I")) not in (2, 3):
            raise GgufError(f"its version {version} is not supported")
        _number(file, "Q")
        for _ in range(int(_number(file, "Q"))):
            key = _text(file)
            kind = int(_number(file, "I"))
            if key.startswith(_TOKENIZER):
                break
            if kind == _ARRAY:
                _skip_array(file)
            else:
                facts[key] = _text(file) if kind == _STRING else _number(file, _format(kind))
    except struct.error as error:
        raise GgufError("it ends too early") from error
    return facts


def _skip_array(file: BinaryIO) -> None:
    kind = int(_number(file, "I"))
    count = int(_number(file, "Q"))
    if kind == _STRING:
        for _ in range(count):
            _text(file)
    else:
        size = count * struct.calcsize(f"<{_format(kind)}")
        if size > _MAX_ARRAY_BYTES:
            raise GgufError("it contains a list that is too long")
        file.seek(size, os.SEEK_CUR)


def _format(kind: int) -> str:
    if (known := _SCALARS.get(kind)) is None:
        raise GgufError(f"it contains a value of unknown type {kind}")
    return known


def _number(file: BinaryIO, code: str) -> int | float:
    number: int | float
    (number,) = struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))
    return number


def _text(file: BinaryIO) -> str:
    size = int(_number(file, "Q"))
    if size > _MAX_TEXT_BYTES:
        raise GgufError("it contains a text that is too long")
    raw = file.read(size)
    if len(raw) < size:
        raise GgufError("it ends too early")
    return raw.decode("utf-8", "replace")
