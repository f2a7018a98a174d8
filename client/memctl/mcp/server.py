"""Loop of the MCP server: reads lines, answers, and runs requests to the daemon in threads.

The main thread reads standard input and answers everything that needs no daemon. It also ends
requests whose time is up. Descriptor 1 belongs to the protocol alone.
"""

import os
import select
import time
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from memctl.mcp import jsonrpc, methods
from memctl.mcp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcCall, RpcError
from memoryd_client import __version__
from memoryd_client.client import Client
from memoryd_client.errors import RequestTimeoutError

DEADLINE_S = 15.0
"""Seconds for an answer, as in the reference."""
WAIT_S = 5.0
"""Seconds that a call waits for a daemon that is restarting."""
MAX_THREADS = 8
"""Maximum requests to the daemon at a time; more wait for their turn."""
MAX_LINE_BYTES = 4 * 1024 * 1024
"""Maximum length of a message; more than any call needs."""
_READ_BYTES = 65_536
NewClient = Callable[[], Client]


def serve(
    socket_path: str, *, agent: str | None, deadline_s: float | None, wait_s: float | None
) -> int:
    """Serve one MCP client until standard input ends; return the exit status.

    Each call may take `deadline_s` seconds, `wait_s` of them until a missing daemon is back. The
    agent is chosen as for all commands: `agent`, else by the current folder.
    """
    name = f"memctl-mcp/{__version__}"

    def connect() -> Client:
        wait = WAIT_S if wait_s is None else wait_s
        return Client(socket_path, agent=agent, wait_s=wait, name=name, kind="agent")

    incoming, outgoing = _claim_streams()
    present = Client(socket_path, agent=agent, wait_s=0.0, autostart=False, name=name)
    deadline_s = DEADLINE_S if deadline_s is None else deadline_s
    server = McpServer(outgoing, connect, present, deadline_s)
    server.run(incoming)
    return 0


def _claim_streams() -> tuple[int, int]:
    """Return descriptors of the protocol's own, so that no other output can get between.

    Descriptor 0 becomes the null device, and 1 standard error, for this process and its children.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(null, 1)
    os.close(null)
    os.set_blocking(outgoing, True)
    return incoming, outgoing


class LineBuffer:
    """Bytes of a stream, cut into lines of at most `MAX_LINE_BYTES`."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete; None for one that is too long."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[bytes | None] = list(lines)
        if self._is_skipping and found:
            del found[0]
            self._is_skipping = False
        if len(self._rest) > MAX_LINE_BYTES:
            if not self._is_skipping:
                found.append(None)
            self._rest, self._is_skipping = b"", True
        return found

    def end(self) -> list[bytes | None]:
        """Return the last line, if it does not end with a newline."""
        return [] if self._is_skipping or not self._rest else [self._rest]


class _Pending(Struct):
    """A request to the daemon that is not answered yet, and the time by which it has to be."""

    id: jsonrpc.RequestId
    call: RpcCall
    end: float


