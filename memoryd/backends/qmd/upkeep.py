"""Upkeep of QMD for one agent: its installation, its server, and the updates of its index."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from memoryd.backends.backend import BackendError
from memoryd.backends.qmd.answers import Counts, read_counts
from memoryd.backends.qmd.collections import Collections
from memoryd.backends.qmd.installation import Installation, find_installation, version_of
from memoryd.backends.qmd.process import QmdServer, config_file, index_file, run
from memoryd.config.settings import QmdSettings
from memoryd.errors import HintedError
from memoryd.fs.lockfile import locked
from memoryd.retry import Backoff, first_of
from memoryd.supervisor import Actor

log = logging.getLogger(__name__)

Waiting = asyncio.Future[None]
"""A request that waits for the end of an update."""


class QmdUpkeep:
    """The processes of QMD for one agent, in the folder `home`, and the state of its index.

    `server` answers, if there is one; a command can answer if `has_index`. `missing` is the reason
    why QMD can't be run, `update_problem` and `server_problem` are those of a QMD that can.
    """

    def __init__(self, settings: QmdSettings, home: Path, collections: Collections) -> None:
        self.server: QmdServer | None = None
        self.has_index = False
        self.counts = Counts(None, None)
        self.updated_s: float | None = None
        self.missing: str | None = None
        self.update_problem: str | None = None
        self.server_problem: str | None = None
        self.installation: Installation | None = None
        self._settings = settings
        self._home = home
        self._collections = collections
        self._embed_problem: str | None = None
        self._embedded_s: float | None = None
        self._backoff = Backoff(first_s=1.0, max_s=60.0)
        self._is_embedding = False
        self._waiting: list[Waiting] = []
        self._to_end = asyncio.Event()
        self._end_reason = ""
        self._due = asyncio.Event()
        self._exclusive = asyncio.Lock()
        self._to_erase = False

    def actors(self) -> list[Actor]:
        """Return the actors that keep QMD running and up to date."""
        updates = Actor("qmd updates", self._keep_updated)
        return [updates, Actor("qmd server", self._serve)] if self._settings.server else [updates]

    async def installed(self) -> Installation:
        """Return the installation, found again if it has changed. Raises `BackendError`."""

        def find() -> Installation:
            self.has_index = index_file(self._home).exists()
            found = self.installation
            if found is not None and found.version == version_of(found.script):
                return found
            return find_installation(self._settings.command, self._settings.node)

        try:
            self.installation = await asyncio.to_thread(find)
        except BackendError as error:
            if error.message != self.missing:
                log.warning("qmd can't be used: %s", error)
            self.installation, self.missing = None, error.message
            if self.server is not None:
                self.replace(self.server, "the installation has changed")
            raise
        self.missing = None
        return self.installation

    async def sync(self) -> None:
        """Have QMD's index updated, and wait for it. Raises `BackendError`."""
        self._due.set()
        if self._is_embedding:
            raise BackendError("qmd is embedding, and updates its index afterwards")
        limit_s = self._settings.command_timeout_seconds
        self._waiting.append(done := asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(limit_s):
                await done
        except TimeoutError:
            raise BackendError(f"an update of qmd takes longer than {limit_s:g} s") from None

    def forgotten(self) -> None:
        """Have QMD's index updated now, and the forgotten texts erased from it."""
        self._to_erase = True
        self._due.set()

    def replace(self, server: QmdServer, reason: str) -> None:
        """End a server for a reason; commands answer until there is another one."""
        if server is self.server:
            self.server, self._end_reason = None, reason
            self._to_end.set()

    @property
    def without_vectors(self) -> str | None:
        """The reason why only words count, None if there are vectors."""
        if self.counts.vectors:
            return None
        reason = self._embed_problem or "its first embedding has not ended"
        return f"qmd has no vectors, so only words count: {reason}"

    @property
    def problem(self) -> str | None:
        """The problem that there is although it answers."""
        without = None if self._settings.search_mode == "search" else self.without_vectors
        return self.update_problem or self.server_problem or without or self._embed_problem

    async def _serve(self) -> None:
        """Run the server, and another one whenever it ends or hangs."""
        while True:
            try:
                async with self._exclusive:
                    server = await QmdServer.start(await self.installed(), self._home)
                try:
                    self.server, self.server_problem = server, None
                    ended = await self._until_end(server)
                finally:
                    self.server = None
                    await server.stop()
                if self._exclusive.locked():
                    continue
                self.server_problem = f"the server of qmd ended: {ended}"
                log.warning("%s", self.server_problem)
            except BackendError as error:
                problem = f"commands answer instead of a server: {error.message}"
                if problem != self.server_problem and error.message != self.missing:
                    log.warning("%s", problem)
                self.server_problem = problem
            self._backoff.fail()
            await self._backoff.wait()

    async def _until_end(self, server: QmdServer) -> str:
        """Wait until a server ends or is to end; return the reason."""
        started_s, self._to_end = time.monotonic(), asyncio.Event()
        ending = asyncio.create_task(server.until_end(), name="end of the server of qmd")
        try:
            await first_of(ending, self._to_end.wait())
            if time.monotonic() - started_s > self._backoff.max_s:
                self._backoff.reset()
            return ending.result() if ending.done() else self._end_reason
        finally:
            ending.cancel()

    async def _keep_updated(self) -> None:
        """Update QMD's index now, at intervals and on request. A failure is in the status."""
        while True:
            self._due.clear()
            waiting, self._waiting = self._waiting, []
            failure: BackendError | None = None
            try:
                await self._update(waiting)
            except BackendError as error:
                failure = error
            _tell(waiting, failure)
            await first_of(asyncio.sleep(self._settings.update_minutes * 60), self._due.wait())

    def _is_embedding_due(self) -> bool:
        if self._settings.search_mode == "search":
            return False
        since_s = None if self._embedded_s is None else time.monotonic() - self._embedded_s
        return since_s is None or since_s >= self._settings.embed_minutes * 60

    async def _update(self, waiting: Sequence[Waiting]) -> None:
        """Update QMD's index, tell it, and embed. Raises `BackendError`, also if another does."""
        try:
            installation = await self.installed()
            with ExitStack() as stack:
                lock = locked(self._home / "update.lock", f"the index of qmd in {self._home}")
                await asyncio.to_thread(stack.enter_context, lock)
                await self._index(installation)
                self.update_problem = None
                _tell(waiting, None)
                if self._is_embedding_due():
                    await self._embed(installation)
        except (HintedError, OSError) as error:
            message = error.message if isinstance(error, HintedError) else str(error)
            if message not in (self.update_problem, self.missing):
                log.warning("the index of qmd is not up to date: %s", error)
            self.update_problem = None if message == self.missing else message
            raise BackendError(message, getattr(error, "hint", "")) from error

    async def _embed(self, installation: Installation) -> None:
        """Have QMD embed what has no vector. Without its model, that takes all of the time."""
        self._embedded_s, self._embed_problem = time.monotonic(), None
        self._is_embedding = True
        try:
            await self._command(installation, "embed", self._settings.embed_timeout_seconds)
            await self._count(installation)
            if self.counts.documents and not self.counts.vectors:
                raise BackendError("`qmd embed` made none")
        except BackendError as error:
            self._embed_problem = error.message
            log.warning("qmd embeds nothing: %s", error)
        finally:
            self._is_embedding = False

    async def _index(self, installation: Installation) -> None:
        self._to_erase |= await self._collections.export()
        await asyncio.to_thread(self._collections.write_config, config_file(self._home))
        limit_s = self._settings.update_timeout_seconds
        await self._command(installation, "update", limit_s)
        if self._to_erase:
            await self._erase(installation)
        self.updated_s, self.has_index = time.monotonic(), True
        await self._count(installation)

    async def _erase(self, installation: Installation) -> None:
        """Erase the texts that QMD keeps although no file has them any more."""
        async with self._exclusive:  # its log keeps them too, as long as the server has it open
            if (server := self.server) is not None:
                self.server = None
                self._to_end.set()
                await server.stop()
            self._to_erase = False
            try:
                await self._command(installation, "cleanup", self._settings.update_timeout_seconds)
            except BackendError:
                self._to_erase = True
                raise

    async def _count(self, installation: Installation) -> None:
        limit_s = self._settings.command_timeout_seconds
        printed, _ = await self._command(installation, "status", limit_s)
        self.counts = read_counts(printed)

    async def _command(
        self, installation: Installation, name: str, limit_s: float
    ) -> tuple[str, str]:
        return await run(installation, self._home, name, limit_s=limit_s)


def _tell(waiting: Sequence[Waiting], failure: BackendError | None) -> None:
    """End the requests that wait for an update."""
    for done in waiting:
        if not done.done():
            done.set_result(None) if failure is None else done.set_exception(failure)
