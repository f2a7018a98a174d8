"""Factories for the parts of an agent that its configuration decides."""

import asyncio
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memoryd.config.load import AgentConfig
from memoryd.config.settings import Settings
from memoryd.config.validate import ConfigError
from memoryd.embed.budget import Budget, UploadLedger
from memoryd.embed.local import LocalProvider
from memoryd.embed.provider import PermanentError, Provider
from memoryd.embed.rate_limit import RateLimits
from memoryd.embed.resolve import AUTOMATIC, Resolved, resolve
from memoryd.embed.upload_gate import UploadGate
from memoryd.embed.vendors.credentials import KEY_NAMES, key_origin
from memoryd.fs.hang import DISK_LIMIT_S, tick, within
from memoryd.identity import Choice, Identity
from memoryd.index.driver import ExtensionError, bundled_extension
from memoryd.index.extension import expanded, load_apart
from memoryd.index.queries import StoredIdentity, peek
from memoryd.index.store import Store, StoreOptions
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.journal import SUFFIX as JOURNAL_SUFFIX
from memoryd.source.notes.journal import NoteJournal
from memoryd.source.notes.read import NoteReader
from memoryd.source.notes.write import NoteWriter
from memoryd.text.redact import PatternError, Redactor
from memoryd.text.tokenize import TOKENIZER
from memoryd_client.shared import paths

if TYPE_CHECKING:  # only a provider over HTTP has one
    from memoryd.embed.batch.api import BatchApi

DAY_S = 86_400.0
MAX_INPUT_BYTES = 8_000
"""Maximum UTF-8 bytes of a text embedded whole, unless the provider accepts less."""


async def check_workspace(config: AgentConfig) -> None:
    """Raise `ConfigError` for a missing workspace that has no index.

    With an index, indexed notes stay searchable until the disk is available. Raises `TimeoutError`
    if the disk of the index does not answer.
    """
    with suppress(TimeoutError):
        if await asyncio.to_thread(within, DISK_LIMIT_S, partial(os.path.isdir, config.workspace)):
            return
    try:
        await asyncio.to_thread(within, DISK_LIMIT_S, partial(os.path.exists, config.db_path))
    except TimeoutError:
        raise TimeoutError(f"the disk of {config.db_path} does not answer") from None
    if (await peek(config.db_path)).workspace != str(config.workspace):
        raise ConfigError(config.problem or f"workspace {config.workspace} is no longer a folder")


def choose_provider(settings: Settings, peeked: StoredIdentity) -> Resolved:
    """Return the provider of an agent and the candidates considered. Blocking."""
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
    """Return the origin of a key, None for an unreadable file.

    A second attempt follows an error, because a disk that hung may end the first with one.
    """
    for _ in range(2):
        with suppress(PermanentError):
            return key_origin(name)
    return None


def make_provider(settings: Settings, name: str, *, fallback: bool) -> Provider | None:
    """Return the provider with this name, or None for keywords only.

    A `fallback` ignores the settings, which describe the first provider.
    """
    if name == "none":
        return None
    if name in KEY_NAMES:
        _check_certificates()
        from memoryd.embed.vendors.factory import make_remote  # imports the HTTP library

        return make_remote(name, settings, own=not fallback)
    engine = None
    if (path := settings.local.model_path) is not None and not fallback:
        from memoryd.embed.gguf import gguf_engine  # few use one

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
    """Raise `ConfigError` if OpenSSL would block on the certificate file."""
    path = os.environ.get("SSL_CERT_FILE", "")
    if path and os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"SSL_CERT_FILE is not a regular file: {path}")


def requested_choice(provider: str, settings: Settings) -> Choice:
    """Return the choice of a requested provider; `auto` and `auto-remote` choose again. Blocking.

    Raises `ConfigError` if the configuration names another, `ProviderError` for one without a key.
    """
    configured = settings.provider
    if provider not in (*AUTOMATIC, "local", *KEY_NAMES):
        known = ", ".join((*AUTOMATIC, "local", *KEY_NAMES))
        raise ConfigError(f"no such provider: {provider[:100]!r}; valid providers: {known}")
    if configured not in (*AUTOMATIC, provider):
        raise ConfigError(
            f'the configuration sets provider = "{configured}"',
            'change it there, or set it to "auto"',
        )
    if provider in AUTOMATIC:
        as_if = replace(settings, provider=provider)
        found = choose_provider(as_if, StoredIdentity()).choice
        assert found is not None  # noqa: S101 - both always find one
        return found if provider == configured else _requested(found.provider, configured)
    if provider in KEY_NAMES:
        from memoryd.embed.vendors.factory import make_remote

        make_remote(provider, settings).http.check_key()
    return _requested(provider, configured)


