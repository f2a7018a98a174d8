"""Calls of the asyncio client: many at a time on one connection, which is opened again."""

import asyncio
import time
from typing import Self

from memoryd_client.errors import (
    ConnectionLostError,
    DaemonNotRunningError,
    RequestTimeoutError,
    ShuttingDownError,
)
from memoryd_client.shared import paths
from memoryd_client.transport.async_link import AsyncLink, open_streams
from memoryd_client.transport.dial import Target
from memoryd_client.wire import requests
from memoryd_client.wire.codec import check_repeat, stopped, timed_out
from memoryd_client.wire.requests import Call, ProgressCallback, ProgressReport, ResultT, TimeLimit


class AsyncCalls:
    """Connection of one client, and the calls on it; see `AsyncClient`."""

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
        self._connecting = asyncio.Lock()
        self._link: AsyncLink | None = None
        self._times_closed = 0

    async def __aenter__(self) -> Self:
        await self._connected(time.monotonic(), self._wait_s, self._timeout_s)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight end with `ConnectionLostError`."""
        self._times_closed += 1
        async with self._connecting:
            await self._hang_up()

    async def _run(
        self,
        call: Call[ResultT],
        timeout_s: float | None,
        on_progress: ProgressCallback | None = None,
    ) -> ResultT:
        agent, times_closed = self.agent, self._times_closed
        report = ProgressReport(on_progress)
        limit_s = call.limit_s(timeout_s, self._timeout_s)
        link = await self._connected(time.monotonic(), self._wait_s, limit_s)
        limit = TimeLimit(limit_s)
        was_repeated = False
        while True:
            try:
                return await link.run(call, agent, limit, report)
            except (ConnectionLostError, ShuttingDownError) as loss:
                if loss is report.error or times_closed != self._times_closed:
                    raise
                check_repeat(call, loss, was_repeated=was_repeated)
                was_stopped = isinstance(loss, ShuttingDownError)
            was_repeated = True
            link = await self._reconnected(call, limit, was_stopped=was_stopped)

    async def _reconnected(
        self, call: Call[ResultT], limit: TimeLimit, *, was_stopped: bool
    ) -> AsyncLink:
        """Connect within the remaining time of a call."""
        left_s = limit.left_s()
        wait_s = self._wait_s if left_s is None else min(self._wait_s, left_s)
        try:
            async with asyncio.timeout(left_s):
                return await self._connected(time.monotonic(), wait_s, left_s)
        except TimeoutError as error:
            raise timed_out(call, limit) from error
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

    async def _connected(self, since: float, wait_s: float, limit_s: float | None) -> AsyncLink:
        """Return the connection, or open one for a call that has waited since `since`."""
        async with self._connecting:
            if self._link is None or self._link.is_closed or self._link.is_ending:
                await self._hang_up()
                streams = await open_streams(
                    self._target, since=since, wait_s=wait_s, limit_s=limit_s
                )
                self._link = AsyncLink(streams)
            return self._link

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            try:
                if link.is_ending:
                    await link.ended()
            finally:
                await link.close()
