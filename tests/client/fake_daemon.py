"""A scripted daemon that exchanges real frames over a real Unix socket, in a thread of the test.

A script is a function that receives one `Peer` per connection. It lists the expected frames and the
answers in order. An error in a script fails the test at the end.
"""

import os
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import (
    Body,
    Cancel,
    ClientFrame,
    Error,
    Frame,
    Hello,
    Item,
    Progress,
    Request,
    Result,
    Welcome,
    decode_client_frame,
    raw,
)

STUCK_TIMEOUT_S = 60.0
"""Seconds until a stuck test fails."""

WELCOME = Welcome(
    protocol=1, server="memoryd/9.9", pid=4242, boot_id="boot", capabilities=["search"]
)

FrameT = TypeVar("FrameT", Hello, Request, Cancel)


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = FrameBuffer()
        self._frames: list[ClientFrame] = []

    def next(self, kind: type[FrameT]) -> FrameT:
        """Wait for the next frame and check its type."""
        while not self._frames:
            data = self.connection.recv(65536)
            if not data:
                raise EOFError(f"the client hung up instead of sending {kind.__name__}")
            self._frames = [decode_client_frame(body) for body in self._buffer.feed(data)]
        frame = self._frames.pop(0)
        assert isinstance(frame, kind), f"{frame} is not a {kind.__name__}"
        return frame

    def has_more(self) -> bool:
        """Return whether more data has already arrived."""
        return bool(self._frames or select.select([self.connection], [], [], 0)[0])

    def hung_up(self) -> bool:
        """Wait for the end of the connection; return whether no frame preceded it."""
        try:
            return not self._frames and not self.connection.recv(65536)
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Close the connection immediately."""
        self.connection.shutdown(socket.SHUT_RDWR)

    def greet(self) -> Hello:
        hello = self.next(Hello)
        self.send(WELCOME)
        return hello

    def request(self) -> Request:
        return self.next(Request)

    def cancel(self) -> Cancel:
        return self.next(Cancel)

    def send(self, *frames: Frame) -> None:
        """Send all frames in one write."""
        self.connection.sendall(b"".join(pack(frame) for frame in frames))

    def answer(self, request: Request, body: Body) -> None:
        self.send(Result(request.id, raw(body)))

    def refuse(self, request: Request | Cancel, code: str, message: str = "no") -> None:
        self.send(Error(code, message, request.id))

    def progress(self, request: Request, completed: int, total: int, label: str) -> None:
        self.send(Progress(request.id, completed, total, label))

    def item(self, request: Request, body: Body) -> None:
        self.send(Item(request.id, raw(body)))


Script = Callable[[Peer], None]


class FakeDaemon:
    """A daemon that listens at `path` while entered; script n plays connection n.

    The scripts run one after the other, or all at once with `together`.
    """

    def __init__(self, *scripts: Script, together: bool = False) -> None:
        self._scripts = scripts
        self._together = together
        self._folder = tempfile.mkdtemp(dir="/tmp")
        self.path = os.path.join(self._folder, "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._play, name="fake daemon")
        self._players: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._fault: BaseException | None = None

    def __enter__(self) -> "FakeDaemon":
        self.start()
        return self

    def start(self) -> None:
        self._listener.settimeout(STUCK_TIMEOUT_S)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._give_up()
        self.close()
        if self._fault is not None and error is None:
            raise self._fault

    def close(self) -> None:
        """Wait for the scripts to end, then close the socket."""
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        shutil.rmtree(self._folder)

    def _give_up(self) -> None:
        """Wake the thread: a failed client may never send the frame that a script expects."""
        for waiting in (self._listener, *self._connections):
            with suppress(OSError):
                waiting.shutdown(socket.SHUT_RDWR)

    def _play(self) -> None:
        try:
            for script in self._scripts:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                player = threading.Thread(target=self._play_one, args=(script, connection))
                self._players.append(player)
                player.start()
                if not self._together:
                    player.join()
                    if self._fault is not None:
                        return
        except BaseException as fault:
            self._fault = fault
        finally:
            for player in self._players:
                player.join()

    def _play_one(self, script: Script, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(STUCK_TIMEOUT_S)
                script(Peer(connection))
        except BaseException as fault:
            self._fault = fault


def answering(*bodies: Body | Error) -> Script:
    """Return a script that sends a greeting, then answers one request after the other."""

    def script(peer: Peer) -> None:
        peer.greet()
        for body in bodies:
            request = peer.request()
            if isinstance(body, Error):
                peer.refuse(request, body.code, body.message)
            else:
                peer.answer(request, body)

    return script
