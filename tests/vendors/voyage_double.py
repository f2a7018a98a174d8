"""Voyage AI. https://docs.voyageai.com/reference/embeddings-api and .../docs/batch-inference."""

from collections.abc import Mapping

from vendors.double import Answer, Asked, RefusedError, Seen, as_json
from vendors.faults import AnyFault, Fault, RateLimit
from vendors.openai_batches import VoyageBatches
from vendors.openai_double import OpenAiStyleDouble

ERRORS: Mapping[Fault, tuple[int, str]] = {
    Fault.BAD_REQUEST: (400, "Input cannot contain empty strings or empty lists"),
    Fault.NO_KEY: (
        401,
        "API key is missing. Please provide your API key via the 'Authorization' header.",
    ),
    Fault.WRONG_KEY: (401, "Provided API key is invalid."),
    Fault.FORBIDDEN: (403, "Forbidden. The IP address is not allowed to make this request."),
    Fault.NOT_FOUND: (404, "Not Found"),
    Fault.UNKNOWN_MODEL: (
        400,
        "Model {model} is not supported. Supported models are ['voyage-4-large', 'voyage-4'].",
    ),
    Fault.TOO_MANY: (
        400,
        "Request to model '{model}' failed. The batch size limit is {limit}. Your batch size is"
        " {items}.",
    ),
    Fault.TOO_LONG: (
        400,
        "Request to model '{model}' failed. The example at index {index} in your batch has too many"
        " tokens and does not fit into the model's context window of {limit} tokens.",
    ),
    Fault.TOO_LARGE: (413, "Request Entity Too Large"),
    Fault.RATE_LIMIT: (
        429,
        "You have exceeded your rate limits of 2000 RPM. Please slow down your requests.",
    ),
    Fault.QUOTA: (
        429,
        "You have not yet added your payment method in the billing page and will have reduced rate"
        " limits of 3 RPM and 10K TPM.",
    ),
    Fault.SERVER_ERROR: (500, "Internal Server Error"),
    Fault.OVERLOADED: (503, "Service Unavailable. Our servers are at capacity."),
}
FIELDS = frozenset(
    {
        "input",
        "model",
        "input_type",
        "truncation",
        "output_dimension",
        "output_dtype",
        "encoding_format",
    }
)


class VoyageDouble(OpenAiStyleDouble):
    """Voyage. Its errors are one `detail` text."""

    default_model = "voyage-4-large"
    dims_field = "output_dimension"
    formats = frozenset({None, "base64"})
    errors = ERRORS

    def __init__(self, *, key: str | None = "sk-double", dims: int = 8) -> None:
        super().__init__(key=key, dims=dims)
        self.models |= {"voyage-4", "voyage-4-lite", "voyage-3.5", "voyage-code-3"}
        self.max_items = 1_000
        self.batch = VoyageBatches(self)

    def asked(self, seen: Seen) -> Asked:
        """Check a request, its input type and unknown fields."""
        body = seen.body if isinstance(seen.body, dict) else {}
        for name in sorted(body.keys() - FIELDS):
            message = f"Argument '{name}' is not supported by our API."
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        if body.get("input_type") not in (None, "query", "document"):
            message = "Value of 'input_type' must be null, 'query' or 'document'."
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        return super().asked(seen)

    def usage(self, count: int) -> dict[str, int]:
        """Return the tokens, in Voyage's only field for them."""
        return {"total_tokens": count}

    def other(self, seen: Seen) -> Answer:
        return self.batch.answer(seen) or super().other(seen)

    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        headers = fault.headers() if isinstance(fault, RateLimit) else {}
        status, message = ERRORS[Fault.RATE_LIMIT if isinstance(fault, RateLimit) else fault]
        detail = facts.get("message") or message.format(**facts)
        return as_json({"detail": detail}, status=status, headers=headers)
