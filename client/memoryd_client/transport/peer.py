"""User at the other end of a Unix socket, as the kernel reports it."""

import os
import socket
import struct
import sys

from memoryd_client.errors import DeniedError


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end; None if it has exited.

    For a client, this is the process that made the socket listen.
    """
    try:
        if sys.platform == "darwin":
            # struct xucred of <sys/ucred.h>: u_int cr_version; uid_t cr_uid; …
            credentials = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED
            return int(struct.unpack_from("=II", credentials)[1])
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("=iII", credentials)[1])
    except OSError:
        return None


def check_listener(connection: socket.socket, path: str) -> None:
    """Raise `DeniedError` unless a daemon of this user, or of root, listens.

    In a shared folder, any user could create a socket and read the requests. Root may talk to the
    daemon of any user. Raises `ConnectionRefusedError` if the listener has exited.
    """
    uid, ours = peer_uid(connection), os.geteuid()
    if uid is None:
        raise ConnectionRefusedError
    if uid not in (ours, 0) and ours != 0:
        raise DeniedError(
            f"the process at {path} belongs to user {uid}, not to you; nothing was sent to it",
            hint="set MEMORYD_SOCKET, or --socket, to the socket of your memoryd",
        )
