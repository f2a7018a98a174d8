"""Decoding of vectors in answers: floats or base64, by position or by index. Pure."""

import base64
import binascii
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import numpy as np

from memoryd.embed.provider import FloatMatrix, RetryableError

T = TypeVar("T")
JsonVector = list[float] | str
"""Numbers, or little-endian float32 in base64."""


def read_json(vendor: str, body: bytes, shape: type[T]) -> T:
    """Return an answer as a `msgspec.Struct`. Raises `RetryableError` if it doesn't fit."""
    with suppress(ValueError, RecursionError):
        return msgspec.json.decode(body, type=shape)
    try:
        # NaN is not JSON, but some servers write it; only that vector is bad.
        return msgspec.convert(_with_nan(json.loads(body)), shape)
    except (ValueError, RecursionError) as error:
        raise unreadable(vendor, body) from error


def unreadable(vendor: str, body: bytes, *, else_it_is: str = "no vectors") -> RetryableError:
    """Return the error for an answer that can't be read."""
    start = body.lstrip()[:1]
    content = "nothing" if not start else "an HTML page" if start == b"<" else else_it_is
    return RetryableError(f"{vendor} answered with {content}.", answered=True)


def matrix(vendor: str, vectors: Sequence[JsonVector], count: int) -> FloatMatrix:
    """Return vectors as rows, shape (count, dims). Raises `RetryableError` if they don't fit."""
    if len(vectors) != count:
        raise RetryableError(
            f"{vendor} returned {len(vectors)} vectors for {count} texts.", answered=True
        )
    rows = [_row(vendor, vector) for vector in vectors]
    if len({len(row) for row in rows}) > 1:
        raise RetryableError(f"{vendor} returned vectors of different lengths.", answered=True)
    if not len(rows[0]):
        raise RetryableError(f"{vendor} returned empty vectors.", answered=True)
    return np.stack(rows)


def in_order(vendor: str, vectors: Sequence[T], indexes: Sequence[int | None]) -> list[T]:
    """Return vectors in the order of their indexes, or unchanged if none has an index."""
    if all(index is None for index in indexes):
        return list(vectors)
    numbers = [-1 if index is None else index for index in indexes]
    if sorted(numbers) != list(range(len(vectors))):
        raise RetryableError(f"{vendor} returned vectors with wrong indexes.", answered=True)
    return [
        vector for _, vector in sorted(zip(numbers, vectors, strict=True), key=lambda pair: pair[0])
    ]


def _row(vendor: str, vector: JsonVector) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    if isinstance(vector, str):
        try:
            return np.frombuffer(base64.b64decode(vector, validate=True), "<f4")
        except (binascii.Error, ValueError) as error:
            raise RetryableError(
                f"{vendor} returned a vector that can't be decoded.", answered=True
            ) from error
    with np.errstate(over="ignore"):  # infinity is detected later
        return np.array(vector, np.float32)


def _with_nan(value: Any) -> Any:
    """Return the answer with NaN for null among numbers."""
    if isinstance(value, dict):
        return {name: _with_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        if all(part is None or isinstance(part, float | int) for part in value):
            return [float("nan") if part is None else part for part in value]
        return [_with_nan(part) for part in value]
    return value
