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

    def sent(self, text: str, purpose: Purpose) -> str:
        """Return a text as it is sent: with its prefix, and without lone surrogates."""
        prefix = self.query_prefix if purpose == "query" else self.document_prefix
        return f"{prefix}{text}".encode("utf-8", "replace").decode()


class EmbeddedRows(NamedTuple):
    """Rows of an answer, shape (count, dims), and the tokens that it reports."""

    rows: FloatMatrix
    tokens: int


class Api(Protocol):
    """One vendor, and what most have in common. `max_items` is the maximum texts in a request.

    `url_name` is the variable from which the vendor's own tools take another address.
    """

    name: str
    default_model: str
    default_url: str
    url_name: str | None
    key_names: tuple[str, ...]
    key_required: bool = True
    max_items: int
    concurrency: int = 4
    max_input_bytes: int

    def model(self, name: str) -> str:
        """Return the model's name as the vendor expects it, without the prefix of other tools.

        The name of another maker's model, such as `openai/BAAI/bge-m3`, is that of a server.
        """
        prefix = f"{self.name}/"
        rest = name.removeprefix(prefix)
        return name if "/" in rest and not rest.startswith(prefix) else rest

    def url(self, base_url: str) -> str:
        """Return the base address, corrected for common mistakes of users."""

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry a key."""
        return {"Authorization": f"Bearer {key}"}

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint below the base address."""

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read the answer for `count` texts. Raises `ProviderError`."""
