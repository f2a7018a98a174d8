"""Offline check of the embedding provider; `memctl probe` tries it for real."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from memoryd.agent.factories import make_provider
from memoryd.config.settings import Settings
from memoryd.config.validate import ConfigError
from memoryd.doctor.finding import Topic
from memoryd.embed.gguf import gguf_engine
from memoryd.embed.local import bundled
from memoryd.embed.provider import Provider, ProviderError
from memoryd.embed.resolve import Resolved
from memoryd.embed.route import Route
from memoryd.embed.vendors.factory import APIS

PROBE = "`memctl probe` tries it"


def check_model(topic: Topic, settings: Settings, resolved: Resolved) -> Provider | None:
    """Check the current provider and the fallback; return the first, None if it is unusable."""
    provider = None
    try:
        provider = make_provider(settings, resolved.provider, fallback=resolved.is_fallback)
        _check(resolved.provider, settings, provider, own=not resolved.is_fallback)
    except (ConfigError, ProviderError) as error:
        topic.error(f"{resolved.provider} can't embed: {error}", PROBE)
    fallback = settings.fallback
    if fallback not in ("none", resolved.provider):
        try:
            _check(fallback, settings, make_provider(settings, fallback, fallback=True), own=False)
        except (ConfigError, ProviderError) as error:
            topic.warning(f"the fallback {fallback} can't embed: {error}", PROBE)
    return provider


def check_route(topic: Topic, route: Route, unexpected: str | None) -> None:
    """Report texts that leave the machine in plain text, or without anybody's request."""
    if route.warning is not None:
        topic.warning(route.warning, "set remote.base_url to an https:// address")
    if unexpected is not None:
        topic.warning(unexpected, "memctl index --provider local")


def key_files(settings: Settings, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that keys may be read from."""
    if settings.remote.api_key_file is not None:
        yield Path(settings.remote.api_key_file).expanduser()
    for make in APIS.values():
        for name in make().key_names:
            if file := environ.get(f"{name}_FILE"):
                yield Path(file).expanduser()


def _check(name: str, settings: Settings, provider: Provider | None, *, own: bool) -> None:
    """Raise the error that keeps a provider from working."""
    if name in APIS:
        from memoryd.embed.vendors.remote import RemoteProvider  # and the HTTP library with it

        cast(RemoteProvider, provider).http.check_key()
    elif name == "local":
        local = settings.local
        if local.model_path is None or not own:
            bundled().check()
        else:
            gguf_engine(Path(local.model_path), context_tokens=local.context_tokens).check()
