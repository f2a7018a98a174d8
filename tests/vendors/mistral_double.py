"""Mistral. https://docs.mistral.ai/api/endpoint/embeddings."""

from collections.abc import Mapping
from typing import Any

from vendors.double import Answer, Asked, RefusedError, Seen, as_json
from vendors.faults import AnyFault, Fault, RateLimit, Row
from vendors.openai_double import OpenAiStyleDouble

_INVALID = "invalid_request_error"
ERRORS: Mapping[Fault, tuple[int, str, str, str | None]] = {
    Fault.BAD_REQUEST: (400, "Invalid request", _INVALID, "3001"),
    Fault.FORBIDDEN: (403, "Access denied", "forbidden", "1002"),
    Fault.NOT_FOUND: (404, "no Route matched with those values", "not_found", None),
    Fault.UNKNOWN_MODEL: (400, "Invalid model: {model}", "invalid_model", "1500"),
    Fault.TOO_MANY: (
        400,
        "Too many inputs in request, split into more batches.",
        "invalid_request_prompt",
        "3210",
    ),
    Fault.TOO_LONG: (
        400,
        "Input id {index} has {items} tokens, exceeding max {limit} tokens.",
        "invalid_request_prompt",
        "3210",
    ),
    Fault.TOO_LARGE: (413, "Request size limit exceeded", _INVALID, None),
    Fault.RATE_LIMIT: (429, "Rate limit exceeded", "rate_limited", "1300"),
    Fault.QUOTA: (
        429,
        "You have exceeded your monthly quota, please check your billing details",
        "quota_exceeded",
        "1301",
    ),
    Fault.SERVER_ERROR: (500, "Service error", "internal_server_error", "3000"),
    Fault.OVERLOADED: (503, "Service unavailable.", "unreachable_backend", "1100"),
    Fault.NO_KEY: (401, "Unauthorized", "", None),
    Fault.WRONG_KEY: (401, "Unauthorized", "", None),
}
FIELDS = frozenset(
    {"model", "input", "metadata", "output_dimension", "output_dtype", "encoding_format"}
)


class MistralDouble(OpenAiStyleDouble):
    """Mistral. It refuses unknown fields, as a strict schema does."""

    default_model = "mistral-embed"
    dims_field = "output_dimension"
    errors = ERRORS

    def __init__(self, *, key: str | None = "sk-double", dims: int = 8) -> None:
        super().__init__(key=key, dims=dims)
        self.models |= {"mistral-embed-2312", "codestral-embed"}
        self.max_items = 512

    def asked(self, seen: Seen) -> Asked:
        """Check a request, unknown fields included."""
        body = seen.body if isinstance(seen.body, dict) else {}
        if extra := sorted(body.keys() - FIELDS):
            raise RefusedError(
                Fault.BAD_REQUEST,
                extra=[
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", name],
                        "msg": "Extra inputs are not permitted",
                        "input": body[name],
                    }
                    for name in extra
                ],
            )
        return super().asked(seen)

    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        """Return the JSON of an answer, which has an `id`."""
        return {"id": "embd-double", **super().embeddings(asked, rows)}

    def usage(self, count: int) -> dict[str, int]:
        return {**super().usage(count), "completion_tokens": 0}

    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        """Return Mistral's error; the gateway has its own message for refused keys."""
        headers = fault.headers() if isinstance(fault, RateLimit) else {}
        kind = Fault.RATE_LIMIT if isinstance(fault, RateLimit) else fault
        status, message, type_, code = ERRORS[kind]
        if status == 401:
            return as_json({"detail": message}, status=status)
        said: object = message.format(**facts)
        if extra := facts.get("extra"):
            status, said = 422, {"detail": extra}
        body = {
            "object": "error",
            "message": said,
            "type": type_,
            "param": None,
            "code": code,
            "raw_status_code": status,
        }
        return as_json(body, status=status, headers=headers)
