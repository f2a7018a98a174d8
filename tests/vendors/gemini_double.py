"""Google's Gemini API. https://ai.google.dev/api/embeddings, .../api/files, .../api/batch-api."""

from collections.abc import Mapping
from typing import Any

from vendors.double import Answer, Asked, Double, RefusedError, Seen, as_json
from vendors.faults import AnyFault, Fault, RateLimit, Row
from vendors.gemini_batches import GeminiBatches

_TYPE = "type.googleapis.com/google.rpc."
_SINGLE = ":embedContent"
_MANY = ":batchEmbedContents"
ERRORS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.BAD_REQUEST: (
        400,
        "INVALID_ARGUMENT",
        "* BatchEmbedContentsRequest.requests[{index}].content: contents is not specified\n",
    ),
    Fault.NO_KEY: (
        403,
        "PERMISSION_DENIED",
        "Method doesn't allow unregistered callers (callers without established identity). Please"
        " use API Key or other form of API consumer identity to call this API.",
    ),
    Fault.WRONG_KEY: (
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
    ),
    Fault.FORBIDDEN: (
        403,
        "PERMISSION_DENIED",
        "Your API key was reported as leaked. Please use another API key.",
    ),
    Fault.NOT_FOUND: (404, "NOT_FOUND", "Requested entity was not found."),
    Fault.UNKNOWN_MODEL: (
        404,
        "NOT_FOUND",
        "models/{model} is not found for API version v1beta, or is not supported for embedContent."
        " Call ListModels to see the list of available models and their supported methods.",
    ),
    Fault.TOO_MANY: (
        400,
        "INVALID_ARGUMENT",
        "* BatchEmbedContentsRequest.requests: at most {limit} requests can be in one batch\n",
    ),
    Fault.TOO_LONG: (
        400,
        "INVALID_ARGUMENT",
        "The input token count ({items}) exceeds the maximum number of tokens allowed ({limit}).",
    ),
    Fault.TOO_LARGE: (413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."),
    Fault.RATE_LIMIT: (
        429,
        "RESOURCE_EXHAUSTED",
        "Resource has been exhausted (e.g. check quota).",
    ),
    Fault.QUOTA: (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. For more"
        " information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
    ),
    Fault.SERVER_ERROR: (500, "INTERNAL", "An internal error has occurred. Please retry."),
    Fault.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
}


class GeminiDouble(Double):
    """Gemini. A rate limit with a waiting time is an exhausted quota, with the same message."""

    prefix = "/v1beta"
    default_model = "gemini-embedding-001"
    indexed = False
    errors = ERRORS

    def __init__(self, *, key: str | None = "sk-double", dims: int = 8) -> None:
        super().__init__(key=key, dims=dims)
        self.models |= {"gemini-embedding-2-preview", "text-embedding-004"}
        self.max_items = 100
        self.batch = GeminiBatches(self)

    def embeds(self, seen: Seen) -> bool:
        return seen.method == "POST" and seen.path.endswith((_SINGLE, _MANY))

    def texts(self, seen: Seen) -> list[str]:
        return [text for request in _requests(seen) if (text := content_text(request))]

    def asked(self, seen: Seen) -> Asked:
        """Check a request. Raises `RefusedError`."""
        path, _, _ = seen.path.rpartition(":")
        model = path.removeprefix(f"{self.prefix}/models/")
        requests = _requests(seen)
        texts = self.texts(seen)
        if not requests or len(texts) != len(requests):
            raise RefusedError(Fault.BAD_REQUEST, index=len(texts))
        self.check(model, texts)
        for index, request in enumerate(requests):
            if request.get("model", f"models/{model}") != f"models/{model}":
                raise RefusedError(Fault.BAD_REQUEST, index=index)
        dims = requests[0].get("outputDimensionality") or self.dims
        return Asked(model, texts, dims, single=seen.path.endswith(_SINGLE))

    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        embeddings = [{"values": vector} for _, vector in rows]
        if asked.single:
            return {"embedding": embeddings[0]} if embeddings else {}
        return {"embeddings": embeddings}

    def key_sent(self, seen: Seen) -> str | None:
        """Return the key from a header, the query, or an OAuth token.

        A started upload needs none: only the client that started it knows its id.
        """
        if seen.query.get("upload_id") in self.batch.files:
            return self.key
        key = seen.headers.get("x-goog-api-key") or seen.query.get("key")
        return key or super().key_sent(seen)

    def other(self, seen: Seen) -> Answer:
        return self.batch.answer(seen) or super().other(seen)

    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        """Return Google's error, with details."""
        kind = Fault.QUOTA if isinstance(fault, RateLimit) else fault
        code, status, message = ERRORS[kind]
        message = str(facts.get("message") or message.format(**facts))
        details: list[dict[str, Any]] = []
        if fault is Fault.WRONG_KEY:
            details.append(
                {
                    "@type": f"{_TYPE}ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                    "metadata": {"service": "generativelanguage.googleapis.com"},
                }
            )
        if kind is Fault.QUOTA:
            per = "PerMinute" if isinstance(fault, RateLimit) else "PerDay"
            quota = {
                "quotaMetric": "generativelanguage.googleapis.com/embed_content_requests",
                "quotaId": f"EmbedContentRequests{per}PerUserPerProjectPerModel",
                "quotaValue": "100",
            }
            details.append({"@type": f"{_TYPE}QuotaFailure", "violations": [quota]})
        if isinstance(fault, RateLimit):
            message += f"\nPlease retry in {fault.after_s:.9f}s."
            details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{fault.after_s:g}s"})
        body = {"code": code, "message": message, "status": status}
        return as_json({"error": body | ({"details": details} if details else {})}, status=code)


def content_text(request: object) -> str:
    """Return the text of an `EmbedContentRequest`, or ""."""
    try:
        parts = request["content"]["parts"]  # type: ignore[index]
        return "".join(part["text"] for part in parts)
    except (KeyError, TypeError):
        return ""


def _requests(seen: Seen) -> list[dict[str, Any]]:
    body = seen.body if isinstance(seen.body, dict) else {}
    given = [body] if seen.path.endswith(_SINGLE) else body.get("requests")
    return [r for r in given if isinstance(r, dict)] if isinstance(given, list) else []
