"""Facts in a LanceDB table, which several daemons may share, by a worker process."""

import asyncio
import logging
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from memoryd.facts import lance_worker
from memoryd.facts.lance_worker import FRAME_HEADER, LanceReply, LanceRequest, pack
from memoryd.facts.store import FactStoreError, Vector
from memoryd.fs.hang import retrieve_error
from memoryd_client.schema.facts import Fact

log = logging.getLogger(__name__)

ANSWER_S = 50.0
"""Seconds for one answer, the import of the library included, which takes 1 to 10 s."""
IDLE_S = 300.0
"""Seconds without a request after which the process ends."""
_SLACK_S = 5.0
_FIRST_CLEAN_S = 60.0
_TRIES: Final = 2
_STDERR_BYTES = 2_000
_EXIT_S = 2.0


class LanceFacts:
    """The facts of a table at `uri`. Old versions of it, with forgotten facts, go after a time."""

    name = "lancedb"

    def __init__(self, uri: str, table: str, *, retention_s: float, idle_s: float = IDLE_S) -> None:
        self.warnings: list[str] = []
        self._uri = uri
        self._table = table
        self._retention_s = retention_s
        self._idle_s = idle_s
        self._process: Process | None = None
        self._stderr: asyncio.Task[bytes] | None = None
        self._turn = asyncio.Lock()
        self._used_s = time.monotonic()
        # Earlier processes may have left versions of either age.
        self._clean_at_s = [self._used_s + _FIRST_CLEAN_S, self._used_s + retention_s + _SLACK_S]
        self._woken = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(), name="facts in lancedb")

    async def put(self, fact: Fact, vector: Vector | None, key: str) -> None:
        """Store a fact; see `FactStore`. The table has vectors of one model, without its name."""
        await self._ask(LanceRequest("put", fact=fact, vector=_bytes(vector)))
        self._clean_later()

    async def all(self, owner: str) -> list[Fact]:
        """Return the facts of an owner, oldest first."""
        return (await self._ask(LanceRequest("all", owner=owner))).facts

    async def erasable(self, owner: str) -> list[Fact]:
        """Return the facts of the agent itself: the others' are theirs."""
        return await self.all(owner)

    async def nearest(
        self, vector: Vector, key: str, owner: str, limit: int
    ) -> list[tuple[Fact, float]]:
        """Return the owner's facts with the highest cosines, best first."""
        request = LanceRequest("nearest", owner=owner, vector=_bytes(vector), limit=limit)
        reply = await self._ask(request)
        return list(zip(reply.facts, reply.cosines, strict=True))

    async def remove(self, fact_id: str, owner: str) -> Fact | None:
        """Remove a fact from the table now, and from its old versions after the retention."""
        found = await self._ask(LanceRequest("get", fact_id=fact_id, owner=owner))
        if not found.facts:
            return None
        await self._ask(LanceRequest("remove", fact_id=fact_id, owner=owner))
        self._clean_later()
        return found.facts[0]

    async def missing(self, key: str, limit: int) -> tuple[list[Fact], int]:
        """Return facts without a vector, and the number of all such."""
        reply = await self._ask(LanceRequest("missing", limit=limit))
        return reply.facts, reply.count

    async def embed(self, vectors: Mapping[str, Vector], key: str) -> None:
        """Give facts, by their id, their vectors."""
        packed = {fact_id: data for fact_id, v in vectors.items() if (data := _bytes(v))}
        await self._ask(LanceRequest("embed", vectors=packed))
        self._clean_later()

    async def clean(self) -> None:
        """Remove versions that are older than the retention."""
        await self._ask(LanceRequest("clean", retention_s=self._retention_s))

    async def close(self) -> None:
        """End the process."""
        self._keeper.cancel()
        await asyncio.wait({self._keeper})
        async with self._turn:
            await self._end()

    def _clean_later(self) -> None:
        self._clean_at_s.append(time.monotonic() + self._retention_s + _SLACK_S)
        # One more time is enough for all changes of the last minute.
        self._clean_at_s = [*self._clean_at_s[:1], *self._clean_at_s[-2:]]
        self._woken.set()

    async def _keep(self) -> None:
        """Clean the table when versions are due, and end an idle process."""
        while True:
            now_s = time.monotonic()
            if due := [at_s for at_s in self._clean_at_s if at_s <= now_s]:
                self._clean_at_s = [at_s for at_s in self._clean_at_s if at_s not in due]
                try:
                    await self.clean()
                except FactStoreError as error:
                    log.warning("old versions of the facts are not removed yet: %s", error)
                    self._clean_at_s.append(time.monotonic() + self._retention_s)
                continue
            async with self._turn:
                if self._process is not None and now_s - self._used_s >= self._idle_s:
                    await self._end()
            next_s = min([*self._clean_at_s, now_s + self._idle_s])
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.1, next_s - now_s)):
                    await self._woken.wait()

    async def _ask(self, request: LanceRequest) -> LanceReply:
        """Return the reply. A caller that is cancelled leaves the request running."""
        work = asyncio.create_task(self._answered(request), name="ask facts in lancedb")
        work.add_done_callback(retrieve_error)
        return await asyncio.shield(work)

    async def _answered(self, request: LanceRequest) -> LanceReply:
        """Ask the process, and once more if it has died: repeating a request changes nothing."""
        async with self._turn:
            for attempt in range(_TRIES):
                try:
                    reply = await self._exchange(request)
                    break
                except (OSError, EOFError, TimeoutError, ValueError) as error:
                    why = await self._end()
                    if attempt == _TRIES - 1:
                        raise FactStoreError(
                            f"the process for {self._uri} failed: {why or error}",
                            "try again; if it fails again, `memctl doctor` checks the package",
                        ) from error
            self._used_s = time.monotonic()
        if reply.error:
            raise FactStoreError(f"the facts in {self._uri}: {reply.error}", reply.hint)
        return reply

    async def _exchange(self, request: LanceRequest) -> LanceReply:
        if self._process is None:
            await self._start()
        process = self._process
        assert process is not None  # noqa: S101
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        async with asyncio.timeout(ANSWER_S):
            process.stdin.write(pack(request))
            await process.stdin.drain()
            (size,) = FRAME_HEADER.unpack(await process.stdout.readexactly(FRAME_HEADER.size))
            body = await process.stdout.readexactly(size)
        return msgspec.msgpack.decode(body, type=LanceReply)

    async def _start(self) -> None:
        # It needs the credentials of the storage, which are in the environment.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        # -P: import nothing from the current folder, whose files may be somebody else's.
        command = (sys.executable, "-P", "-m", lance_worker.__name__, self._uri, self._table)
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, limit=64 * 1024 * 1024
        )
        assert self._process.stderr is not None  # noqa: S101
        self._stderr = asyncio.create_task(_tail(self._process.stderr), name="stderr of lancedb")

    async def _end(self) -> str:
        """End the process; return the end of what it has written to stderr."""
        process, self._process = self._process, None
        if process is None or process.stdin is None or self._stderr is None:
            return ""
        process.stdin.close()
        try:
            async with asyncio.timeout(_EXIT_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        lines = (await self._stderr).decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""


def _bytes(vector: Vector | None) -> bytes | None:
    return None if vector is None else vector.astype("<f4").tobytes()


async def _tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while data := await stream.read(_STDERR_BYTES):
        tail = (tail + data)[-_STDERR_BYTES:]
    return tail
