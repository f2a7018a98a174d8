"""Opens an index for reading only: nothing is written, made or kept from a daemon.

SQLite makes `-wal` and `-shm` files even for a connection that only reads, and leaves them. So an
index that is at rest is opened as one that can't change, and looked at again if it did meanwhile.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from memoryd.index.driver import BUSY_TIMEOUT_MS, Connection, ExtensionError, load_extension, sqlite
from memoryd_client.shared import lock_holder


class ChangedError(Exception):
    """The index was replaced, or a daemon began to use it, while it was read."""


class _State(NamedTuple):
    inode: int
    mtime_ns: int
    size: int


@contextmanager
def opened(path: Path, extension: str | None) -> Iterator[Connection]:
    """Give a connection. Raises `ChangedError` at the end if what was read can't be relied on.

    Raises the driver's error, or `OSError`. Without the `extension` if it can't be loaded.
    """
    before = _state(path)
    at_rest = not _in_use(path)
    made = [side for side in (_side(path, "-wal"), _side(path, "-shm")) if not side.exists()]
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("&immutable=1" if at_rest else "")
    try:
        connection: Connection = sqlite.connect(uri, uri=True, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA query_only = ON")
            # Whatever stands there is compared, bytes that are no text included.
            connection.text_factory = _text
            if extension is not None:
                with suppress(ExtensionError):
                    load_extension(connection, extension)
            yield connection
        finally:
            connection.close()
    finally:
        if not at_rest:
            _remove(path, made)
        after = _state(path)
        if after.inode != before.inode or (at_rest and (after != before or _in_use(path))):
            raise ChangedError


def is_held(lock: Path) -> bool:
    """Say whether a daemon holds a lock file; one that can't be read is nobody's we know of."""
    try:
        return lock_holder.is_held(str(lock))
    except OSError:
        return False


def lock_of(path: Path) -> Path:
    """Return the lock file of an index."""
    return _side(path, ".lock")


def _in_use(path: Path) -> bool:
    """Say whether a daemon has the index open, or one that was killed has left a log to read."""
    wal = _side(path, "-wal")
    return is_held(lock_of(path)) or (wal.exists() and wal.stat().st_size > 0)


def _remove(path: Path, made: list[Path]) -> None:
    """Remove what SQLite has made for us, unless a daemon uses it by now."""
    with suppress(OSError), lock_holder.free(str(lock_of(path))) as is_free:
        if is_free is not False:
            for side in made:
                if side.name.endswith("-shm") or side.stat().st_size == 0:
                    side.unlink()


def _side(path: Path, suffix: str) -> Path:
    return Path(f"{path}{suffix}")


def _state(path: Path) -> _State:
    found = os.stat(path)
    return _State(found.st_ino, found.st_mtime_ns, found.st_size)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
