"""Clients that send arbitrary frames, valid or not."""

import socket
import struct
from contextlib import suppress

from harness import Daemon
from waiting import PATIENCE_S

from memoryd_client.schema.search import SearchBody
from memoryd_client.wire.framing import FrameBuffer, pack
from memoryd_client.wire.protocol import (
    PROTOCOL_MAX,
    Error,
    Frame,
    Hello,
    Request,
    Result,
    ServerFrame,
    Welcome,
    decode_server_frame,
    raw,
)


class Peer:
    """A client that sends exactly the given frames."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        # With Python's own timeout, `send` would fail instead of waiting when the queue is full.
        limit = struct.pack("@ll", int(PATIENCE_S), 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.socket.connect(path)
        self.socket.settimeout(PATIENCE_S)
        self.buffer = FrameBuffer()
        self.frames: list[bytes] = []

    def send(self, *frames: Frame) -> None:
        self.socket.sendall(b"".join(map(pack, frames)))

    def receive(self) -> ServerFrame | None:
        """Return the next frame, or None when the daemon has closed."""
        while not self.frames:
            if not (data := self.socket.recv(65536)):
                return None
            self.frames += self.buffer.feed(data)
        return decode_server_frame(self.frames.pop(0))

    def answer(self) -> Result | Error:
        """Return the next last frame of a request."""
        while not isinstance(frame := self.receive(), Result | Error):
            assert frame is not None, "closed"
        return frame

    def greet(self) -> "Peer":
        self.send(Hello(PROTOCOL_MAX, PROTOCOL_MAX, "test"))
        assert isinstance(self.receive(), Welcome)
        return self

    def close(self) -> None:
        self.socket.close()


def deaf_peer(daemon: Daemon, *, max_results: int = 50) -> Peer:
    """Send requests until the socket is full, and read no answers."""
    deaf = Peer(str(daemon.socket)).greet()
    deaf.socket.setblocking(False)
    request = pack(Request(1, "search", raw(SearchBody("common", max_results=max_results))))
    with suppress(BlockingIOError, ConnectionError):  # it is full, or the server has closed it
        for _ in range(100_000):
            deaf.socket.send(request)
    return deaf
