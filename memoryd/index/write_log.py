"""The write-ahead log of an index: how long it gets, and what is done before it goes."""

from memoryd.index.driver import Connection

_CHECKPOINT_PAGES = 4_000
"""16 MiB, instead of SQLite's 4 MiB: a page of an index that every commit touches is copied less
often from the write-ahead log."""
_VACUUM_PAGES = 5_000
"""20 MiB at most at a stop, which takes a fraction of a second."""


def set_up(connection: Connection) -> None:
    """Say how long the log gets before it is written back."""
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")


def empty_log(connection: Connection) -> None:
    """Write all that is in the write-ahead log into the database. Raises `OSError` if it can't."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise OSError("the write-ahead log is being read")


def write_back(connection: Connection) -> None:
    """Leave nothing in the log, and give freed pages back to the disk, before closing."""
    connection.execute("PRAGMA optimize")
    # Stepped to its end by fetchall; gives pages that deletes have freed back to the disk.
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
