"""OpenAI, and the common parts of compatible servers.

https://platform.openai.com/docs/api-reference/embeddings, .../files, .../batch and
https://platform.openai.com/docs/guides/error-codes
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from vendors.double import Answer, Asked, Double, RefusedError, Seen, as_json
from vendors.faults import AnyFault, Fault, RateLimit, Row
from vendors.openai_batches import OpenAiBatches
from vendors.vectors import in_base64, tokens

Error = tuple[int, str, str, str | None]
"""Status, message, type, code."""

_INVALID = "invalid_request_error"
ERRORS: Mapping[Fault, Error] = {
    Fault.BAD_REQUEST: (
        400,
        "'$.input' is invalid. Please check the API reference:"
        " https://platform.openai.com/docs/api-reference.",
        _INVALID,
        None,
    ),
    Fault.NO_KEY: (
        401,
        "You didn't provide an API key. You need to provide your API key in an Authorization"
        " header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        _INVALID,
        None,
    ),
    Fault.WRONG_KEY: (
        401,
        "Incorrect API key provided: {masked}. You can find your API key at"
        " https://platform.openai.com/account/api-keys.",
        _INVALID,
        "invalid_api_key",
    ),
    Fault.FORBIDDEN: (
        403,
        "Country, region, or territory not supported",
        "request_forbidden",
        "unsupported_country_region_territory",
    ),
    Fault.NOT_FOUND: (404, "Invalid URL ({method} {path})", _INVALID, None),
    Fault.UNKNOWN_MODEL: (
        404,
        "The model `{model}` does not exist or you do not have access to it.",
        _INVALID,
        "model_not_found",
    ),
    Fault.TOO_MANY: (
        400,
        "Invalid 'input': array too long. Expected an array with maximum length {limit}, but got"
        " an array with length {items} instead.",
        _INVALID,
        "array_above_max_length",
    ),
    Fault.TOO_LONG: (
        400,
        "This model's maximum context length is {limit} tokens, however you requested {items}"
        " tokens ({items} in your prompt; 0 for the completion). Please reduce your prompt; or"
        " completion length.",
        _INVALID,
        None,
    ),
    Fault.TOO_LARGE: (
        413,
        "413: Maximum content size limit (26214400) exceeded",
        "server_error",
        None,
    ),
    Fault.RATE_LIMIT: (
        429,
        "Rate limit reached for {model} in organization org-double on requests per min (RPM):"
        " Limit 3000, Used 3000, Requested 1. Please try again in 20ms.",
        "requests",
        "rate_limit_exceeded",
    ),
    Fault.QUOTA: (
        429,
        "You exceeded your current quota, please check your plan and billing details. For more"
        " information on this error, read the docs:"
        " https://platform.openai.com/docs/guides/error-codes/api-errors.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    Fault.SERVER_ERROR: (
        500,
        "The server had an error while processing your request. Sorry about that!",
        "server_error",
        None,
    ),
    Fault.OVERLOADED: (
        503,
        "The engine is currently overloaded, please try again later",
        "service_unavailable",
        None,
    ),
}


class OpenAiStyleDouble(Double):
    """A vendor with OpenAI's request and answer for embeddings."""

    dims_field: ClassVar[str] = "dimensions"
    formats: ClassVar[frozenset[str | None]] = frozenset({None, "float", "base64"})

    def embeds(self, seen: Seen) -> bool:
        return seen.method == "POST" and seen.path == f"{self.prefix}/embeddings"

    def texts(self, seen: Seen) -> list[str]:
        given = seen.body.get("input") if isinstance(seen.body, dict) else None
        given = [given] if isinstance(given, str) else given
        return [t for t in given if isinstance(t, str)] if isinstance(given, list) else []

    def asked(self, seen: Seen) -> Asked:
        """Check a request. Raises `RefusedError`."""
        texts = self.texts(seen)
        body = seen.body if isinstance(seen.body, dict) else {}
        given = body.get("input")
        dims = body.get(self.dims_field) or self.dims
        if (
            not all(texts)
            or not texts
            or (isinstance(given, list) and len(given) != len(texts))
            or not isinstance(model := body.get("model"), str)
            or body.get("encoding_format") not in self.formats
            or not isinstance(dims, int)
            or dims < 1
        ):
            raise RefusedError(Fault.BAD_REQUEST, index=0)
        self.check(model, texts)
        return Asked(model, texts, dims, base64=self.in_base64(body.get("encoding_format")))

    def in_base64(self, encoding_format: str | None) -> bool:
        """Return whether vectors are encoded in base64."""
        return encoding_format == "base64"

    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        return {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "embedding": in_base64(vector) if asked.base64 else vector,
                    "index": index,
                }
                for index, vector in rows
            ],
            "model": asked.model,
            "usage": self.usage(sum(map(tokens, asked.texts))),
        }

    def usage(self, count: int) -> dict[str, int]:
        """Return the token counts of an answer."""
        return {"prompt_tokens": count, "total_tokens": count}


class OpenAiDouble(OpenAiStyleDouble):
    """OpenAI. `base64` = False: a compatible server that supports floats only."""

    default_model = "text-embedding-3-small"
    errors = ERRORS

    def __init__(self, *, key: str | None = "sk-double", dims: int = 8) -> None:
        super().__init__(key=key, dims=dims)
        self.models |= {"text-embedding-3-large", "text-embedding-ada-002"}
        self.max_items = 2_048
        self.base64 = True
        self.batch = OpenAiBatches(self)

    def in_base64(self, encoding_format: str | None) -> bool:
        """Return whether vectors are encoded in base64."""
        return self.base64 and encoding_format == "base64"

    def key_sent(self, seen: Seen) -> str | None:
        """Return the key, which has its own header for Azure."""
        return super().key_sent(seen) or seen.headers.get("api-key")

    def other(self, seen: Seen) -> Answer:
        return self.batch.answer(seen) or super().other(seen)

    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        headers = fault.headers() if isinstance(fault, RateLimit) else {}
        kind = Fault.RATE_LIMIT if isinstance(fault, RateLimit) else fault
        status, message, type_, code = ERRORS[kind]
        key = str(facts.get("key") or "")
        message = str(facts.get("message") or message.format(**facts, masked=_masked(key)))
        body = {"message": message, "type": type_, "param": facts.get("param"), "code": code}
        return as_json({"error": body}, status=status, headers=headers)


def _masked(key: str) -> str:
    return f"{key[:5]}{'*' * max(4, len(key) - 9)}{key[-4:]}"
