"""Operations of one agent."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from memoryd.agent.agent import KEY_FILES, Agent
from memoryd.agent.factories import requested_choice
from memoryd.api import files, get, probe, search, transcripts
from memoryd.api.forget import MAX_NAMED_CHARS, forget
from memoryd.api.status import Status
from memoryd.embed.provider import ProviderError
from memoryd.errors import ECHO_CHARS, HintedError, RequestFailedError
from memoryd.fs.hang import LOOK_S, retrieve_error
from memoryd.identity import Choice
from memoryd.index.rebuild.actor import RebuildRequest
from memoryd.index.rebuild.rebuild import RebuildError, RebuildResult
from memoryd.index.write_outage import Outage
from memoryd.messages import Choose, Hint, SyncMarker
from memoryd.server.connection import Caller
from memoryd_client.schema import memory
from memoryd_client.schema import status as wire
from memoryd_client.schema.transcripts import ForgetBody, ForgetResult, SessionsBody, SessionsResult
from memoryd_client.wire import protocol
from memoryd_client.wire.protocol import ErrorCode

T = TypeVar("T")


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
        raise RequestFailedError(
            ErrorCode.UNAVAILABLE, outage.warning or "", outage.advice, retryable=True
        )
    finally:
        failure.cancel()
        working.cancel()
        await asyncio.wait((working, failure))
        retrieve_error(working)
        retrieve_error(failure)


PROGRESS_S = 0.1
PATIENCE_S = 30.0
"""Seconds that a sync waits for a disk that does not answer."""


class Operations:
    """Operations of one agent."""

    def __init__(self, agent: Agent, status: Status) -> None:
        self._agent = agent
        self._status = status

    def degraded(self) -> list[str]:
        """Return a line for each problem of the agent."""
        return self._status.health.degraded()

    async def status(self, body: memory.Empty, caller: Caller) -> wire.StatusResult:
        """Return the state of the agent."""
        return await self._status.collect()

    async def config(self, body: memory.Empty, caller: Caller) -> memory.ConfigResult:
        """Return the effective settings."""
        return config_result(self._agent)

    async def search(self, body: memory.SearchBody, caller: Caller) -> memory.SearchResult:
        """Search. Noticed changes that are not searchable yet make the answer `stale`."""
        return await search.search(self._agent, body)

    async def get(self, body: memory.GetBody, caller: Caller) -> memory.GetResult:
        """Return lines of a memory file."""
        return await get.get(self._agent, body)

    async def sync(self, body: memory.SyncBody, caller: Caller) -> memory.SyncResult:
        """Wait until everything changed before is searchable."""
        await self._while_writable(self._sync(vectors=body.vectors, caller=caller))
        store = self._agent.index.store
        return memory.SyncResult(
            files=len(store.catalog.rows),
            chunks=store.catalog.chunks,
            pending_vectors=self._agent.pending_chunks(),
            warnings=self._agent.warnings(),
        )

    async def index(self, body: memory.IndexBody, caller: Caller) -> memory.IndexResult:
        """Update the index, or rebuild it with `force`."""
        return await self._while_writable(self._index(body, caller))

    async def _index(self, body: memory.IndexBody, caller: Caller) -> memory.IndexResult:
        started = time.perf_counter()
        writer = self._agent.index.writer
        before = writer.stats()
        rebuilt: RebuildResult | None = None
        if self._agent.notes.reconciler.stats().away:
            await self._sync(vectors=False, caller=caller, meant=True)
        if body.force or body.provider is not None:
            rebuilt = await self._rebuild(caller, if_different=not body.force)
        await self._sync(vectors=True, caller=caller, meant=True)
        after = writer.stats()
        store = self._agent.index.store
        return memory.IndexResult(
            files=len(store.catalog.rows),
            chunks=store.catalog.chunks,
            embedded=after.vectors_written - before.vectors_written
            if rebuilt is None
            else rebuilt.embedded,
            reused=after.vectors_reused - before.vectors_reused
            if rebuilt is None
            else rebuilt.reused,
            seconds=time.perf_counter() - started,
            rebuilt=rebuilt is not None,
            pending_vectors=self._agent.pending_chunks(),
            warnings=self._agent.warnings(),
        )

    async def choose(self, provider: str) -> bool:
        """Store the provider for the next start; return whether it differs from the present one.

        Raises `RequestFailedError` for an unavailable provider.
        """
        agent = self._agent
        try:
            async with asyncio.timeout(LOOK_S):
                choice = await agent.look_up(
                    requested_choice, provider, agent.config.settings, at=KEY_FILES
                )
        except TimeoutError:
            raise RequestFailedError(
                protocol.ErrorCode.UNAVAILABLE,
                "can't check the key files and model files: their disk does not answer",
                hint="`memctl status` names the file in a moment",
                retryable=True,
            ) from None
        except (HintedError, ProviderError) as error:
            raise RequestFailedError(protocol.ErrorCode.BAD_REQUEST, str(error)) from error
        await self._while_writable(self._choose(choice))
        resolved = agent.embedding.resolved
        if choice.provider != resolved.provider or resolved.is_fallback:
            return True
        agent.embedding.resolved = resolved._replace(choice=choice)
        return False

    async def files(self, body: memory.FilesBody, caller: Caller) -> memory.FilesResult:
        """Return one page of the files of the agent."""
        if not 1 <= body.limit <= files.MAX_PAGE or body.state not in files.STATES:
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST,
                f"limit must be from 1 to {files.MAX_PAGE}, and state one of"
                f" {', '.join(files.STATES)}",
            )
        return await files.page(self._agent, body)

    async def probe(self, body: memory.Empty, caller: Caller) -> memory.ProbeResult:
        """Test everything that search needs."""
        return await probe.run(self._agent)

    async def session_start(
        self, body: memory.SessionStartBody, caller: Caller
    ) -> memory.SessionStartResult:
        """Prepare for searches: start a sync and the model, without waiting for either."""
        agent = self._agent
        if not agent.config.settings.sync.on_session_start:
            return memory.SessionStartResult(syncing=False)
        if agent.notes.watcher is not None:
            agent.notes.watcher.flush_now()
        await agent.queues.reconcile.put(Hint(reason="a session starts"))
        if agent.transcripts is not None:
            await agent.queues.transcripts.put(Hint(reason="a session starts"))
        if agent.embedding.provider is not None:
            agent.embedding.provider.warm()
        return memory.SessionStartResult(syncing=True)

    async def transcript_updated(
        self, body: memory.TranscriptUpdatedBody, caller: Caller
    ) -> memory.TranscriptUpdatedResult:
        """Check a file now, because its writer reports a change."""
        agent, shown = self._agent, body.path[:ECHO_CHARS]
        path = get.absolute(agent.notes.discovery.workspace, body.path)
        hint = Hint(frozenset({path}), "its writer reports it")
        if agent.transcripts is not None and agent.transcripts.files.places.key(path) is not None:
            await agent.queues.transcripts.put(hint)
            return memory.TranscriptUpdatedResult(True)
        try:
            found = await agent.look_up(agent.notes.discovery.look, path, at=path)
        except (OSError, ValueError):
            found = None  # unreadable, or a NUL in its name
        if found is None:
            reason = f"{shown} is neither a note nor in a location of transcripts"
            if agent.transcripts is None:
                reason = f"{shown} is not a note, and transcripts are disabled"
            return memory.TranscriptUpdatedResult(False, reason)
        await agent.queues.reconcile.put(hint)
        return memory.TranscriptUpdatedResult(True)

    async def sessions(self, body: SessionsBody, caller: Caller) -> SessionsResult:
        """Return one page of the transcripts of the agent."""
        if not 1 <= body.limit <= files.MAX_PAGE:
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST, f"limit must be from 1 to {files.MAX_PAGE}"
            )
        return await transcripts.page(self._agent, body)

    async def forget(self, body: ForgetBody, caller: Caller) -> ForgetResult:
        """Forget transcripts, or messages in them, permanently."""
        agent = self._agent
        named = [name for name in (body.session, body.path, body.match) if name is not None]
        if len(named) != 1 or not named[0].strip():
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST, "give exactly one of session, path and match"
            )
        if len(named[0]) > MAX_NAMED_CHARS:
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST,
                f"session, path and match may have at most {MAX_NAMED_CHARS} characters",
                "a part of the text is enough",
            )
        if agent.transcripts is None:
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST,
                "transcripts are disabled",
                "to forget a note, delete it or edit its text",
            )
        return await self._while_writable(forget(agent, agent.transcripts.files, body))

    async def _while_writable(self, work: Coroutine[Any, Any, T]) -> T:
        return await while_writable(self._agent.index.store.outage, work)

    async def _choose(self, choice: Choice) -> None:
        message = Choose(choice)
        await self._agent.queues.write.put(message)
        await message.done

    async def _rebuild(self, caller: Caller, *, if_different: bool) -> RebuildResult | None:
        done: asyncio.Future[RebuildResult | None] = asyncio.get_running_loop().create_future()
        request = RebuildRequest("requested", done, caller.progress, if_different)
        await self._agent.queues.rebuild.put(request)
        try:
            return await done
        except RebuildError as error:
            raise RequestFailedError(
                protocol.ErrorCode.UNAVAILABLE, f"the rebuild failed: {error}", retryable=True
            ) from error

    async def _sync(self, *, vectors: bool, caller: Caller, meant: bool = False) -> None:
        """Send a marker along the data path and report progress until it has passed."""
        agent = self._agent
        marker = SyncMarker(meant=meant)
        await agent.queues.reconcile.put(marker)
        first = agent.index.writer.stats().messages
        while not marker.text.done():
            await asyncio.wait({marker.text}, timeout=PROGRESS_S)
            if hung := agent.disk_waits.warnings(seconds=PATIENCE_S):
                raise RequestFailedError(
                    protocol.ErrorCode.UNAVAILABLE,
                    hung[0],
                    "check the disk; memoryd reads its changes when it answers",
                    retryable=True,
                )
            handled = agent.index.writer.stats().messages - first
            caller.progress(handled, handled + agent.pending_files(), "indexing")
        total = agent.pending_chunks()
        while vectors and not marker.vectors.done():
            caller.progress(total - agent.pending_chunks(), total, "embedding")
            await asyncio.wait({marker.vectors}, timeout=PROGRESS_S)


def config_result(agent: Agent) -> memory.ConfigResult:
    """Return the effective settings of an agent in wire format."""
    config = agent.config
    return memory.ConfigResult(
        agent=config.agent,
        files=[str(file) for file in config.files],
        values=[memory.ConfigValue(*value) for value in config.values()],
    )
