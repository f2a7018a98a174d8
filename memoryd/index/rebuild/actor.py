"""Actor that runs rebuilds one at a time, on request and when the settings have changed."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from memoryd.index.rebuild.rebuild import Rebuild, RebuildError, RebuildResult, Stages
from memoryd.index.store import Store
from memoryd.messages import Hint, OnProgress, ToReconcile, ToWriter

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""Seconds between two attempts at a rebuild that failed."""


@dataclass(slots=True, eq=False)
class RebuildRequest:
    """Request for a new index. Cancelling `done` abandons the rebuild.

    `if_different`: rebuild only if the index was built with other settings. Otherwise the result is
    that of the last automatic rebuild, or None.
    """

    reason: str
    done: asyncio.Future[RebuildResult | None]
    on_progress: OnProgress = field(default=lambda completed, total, label: None)
    if_different: bool = False


@dataclass(frozen=True, slots=True)
class RebuilderStats:
    """The current rebuild, if any, and the error of the last one."""

    reason: str | None
    completed: int
    total: int
    label: str
    last_error: str | None


class Rebuilder:
    """Builds a new index and has the writer swap it in.

    In: requests; None if the target identity may have changed. Out: finished index files, to the
    writer; then hints to check all files.
    """

    def __init__(
        self,
        inbox: asyncio.Queue[RebuildRequest | None],
        writer: asyncio.Queue[ToWriter],
        hints: Collection[asyncio.Queue[ToReconcile]],
        *,
        store: Store,
        stages: Stages,
    ) -> None:
        self._inbox = inbox
        self._writer = writer
        self._hints = hints
        self._store = store
        self._stages = stages
        self._reason: str | None = None
        self._progress = (0, 0, "")
        self.last_error: str | None = None
        self._automatic: RebuildResult | None = None
        self._retried_early = False

    async def run(self) -> None:
        """Serve requests until cancelled, and rebuild whenever settings and index differ."""
        await self._store.swept.wait()
        while True:
            request = await self._next()
            if request is None and self._store.difference() is not None:
                outcome = await self._rebuild(
                    self._store.difference() or "", lambda *progress: None
                )
                self._automatic = outcome if isinstance(outcome, RebuildResult) else None
            elif request is not None and not request.done.done():
                await self._serve(request)

    def stats(self) -> RebuilderStats:
        """Return the current state."""
        return RebuilderStats(self._reason, *self._progress, self.last_error)

    async def _next(self) -> RebuildRequest | None:
        """Return the next request, or None when an automatic rebuild may be due."""
        while True:
            due = self._store.difference() is not None and self._store.writable
            if due and self.last_error is None:
                return None
            try:
                async with asyncio.timeout(RETRY_S if due else None):
                    request = await self._inbox.get()
            except TimeoutError:
                self._retried_early = False
                return None
            if request is not None:
                return request
            # Only once in `RETRY_S`: a provider that alternates its dims would keep us busy.
            if not self._retried_early:
                self._retried_early = True
                return None

    async def _serve(self, request: RebuildRequest) -> None:
        if request.if_different and self._store.difference() is None:
            done_already, self._automatic = self._automatic, None
            request.done.set_result(done_already)
            return
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._rebuild(request.reason, request.on_progress))
            request.done.add_done_callback(lambda _: work.cancel())
        if not request.done.done():
            outcome = work.result()
            if isinstance(outcome, RebuildError):
                request.done.set_exception(outcome)
            else:
                request.done.set_result(outcome)

    async def _rebuild(self, reason: str, on_progress: OnProgress) -> RebuildResult | RebuildError:
        def note(completed: int, total: int, label: str) -> None:
            self._progress = completed, total, label
            on_progress(completed, total, label)

        log.info("building a new index beside the old one: %s", reason)
        self._reason = reason
        before = self._store.generation
        try:
            rebuild = Rebuild(self._store, self._writer, self._stages, note)
            result = await rebuild.run()
        except RebuildError as error:
            self.last_error = str(error)
            log.warning("rebuilding failed: %s", error)
            return error
        finally:
            self._reason = None
            # A rebuild that is cancelled during the swap is in place too.
            if self._store.generation != before:
                self.last_error = None
                self._retried_early = False
                log.info("the new index is in place")
                await self._send_hints()
        return result

    async def _send_hints(self) -> None:
        """Request a scan of all sources: the new index may lack the latest changes."""
        for queue in self._hints:
            # Waits for room: the hints in a full queue may be of single files.
            await queue.put(Hint(reason="rebuilt"))
