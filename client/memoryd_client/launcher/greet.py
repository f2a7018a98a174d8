"""Identification of the process at a socket: one connection, one hello, no request."""

import socket
import struct
import sys
import time

from msgspec import Struct

from memoryd_client.errors import DeniedError, MemorydError, ProtocolMismatchError, from_frame
from memoryd_client.launcher.errors import RestrictedSocketError
from memoryd_client.transport.dial import NOT_LISTENING_ERRNOS, not_running
from memoryd_client.transport.peer import check_listener
from memoryd_client.wire.codec import RECEIVE_BYTES, Conversation
from memoryd_client.wire.protocol import Error, ServerFrame, Welcome


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
            if error.errno in NOT_LISTENING_ERRNOS:
                return None
            raise not_running(path, error) from error
        peer_pid = _peer_pid(connection)
        try:
            check_listener(connection, path)
            answer = _ask(connection, end)
        except DeniedError as error:
            return Greeting(None, peer_pid, error)
        except OSError:
            return Greeting(peer_pid=peer_pid)  # no answer in time, or closed
        except ProtocolMismatchError:
            answer = None
    if isinstance(answer, Welcome) and answer.restricted:
        return Greeting(None, peer_pid, RestrictedSocketError(path))
    if isinstance(answer, Welcome):
        return Greeting(answer.pid, peer_pid)
    if isinstance(answer, Error):
        return Greeting(None, peer_pid, from_frame(answer))
    refusal = ProtocolMismatchError(
        f"the process at {path} does not use memoryd's protocol",
        hint="use another --socket, or set MEMORYD_SOCKET",
    )
    return Greeting(None, peer_pid, refusal)


def _ask(connection: socket.socket, end: float) -> ServerFrame:
    """Return the first frame. Raises `OSError` or `ProtocolMismatchError`."""
    conversation = Conversation("memctl", "")
    connection.settimeout(max(0.001, end - time.monotonic()))
    connection.sendall(conversation.hello())
    while (left_s := end - time.monotonic()) > 0:
        connection.settimeout(left_s)
        if not (data := connection.recv(RECEIVE_BYTES)):
            raise ConnectionResetError
        if frames := conversation.feed(data):
            return frames[0]
    raise TimeoutError


def _peer_pid(connection: socket.socket) -> int | None:
    if sys.platform != "linux":
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("=iII", credentials)[0])
