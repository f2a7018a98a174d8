"""Vectors that are equal on every machine, and close for texts that share words."""

import base64
import functools
import hashlib
import re

import numpy as np
from numpy.typing import NDArray

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORDS = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_DIGITS = 6


def words(text: str) -> list[str]:
    """Return the words of a text and its single CJK characters; the whole text if it has none."""
    return _WORDS.findall(text.casefold()) or [text]


@functools.lru_cache(maxsize=20_000)
def _direction(word: str, dims: int) -> NDArray[np.float64]:
    drawn = hashlib.shake_256(word.encode("utf-8", "surrogatepass")).digest(2 * dims)
    return np.frombuffer(drawn, "<u2") / 32_767.5 - 1.0


def embedding(text: str, dims: int) -> list[float]:
    """Return a unit vector of `dims` six-digit numbers: the sum of a hashed direction per word."""
    total = np.sum([_direction(word, dims) for word in words(text)], axis=0)
    unit: list[float] = np.round(total / np.linalg.norm(total), _DIGITS).tolist()
    return unit


def in_base64(vector: list[float]) -> str:
    """Return a vector as little-endian float32 in base64."""
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode("ascii")


def tokens(text: str) -> int:
    """Return an estimate of the tokens that a vendor would count."""
    return max(1, len(text.encode("utf-8", "surrogatepass")) // 4)
