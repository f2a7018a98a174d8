"""What each request does. The wire calls these by their op; nothing here knows of sockets."""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import cast

from memoryd import __version__
from memoryd.agent import Agent
from memoryd.flow import ProgressCallback, SyncMarker
from memoryd.index.rebuild import RebuildError, RebuildResult
from memoryd.index.rebuilder import RebuildRequest
from memoryd.search.engine import BadQueryError
from memoryd.serve.connection import ECHO_CHARS, Handler, RequestFailedError
from memoryd.source.read import NotMemoryError, read_lines
from memoryd.status import Status
from memoryd_client import bodies, protocol
from memoryd_client import status as wire

GET_LINES = 120
GET_MAX_LINES = 5_000
GET_MAX_CHARS = 12_000
PROGRESS_S = 0.1


class Operations:
    """The ops of one agent."""

    def __init__(self, agent: Agent, status: Status) -> None:
        self._agent = agent
        self._status = status

    def table(self) -> Mapping[protocol.Op, Handler]:
        """Return the function of each op."""
        functions = {
            protocol.Op.PING: self.ping,
            protocol.Op.STATUS: self.status,
            protocol.Op.CONFIG: self.config,
            protocol.Op.SEARCH: self.search,
            protocol.Op.GET: self.get,
            protocol.Op.SYNC: self.sync,
            protocol.Op.INDEX: self.index,
        }
        # The connection decodes each body as BODY_OF_OP says.
        return cast(Mapping[protocol.Op, Handler], functions)

    async def ping(self, body: bodies.Empty, progress: ProgressCallback) -> bodies.PingResult:
        """Say that the daemon is alive."""
        return bodies.PingResult(os.getpid(), __version__, self._status.uptime_s())

    async def status(self, body: bodies.Empty, progress: ProgressCallback) -> wire.StatusResult:
        """Tell everything about the agent."""
        return await self._status.collect()

    async def config(self, body: bodies.Empty, progress: ProgressCallback) -> bodies.ConfigResult:
        """Tell the effective settings."""
        return config_result(self._agent)

    async def search(
        self, body: bodies.SearchBody, progress: ProgressCallback
    ) -> bodies.SearchResult:
        """Search. What is noticed but not yet searchable makes the answer `stale`."""
        agent = self._agent
        if agent.config.settings.sync.on_search and agent.watcher is not None:
            agent.watcher.hurry()
        try:
            result = await agent.engine.search(body)
        except BadQueryError as error:
            raise RequestFailedError(protocol.ErrorCode.BAD_REQUEST, str(error)) from error
        result.pending_files = agent.pending_files()
        result.pending_vectors = agent.pending_chunks()
        result.stale = result.pending_files > 0
        result.warnings += self._status.warnings()
        return result

    async def get(self, body: bodies.GetBody, progress: ProgressCallback) -> bodies.GetResult:
        """Return lines of a memory file."""
        wanted = GET_LINES if body.lines is None else body.lines
        shown = body.path[:ECHO_CHARS]
        if body.start_line < 1 or not 1 <= wanted <= GET_MAX_LINES:
            raise RequestFailedError(
                protocol.ErrorCode.BAD_REQUEST,
                f"start_line must be at least 1 and lines from 1 to {GET_MAX_LINES}",
            )
        try:
            excerpt = await asyncio.to_thread(
                read_lines,
                self._agent.discovery,
                body.path,
                start_line=body.start_line,
                max_lines=wanted,
                max_chars=GET_MAX_CHARS,
            )
        except NotMemoryError as error:
            raise RequestFailedError(
                protocol.ErrorCode.DENIED,
                f"{shown} can't be read: {error}",
                "memory is MEMORY.md, memory/**/*.md and the configured extra_paths",
            ) from error
        except FileNotFoundError as error:
            raise RequestFailedError(
                protocol.ErrorCode.NOT_FOUND, f"there is no {shown} in the memory"
            ) from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RequestFailedError(
                protocol.ErrorCode.DENIED, f"{shown} can't be read: {reason}"
            ) from error
        after = body.start_line + len(excerpt.lines)
        more = bool(excerpt.lines) and after <= excerpt.total_lines
        return bodies.GetResult(
            path=excerpt.path,
            text="\n".join(excerpt.lines),
            start_line=body.start_line,
            lines=len(excerpt.lines),
            total_lines=excerpt.total_lines,
            truncated=excerpt.cut,
            next_from=after if more else None,
        )

    async def sync(self, body: bodies.SyncBody, progress: ProgressCallback) -> bodies.SyncResult:
        """Wait until everything changed before is searchable."""
        await self._sync(vectors=body.vectors, progress=progress)
        store = self._agent.store
        return bodies.SyncResult(
            files=len(store.catalog.rows),
            chunks=store.catalog.chunks,
            pending_vectors=self._agent.pending_chunks(),
            warnings=self._status.warnings(),
        )

    async def index(self, body: bodies.IndexBody, progress: ProgressCallback) -> bodies.IndexResult:
        """Bring the index up to date, or build a new one with `force`."""
        started = time.perf_counter()
        writer = self._agent.writer
        before = writer.stats()
        rebuilt: RebuildResult | None = None
        if body.force:
            rebuilt = await self._rebuild(progress)
        await self._sync(vectors=True, progress=progress)
        after = writer.stats()
        store = self._agent.store
        return bodies.IndexResult(
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
            warnings=self._status.warnings(),
        )

    async def _rebuild(self, progress: ProgressCallback) -> RebuildResult:
        done: asyncio.Future[RebuildResult] = asyncio.get_running_loop().create_future()
        await self._agent.to_rebuilder.put(RebuildRequest("asked for", done, progress))
        try:
            return await done
        except RebuildError as error:
            raise RequestFailedError(
                protocol.ErrorCode.UNAVAILABLE, f"rebuilding failed: {error}", retryable=True
            ) from error

    async def _sync(self, *, vectors: bool, progress: ProgressCallback) -> None:
        """Send a marker along the data path and report progress until it has come through."""
        agent = self._agent
        marker = SyncMarker()
        await agent.to_reconcile.put(marker)
        first = agent.writer.stats().messages
        while not marker.text.done():
            await asyncio.wait({marker.text}, timeout=PROGRESS_S)
            handled = agent.writer.stats().messages - first
            progress(handled, handled + agent.pending_files(), "indexing")
        total = agent.pending_chunks()
        while vectors and not marker.vectors.done():
            progress(total - agent.pending_chunks(), total, "embedding")
            await asyncio.wait({marker.vectors}, timeout=PROGRESS_S)


def config_result(agent: Agent) -> bodies.ConfigResult:
    """Return the effective settings of an agent as they go over the wire."""
    config = agent.config
    return bodies.ConfigResult(
        agent=config.agent,
        files=[str(file) for file in config.files],
        values=[bodies.ConfigValue(*value) for value in config.values()],
    )
