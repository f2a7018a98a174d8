"""Assertions about vectors and errors for the checks by the vendors' SDKs."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

from vendors import embedding

TEXTS = ["the boiler is in the cellar", "今天玩成语接龙", "the boiler hums"]
WRONG = "sk-wrong-key-1234567890"


def near(given: Any, texts: list[str], dims: int = 8) -> None:
    """Compare vectors with the expected ones of the texts."""
    assert len(given) == len(texts)
    for vector, text in zip(given, texts, strict=True):
        expected = embedding(text, dims)
        assert len(vector) == dims
        assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(vector, expected, strict=True))


async def refused(kind: type[Exception], call: Callable[[], Awaitable[Any]], *words: str) -> Any:
    """Check that a call raises exactly this kind of error, with this text."""
    raised = await asyncio.gather(call(), return_exceptions=True)
    error: Any = raised[0]
    assert type(error) is kind, (type(error), error)
    assert all(word in str(error) for word in words), error
    return error
