"""Voyage AI's embeddings and batch API.

https://docs.voyageai.com/reference/embeddings-api
"""

from typing import Any

from memoryd.embed.vendors.api import Purpose, RequestOptions
from memoryd.embed.vendors.credentials import KEY_NAMES
from memoryd.embed.vendors.openai import OpenAiApi, OpenAiBatch


class VoyageApi(OpenAiApi):
    """The protocol of OpenAI, with an input type in every request."""

    name = "voyage"
    default_model = "voyage-4-large"
    default_url = "https://api.voyageai.com/v1"
    url_name = None
    key_names = KEY_NAMES["voyage"]
    max_items = 1_000
    dimensions_field = "output_dimension"

    def input_type(self, purpose: Purpose, options: RequestOptions) -> str | None:
        """Return the configured input type, or else the purpose."""
        return options.input_type(purpose) or purpose


class VoyageBatch(OpenAiBatch):
    """The batch API of OpenAI, with request options that belong to the job."""

    window = "12h"

    def _request(self, text: str) -> dict[str, Any]:
        return {"body": {"input": self._options.sent(text, "document")}}

    def _job_options(self) -> dict[str, Any]:
        params = self._api.body([], "document", self._options)
        del params["input"]
        return {"request_params": params}
