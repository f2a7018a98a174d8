"""The asyncio client: one connection, any number of calls at a time."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from memoryd_client import calls
from memoryd_client.bodies import (
    ConfigResult,
    GetResult,
    IndexResult,
    PingResult,
    SearchResult,
    SyncResult,
)
from memoryd_client.calls import Call, ProgressCallback, ResultT
from memoryd_client.connecting import Dialler, greeting_limit_s
from memoryd_client.conversation import (
    RECEIVE_BYTES,
    Conversation,
    cancel,
    is_farewell,
    lost,
    no_greeting,
    outcome,
    timed_out,
)
from memoryd_client.errors import ProtocolMismatchError
from memoryd_client.paths import check_socket_path, default_socket_path
from memoryd_client.protocol import Error, Progress, Result, ServerFrame, Welcome
from memoryd_client.status import StatusResult


class AsyncClient:
    """Talks to memoryd from one event loop; calls of several tasks run at the same time.

    Use it as `async with AsyncClient() as client`, or call `close` at the end. Connects on
    entering or on the first call, and again after a connection was lost. Every method takes
    `timeout_s`, which defaults to the client's (`sync` and `index`: no limit); `math.inf` means
    no limit. All of them raise `MemorydError`s. Cancelling the task that awaits a call cancels
    the request in the daemon too.

    `socket_path` is where the daemon listens (else `default_socket_path` says), `timeout_s` the
    seconds to wait for an answer (`None`: no limit), `wait_s` those to wait for a daemon that is
    still starting, `name` how the client introduces itself. A socket path longer than the system
    allows is a `ValueError`.
    """

    def __init__(
        self,
        socket_path: str | None = None,
        *,
        timeout_s: float | None = 30.0,
        wait_s: float = 5.0,
        name: str = "memoryd-client",
    ) -> None:
        self._path = check_socket_path(socket_path or default_socket_path())
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._name = name
        self._connecting = asyncio.Lock()
        self._link: _Link | None = None

    async def __aenter__(self) -> "AsyncClient":
        await self._connected(self._timeout_s)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls under way end with `ConnectionLostError`."""
        async with self._connecting:
            await self._hang_up()

    async def ping(self, *, timeout_s: float | None = None) -> PingResult:
        """Return who answers and for how long it has been up."""
        return await self._run(calls.ping(), timeout_s)

    async def status(self, *, timeout_s: float | None = None) -> StatusResult:
        """Return how the index and the daemon are."""
        return await self._run(calls.status(), timeout_s)

    async def config(self, *, timeout_s: float | None = None) -> ConfigResult:
        """Return the effective settings and where each comes from."""
        return await self._run(calls.config(), timeout_s)

    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        sources: list[str] | None = None,
        path_glob: str | None = None,
        since: str | None = None,
        until: str | None = None,
        timeout_s: float | None = None,
    ) -> SearchResult:
        """Return cited snippets that answer `query`, best first; see `SearchBody`."""
        call = calls.search(
            query,
            max_results=max_results,
            min_score=min_score,
            sources=sources,
            path_glob=path_glob,
            since=since,
            until=until,
        )
        return await self._run(call, timeout_s)

    async def get(
        self,
        path: str,
        *,
        start_line: int = 1,
        lines: int | None = None,
        timeout_s: float | None = None,
    ) -> GetResult:
        """Return whole lines of a memory file, from `start_line` (1-based)."""
        return await self._run(calls.get(path, start_line=start_line, lines=lines), timeout_s)

    async def sync(self, *, vectors: bool = True, timeout_s: float | None = None) -> SyncResult:
        """Wait until every change made so far is searchable; without `vectors`, by keywords."""
        return await self._run(calls.sync(vectors=vectors), timeout_s)

    async def index(
        self,
        *,
        force: bool = False,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> IndexResult:
        """Compare disk and index now, or with `force` build the index anew.

        `on_progress(completed, total, label)` is called in the event loop; it must not block.
        """
        return await self._run(calls.index(force=force), timeout_s, on_progress)

    async def _run(
        self,
        call: Call[ResultT],
        timeout_s: float | None,
        on_progress: ProgressCallback | None = None,
    ) -> ResultT:
        limit_s = call.limit_s(timeout_s, self._timeout_s)
        link = await self._connected(limit_s)
        return await link.run(call, limit_s, on_progress)

    async def _connected(self, limit_s: float | None) -> "_Link":
        async with self._connecting:
            if self._link is None or self._link.is_closed:
                await self._hang_up()
                self._link = await _open(
                    self._path, self._name, wait_s=self._wait_s, limit_s=limit_s
                )
            return self._link

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


async def _open(path: str, name: str, *, wait_s: float, limit_s: float | None) -> "_Link":
    """Connect and greet."""
    dialler = Dialler(path, wait_s=wait_s)
    while True:
        dialled = dialler.dial()
        if not isinstance(dialled, float):
            break
        await asyncio.sleep(dialled)
    conversation = Conversation(name)
    # A daemon that hung up already may have said why: reading tells.
    with suppress(BrokenPipeError, ConnectionResetError):
        dialled.send(conversation.hello())
    reader, writer = await asyncio.open_unix_connection(sock=dialled)
    greeting_s = greeting_limit_s(wait_s, limit_s)
    try:
        async with asyncio.timeout(greeting_s):
            frames: list[ServerFrame] = []
            while not frames:
                data = await reader.read(RECEIVE_BYTES)
                if not data:
                    raise lost()
                frames = conversation.feed(data)
        conversation.welcome(frames[0])
    except BaseException as error:
        writer.close()
        if isinstance(error, TimeoutError):
            raise no_greeting(path, greeting_s) from None
        if isinstance(error, OSError):
            raise lost(error) from error
        raise
    return _Link(reader, writer, conversation)


class _Waiter(NamedTuple):
    """Someone who awaits the end of a request: a frame, or why none will come."""

    end: asyncio.Future[Result | Error | Exception]
    on_progress: ProgressCallback | None


class _Link:
    """One open connection and the task that reads from it, for as long as it lasts."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        conversation: Conversation,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._conversation = conversation
        self._waiters: dict[int, _Waiter] = {}
        self._reading = asyncio.create_task(self._read(), name="memoryd-client reader")
        self.is_closed = False

    async def close(self) -> None:
        """End the reader and the connection; waiters get `ConnectionLostError`."""
        self._reading.cancel()
        # Unlike awaiting the task, this tells its cancellation from our own.
        await asyncio.wait([self._reading])
        # A task that is cancelled before its first step never gets to its own clean-up.
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        if not self._reading.cancelled():
            self._reading.result()

    async def run(
        self, call: Call[ResultT], limit_s: float | None, on_progress: ProgressCallback | None
    ) -> ResultT:
        """Send `call` and return what it is answered with, whatever else is under way."""
        request_id, data = self._conversation.request(call, limit_s)
        end: asyncio.Future[Result | Error | Exception]
        end = asyncio.get_running_loop().create_future()
        self._waiters[request_id] = _Waiter(end, on_progress)
        try:
            async with asyncio.timeout(limit_s):
                self._writer.write(data)
                # The reader sees a broken connection too, and may know the reason.
                with suppress(OSError):
                    await self._writer.drain()
                answer = await end
        except TimeoutError:
            self._writer.write(cancel(request_id))
            raise timed_out(call, limit_s or 0.0) from None
        except asyncio.CancelledError:
            self._writer.write(cancel(request_id))
            raise
        finally:
            del self._waiters[request_id]
        if isinstance(answer, Exception):
            raise answer
        return outcome(call, answer)

    async def _read(self) -> None:
        farewell: Error | None = None
        fault: OSError | None = None
        try:
            while farewell is None and (data := await self._reader.read(RECEIVE_BYTES)):
                for frame in self._conversation.feed(data):
                    if is_farewell(frame):
                        farewell = frame
                    else:
                        self._deliver(frame)
        except ProtocolMismatchError as error:
            farewell = Error(error.code, error.message, hint=error.hint)
        except OSError as error:
            fault = error
        finally:
            self.is_closed = True
            self._writer.close()
            for waiter in self._waiters.values():
                if not waiter.end.done():
                    waiter.end.set_result(farewell or lost(fault))

    def _deliver(self, frame: ServerFrame) -> None:
        """Hand a frame to whom it concerns; the late end of an abandoned request to nobody."""
        if isinstance(frame, Welcome) or frame.id is None:
            return
        waiter = self._waiters.get(frame.id)
        if waiter is None or waiter.end.done():
            return
        if isinstance(frame, Result | Error):
            waiter.end.set_result(frame)
        elif isinstance(frame, Progress) and waiter.on_progress is not None:
            try:
                waiter.on_progress(frame.completed, frame.total, frame.label)
            except Exception as error:
                # The callback's fault is its own call's, and nobody else's.
                waiter.end.set_result(error)
                self._writer.write(cancel(frame.id))