def _requested(provider: str, configured: str) -> Choice:
    return Choice(provider, "asked", "a client requested it", configured)


def batch_api_of(provider: Provider, settings: Settings) -> "BatchApi | None":
    """Return the batch API of a provider, if it has one and the settings enable it."""
    if not provider.remote or not settings.remote.batch.enabled:
        return None
    from memoryd.embed.vendors.factory import make_batch

    return make_batch(provider)


def rate_limits(settings: Settings, *, fallback: bool) -> RateLimits:
    """Return the rate limits of the provider."""
    if fallback:
        return RateLimits()
    return RateLimits(
        requests_per_minute=settings.remote.requests_per_minute,
        tokens_per_minute=settings.remote.tokens_per_minute,
    )


def upload_ledger() -> UploadLedger:
    """Return the file that counts what is sent."""
    return UploadLedger(Path(paths.state_dir()) / "uploads.json")


def daily_budget(settings: Settings, provider: Provider) -> Budget | None:
    """Return the budget of a provider on another machine, None without a limit."""
    limit, route = settings.remote.max_tokens_per_day, provider.route
    if not limit or not route.leaves_machine or route.address is None:
        return None
    return Budget(upload_ledger(), route.address, limit)


def upload_gate(config: AgentConfig, provider: Provider, store: Store) -> UploadGate | None:
    """Return the gate before a provider on another machine, None for one on this machine."""
    remote = config.settings.remote
    if not provider.route.leaves_machine:
        return None
    return UploadGate(
        store,
        upload_ledger(),
        index=str(config.db_path),
        receiver=str(provider.route),
        identity=f"{provider.name} {provider.model} {provider.key}",
        above_tokens=remote.confirm_above_tokens,
        chunk_tokens=config.settings.chunking.tokens,
        price_per_million_tokens=remote.price_per_million_tokens,
    )


def note_reader(settings: Settings, discovery: Discovery, mounts: Mounts | None) -> NoteReader:
    """Return the reader of notes. Raises `ConfigError` for an invalid pattern."""
    redact = redactor(settings)
    return NoteReader(discovery, redact if settings.redact.notes else None, mounts)


def note_writer(config: AgentConfig, discovery: Discovery) -> NoteWriter:
    """Return the writer of notes. Raises `ConfigError` for an invalid pattern."""
    place = hashlib.sha256(os.fsencode(config.workspace)).hexdigest()[:16]
    return NoteWriter(
        discovery,
        NoteJournal(Path(f"{config.db_path}{JOURNAL_SUFFIX}")),
        lock=Path(paths.state_dir(), f"notes-{place}.lock"),
        mask=redactor(config.settings),
        zone=time_zone(config.settings),
    )


def time_zone(settings: Settings) -> tzinfo | None:
    """Return the time zone of the days of notes, None for the computer's."""
    if settings.timezone is None:
        return None
    from zoneinfo import ZoneInfo  # see memoryd.config.validate

    return ZoneInfo(settings.timezone)


def redactor(settings: Settings) -> Redactor:
    """Return the redactor of secrets. Raises `ConfigError` for an invalid pattern."""
    try:
        return Redactor(settings.redact.patterns)
    except PatternError as error:
        raise ConfigError(str(error)) from error


def wanted_identity(config: AgentConfig, provider: Provider | None) -> Identity:
    """Return the identity of an index built with the present settings."""
    chunking = config.settings.chunking
    return Identity(
        provider="none" if provider is None else provider.name,
        model="fts-only" if provider is None else provider.model,
        provider_key="" if provider is None else provider.key,
        dims=None if provider is None else provider.dims,
        max_input_bytes=MAX_INPUT_BYTES
        if provider is None
        else min(MAX_INPUT_BYTES, provider.max_input_bytes),
        chunk_tokens=chunking.tokens,
        chunk_overlap=min(chunking.overlap, chunking.tokens - 1),
        tokenizer=TOKENIZER,
    )


async def store_options(
    config: AgentConfig, is_locked: Callable[[], bool] = lambda: True
) -> StoreOptions:
    """Return the options to open the index of an agent; `is_locked` as in `StoreOptions`."""
    vector, cache = config.settings.store.vector, config.settings.cache
    extension, problem = vector.extension_path if vector.enabled else None, None
    if vector.enabled:
        try:
            if extension is None:
                extension = bundled_extension()
            else:
                extension = expanded(extension)
                await load_apart(extension)
        except ExtensionError as error:
            extension, problem = None, str(error)
    bound = (cache.max_entries or None) if cache.enabled else 0
    kept_s = cache.deleted_days * DAY_S if cache.enabled else 0.0
    return StoreOptions(
        config.db_path, config.workspace, extension, problem, bound, kept_s, is_locked
    )
