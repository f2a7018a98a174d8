"""What is particular to a vendor: how a request looks, and how its answer is to be read. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from memoryd.embed.provider import FloatMatrix

Purpose = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What the configuration says about vectors; None and "" where it says nothing.

    `query_type` and `document_type` are sent as the vendor's input type; the prefixes go before
    each text.
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
        """Return what goes before a text of this purpose."""
        return self.query_prefix if purpose == "query" else self.document_prefix

    def sent(self, text: str, purpose: Purpose) -> str:
        """Return a text as it is sent: behind its prefix, and without what JSON can't hold."""
        return clean(f"{self.prefix(purpose)}{text}")


class EmbeddedRows(NamedTuple):
    """Rows of an answer, shape (count, dims), and the tokens it says it took."""

    rows: FloatMatrix
    tokens: int


def bearer(key: str) -> Mapping[str, str]:
    """Return the header that most vendors want the key in."""
    return {"Authorization": f"Bearer {key}"}


def clean(text: str) -> str:
    """Return a text that JSON can hold: a lone surrogate has no UTF-8."""
    return text.encode("utf-8", "replace").decode()


class Api(Protocol):
    """One vendor. `max_items` is the most texts that it takes in one request.

    `url_name` is the variable that the vendor's own tools take another address from.
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
        """Return the model's name as the vendor wants it."""

    def url(self, base_url: str) -> str:
        """Return the base address, put right where users are known to give another."""

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry a key."""

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint below the base address."""

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read the answer for `count` texts. Raises `ProviderError`."""
