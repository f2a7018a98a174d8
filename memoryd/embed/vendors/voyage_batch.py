"""Voyage AI's batch API: OpenAI's, with the model said once for the whole job.

https://docs.voyageai.com/docs/batch-inference.
"""

from typing import Any

from memoryd.embed.vendors.openai_batch import OpenAiBatch


class VoyageBatch(OpenAiBatch):
    """Upload a file, create a job of it, poll, download."""

    window = "12h"

    def _request(self, text: str) -> dict[str, Any]:
        return {"body": {"input": self._options.sent(text, "document")}}

    def _job_options(self) -> dict[str, Any]:
        params = self._api.body([], "document", self._options)
        del params["input"]
        return {"request_params": params}
