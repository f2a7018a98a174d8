"""Accepts clients and owns their connections."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

from memoryd.serve.connection import Connection, Handler
from memoryd_client.peer import peer_uid
from memoryd_client.protocol import ErrorCode, Op, Welcome

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256


class Server:
    """Serves a bound socket. `run` until cancelled; open connections end with it."""

    def __init__(
        self, listener: socket.socket, *, handlers: Mapping[Op, Handler], welcome: Welcome
    ) -> None:
        self._listener = listener
        self._handlers = handlers
        self._welcome = welcome
        self._open: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    client, _ = await loop.sock_accept(self._listener)
                except OSError as error:
                    # Out of descriptors, most likely: others may close theirs.
                    log.warning("can't accept a client: %s", error)
                    await asyncio.sleep(0.1)
                    continue
                task = group.create_task(self._serve(client), name="connection")
                self._open.add(task)
                task.add_done_callback(self._open.discard)

    def stats(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=client)
        connection = Connection(reader, writer, handlers=self._handlers, welcome=self._welcome)
        uid = peer_uid(client)
        if uid not in (os.geteuid(), 0):
            log.warning("refused a client of user %s", "unknown" if uid is None else uid)
            await connection.refuse(ErrorCode.DENIED, "this memoryd serves another user")
        elif len(self._open) > MAX_CONNECTIONS:
            await connection.refuse(
                ErrorCode.BUSY, f"{MAX_CONNECTIONS} clients are connected already"
            )
        else:
            await connection.run()
