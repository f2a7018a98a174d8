"""The blocking client: one connection, one call at a time."""

import time
from _thread import allocate_lock
from contextlib import suppress
from types import TracebackType

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
from memoryd_client.errors import ConnectionLostError, ProtocolMismatchError, from_frame
from memoryd_client.paths import check_socket_path, default_socket_path
from memoryd_client.protocol import Error, Progress, Result, ServerFrame, Welcome
from memoryd_client.status import StatusResult

CANCEL_TIMEOUT_S = 1.0
"""A daemon that doesn't even take a `Cancel` within this time loses the connection."""


class Client:
    """Talks to memoryd, blocking. Safe to share between threads: their calls take turns.

    Connects on the first call or on entering the `with` block, and again after a connection was
    lost. Every method takes `timeout_s`, which defaults to the client's (`sync` and `index`: no
    limit); `math.inf` means no limit. All of them raise `MemorydError`s.

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
        self._turn = allocate_lock()
        self._link: _Link | None = None

    def __enter__(self) -> "Client":
        with self._turn:
            self._connected(self._timeout_s)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, after the call that is under way. A later call opens a new one."""
        with self._turn:
            if self._link is not None:
                self._link.close()
                self._link = None

    def ping(self, *, timeout_s: float | None = None) -> PingResult:
        """Return who answers and for how long it has been up."""
        return self._run(calls.ping(), timeout_s)

    def status(self, *, timeout_s: float | None = None) -> StatusResult:
        """Return how the index and the daemon are."""
        return self._run(calls.status(), timeout_s)

    def config(self, *, timeout_s: float | None = None) -> ConfigResult:
        """Return the effective settings and where each comes from."""
        return self._run(calls.config(), timeout_s)

    def search(
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
        return self._run(call, timeout_s)

    def get(
        self,
        path: str,
        *,
        start_line: int = 1,
        lines: int | None = None,
        timeout_s: float | None = None,
    ) -> GetResult:
        """Return whole lines of a memory file, from `start_line` (1-based)."""
        return self._run(calls.get(path, start_line=start_line, lines=lines), timeout_s)

    def sync(self, *, vectors: bool = True, timeout_s: float | None = None) -> SyncResult:
        """Wait until every change made so far is searchable; without `vectors`, by keywords."""
        return self._run(calls.sync(vectors=vectors), timeout_s)

    def index(
        self,
        *,
        force: bool = False,
        on_progress: ProgressCallback | None = None,
        timeout_s: float | None = None,
    ) -> IndexResult:
        """Compare disk and index now, or with `force` build the index anew.

        `on_progress(completed, total, label)` is called in this thread.
        """
        return self._run(calls.index(force=force), timeout_s, on_progress)

    def _run(
        self,
        call: Call[ResultT],
        timeout_s: float | None,
        on_progress: ProgressCallback | None = None,
    ) -> ResultT:
        limit_s = call.limit_s(timeout_s, self._timeout_s)
        if not self._turn.acquire(timeout=-1 if limit_s is None else limit_s):
            raise timed_out(call, limit_s or 0.0)
        try:
            return self._connected(limit_s).run(call, limit_s, on_progress)
        finally:
            self._turn.release()

    def _connected(self, limit_s: float | None) -> "_Link":
        if self._link is not None and self._link.is_stale():
            self._link.close()
            self._link = None
        if self._link is None:
            self._link = _Link(self._path, self._name, wait_s=self._wait_s, limit_s=limit_s)
        return self._link


class _Link:
    """One open connection, used by one thread at a time.

    Whatever leaves the byte stream in doubt closes it, which cancels what is under way: a frame
    sent in part, an interrupt.
    """

    def __init__(self, path: str, name: str, *, wait_s: float, limit_s: float | None) -> None:
        dialler = Dialler(path, wait_s=wait_s)
        while isinstance(dialled := dialler.dial(), float):
            time.sleep(dialled)
        self._socket = dialled
        self._conversation = Conversation(name)
        self._frames: list[ServerFrame] = []
        greeting_s = greeting_limit_s(wait_s, limit_s)
        try:
            self._send(self._conversation.hello(), greeting_s)
            self._conversation.welcome(self._next_frame(time.monotonic() + greeting_s))
        except _TimeUpError:
            self.close()
            raise no_greeting(path, greeting_s) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def is_stale(self) -> bool:
        """Tell whether the daemon hung up since the last call.

        What it sent meanwhile, the late ends of requests that were given up, is taken in here.
        """
        if self.is_closed or any(is_farewell(frame) for frame in self._frames):
            return True
        self._frames.clear()
        self._socket.settimeout(0)
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                if any(is_farewell(frame) for frame in self._conversation.feed(data)):
                    return True
        except BlockingIOError:
            return False
        except (OSError, ProtocolMismatchError):
            return True
        except BaseException:
            self.close()
            raise
        return True

    def run(
        self, call: Call[ResultT], limit_s: float | None, on_progress: ProgressCallback | None
    ) -> ResultT:
        """Send `call` and return what it is answered with."""
        request_id, data = self._conversation.request(call, limit_s)
        end = None if limit_s is None else time.monotonic() + limit_s
        try:
            self._send(data, limit_s)
            answer = self._answer(request_id, end, on_progress)
        except _TimeUpError:
            self._cancel(request_id)
            raise timed_out(call, limit_s or 0.0) from None
        except Exception:
            self._cancel(request_id)
            raise
        except BaseException:
            self._cancel(request_id)
            # An interrupt may have come between receiving bytes and keeping them.
            self.close()
            raise
        return outcome(call, answer)

    def _answer(
        self, request_id: int, end: float | None, on_progress: ProgressCallback | None
    ) -> Result | Error:
        while True:
            frame = self._next_frame(end)
            if isinstance(frame, Welcome) or frame.id != request_id:
                continue
            if isinstance(frame, Result | Error):
                return frame
            if isinstance(frame, Progress) and on_progress is not None:
                on_progress(frame.completed, frame.total, frame.label)

    def _next_frame(self, end: float | None) -> ServerFrame:
        """Return the next frame; an error of the whole connection is raised, and closes it."""
        while not self._frames:
            data = self._receive(end)
            try:
                self._frames = self._conversation.feed(data)
            except ProtocolMismatchError:
                self.close()
                raise
        frame = self._frames.pop(0)
        if is_farewell(frame):
            self.close()
            raise from_frame(frame)
        return frame

    def _receive(self, end: float | None) -> bytes:
        left_s = None if end is None else end - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise _TimeUpError
        try:
            self._socket.settimeout(left_s)
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise _TimeUpError from None
        except OSError as error:
            self.close()
            raise lost(error) from error
        if not data:
            self.close()
            raise lost()
        return data

    def _send(self, data: bytes, limit_s: float | None) -> None:
        try:
            self._socket.settimeout(limit_s)
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # The daemon hung up. It may have said why: reading tells.
            return
        except TimeoutError:
            self.close()
            raise _TimeUpError from None
        except OSError as error:
            self.close()
            raise lost(error) from error
        except BaseException:
            self.close()
            raise

    def _cancel(self, request_id: int) -> None:
        if self.is_closed:
            return
        with suppress(_TimeUpError, ConnectionLostError):
            self._send(cancel(request_id), CANCEL_TIMEOUT_S)


class _TimeUpError(Exception):
    """The time of a call is over; told apart from a `TimeoutError` of the caller's callback."""
