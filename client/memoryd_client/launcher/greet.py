"""Identification of the process at a socket: one connection, one hello, no request."""

import errno
import socket
import struct
import sys
import time

import msgspec
from msgspec import Struct

from memoryd_client.errors import (
    DaemonNotRunningError,
    DeniedError,
    MemorydError,
    ProtocolMismatchError,
)
from memoryd_client.errors import from_frame as error_from_frame
from memoryd_client.transport.peer import check_listener
from memoryd_client.wire.framing import FrameBuffer, FrameError, pack
from memoryd_client.wire.protocol import (
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Error,
    Hello,
    Welcome,
    decode_server_frame,
)

_RECEIVE_BYTES = 64 * 1024
_NOT_LISTENING_ERRNOS = frozenset({errno.ENOENT, errno.ECONNREFUSED})


class Greeting(Struct, frozen=True):
    """Answer of a listening process.

    `pid` is the pid that the daemon reports; None if it did not answer in time, closed the
    connection, or refused, with `refusal`. `peer_pid` is the kernel's pid of the listening process;
    None where the kernel has none, 0 if the process is not visible.
    """

    pid: int | None = None
    peer_pid: int | None = None
    refusal: MemorydError | None = None


def greet(path: str, *, limit_s: float) -> Greeting | None:
    """Send hello and wait up to `limit_s` seconds for the welcome. None: no process listens.

    Raises `DaemonNotRunningError` if that can't be determined: no permission, no such folder.
    """
    end = time.monotonic() + limit_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(0)
            connection.connect(path)
        except BlockingIOError:
            return Greeting()  # the queue of clients is full
        except OSError as error:
            if error.errno in _NOT_LISTENING_ERRNOS:
                return None
            raise DaemonNotRunningError(
                f"cannot connect to memoryd at {path}: {error.strerror or error}",
                hint="check who owns the socket and its folder, or set MEMORYD_SOCKET",
                retryable=False,
            ) from error
        peer_pid = _peer_pid(connection)
        try:
            check_listener(connection, path)
            answer = _ask(connection, end)
        except DeniedError as error:
            return Greeting(None, peer_pid, error)
        except OSError:
            return Greeting(peer_pid=peer_pid)  # no answer in time, or closed
        except (FrameError, msgspec.DecodeError):
            answer = None
    if isinstance(answer, Welcome):
        return Greeting(answer.pid, peer_pid)
    if isinstance(answer, Error):
        return Greeting(None, peer_pid, error_from_frame(answer))
    return Greeting(
        None,
        peer_pid,
        ProtocolMismatchError(
            f"the process at {path} does not use memoryd's protocol",
            hint="use another --socket, or set MEMORYD_SOCKET",
        ),
    )


def _ask(connection: socket.socket, end: float) -> object:
    """Return the first frame. Raises `TimeoutError`, `OSError` or a decoding error."""
    buffer = FrameBuffer()
    connection.settimeout(max(0.001, end - time.monotonic()))
    connection.sendall(pack(Hello(PROTOCOL_MIN, PROTOCOL_MAX, "memctl")))
    while True:
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        data = connection.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError
        for body in buffer.feed(data):
            return decode_server_frame(body)


def _peer_pid(connection: socket.socket) -> int | None:
    if sys.platform != "linux":
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("=iII", credentials)[0])
