"""Ollama's embeddings.

https://docs.ollama.com/api/embed
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from memoryd.embed.vendors.api import EmbeddedRows, Purpose, RequestOptions, bearer
from memoryd.embed.vendors.decode import JsonDecoder, JsonVector, matrix


class OllamaEmbeddings(msgspec.Struct):
    """The answer: vectors in the order of the texts."""

    embeddings: list[JsonVector]
    prompt_eval_count: int = 0


class OllamaApi:
    """A server on this machine, as a rule; one request at a time, since it has one processor."""

    name = "ollama"
    default_model = "nomic-embed-text"
    default_url = "http://127.0.0.1:11434"
    url_name: str | None = "OLLAMA_HOST"
    key_names: tuple[str, ...] = ("OLLAMA_API_KEY",)
    key_required = False
    max_items = 2_048
    concurrency = 1
    max_input_bytes = 8_000

    def __init__(self) -> None:
        self._reader = JsonDecoder(self.name, OllamaEmbeddings)

    def model(self, name: str) -> str:
        """Return the name as it is."""
        return name.removeprefix("ollama/")

    def url(self, base_url: str) -> str:
        """Return the address without the paths of its other APIs, with what `OLLAMA_HOST` lacks."""
        if "://" not in base_url:
            base_url = f"http://{base_url}" if ":" in base_url else f"http://{base_url}:11434"
        base_url = base_url.replace("//0.0.0.0", "//127.0.0.1")
        return base_url.removesuffix("/").removesuffix("/v1").removesuffix("/api")

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the header that carries a key."""
        return bearer(key)

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint."""
        return "/api/embed"

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {"model": options.model, "input": texts}
        if options.dimensions is not None:
            body["dimensions"] = options.dimensions
        return body

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read an answer."""
        answer = self._reader.read(body)
        return EmbeddedRows(matrix(self.name, answer.embeddings, count), answer.prompt_eval_count)
