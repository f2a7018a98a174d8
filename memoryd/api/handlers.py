"""Operations of one agent that bring its index up to date, and its settings."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from memoryd.agent.agent import KEY_FILES, Agent
from memoryd.agent.factories import requested_choice
from memoryd.api.get import absolute
from memoryd.embed.provider import ProviderError
from memoryd.errors import ECHO_CHARS, HintedError, bad_request, unavailable
from memoryd.fs.hang import DISK_LIMIT_S, retrieve_error
from memoryd.identity import Choice
from memoryd.index.rebuild.actor import RebuildRequest
from memoryd.index.rebuild.rebuild import RebuildError, RebuildResult
from memoryd.index.write_outage import Outage
from memoryd.messages import Choose, Hint, SyncMarker
from memoryd.server.connection import Caller
from memoryd_client.schema import memory

T = TypeVar("T")
PROGRESS_S = 0.1
PATIENCE_S = 30.0
"""Seconds that a sync waits for a disk that does not answer."""


async def while_writable(outage: Outage, work: Coroutine[Any, Any, T]) -> T:
    """Run work that waits for the writer, but not for a failing disk.

    Makes the writer retry now if it is failing. Raises `RequestFailedError` when the retry fails;
    messages in the writer's queue stay there until the disk works again.
    """
    outage.retry_now()
    failure = asyncio.create_task(outage.until_failure(), name="until a retry fails")
    working = asyncio.create_task(work, name="work that needs the writer")
    try:
        await asyncio.wait((working, failure), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise unavailable(outage.warning or "", outage.advice)
    finally:
        failure.cancel()
        working.cancel()
        await asyncio.wait((working, failure))
        retrieve_error(working)
        retrieve_error(failure)


async def config(agent: Agent, body: memory.Empty) -> memory.ConfigResult:
    """Return the effective settings."""
    return memory.ConfigResult(
        agent=agent.config.agent,
        files=[str(file) for file in agent.config.files],
        values=[memory.ConfigValue(*value) for value in agent.config.values()],
    )


async def sync(agent: Agent, body: memory.SyncBody, caller: Caller) -> memory.SyncResult:
    """Wait until everything changed before is searchable."""
    store = agent.index.store
    await while_writable(store.outage, _sync(agent, vectors=body.vectors, caller=caller))
    await agent.backend.sync()
    return memory.SyncResult(
        files=len(store.catalog.rows),
        chunks=store.catalog.chunks,
        pending_vectors=agent.pending_chunks(),
        warnings=agent.warnings(),
    )


async def index(agent: Agent, body: memory.IndexBody, caller: Caller) -> memory.IndexResult:
    """Update the index, or rebuild it with `force`."""
    return await while_writable(agent.index.store.outage, _index(agent, body, caller))


async def _index(agent: Agent, body: memory.IndexBody, caller: Caller) -> memory.IndexResult:
    started = time.perf_counter()
    store, writer = agent.index.store, agent.index.writer
    before = writer.stats()
    rebuilt: RebuildResult | None = None
    gate = agent.embedding.gate
    if body.confirm and gate is not None:
        try:
            await gate.confirm()
        except ProviderError as error:
            raise unavailable(str(error), "check the state folder") from error
        agent.embedding.feeder.wake()
    if agent.notes.reconciler.stats().away:
        await _sync(agent, vectors=False, caller=caller, meant=True)
    if body.force or body.provider is not None:
        rebuilt = await _rebuild(agent, caller, if_different=not body.force)
    await _sync(agent, vectors=True, caller=caller, meant=True)
    await agent.backend.sync()
    after = writer.stats()
    embedded = after.vectors_written - before.vectors_written
    reused = after.vectors_reused - before.vectors_reused
    return memory.IndexResult(
        files=len(store.catalog.rows),
        chunks=store.catalog.chunks,
        embedded=embedded if rebuilt is None else rebuilt.embedded,
        reused=reused if rebuilt is None else rebuilt.reused,
        seconds=time.perf_counter() - started,
        rebuilt=rebuilt is not None,
        pending_vectors=agent.pending_chunks(),
        warnings=agent.warnings(),
        unconfirmed=None if gate is None or gate.preview is None else str(gate.preview),
    )


async def choose(agent: Agent, provider: str) -> bool:
    """Store the provider for the next start; return whether it differs from the present one.

    Raises `RequestFailedError` for an unavailable provider.
    """
    settings = agent.config.settings
    try:
        async with asyncio.timeout(DISK_LIMIT_S):
            choice = await agent.look_up(requested_choice, provider, settings, at=KEY_FILES)
    except TimeoutError:
        raise unavailable(
            "can't check the key files and model files: their disk does not answer",
            "`memctl status` names the file in a moment",
        ) from None
    except (HintedError, ProviderError) as error:
        raise bad_request(str(error)) from error
    await while_writable(agent.index.store.outage, _choose(agent, choice))
    resolved = agent.embedding.resolved
    if choice.provider != resolved.provider or resolved.is_fallback:
        return True
    agent.embedding.resolved = resolved._replace(choice=choice)
    return False


async def session_start(agent: Agent, body: memory.SessionStartBody) -> memory.SessionStartResult:
    """Prepare for searches: start a sync and the model, without waiting for either."""
    if not agent.config.settings.sync.on_session_start:
        return memory.SessionStartResult(syncing=False)
    if agent.notes.watcher is not None:
        agent.notes.watcher.flush_now()
    await agent.queues.reconcile.put(Hint(reason="a session starts"))
    if agent.transcripts is not None:
        await agent.queues.transcripts.put(Hint(reason="a session starts"))
    agent.embedding.warm()
    agent.entry_vectors.warm()
    return memory.SessionStartResult(syncing=True)


async def transcript_updated(
    agent: Agent, body: memory.TranscriptUpdatedBody
) -> memory.TranscriptUpdatedResult:
    """Check a file now, because its writer reports a change."""
    discovery, shown = agent.notes.discovery, body.path[:ECHO_CHARS]
    path = absolute(discovery.workspace, body.path)
    hint = Hint(frozenset({path}), "its writer reports it")
    if agent.transcripts is not None and agent.transcripts.files.places.key(path) is not None:
        await agent.queues.transcripts.put(hint)
        return memory.TranscriptUpdatedResult(True)
    try:
        found = await agent.look_up(discovery.stat, path, at=path)
    except (OSError, ValueError):
        found = None  # unreadable, or a NUL in its name
    if found is None:
        reason = f"{shown} is neither a note nor in a location of transcripts"
        if agent.transcripts is None:
            reason = f"{shown} is not a note, and transcripts are disabled"
        return memory.TranscriptUpdatedResult(False, reason)
    await agent.queues.reconcile.put(hint)
    return memory.TranscriptUpdatedResult(True)


async def _choose(agent: Agent, choice: Choice) -> None:
    message = Choose(choice)
    await agent.queues.write.put(message)
    await message.done


async def _rebuild(agent: Agent, caller: Caller, *, if_different: bool) -> RebuildResult | None:
    done: asyncio.Future[RebuildResult | None] = asyncio.get_running_loop().create_future()
    request = RebuildRequest("requested", done, caller.progress, if_different)
    if agent.embedding.pool is not None:
        agent.embedding.pool.breaker.wake()  # the provider may work again by now
    await agent.queues.rebuild.put(request)
    try:
        return await done
    except RebuildError as error:
        raise unavailable(f"the rebuild failed: {error}") from error


async def _sync(agent: Agent, *, vectors: bool, caller: Caller, meant: bool = False) -> None:
    """Send a marker along the data path and report progress until it has passed."""
    marker = SyncMarker(meant=meant)
    await agent.queues.reconcile.put(marker)
    first = agent.index.writer.stats().messages
    while not marker.text.done():
        await asyncio.wait({marker.text}, timeout=PROGRESS_S)
        if hung := agent.disk_waits.warnings(seconds=PATIENCE_S):
            raise unavailable(hung[0], "check the disk; memoryd reads its changes when it answers")
        handled = agent.index.writer.stats().messages - first
        caller.progress(handled, handled + agent.pending_files(), "indexing")
    total = agent.pending_chunks()
    while vectors and not marker.vectors.done():
        caller.progress(total - agent.pending_chunks(), total, "embedding")
        await asyncio.wait({marker.vectors}, timeout=PROGRESS_S)
