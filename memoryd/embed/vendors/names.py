"""Every vendor by its name. Imports no HTTP library: it is loaded for those who need it."""

from collections.abc import Callable, Mapping

from memoryd.embed.vendors.api import Api
from memoryd.embed.vendors.credentials import KeySource
from memoryd.embed.vendors.gemini import GeminiApi
from memoryd.embed.vendors.mistral import MistralApi
from memoryd.embed.vendors.ollama import OllamaApi
from memoryd.embed.vendors.openai import OpenAiApi
from memoryd.embed.vendors.voyage import VoyageApi

APIS: Mapping[str, Callable[[], Api]] = {
    "openai": OpenAiApi,
    "gemini": GeminiApi,
    "voyage": VoyageApi,
    "mistral": MistralApi,
    "ollama": OllamaApi,
}
WITH_BATCH_API = frozenset({"openai", "gemini", "voyage"})


def key_origin(name: str) -> str | None:
    """Return where the key of a vendor is, or None if there is none. Raises `PermanentError`."""
    key = KeySource(APIS[name]().key_names).find()
    return None if key is None else key.origin
