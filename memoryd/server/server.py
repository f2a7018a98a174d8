"""Server that accepts clients and owns their connections."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

from memoryd.errors import AlreadyRunningError, SocketError
from memoryd.fs.hang import retrieve_error
from memoryd.server.connection import ClientConnection, Denial, Greeted, Handler, no_denial
from memoryd.server.endpoint import Endpoint
from memoryd.server.limits import Load, Seldom
from memoryd_client.transport.peer import peer_uid
from memoryd_client.wire.protocol import ErrorCode, Op, Welcome

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
IDLE_S = 60.0
"""Seconds after which an idle connection may be closed in favour of a new one."""
ACCEPT_PAUSE_S = 0.1
CHECK_S = 5.0
"""Seconds between checks that the endpoint still exists."""


class Server:
    """Actor that serves the clients of an endpoint until cancelled."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        handlers: Mapping[Op, Handler],
        welcome: Welcome,
        denial: Denial = no_denial,
        greeted: Greeted = lambda hello: None,
    ) -> None:
        self._endpoint = endpoint
        self._handlers = handlers
        self._denial = denial
        self._greeted = greeted
        self._welcome = welcome
        self._load = Load()
        self._serving: dict[ClientConnection, asyncio.Task[None]] = {}
        self._refusals, self._failures, self._losses = Seldom(log), Seldom(log), Seldom(log)

    async def run(self) -> None:
        """Accept clients until cancelled, and restore a removed endpoint."""
        async with asyncio.TaskGroup() as group:
            while True:
                accepting = group.create_task(self._accept(group), name="accept")
                await self._until_lost()
                accepting.cancel()
                await asyncio.wait({accepting})
                await self._restore()

    def stats(self) -> int:
        """Return the number of open connections."""
        return len(self._serving)

    async def _accept(self, group: asyncio.TaskGroup) -> None:
        loop, listener = asyncio.get_running_loop(), self._endpoint.listener
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Most likely out of descriptors: other clients may close theirs.
                self._failures.warning("can't accept a client: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            group.create_task(self._receive(client), name="connection")

    async def _until_lost(self) -> None:
        is_there = True
        while is_there:
            await asyncio.sleep(CHECK_S)
            is_there = await asyncio.to_thread(self._endpoint.is_there)

    async def _restore(self) -> None:
        while True:
            work = asyncio.ensure_future(asyncio.to_thread(self._endpoint.restore))
            try:
                await asyncio.shield(work)
            except (AlreadyRunningError, SocketError, OSError) as error:
                self._losses.warning("can't restore the socket, retrying: %s", error)
            except asyncio.CancelledError:
                await asyncio.wait({work})  # so that its socket is removed
                retrieve_error(work)
                raise
            else:
                return
            await asyncio.sleep(CHECK_S)

    async def _receive(self, client: socket.socket) -> None:
        """Serve a client; an error does not affect the others."""
        reader, writer = await asyncio.open_unix_connection(sock=client)
        connection = ClientConnection(
            reader,
            writer,
            handlers=self._handlers,
            welcome=self._welcome,
            load=self._load,
            denial=self._denial,
            greeted=self._greeted,
        )
        try:
            await self._serve(client, connection)
        except Exception:
            log.exception("connection failed")
        finally:
            writer.transport.abort()

    async def _serve(self, client: socket.socket, connection: ClientConnection) -> None:
        uid = peer_uid(client)
        if uid not in (os.geteuid(), 0):
            who = "unknown" if uid is None else uid
            self._refusals.warning("refused a client of user %s", who)
            await connection.refuse(ErrorCode.DENIED, "this memoryd serves another user")
        elif len(self._serving) >= MAX_CONNECTIONS and not self._make_room():
            await connection.refuse(
                ErrorCode.BUSY, f"{MAX_CONNECTIONS} clients are already connected"
            )
        else:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - runs in a task
            self._serving[connection] = task
            try:
                await connection.run()
            finally:
                self._serving.pop(connection, None)

    def _make_room(self) -> bool:
        """Close the longest idle connection if it was idle for `IDLE_S`."""
        idlest = max(self._serving, key=ClientConnection.idle_s)
        if idlest.idle_s() < IDLE_S:
            return False
        self._serving.pop(idlest).cancel()
        return True
