"""Ollama. https://docs.ollama.com/api/embed and its errors in https://docs.ollama.com/api/errors."""

from collections.abc import Mapping
from typing import Any

from vendors.double import Answer, Asked, Double, RefusedError, Seen, as_json
from vendors.faults import AnyFault, Fault, RateLimit, Row
from vendors.vectors import tokens

ERRORS: Mapping[Fault, tuple[int, str]] = {
    Fault.BAD_REQUEST: (400, "invalid input type"),
    Fault.NO_KEY: (401, "unauthorized"),
    Fault.WRONG_KEY: (401, "unauthorized"),
    Fault.FORBIDDEN: (403, "forbidden"),
    Fault.NOT_FOUND: (404, "404 page not found"),
    Fault.UNKNOWN_MODEL: (404, 'model "{model}" not found, try pulling it first'),
    Fault.TOO_MANY: (400, "batch size {items} is too large: at most {limit} inputs"),
    Fault.TOO_LONG: (400, "the input length exceeds the context length"),
    Fault.TOO_LARGE: (413, "http: request body too large"),
    Fault.RATE_LIMIT: (429, "too many requests"),
    Fault.QUOTA: (429, "you've reached your usage limit, please upgrade to continue"),
    Fault.SERVER_ERROR: (500, "llama runner process has terminated: exit status 2"),
    Fault.OVERLOADED: (503, "server busy, please try again.  maximum pending requests exceeded"),
}


class OllamaDouble(Double):
    """Ollama, which needs a key only in the cloud; the default is no key."""

    prefix = ""
    default_model = "nomic-embed-text"
    indexed = False
    errors = ERRORS

    def __init__(self, *, key: str | None = None, dims: int = 8) -> None:
        super().__init__(key=key, dims=dims)
        self.models |= {"mxbai-embed-large", "qwen3-embedding"}

    def embeds(self, seen: Seen) -> bool:
        return seen.method == "POST" and seen.path == "/api/embed"

    def texts(self, seen: Seen) -> list[str]:
        given = seen.body.get("input") if isinstance(seen.body, dict) else None
        given = [given] if isinstance(given, str) else given
        return [t for t in given if isinstance(t, str)] if isinstance(given, list) else []

    def asked(self, seen: Seen) -> Asked:
        """Check a request. An empty input is answered with no vectors."""
        body = seen.body if isinstance(seen.body, dict) else {}
        texts = self.texts(seen)
        given = body.get("input", [])
        if (
            not isinstance(model := body.get("model"), str)
            or not isinstance(given, str | list)
            or (isinstance(given, list) and len(given) != len(texts))
        ):
            raise RefusedError(Fault.BAD_REQUEST)
        name = model.removesuffix(":latest")
        if name not in self.models:
            raise RefusedError(Fault.UNKNOWN_MODEL, model=model)
        self.check(name, texts)
        return Asked(model, texts, body.get("dimensions") or self.dims)

    def embeddings(self, asked: Asked, rows: list[Row]) -> Any:
        """Return the JSON of an answer; durations are in nanoseconds."""
        return {
            "model": asked.model,
            "embeddings": [vector for _, vector in rows],
            "total_duration": 14_143_917,
            "load_duration": 1_019_500,
            "prompt_eval_count": sum(map(tokens, asked.texts)),
        }

    def error(self, fault: AnyFault, facts: Mapping[str, object]) -> Answer:
        headers = fault.headers() if isinstance(fault, RateLimit) else {}
        status, message = ERRORS[Fault.RATE_LIMIT if isinstance(fault, RateLimit) else fault]
        return as_json({"error": message.format(**facts)}, status=status, headers=headers)
