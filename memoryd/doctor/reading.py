"""Read-only access to an index: it writes and creates nothing and blocks no daemon.

SQLite creates `-wal` and `-shm` files even for a connection that only reads, and leaves them. So
an idle index is opened as immutable, and read again if it changed meanwhile.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memoryd.index.driver import BUSY_TIMEOUT_MS, Connection, ExtensionError, load_extension, sqlite
from memoryd_client.shared import lock_holder


class ChangedError(Exception):
    """The index was replaced or opened by a daemon while it was read."""


@contextmanager
def opened(path: Path, extension: str | None) -> Iterator[Connection]:
    """Yield a connection. Raises `ChangedError` at the end if the index changed meanwhile.

    Raises the driver's error, or `OSError`. Skips an `extension` that can't be loaded.
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
            connection.execute("PRAGMA temp_store = MEMORY")
            # Bytes that are not UTF-8 are compared too.
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
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
        if after[0] != before[0] or (at_rest and (after != before or _in_use(path))):
            raise ChangedError


def is_held(lock: Path) -> bool:
    """Return whether a daemon holds a lock file; False if it can't be read."""
    with suppress(OSError):
        return lock_holder.is_held(str(lock))
    return False


def lock_of(path: Path) -> Path:
    """Return the lock file of an index."""
    return _side(path, ".lock")


def _in_use(path: Path) -> bool:
    """Return whether a daemon has the index open, or a killed one left a log to read."""
    wal = _side(path, "-wal")
    return is_held(lock_of(path)) or (wal.exists() and wal.stat().st_size > 0)


def _remove(path: Path, made: list[Path]) -> None:
    """Remove the files that SQLite created for us, unless a daemon uses them by now."""
    with suppress(OSError), lock_holder.free(str(lock_of(path))) as is_free:
        if is_free is not False:
            for side in made:
                if side.name.endswith("-shm") or side.stat().st_size == 0:
                    side.unlink()


def _side(path: Path, suffix: str) -> Path:
    return Path(f"{path}{suffix}")


def _state(path: Path) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size
