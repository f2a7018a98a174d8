"""Calls of the blocking client: threads take turns on one connection, which is opened again."""

import time
from _thread import allocate_lock
from typing import Self

from memoryd_client.errors import (
    ConnectionLostError,
    DaemonNotRunningError,
    RequestTimeoutError,
    ShuttingDownError,
)
from memoryd_client.shared import paths
from memoryd_client.transport.blocking_link import BlockingLink, open_link
from memoryd_client.transport.dial import Target
from memoryd_client.wire import requests
from memoryd_client.wire.codec import check_repeat, stopped, timed_out
from memoryd_client.wire.requests import Call, ProgressCallback, ProgressReport, ResultT, TimeLimit


class CallTurns:
    """Connection of one client, and the calls on it; see `Client`."""

    def __init__(
        self,
        socket_path: str | None = None,
        *,
        agent: str | None = None,
        timeout_s: float | None = 30.0,
        wait_s: float = 5.0,
        autostart: bool = True,
        name: str = "memoryd-client",
        kind: str = "",
    ) -> None:
        self.agent = agent
        path = paths.check_socket_path(socket_path or paths.default_socket_path())
        self._target = Target(path, autostart, name, requests.current_folder(), kind)
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._turn = allocate_lock()
        self._link: BlockingLink | None = None
        self._missing_since: float | None = None

    def __enter__(self) -> Self:
        since = time.monotonic()
        with self._turn:
            self._connected(since, self._wait_s, self._timeout_s)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection after the current call. A later call opens a new one."""
        with self._turn:
            if self._link is not None:
                self._link.close()
                self._link = None

    def _run(
        self,
        call: Call[ResultT],
        timeout_s: float | None,
        on_progress: ProgressCallback | None = None,
    ) -> ResultT:
        since = time.monotonic()
        limit = TimeLimit(call.limit_s(timeout_s, self._timeout_s))
        if not self._turn.acquire(timeout=-1 if limit.limit_s is None else limit.limit_s):
            raise timed_out(call, limit)
        try:
            return self._take_turn(call, limit, ProgressReport(on_progress), since)
        finally:
            self._turn.release()

    def _take_turn(
        self, call: Call[ResultT], limit: TimeLimit, report: ProgressReport, since: float
    ) -> ResultT:
        agent = self.agent
        before = time.monotonic()
        link = self._connected(since, self._wait_s, limit.left_s())
        limit.extend(time.monotonic() - before)
        was_repeated = False
        while True:
            try:
                return link.run(call, agent, limit, report)
            except (ConnectionLostError, ShuttingDownError) as loss:
                if loss is report.error:
                    raise
                link.close()
                check_repeat(call, loss, was_repeated=was_repeated)
                was_stopped = isinstance(loss, ShuttingDownError)
            was_repeated = True
            link = self._reconnected(call, limit, was_stopped=was_stopped)

    def _reconnected(
        self, call: Call[ResultT], limit: TimeLimit, *, was_stopped: bool
    ) -> BlockingLink:
        """Connect within the remaining time of a call."""
        left_s = limit.left_s()
        wait_s = self._wait_s if left_s is None else min(self._wait_s, left_s)
        try:
            return self._connected(time.monotonic(), wait_s, left_s)
        except (
            ConnectionLostError,
            DaemonNotRunningError,
            RequestTimeoutError,
            ShuttingDownError,
        ) as error:
            if limit.left_s() == 0:
                raise timed_out(call, limit) from error
            if was_stopped:
                raise stopped(call) from error
            raise

    def _connected(self, since: float, wait_s: float, limit_s: float | None) -> BlockingLink:
        """Return the connection, or open one for a call that has waited since `since`."""
        if self._link is not None and self._link.is_stale():
            self._link.close()
            self._link = None
        if self._link is None:
            # Time spent waiting for a turn counts only while another call found no daemon.
            missing = self._missing_since
            since = time.monotonic() if missing is None else max(since, missing)
            try:
                self._link = open_link(self._target, since=since, wait_s=wait_s, limit_s=limit_s)
            except DaemonNotRunningError:
                self._missing_since = since
                raise
            self._missing_since = None
        return self._link
