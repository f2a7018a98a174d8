"""Voyage AI's embeddings.

https://docs.voyageai.com/reference/embeddings-api
"""

from typing import Any

from memoryd.embed.vendors.api import Purpose, RequestOptions
from memoryd.embed.vendors.openai import OpenAiApi, OpenAiBatch


class VoyageApi(OpenAiApi):
    """Answers as OpenAI does; requests tell queries and documents apart."""

    name = "voyage"
    default_model = "voyage-4-large"
    default_url = "https://api.voyageai.com/v1"
    url_name: str | None = None
    key_names: tuple[str, ...] = ("VOYAGE_API_KEY",)
    max_items = 1_000

    def body(self, texts: list[str], purpose: Purpose, options: RequestOptions) -> dict[str, Any]:
        """Return the body of a request."""
        body: dict[str, Any] = {
            "model": options.model,
            "input": texts,
            "input_type": options.input_type(purpose) or purpose,
        }
        if options.dimensions is not None:
            body["output_dimension"] = options.dimensions
        return body


class VoyageBatch(OpenAiBatch):
    """Upload a file, create a job of it, poll, download."""

    window = "12h"

    def _request(self, text: str) -> dict[str, Any]:
        return {"body": {"input": self._options.sent(text, "document")}}

    def _job_options(self) -> dict[str, Any]:
        params = self._api.body([], "document", self._options)
        del params["input"]
        return {"request_params": params}
