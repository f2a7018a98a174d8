"""Identities of indexes, for tests that do not depend on the settings."""

from typing import Any

from memoryd.identity import Identity
from memoryd.text.tokenize import TOKENIZER


def identity(
    provider: str = "local", model: str = "use", *, dims: int | None = None, **others: Any
) -> Identity:
    """Return an identity with the default settings except those given."""
    settings: dict[str, Any] = {
        "provider_key": "k",
        "max_input_bytes": 8_000,
        "chunk_tokens": 400,
        "chunk_overlap": 80,
        "tokenizer": TOKENIZER,
    }
    return Identity(provider=provider, model=model, dims=dims, **{**settings, **others})


KEYWORDS_ONLY = identity("none", "fts-only", provider_key="")
