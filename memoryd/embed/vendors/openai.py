"""OpenAI's embeddings, and those of every server that is compatible with it.

https://platform.openai.com/docs/api-reference/embeddings
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from memoryd.embed.vendors.api import Answer, Options, Purpose, bearer
from memoryd.embed.vendors.decode import Reader, Vector, in_order, matrix


class Item(msgspec.Struct):
    """One vector of an answer."""

    embedding: Vector
    index: int | None = None


class Usage(msgspec.Struct):
    """What an answer has cost, in tokens."""

    total_tokens: int | None = None


class Embeddings(msgspec.Struct):
    """The answer, in the shape that most vendors have taken over."""

    data: list[Item]
    usage: Usage | None = None


class OpenAiApi:
    """OpenAI, LM Studio, vLLM, llama.cpp's server, Azure and others."""

    name = "openai"
    default_model = "text-embedding-3-small"
    default_url = "https://api.openai.com/v1"
    url_name: str | None = "OPENAI_BASE_URL"
    key_names: tuple[str, ...] = ("OPENAI_API_KEY",)
    key_required = True
    max_items = 2_048
    concurrency = 4
    max_input_bytes = 8_000
    """8,192 tokens, each a byte at least."""

    def __init__(self) -> None:
        self._reader = Reader(self.name, Embeddings)

    def model(self, name: str) -> str:
        """Return the name as it is."""
        return name

    def url(self, base_url: str) -> str:
        """Return the address without the endpoint that some people add."""
        return base_url.removesuffix("/").removesuffix("/embeddings")

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the header that carries a key."""
        return bearer(key)

    def path(self, options: Options) -> str:
        """Return the path of the endpoint."""
        return "/embeddings"

    def body(self, texts: list[str], purpose: Purpose, options: Options) -> dict[str, Any]:
        """Return the body of a request. No `encoding_format`: many servers know none."""
        body: dict[str, Any] = {"model": options.model, "input": texts}
        if options.dimensions is not None:
            body["dimensions"] = options.dimensions
        if (input_type := options.input_type(purpose)) is not None:
            body["input_type"] = input_type
        return body

    def read(self, body: bytes, count: int) -> Answer:
        """Read an answer, whose vectors may come in any order."""
        answer = self._reader.read(body)
        vectors = [item.embedding for item in answer.data]
        ordered = in_order(self.name, vectors, [item.index for item in answer.data])
        tokens = answer.usage.total_tokens if answer.usage is not None else None
        return Answer(matrix(self.name, ordered, count), tokens or 0)
