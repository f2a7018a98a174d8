"""Mistral's embeddings.

https://docs.mistral.ai/api/endpoint/embeddings
"""

from typing import Any

from memoryd.embed.vendors.api import Purpose, RequestOptions
from memoryd.embed.vendors.openai import OpenAiApi


class MistralApi(OpenAiApi):
    """Answers as OpenAI does; it knows no input types."""

    name = "mistral"
    default_model = "mistral-embed"
    default_url = "https://api.mistral.ai/v1"
    url_name: str | None = None
    key_names: tuple[str, ...] = ("MISTRAL_API_KEY",)
    max_items = 512

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {"model": options.model, "input": texts}
        if options.dimensions is not None:
            body["output_dimension"] = options.dimensions
        return body
