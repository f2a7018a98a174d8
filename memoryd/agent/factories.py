"""What a configuration wants to have: the provider, the identity and the store of an agent."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from memoryd.config.load import AgentConfig, ConfigError
from memoryd.config.settings import Settings
from memoryd.embed.batch.api import BatchApi
from memoryd.embed.gguf import gguf_engine
from memoryd.embed.local import LocalProvider
from memoryd.embed.provider import PermanentError, Provider
from memoryd.embed.rate_limit import RateLimits
from memoryd.embed.resolve import Resolved, resolve
from memoryd.embed.vendors.factory import APIS, key_origin
from memoryd.fs.hang import LOOK_S, tick, within
from memoryd.identity import Choice, Identity
from memoryd.index.driver import ExtensionError, bundled_extension
from memoryd.index.extension import expanded, load_apart
from memoryd.index.queries import StoredIdentity, peek
from memoryd.index.schema import put_choice
from memoryd.index.store import Store, StoreOptions
from memoryd.messages import FileContent
from memoryd.source.notes.read import read_file
from memoryd.text.redact import PatternError, Redactor
from memoryd.text.tokenize import TOKENIZER

log = logging.getLogger(__name__)

MAX_INPUT_BYTES = 8_000
"""Longest text in UTF-8 that is embedded whole, unless the provider takes less."""


async def check_workspace(config: AgentConfig) -> None:
    """Raise `ConfigError` for a workspace that is not there, unless there is an index of it.

    Its disk may come, or answer; what is indexed can be searched until then. Raises `TimeoutError`
    when that can't be seen, for the disk of the index does not answer.
    """
    look = partial(os.path.isdir, config.workspace)
    with suppress(TimeoutError):
        if await asyncio.to_thread(within, LOOK_S, look):
            return
    try:
        await asyncio.to_thread(within, LOOK_S, partial(os.path.exists, config.db_path))
    except TimeoutError:
        raise TimeoutError(f"the disk of {config.db_path} does not answer") from None
    if (await peek(config.db_path)).workspace != str(config.workspace):
        raise ConfigError(
            config.problem or f"workspace {config.workspace} is not a folder any more"
        )


def choose_provider(settings: Settings, peeked: StoredIdentity) -> Resolved:
    """Return which provider an agent is to have, and what else was considered. Blocking."""
    return resolve(
        settings.provider,
        fallback=settings.fallback,
        kept=peeked.choice,
        built_with=None if peeked.built is None else peeked.built.provider,
        model_path=settings.local.model_path,
        is_file=_is_file,
        key_origin=_key_origin,
    )


def _is_file(path: str) -> bool:
    tick(path)
    return Path(path).expanduser().is_file()


def _key_origin(name: str) -> str | None:
    """Return where a key is. A file that can't be read is as good as none.

    It is asked for twice: a wait for a disk that hung may end with an error.
    """
    for _ in range(2):
        with suppress(PermanentError):
            return key_origin(name)
    return None


def make_provider(settings: Settings, name: str, *, fallback: bool) -> Provider | None:
    """Return the provider of this name, or None for keywords only.

    As a `fallback` it has nothing of what the settings say about the first provider.
    """
    if name == "none":
        return None
    if name in APIS:
        _check_certificates()
        from memoryd.embed.vendors.factory import make_remote  # and the HTTP library with it

        return make_remote(name, settings, own=not fallback)
    engine = None
    if (path := settings.local.model_path) is not None and not fallback:
        engine = gguf_engine(
            Path(path),
            context_tokens=settings.local.context_tokens,
            query_prefix=settings.query_prefix,
            document_prefix=settings.document_prefix,
        )
    return LocalProvider(
        engine, threads=settings.local.threads, idle_unload_s=settings.local.idle_unload_seconds
    )


def _check_certificates() -> None:
    """Raise `ConfigError` for certificates that OpenSSL would wait for for ever."""
    path = os.environ.get("SSL_CERT_FILE", "")
    if path and os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"SSL_CERT_FILE names {path}, which is not a regular file")


def asked_for(provider: str, settings: Settings) -> Choice:
    """Return the choice of a provider by request; `auto` looks for one anew. Blocking.

    Raises `ConfigError` if the configuration names another, `ProviderError` for one without a key.
    """
    configured = settings.provider
    if provider not in ("auto", "local", *APIS):
        known = ", ".join(("auto", "local", *APIS))
        raise ConfigError(f"there is no provider {provider[:100]!r}; known: {known}")
    if configured not in ("auto", provider):
        raise ConfigError(
            f'the configuration says provider = "{configured}"; change it there, or set it to'
            ' "auto"'
        )
    if provider == "auto":
        found = choose_provider(settings, StoredIdentity()).choice
        assert found is not None  # noqa: S101 - auto always finds one
        return found
    if provider in APIS:
        from memoryd.embed.vendors.factory import make_remote

        make_remote(provider, settings).http.check_key()
    return Choice(provider, "asked", "it was asked for by request", configured)


def batch_api_of(provider: Provider, settings: Settings) -> BatchApi | None:
    """Return the batch API of a provider, if it has one that is to be used."""
    if not provider.remote or not settings.remote.batch.enabled:
        return None
    from memoryd.embed.vendors.factory import make_batch

    return make_batch(provider)


async def keep_choice(
    store: Store, resolved: Resolved, peeked: StoredIdentity, provider: Provider | None
) -> None:
    """Write down which provider was found, so that it stays; say so if texts leave the machine."""
    choice = resolved.choice
    if choice is None or choice == peeked.choice or not store.writable:
        return
    await store.database.run(lambda connection: put_choice(connection, choice))
    if provider is not None and provider.leaves_machine:
        log.warning("%s", leaving(provider, choice))


def leaving(provider: Provider, choice: Choice) -> str:
    """Return what people should know whose texts go to another machine by themselves."""
    return (
        f"texts of this memory are sent to {provider.address} ({provider.name}: {choice.why});"
        ' to keep them on this machine: provider = "local" in the configuration, or'
        " `memctl index --provider local`"
    )


def rate_limits(settings: Settings, *, fallback: bool) -> RateLimits:
    """Return how often the provider may be asked."""
    if fallback:
        return RateLimits()
    return RateLimits(
        requests_per_minute=settings.remote.requests_per_minute,
        tokens_per_minute=settings.remote.tokens_per_minute,
    )


def reader(settings: Settings, base: Callable[[str], str]) -> Callable[[Path], FileContent]:
    """Return how notes are read: as they are, or with secrets masked.

    `base` returns the folder from which on no link may lead to a path. Raises `ConfigError`.
    """
    redact = redactor(settings)

    def read(path: Path) -> FileContent:
        content = read_file(path, base(str(path)))
        if settings.redact.notes:
            return content._replace(lines=redact.lines(content.lines))
        return content

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


async def store_options(
    config: AgentConfig, is_locked: Callable[[], bool] = lambda: True
) -> StoreOptions:
    """Return how the index of an agent is to be opened; `is_locked` as `StoreOptions` has it."""
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
    return StoreOptions(config.db_path, config.workspace, extension, problem, bound, is_locked)
