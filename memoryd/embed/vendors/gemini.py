"""Google's Gemini embeddings.

https://ai.google.dev/api/embeddings
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from memoryd.embed.vendors.api import Answer, Options, Purpose, bearer
from memoryd.embed.vendors.decode import Reader, Vector, matrix

TASKS: Mapping[Purpose, str] = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}


class Embedding(msgspec.Struct):
    """One vector."""

    values: Vector


class Embeddings(msgspec.Struct):
    """The answer: vectors in the order of the texts."""

    embeddings: list[Embedding]


class GeminiApi:
    """Gemini. Of an OAuth token, in a JSON object under `token`, the header is another."""

    name = "gemini"
    default_model = "gemini-embedding-001"
    default_url = "https://generativelanguage.googleapis.com/v1beta"
    url_name: str | None = "GOOGLE_GEMINI_BASE_URL"
    key_names: tuple[str, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    key_required = True
    max_items = 100
    concurrency = 4
    max_input_bytes = 2_048
    """What is longer than 2,048 tokens it cuts off without a word."""

    def __init__(self) -> None:
        self._reader = Reader(self.name, Embeddings)

    def model(self, name: str) -> str:
        """Return the name without the prefixes that other tools want."""
        for prefix in ("models/", "gemini/", "google/"):
            name = name.removeprefix(prefix)
        return name

    def url(self, base_url: str) -> str:
        """Return the address without the part for OpenAI's clients, and with the version."""
        base_url = base_url.removesuffix("/").removesuffix("/openai")
        return base_url if "/v1" in base_url else f"{base_url}/v1beta"

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the header that carries a key."""
        if key.startswith("{"):
            try:
                oauth = msgspec.json.decode(key, type=dict[str, Any])
            except (msgspec.MsgspecError, RecursionError):
                oauth = {}
            if token := oauth.get("token"):
                return bearer(token)
        return {"x-goog-api-key": key}

    def path(self, options: Options) -> str:
        """Return the path of the endpoint."""
        return f"/models/{options.model}:batchEmbedContents"

    def body(self, texts: list[str], purpose: Purpose, options: Options) -> dict[str, Any]:
        """Return the body of a request."""
        return {"requests": [self.request(text, purpose, options) for text in texts]}

    def request(self, text: str, purpose: Purpose, options: Options) -> dict[str, Any]:
        """Return what asks for one text's vector."""
        request: dict[str, Any] = {
            "model": f"models/{options.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": options.input_type(purpose) or TASKS[purpose],
        }
        if options.dimensions is not None:
            request["outputDimensionality"] = options.dimensions
        return request

    def read(self, body: bytes, count: int) -> Answer:
        """Read an answer; it tells no tokens."""
        answer = self._reader.read(body)
        vectors = [embedding.values for embedding in answer.embeddings]
        return Answer(matrix(self.name, vectors, count), 0)
