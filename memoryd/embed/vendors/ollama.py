"""Ollama's embeddings.

https://docs.ollama.com/api/embed
"""

import msgspec

from memoryd.embed.vendors.api import EmbeddedRows, RequestOptions
from memoryd.embed.vendors.credentials import KEY_NAMES
from memoryd.embed.vendors.decode import JsonVector, matrix, read_json
from memoryd.embed.vendors.openai import OpenAiApi


class OllamaEmbeddings(msgspec.Struct):
    """An answer; vectors are in the order of the texts."""

    embeddings: list[JsonVector]
    prompt_eval_count: int = 0


class OllamaApi(OpenAiApi):
    """Ollama, usually on this machine: one request at a time, because it has one processor."""

    name = "ollama"
    default_model = "nomic-embed-text"
    default_url = "http://127.0.0.1:11434"
    url_name = "OLLAMA_HOST"
    key_names = KEY_NAMES["ollama"]
    key_required = False
    concurrency = 1
    has_input_types = False

    def url(self, base_url: str) -> str:
        """Return the address without the paths of other APIs; complete one of `OLLAMA_HOST`."""
        if "://" not in base_url:
            base_url = f"http://{base_url}" if ":" in base_url else f"http://{base_url}:11434"
        base_url = base_url.replace("//0.0.0.0", "//127.0.0.1")
        return base_url.removesuffix("/").removesuffix("/v1").removesuffix("/api")

    def path(self, options: RequestOptions) -> str:
        """Return the path of the endpoint."""
        return "/api/embed"

    def read(self, body: bytes, count: int) -> EmbeddedRows:
        """Read an answer."""
        answer = read_json(self.name, body, OllamaEmbeddings)
        return EmbeddedRows(matrix(self.name, answer.embeddings, count), answer.prompt_eval_count)
