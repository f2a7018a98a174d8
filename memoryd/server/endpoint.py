"""A socket and its lock file, restored after another process removes them.

Otherwise a cleaner of temporary folders would leave a daemon that no client can reach, and that
still locks its index.
"""

import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from memoryd.fs.directories import private_folder
from memoryd.fs.lockfile import locked
from memoryd.server.systemd import is_handed_over
from memoryd.server.unix_socket import inherited_or_listening, listening
from memoryd_client.shared.lock_holder import Holder

log = logging.getLogger(__name__)


class Endpoint:
    """Context manager for the listening socket and its lock.

    Entering it and `restore` block, and raise `SocketError` or `AlreadyRunningError`. With a
    `lock_path`, the lock is there instead of beside the socket, and the socket is never systemd's.
    """

    def __init__(self, path: Path, holder: Holder, *, lock_path: Path | None = None) -> None:
        self._path = path
        self._holder = holder
        self._lock_path = lock_path or Path(f"{path}.lock")
        self._lock, self._socket = ExitStack(), ExitStack()
        self._listening = inherited_or_listening if lock_path is None else listening
        # systemd manages a socket that it hands over.
        self._is_handed_over = lock_path is None and is_handed_over(os.environ)
        self._is_lock_found: Callable[[], bool] = _never
        self._inode: int | None = None

    def __enter__(self) -> "Endpoint":
        try:
            self._take_lock()
            self._listen()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, remove the socket and release the lock. Idempotent."""
        self._socket.close()
        self._lock.close()

    @property
    def listener(self) -> socket.socket:
        """The listening socket; `restore` may replace it."""
        return self._listener

    def is_there(self) -> bool:
        """Return whether the socket and the lock file are still at their paths. Blocking."""
        return self._is_lock_found() and self._is_socket_found()

    def restore(self) -> None:
        """Restore the lock file and the socket if they are missing. Can be retried."""
        if not self._is_lock_found():
            self._lock.close()
            self._is_lock_found = _never
            self._take_lock()
            log.warning("restored the lock file of %s, which was removed", self._path)
        if not self._is_socket_found():
            self._socket.close()
            self._listen()
            log.warning("restored the socket %s, which was removed", self._path)

    def _take_lock(self) -> None:
        lock = locked(self._lock_path, f"the socket {self._path}", self._holder)
        self._is_lock_found = self._lock.enter_context(lock)

    def _listen(self) -> None:
        self._inode = None
        private_folder(self._path.parent)
        self._listener = self._socket.enter_context(self._listening(self._path))
        self._inode = _inode_at(self._path)

    def _is_socket_found(self) -> bool:
        return self._is_handed_over or _inode_at(self._path) == self._inode is not None


def _inode_at(path: Path) -> int | None:
    """Return the inode at a path; None if there is no file."""
    try:
        return os.lstat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def _never() -> bool:
    return False
