"""Tests of everything that search needs: the provider, sqlite-vec, FTS5, another back end."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from memoryd.agent.agent import KEY_FILES, Agent
from memoryd.agent.factories import choose_provider
from memoryd.api.health import exposed
from memoryd.backends.backend import BUILTIN, BackendError
from memoryd.embed.provider import ProviderError
from memoryd.embed.resolve import AUTOMATIC
from memoryd.errors import HintedError
from memoryd.fs.hang import DISK_LIMIT_S
from memoryd.index.driver import Connection, Error, ExtensionError
from memoryd.index.extension import expanded, load_apart
from memoryd.index.queries import StoredIdentity
from memoryd_client.schema.memory import Check, Empty, ProbeResult, ProviderCandidate
from memoryd_client.shared.humanize import counted

if TYPE_CHECKING:  # only providers with a batch API need it
    from memoryd.embed.batch.jobs import Batches

STORE_S = 10.0


class CheckFailedError(HintedError):
    """A check failed for this reason; `hint` is the fix."""


async def run(agent: Agent, body: Empty) -> ProbeResult:
    """Run all checks concurrently and report their results."""
    settings, identity = agent.config.settings, agent.index.store.identity
    batches, has_other = agent.embedding.batches, agent.backend.name != BUILTIN
    checks = await asyncio.gather(
        _check("embedding", settings.provider != "none", lambda: _embedding(agent)),
        *([] if batches is None else [_check("batch", True, lambda: _batch(batches))]),
        _check("vector", settings.provider != "none", lambda: _vector(agent)),
        _check("keyword", True, lambda: _keyword(agent)),
        *([_check("backend", True, lambda: _backend(agent))] if has_other else []),
    )
    if (hint := "; ".join([*exposed(agent), *_unencrypted(agent)])) and checks[0].ok:
        checks[0].hint = hint
    choice = agent.embedding.resolved.choice
    candidates = []
    if settings.provider in AUTOMATIC:
        with suppress(TimeoutError):  # `status` names the hung disk
            async with asyncio.timeout(DISK_LIMIT_S):
                found = await agent.look_up(
                    choose_provider, settings, StoredIdentity(), at=KEY_FILES
                )
            candidates = [ProviderCandidate(*candidate) for candidate in found.considered]
    return ProbeResult(
        agent.config.agent,
        identity.provider,
        identity.model,
        list(checks),
        None if choice is None else choice.why,
        candidates,
    )


async def _check(name: str, required: bool, attempt: Callable[[], Awaitable[str]]) -> Check:
    if not required:
        return Check(name, ok=False, required=False, took_ms=0.0, reason="disabled")
    started = time.perf_counter()
    detail, reason, hint = "", None, None
    try:
        detail = await attempt()
    except CheckFailedError as error:
        reason, hint = error.message, error.hint
    took_ms = (time.perf_counter() - started) * 1000
    return Check(name, reason is None, True, took_ms, detail, reason, hint)


async def _embedding(agent: Agent) -> str:
    pool = agent.embedding.pool
    if pool is None:
        raise CheckFailedError("no provider", "set provider in the configuration")
    # A new text, so that no cache answers instead of the provider.
    text = f"memoryd probe {secrets.token_hex(4)}"
    try:
        vector = await pool.embed_query(text, insist=True)
    except ProviderError as error:
        hint = "keyword search keeps working; memoryd retries embedding"
        raise CheckFailedError(str(error), hint) from error
    identity, provider = agent.index.store.wanted, agent.embedding.provider
    receiver = ""
    if provider is not None and provider.route.address is not None:
        receiver = f", texts go to {provider.route}"
    return f"{identity.provider} {identity.model}, {len(vector)} dimensions{receiver}"


def _unencrypted(agent: Agent) -> list[str]:
    provider = agent.embedding.provider
    warning = None if provider is None else provider.route.warning
    return [] if warning is None else [warning]


async def _batch(batches: "Batches") -> str:
    try:
        await batches.check()
    except ProviderError as error:
        hint = "memoryd embeds without it in the meantime"
        raise CheckFailedError(str(error), hint) from error
    return f"{len(batches.stats())} jobs running"


async def _vector(agent: Agent) -> str:
    store = agent.index.store
    options = store.options
    if not agent.config.settings.store.vector.enabled:
        if not store.matrix_ready.is_set():
            raise CheckFailedError("the vectors are still loading", "try again in a moment")
        return f"{counted(len(store.matrix or ()), 'chunk')} in memory"
    path = agent.config.settings.store.vector.extension_path or options.extension
    if path is None:
        reason = options.extension_error or "no extension found"
        raise CheckFailedError(reason, "install sqlite-vec")
    try:
        version = await load_apart(expanded(path))
    except ExtensionError as error:
        hint = "search works without it; see store.vector.extension_path in the configuration"
        raise CheckFailedError(str(error), hint) from error
    if store.vec_error is not None:
        hint = "it can be loaded now: run `memctl restart`"
        raise CheckFailedError(f"the open index works without it: {store.vec_error}", hint)
    return f"sqlite-vec {version}"


async def _backend(agent: Agent) -> str:
    try:
        return await agent.backend.health()
    except BackendError as error:
        hint = error.hint or "the built-in index answers in the meantime"
        raise CheckFailedError(error.message, hint) from error


async def _keyword(agent: Agent) -> str:
    if agent.index.store.fts_error is not None:
        raise CheckFailedError(agent.index.store.fts_error, "use a Python whose SQLite has FTS5")
    try:
        async with asyncio.timeout(STORE_S):
            count = await agent.index.store.readers.read(_count_fts)
    except (Error, TimeoutError) as error:
        reason = str(error) or f"no answer within {STORE_S:g} s"
        raise CheckFailedError(reason, "run `memctl index --force` to rebuild the index") from error
    return f"FTS5, {counted(count, 'chunk')}"


def _count_fts(connection: Connection) -> int:
    connection.execute("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'memoryd'").fetchone()
    return int(connection.execute("SELECT count(*) FROM chunks_fts_docsize").fetchone()[0])
