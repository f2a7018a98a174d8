"""What an embedding provider is, and how it may fail. The pool knows nothing else of vendors."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Prefixes(NamedTuple):
    """What is put before each text, byte for byte."""

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
"""Documents go raw, but for embeddinggemma, whose model card asks for a title."""


def prefixes(model: str, *, query: str | None = None, document: str | None = None) -> Prefixes:
    """Return what the model of this name wants before texts; nothing for one that is not known.

    What is given, as configured, takes the place of what the model wants.
    The name is looked for in the last segment of a path, in any case: `hf.co/Qwen/Qwen3-Embedding`.
    """
    segment = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    wanted = next((known for name, known in _BY_MODEL.items() if name in segment), Prefixes())
    return Prefixes(
        wanted.query if query is None else query,
        wanted.document if document is None else document,
    )


FloatMatrix = NDArray[np.float32]
T = TypeVar("T")


class ProviderError(Exception):
    """Base of provider failures. The message is for people: what happened, what to do."""


class RetryableError(ProviderError):
    """Worth trying again: a timeout, a 5xx, a crashed worker. `after_s` overrides the back-off.

    `answered` says that the provider is there and failed at this request: the texts may be to
    blame, as when a server breaks off at one that is too long for it. `busy`: it works, and is
    asked too often.
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
    """Trying again does not help until somebody changes something: a bad key, no such model.

    `for_good` is False for what passes by itself in the end: a quota that is used up. `missing`
    says that there is nothing at that address.
    """

    def __init__(self, message: str, *, for_good: bool = True, missing: bool = False) -> None:
        super().__init__(message)
        self.for_good = for_good
        self.missing = missing


class BadTextError(ProviderError):
    """Some text of the batch can't be embedded; the pool halves it to find which."""


class BatchTooLargeError(BadTextError):
    """There are too many texts in the batch; `limit` is how many may be, if that was told."""

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a model's cosines are to be read: `low` is unrelated (0.0), `high` the same (1.0).

    Models differ: where one gives 0.2 to unrelated texts and 0.5 to good answers, another gives
    0.0 and 0.9. Scores use the calibrated value, so that one threshold fits all.
    """

    low: float = 0.0
    high: float = 1.0

    def apply(self, cosine: float) -> float:
        """Map a cosine linearly: `low` to 0, `high` to 1; there may be less and more."""
        return (cosine - self.low) / (self.high - self.low)


class Provider(Protocol):
    """Turns texts into vectors.

    `name`, `model` and `key` (a hash of address, model and non-secret headers, never of a secret)
    identify its vectors; `dims` is None until known. `max_input_bytes` bounds one text in UTF-8,
    `batch_items` and `batch_bytes` one call, `concurrency` the calls under way. `address` is where
    texts go, None if nowhere; `remote` says that a server is asked, which is not told secrets: even
    one on this machine may pass on what it gets. `leaves_machine` says that it is on another.
    `tokens_used` counts what the provider has told of. A model that does not see much of a long
    text at once has `window_units`: longer texts are embedded in windows of so many quarter tokens.
    """

    name: str
    model: str
    key: str
    address: str | None
    remote: bool
    leaves_machine: bool
    tokens_used: int
    query_timeout_s: float
    dims: int | None
    calibration: Calibration
    max_input_bytes: int
    window_units: int | None
    batch_items: int
    batch_bytes: int
    concurrency: int

    @property
    def warning(self) -> str | None:
        """What is not safe about how it is set up, though it works."""

    async def embed_query(self, text: str) -> FloatMatrix:
        """Embed one query. Returns shape (1, dims), rows of length 1. Raises `ProviderError`."""

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        """Embed texts. Returns shape (len(texts), dims), unit rows. Raises `ProviderError`."""

    def warm(self) -> None:
        """Get ready for a query that may come soon, in the background; free of charge."""

    async def close(self) -> None:
        """Release processes and connections. Idempotent."""


def unit_rows(
    rows: FloatMatrix, *, count: int, dims: int | None
) -> tuple[FloatMatrix, NDArray[np.bool_]]:
    """Check an answer for `count` texts. Returns rows of length 1, and which have a direction.

    Raises `RetryableError` when rows and texts can't be matched, and `PermanentError` when vectors
    are not of `dims` numbers: another model answers, the texts are not to blame.
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
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    good = np.isfinite(lengths) & (lengths > 0)
    units = np.zeros(rows.shape, np.float32)
    units[good] = rows[good] / lengths[good, np.newaxis]
    return units, good


def in_batches(
    items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_bytes: int
) -> Iterator[list[T]]:
    """Cut items into runs within both bounds, in order. One that is too big has its own run."""
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
    """Return the length of a text in UTF-8, in bytes, whatever it holds."""
    return len(text.encode("utf-8", "surrogatepass"))


def fitted(text: str, max_bytes: int) -> str:
    """Return the text, or as many of its first characters as fit into `max_bytes` of UTF-8."""
    if 4 * len(text) <= max_bytes:
        return text
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
