"""Construction of HTTP providers and their batch APIs from the settings."""

import os
from collections.abc import Callable, Mapping

from memoryd.config.settings import Remote, Settings
from memoryd.config.validate import ConfigError, is_web_address
from memoryd.embed.batch.api import BatchApi
from memoryd.embed.provider import Provider, prefixes
from memoryd.embed.vendors.api import Api, RequestOptions
from memoryd.embed.vendors.credentials import KeySource
from memoryd.embed.vendors.gemini import GeminiApi, GeminiBatch
from memoryd.embed.vendors.mistral import MistralApi
from memoryd.embed.vendors.ollama import OllamaApi
from memoryd.embed.vendors.openai import OpenAiApi, OpenAiBatch
from memoryd.embed.vendors.remote import RemoteProvider
from memoryd.embed.vendors.voyage import VoyageApi, VoyageBatch

APIS: Mapping[str, Callable[[], Api]] = {
    "openai": OpenAiApi,
    "gemini": GeminiApi,
    "voyage": VoyageApi,
    "mistral": MistralApi,
    "ollama": OllamaApi,
}
BATCH_APIS: Mapping[str, type[OpenAiBatch]] = {
    "openai": OpenAiBatch,
    "gemini": GeminiBatch,
    "voyage": VoyageBatch,
}

_OLLAMA_CLOUD = "ollama.com"
_SECRET_NAMES = ("key", "token", "auth", "secret", "cookie", "credential", "password")


def make_remote(name: str, settings: Settings, *, own: bool = True) -> RemoteProvider:
    """Return the provider of a vendor.

    `own` False: as a fallback, without the address, key and model that the settings name for the
    first provider.
    """
    # A daemon with a local model needs this module, but neither library.
    from yarl import URL

    from memoryd.embed.vendors.http import Http

    api = APIS[name]()
    remote = settings.remote if own else Remote(batch=settings.remote.batch)
    elsewhere = remote.base_url or (api.url_name and os.environ.get(api.url_name))
    address, query, rest = (elsewhere or api.default_url).partition("?")
    base_url = f"{api.url(address)}{query}{rest}"  # Azure addresses have a query
    if not is_web_address(base_url):
        raise ConfigError(
            f"{api.url_name} must be a URL like https://host/v1, without user name or password"
        )
    # The environment's key for Ollama's cloud must not go to the user's own server.
    cloud = name != "ollama" or URL(base_url).host == _OLLAMA_CLOUD
    source = KeySource(api.key_names if cloud else (), remote.api_key_file)
    header = remote.api_key_header
    http = Http(
        name,
        base_url,
        headers=remote.headers,
        source=source,
        key_headers=api.key_headers if header is None else lambda key: {header: key},
        key_required=api.key_required and not elsewhere,
        secret_parts=[
            *(f"header {name}" for name in remote.headers if is_secret_header(name)),
            *(f"parameter {name}" for name in URL(base_url).query if is_secret_header(name)),
        ],
        allow_unencrypted_key=remote.allow_unencrypted_key,
    )
    return RemoteProvider(
        api,
        http,
        _options(api, settings, own=own),
        batch_items=remote.batch_items,
        batch_bytes=remote.batch_tokens,
        concurrency=remote.non_batch_concurrency,
        key_of={n: v for n, v in remote.headers.items() if not is_secret_header(n)},
    )


def make_batch(provider: Provider) -> BatchApi | None:
    """Return the batch API of a provider, None if there is none."""
    if not isinstance(provider, RemoteProvider):
        return None
    make = BATCH_APIS.get(provider.api.name)
    return None if make is None else make(provider.http, provider.api, provider.options)


def is_secret_header(name: str) -> bool:
    """Return whether a header's value must not be shown, judged by its name."""
    return any(part in name.lower() for part in _SECRET_NAMES)


def _options(api: Api, settings: Settings, *, own: bool) -> RequestOptions:
    if not own:
        settings = Settings()
    model = api.model(settings.model or api.default_model)
    texts = prefixes(model, query=settings.query_prefix, document=settings.document_prefix)
    return RequestOptions(
        model=model,
        dimensions=settings.output_dimensionality,
        query_type=settings.query_input_type or settings.input_type,
        document_type=settings.document_input_type or settings.input_type,
        query_prefix=texts.query,
        document_prefix=texts.document,
    )
