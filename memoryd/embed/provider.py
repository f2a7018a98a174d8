"""Protocol of embedding providers: calls, errors, model prefixes and checks of vectors.

The pool depends on no other part of a provider.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryd.embed.route import Route


class Prefixes(NamedTuple):
    """Text before each query and document, byte for byte."""

    query: str = ""
    document: str = ""


_BY_MODEL = {
    "embeddinggemma": Prefixes("task: search result | query: ", "title: none | text: "),
    "nomic-embed-text": Prefixes("search_query: "),
    "mxbai-embed-large": Prefixes("Represent this sentence for searching relevant passages: "),
    "qwen3-embedding": Prefixes(
        "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:"
    ),
}
"""By part of a model's name; only embeddinggemma's model card demands a document prefix."""


def prefixes(model: str, *, query: str | None = None, document: str | None = None) -> Prefixes:
    """Return the prefixes that a model needs, empty for an unknown one.

    Configured prefixes (`query`, `document`) replace the model's own. The model is recognized by
    the last segment of a path, in any case: `hf.co/Qwen/Qwen3-Embedding`.
    """
    segment = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    found = next((known for name, known in _BY_MODEL.items() if name in segment), Prefixes())
    return Prefixes(
        found.query if query is None else query, found.document if document is None else document
    )


FloatMatrix = NDArray[np.float32]
T = TypeVar("T")


class ProviderError(Exception):
    """Base of provider failures. The message names the problem and the fix, for people."""


class RetryableError(ProviderError):
    """A failure that may pass: timeout, 5xx, crashed worker. `after_s` overrides the back-off.

    `answered`: the provider is there and failed at this request, so the texts may be the cause,
    for example one that is too long. `busy`: the provider works and gets too many requests.
    """

    def __init__(
        self,
        message: str,
        *,
        after_s: float | None = None,
        answered: bool = False,
        busy: bool = False,
    ) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.answered = answered
        self.busy = busy


class PermanentError(ProviderError):
    """A failure that lasts until somebody intervenes: a bad key, an unknown model.

    `for_good` is False for a failure that passes eventually, such as a used-up quota. `missing`:
    nothing exists at that address. `refused` is the provider's answer, without our conclusion, if
    the texts may be the cause.
    """

    def __init__(
        self,
        message: str,
        *,
        for_good: bool = True,
        missing: bool = False,
        refused: str | None = None,
    ) -> None:
        super().__init__(message)
        self.for_good = for_good
        self.missing = missing
        self.refused = refused


class BadTextError(ProviderError):
    """A text of the batch can't be embedded; the pool halves the batch to find it."""


class BatchTooLargeError(BadTextError):
    """The batch has too many texts; `limit` is the maximum, if the provider reported it."""

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scale of a model's cosines: `low` stands for unrelated texts (0.0), `high` for equal (1.0).

    One model gives 0.2 to unrelated texts and 0.5 to good answers, another 0.0 and 0.9. Scores use
    the calibrated value, so that one threshold fits all models.
    """

    low: float = 0.0
    high: float = 1.0

    def apply(self, cosine: float) -> float:
        """Map a cosine linearly, `low` to 0 and `high` to 1; the result is not clamped."""
        return (cosine - self.low) / (self.high - self.low)


class Provider(Protocol):
    """Turns texts into vectors.

    `name`, `model` and `key` (a hash of address, model and non-secret headers, never of a secret)
    identify its vectors; `dims` is None until known. `max_input_bytes` bounds one text in UTF-8,
    `batch_items` and `batch_bytes` one call, `concurrency` the calls in progress. `route` is the
    way of the texts. `remote`: they go to a server, with secrets masked, because even a server on
    this machine may pass them on. `tokens_used` counts the tokens that the provider reports. A
    model that embeds long texts badly has `window_units`: longer texts are embedded in windows of
    that many quarter tokens.
    """

    name: str
    model: str
    key: str
    route: Route
    remote: bool
    tokens_used: int
    query_timeout_s: float
    dims: int | None
    calibration: Calibration | None
    max_input_bytes: int
    window_units: int | None
    batch_items: int
    batch_bytes: int
    concurrency: int

    @property
    def warning(self) -> str | None:
        """A warning about an unsafe setup that works nevertheless."""

    @property
    def is_ready(self) -> bool:
        """True if a query needs no preparation, such as loading a model."""

    async def embed_query(self, text: str) -> FloatMatrix:
        """Embed one query. Returns shape (1, dims). Raises `ProviderError`."""

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        """Embed texts. Returns shape (len(texts), dims). Raises `ProviderError`."""

    def warm(self) -> None:
        """Prepare for a query that may come soon, in the background and free of charge."""

    async def close(self) -> None:
        """Release processes and connections. Idempotent."""


def unit_rows(rows: FloatMatrix, *, count: int, dims: int | None) -> tuple[FloatMatrix, list[bool]]:
    """Check an answer for `count` texts. Returns rows of length 1, and whether each is valid.

    Raises `RetryableError` if rows and texts can't be matched, and `PermanentError` if vectors
    don't have `dims` numbers: then another model answers, and no text is the cause.
    """
    if rows.ndim != 2 or len(rows) != count:
        raise RetryableError(
            f"The provider returned {len(rows)} vectors for {count} texts.", answered=True
        )
    if dims is not None and rows.shape[1] != dims:
        raise PermanentError(
            f"The provider's vectors have {rows.shape[1]} dimensions, not {dims}: "
            "another model answers under this name. Check `model` in the configuration."
        )
    exact = rows.astype(np.float64)
    lengths = np.sqrt(np.vecdot(exact, exact))
    good = [0.0 < length < math.inf for length in lengths.tolist()]  # never for a NaN
    if all(good):
        return (exact / lengths[:, np.newaxis]).astype(np.float32), good
    is_good = np.array(good)[:, np.newaxis]
    units = np.divide(exact, lengths[:, np.newaxis], out=np.zeros_like(exact), where=is_good)
    return units.astype(np.float32), good


def in_batches(
    items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_bytes: int
) -> Iterator[list[T]]:
    """Yield runs of items within both limits, in order. An item that is too big is a run alone."""
    batch: list[T] = []
    batch_bytes = 0
    for item in items:
        item_bytes = size(item)
        if batch and (len(batch) == max_items or batch_bytes + item_bytes > max_bytes):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += item_bytes
    if batch:
        yield batch


def utf8_bytes(text: str) -> int:
    """Return the length of any text in UTF-8, in bytes, lone surrogates included."""
    return len(text.encode("utf-8", "surrogatepass"))


def fitted(text: str, max_bytes: int) -> str:
    """Return the text, or as many of its first characters as fit into `max_bytes` of UTF-8."""
    if 4 * len(text) <= max_bytes:
        return text
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
