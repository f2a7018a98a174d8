"""Protocol of one vendor: its request format, its answer format and its limits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from memoryd.embed.provider import FloatMatrix

Purpose = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Settings that determine vectors; None or "" for those that are not configured.

    `query_type` and `document_type` are sent as the vendor's input type; the prefixes precede each
    text.
    """

    model: str
    dimensions: int | None = None
    query_type: str | None = None
    document_type: str | None = None
    query_prefix: str = ""
    document_prefix: str = ""

    def input_type(self, purpose: Purpose) -> str | None:
        """Return the configured input type for a purpose."""
        return self.query_type if purpose == "query" else self.document_type

    def prefix(self, purpose: Purpose) -> str:
        """Return the prefix of a text for this purpose."""
        return self.query_prefix if purpose == "query" else self.document_prefix

    def sent(self, text: str, purpose: Purpose) -> str:
        """Return a text as it is sent: with its prefix, encodable as JSON."""
        return clean(f"{self.prefix(purpose)}{text}")


class EmbeddedRows(NamedTuple):
    """Rows of an answer, shape (count, dims), and the tokens that it reports."""

    rows: FloatMatrix
    tokens: int


def bearer(key: str) -> Mapping[str, str]:
    """Return the header in which most vendors expect the key."""
    return {"Authorization": f"Bearer {key}"}


def clean(text: str) -> str:
    """Return a text that can be encoded as JSON: a lone surrogate has no UTF-8."""
    return text.encode("utf-8", "replace").decode()


class Api(Protocol):
    """One vendor. `max_items` is the maximum number of texts in a request.

    `url_name` is the variable from which the vendor's own tools take another address.
    """

    name: str
    default_model: str
    default_url: str
    url_name: str | None
    key_names: tuple[str, ...]
    key_required: bool
    max_items: int
    concurrency: int
    max_input_bytes: int

    def model(self, name: str) -> str:
        """Return the model's name as the vendor expects it."""

    def url(self, base_url: str) -> str:
        """Return the base address, corrected for common mistakes of users."""

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry a key."""

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint below the base address."""

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read the answer for `count` texts. Raises `ProviderError`."""
