"""What a configuration wants to have: the provider, the identity and the store of an agent."""

from collections.abc import Callable
from pathlib import Path

from memoryd.config import AgentConfig, ConfigError
from memoryd.embed.local import LocalProvider
from memoryd.embed.provider import Provider
from memoryd.flow import FileContent
from memoryd.identity import Identity
from memoryd.index.driver import ExtensionError, bundled_extension
from memoryd.index.extension import expanded, load_apart
from memoryd.index.store import StoreOptions
from memoryd.redact import PatternError, Redactor
from memoryd.settings import Settings
from memoryd.source.read import read_file
from memoryd.terms import TOKENIZER

MAX_INPUT_BYTES = 8_000
"""Longest text in UTF-8 that is embedded whole, unless the provider takes less."""


def make_provider(settings: Settings) -> Provider | None:
    """Return the embedding provider of the settings, or None for keywords only."""
    if settings.provider == "none":
        return None
    return LocalProvider(
        threads=settings.local.threads, idle_unload_s=settings.local.idle_unload_seconds
    )


def reader(settings: Settings) -> Callable[[Path], FileContent]:
    """Return how notes are read: as they are, or with secrets masked. Raises `ConfigError`."""
    redact = redactor(settings)
    if not settings.redact.notes:
        return read_file

    def read(path: Path) -> FileContent:
        content = read_file(path)
        return content._replace(lines=redact.lines(content.lines))

    return read


def redactor(settings: Settings) -> Redactor:
    """Return what masks secrets. Raises `ConfigError` for a pattern that can't be used."""
    try:
        return Redactor(settings.redact.patterns)
    except PatternError as error:
        raise ConfigError(str(error)) from error


def wanted_identity(config: AgentConfig, provider: Provider | None) -> Identity:
    """Return the identity that an index built with the present settings has."""
    chunking = config.settings.chunking
    return Identity(
        provider="none" if provider is None else provider.name,
        model="fts-only" if provider is None else provider.model,
        provider_key="" if provider is None else provider.key,
        dims=None if provider is None else provider.dims,
        max_input_bytes=min(
            MAX_INPUT_BYTES, MAX_INPUT_BYTES if provider is None else provider.max_input_bytes
        ),
        chunk_tokens=chunking.tokens,
        chunk_overlap=min(chunking.overlap, chunking.tokens - 1),
        tokenizer=TOKENIZER,
    )


async def store_options(config: AgentConfig) -> StoreOptions:
    """Return how the index of an agent is to be opened."""
    vector, cache = config.settings.store.vector, config.settings.cache
    extension, problem = vector.extension_path, None
    if not vector.enabled:
        extension, problem = None, "switched off by store.vector.enabled"
    elif extension is not None:
        extension = expanded(extension)
        try:
            await load_apart(extension)
        except ExtensionError as error:
            extension, problem = None, str(error)
    else:
        try:
            extension = bundled_extension()
        except ExtensionError as error:
            problem = str(error)
    bound = (cache.max_entries or None) if cache.enabled else 0
    return StoreOptions(config.db_path, config.workspace, extension, problem, bound)
