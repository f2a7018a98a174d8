"""The restricted socket: a second one for agents, with the permitted reading operations.

It can be given to a sandboxed agent, because no configuration makes it permit an operation that
changes anything.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from memoryd.config.operations import READING, permitted
from memoryd.config.settings import SocketSettings
from memoryd.errors import AlreadyRunningError, RequestFailedError, SocketError
from memoryd.server.connection import Caller, Handler
from memoryd.server.endpoint import Endpoint
from memoryd.server.limits import Seldom
from memoryd.server.server import Server
from memoryd.server.unix_socket import check_apart, check_path
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared import paths
from memoryd_client.shared.lock_holder import Holder
from memoryd_client.wire.protocol import Body, ErrorCode, Op, Welcome

log = logging.getLogger(__name__)

_OTHER_PATH = "set socket.restricted to another path"
_ALWAYS = ("cancel", "progress")
"""Capabilities that belong to no operation."""


class RestrictedSocket:
    """Actor that serves agents at a socket of their own, if the configuration requests one.

    `path` is that socket's path, None without one; `allowed` are the operations for `status`.
    """

    def __init__(self, main_path: Path, holder: Holder) -> None:
        self.path: Path | None = None
        self.allowed: list[str] = []
        self._main_path = main_path
        self._holder = holder
        self._endpoint: Endpoint | None = None
        self._changed, self._served = asyncio.Event(), asyncio.Event()
        self._running = False
        self._denials = Seldom(log)

    async def apply(self, settings: SocketSettings) -> None:
        """Make, move or remove the socket, and set its operations.

        Returns when requests get the new permissions: every connection is closed. Raises
        `SocketError` or `AlreadyRunningError`, and then changes nothing.
        """
        wanted = paths.restricted_socket_path(settings.restricted, str(self._main_path))
        path = None if wanted is None else Path(wanted)
        allowed = [op.value for op in READING if op in settings.allow]
        if path == self.path and (path is None or allowed == self.allowed):
            return
        if path != self.path:
            self._endpoint = None if path is None else await self._opened(path)
        self.path, self.allowed = path, allowed if path is not None else []
        if path is not None:
            log.info("restricted socket %s, for: %s", path, ", ".join(allowed) or "nothing")
        if self._running:
            self._served.clear()
            self._changed.set()
            await self._served.wait()

    async def run(self, handlers: Mapping[Op, Handler], welcome: Welcome) -> None:
        """Serve until cancelled, anew after each change."""
        self._running = True
        while True:
            self._changed.clear()
            endpoint = self._endpoint
            try:
                async with asyncio.TaskGroup() as group:
                    if endpoint is not None:
                        server = self._server(endpoint, handlers, welcome)
                        serving = group.create_task(server.run(), name="restricted server")
                    self._served.set()
                    await self._changed.wait()
                    if endpoint is not None:
                        serving.cancel()
            finally:
                if endpoint is not None and endpoint is not self._endpoint:
                    endpoint.close()

    def close(self) -> None:
        """Remove the socket. Idempotent."""
        if self._endpoint is not None:
            self._endpoint.close()

    def _server(
        self, endpoint: Endpoint, handlers: Mapping[Op, Handler], welcome: Welcome
    ) -> Server:
        operations = permitted(self.allowed)
        capabilities = [c for c in welcome.capabilities if c in {*operations, *_ALWAYS}]
        return Server(
            endpoint,
            handlers=_reading(handlers, operations, str(self.path)),
            welcome=msgspec.structs.replace(welcome, restricted=True, capabilities=capabilities),
            denial=lambda op: None if op in operations else self._denied(op),
        )

    def _denied(self, op: Op) -> RequestFailedError:
        self._denials.warning("denied %s to a client of the restricted socket", op)
        names = ", ".join(self.allowed) or "nothing"
        hint = "only the main socket takes it"
        if op in READING:
            hint += "; to permit it here, add it to socket.allow in the configuration"
        return RequestFailedError(
            ErrorCode.DENIED, f"{op} is not permitted at this restricted socket, only {names}", hint
        )

    async def _opened(self, path: Path) -> Endpoint:
        """Open an endpoint, completely or not at all, in another thread."""
        work = asyncio.ensure_future(asyncio.to_thread(_open, path, self._main_path, self._holder))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work})
            if work.exception() is None:
                work.result().close()
            raise


def _open(path: Path, main_path: Path, holder: Holder) -> Endpoint:
    """Open the endpoint. Raises `SocketError` or `AlreadyRunningError`."""
    try:
        check_path(path)
        check_apart(path, main_path)
        endpoint = Endpoint(path, holder, lock_path=Path(paths.restricted_lock_path(str(path))))
        return endpoint.__enter__()
    except SocketError as error:
        raise SocketError(
            f"the restricted socket can't be used: {error.message}", _OTHER_PATH
        ) from error
    except AlreadyRunningError as error:
        raise AlreadyRunningError(
            f"the restricted socket can't be used: {error}", _OTHER_PATH
        ) from error


def _reading(
    handlers: Mapping[Op, Handler], operations: frozenset[Op], path: str
) -> dict[Op, Handler]:
    """Return the handlers of the permitted operations, without what the main socket alone shows.

    They don't know the kind of a client: nothing that it says there may be counted.
    """
    allowed = [op.value for op in READING if op in operations]

    def uncounted(handler: Handler) -> Handler:
        async def handle(body: Body, caller: Caller) -> Body:
            return await handler(body, replace(caller, kind=""))

        return handle

    async def get(body: Any, caller: Caller) -> Body:
        if body.raw:
            raise RequestFailedError(
                ErrorCode.DENIED,
                "raw records are not permitted at this restricted socket: secrets are not masked",
                "leave out raw",
            )
        return await handlers[Op.GET](body, caller)

    async def status(body: Body, caller: Caller) -> Body:
        result = await handlers[Op.STATUS](body, caller)
        assert isinstance(result, StatusResult)  # noqa: S101 - by the table
        result.restricted, result.allowed = True, allowed
        result.socket_path = result.restricted_socket = path
        return result

    found = {op: uncounted(handler) for op, handler in handlers.items() if op in operations}
    special: dict[Op, Handler] = {Op.GET: get, Op.STATUS: status}
    return found | {op: handler for op, handler in special.items() if op in operations}