class McpServer:
    """One connection with an MCP client."""

    def __init__(
        self, outgoing: int, connect: NewClient, present: Client, deadline_s: float
    ) -> None:
        """`present` waits for no missing daemon."""
        self._outgoing = outgoing
        self._connect = connect
        self._present = present
        self._deadline_s = deadline_s
        self._lock = allocate_lock()
        """Guards everything below, and writing."""
        self._pending: dict[jsonrpc.RequestId, _Pending] = {}
        self._queue: deque[_Pending] = deque()
        self._threads = 0
        self._idle: list[Client] = []
        self._wake, self._answered = os.pipe()

    def run(self, incoming: int) -> None:
        """Answer all messages, until the stream ends and the last request is answered."""
        buffer = LineBuffer()
        is_open = True
        while (left_s := self._seconds_left()) is not None or is_open:
            streams = [incoming, self._wake] if is_open else [self._wake]
            ready, _, _ = select.select(streams, [], [], left_s)
            if self._wake in ready:
                os.read(self._wake, _READ_BYTES)
            if incoming in ready:
                data = os.read(incoming, _READ_BYTES)
                is_open = bool(data)
                for line in buffer.feed(data) if is_open else buffer.end():
                    self._take(line)
            self._end_late()
        for client in (*self._idle, self._present):
            client.close()

    def _take(self, line: bytes | None) -> None:
        """Answer one message, or pass it on to a thread."""
        if line is None:
            too_long = RpcError(PARSE_ERROR, f"a message has at most {MAX_LINE_BYTES:,} bytes")
            return self._send(jsonrpc.write_error(too_long))
        if not line.strip():
            return None
        try:
            call = jsonrpc.read(line)
        except RpcError as error:
            return self._send(jsonrpc.write_error(error))
        if call is None:
            return None
        if call.id is None:
            return self._notice(call)
        try:
            methods.check(call)
            if (answer := methods.IMMEDIATE.get(call.method)) is None:
                return self._enqueue(call, call.id)
            return self._send(jsonrpc.write(call, answer(call), methods.SERVER))
        except RpcError as error:
            return self._send(jsonrpc.write_error(error, call.id))

    def _notice(self, call: RpcCall) -> None:
        """Drop a cancelled request; it is never answered. No other notification matters."""
        cancelled = call.params.get("requestId")
        if call.method == "notifications/cancelled" and isinstance(cancelled, int | str):
            with self._lock:
                self._pending.pop(cancelled, None)

    def _enqueue(self, call: RpcCall, request_id: jsonrpc.RequestId) -> None:
        pending = _Pending(request_id, call, time.monotonic() + self._deadline_s)
        with self._lock:
            if request_id in self._pending:
                raise RpcError(INVALID_REQUEST, "a request with this id is not answered yet")
            self._pending[request_id] = pending
            self._queue.append(pending)
            # A thread ends when the queue is empty, so all that exist are busy.
            is_new = self._threads < MAX_THREADS
            self._threads += is_new
        if is_new:
            start_new_thread(self._work, ())

    def _work(self) -> None:
        """Run queued requests with one client, which keeps its connection; end without any."""
        with self._lock:
            client = self._idle.pop() if self._idle else self._connect()
            pending = self._next(client)
        while pending is not None:
            line = self._ask(client, pending)
            with self._lock:
                self._answer(pending, line)
                pending = self._next(client)
            os.write(self._answered, b".")

    def _next(self, client: Client) -> _Pending | None:
        """Return the next request; without one, the thread of `client` ends. Needs the lock."""
        if self._queue:
            return self._queue.popleft()
        self._threads -= 1
        self._idle.append(client)
        return None

    def _ask(self, client: Client, pending: _Pending) -> bytes:
        """Return the line that answers a request; nothing if nobody waits for it any more."""
        call = pending.call
        left_s = pending.end - time.monotonic()
        if left_s <= 0 or self._pending.get(pending.id) is not pending:
            return b""
        if call.method == methods.LIST_TOOLS:
            client = self._present
        try:
            return jsonrpc.write(call, methods.ask(client, call, left_s), methods.SERVER)
        except RpcError as error:
            return jsonrpc.write_error(error, call.id)
        except Exception as error:
            failure = RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            return jsonrpc.write_error(failure, call.id)

    def _answer(self, pending: _Pending, line: bytes) -> None:
        """Send an answer, unless the request was cancelled or has one already. Needs the lock."""
        if line and self._pending.get(pending.id) is pending:
            del self._pending[pending.id]
            self._write(line)

    def _seconds_left(self) -> float | None:
        """Return the seconds until the first request is late; None without requests."""
        with self._lock:
            ends = [pending.end for pending in self._pending.values()]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _end_late(self) -> None:
        """Answer the requests whose time is up, such as those for a daemon that hangs."""
        now = time.monotonic()
        with self._lock:
            late = [pending for pending in self._pending.values() if pending.end <= now]
        error = RequestTimeoutError(
            f"memoryd did not answer within {self._deadline_s:g} s",
            hint="try again; `memctl status` and `memctl doctor` show the reason",
        )
        for pending in late:
            try:
                result = methods.late(pending.call, error)
                line = jsonrpc.write(pending.call, result, methods.SERVER)
            except RpcError as failure:
                line = jsonrpc.write_error(failure, pending.id)
            with self._lock:
                self._answer(pending, line)

    def _send(self, line: bytes) -> None:
        with self._lock:
            self._write(line)

    def _write(self, line: bytes) -> None:
        """Write a whole line. A client that has gone needs no answers."""
        with suppress(OSError):
            while line:
                line = line[os.write(self._outgoing, line) :]
