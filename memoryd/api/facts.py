"""What only SQLite knows of an index, for its status."""

from collections.abc import Sequence
from typing import NamedTuple

from memoryd.index.driver import Connection, Error
from memoryd.index.faults import Fault, fault_of
from memoryd.index.store import Store
from memoryd.index.write_outage import reason


class Facts(NamedTuple):
    """Cached embeddings, texts that were set aside with the reason, the size of the file.

    `problems` says why there is none of it, where the index can't be read.
    """

    cached: int = 0
    set_aside: Sequence[tuple[str, str]] = ()
    db_bytes: int = 0
    problems: Sequence[str] = ()


async def read_facts(store: Store) -> Facts:
    """Read them."""
    try:
        return await store.readers.read(_read)
    except Error as error:
        if fault_of(error) is not Fault.SURROUNDINGS:
            raise
        return Facts(problems=[f"the index can't be read: {reason(error)}"])


def _read(connection: Connection) -> Facts:
    cached = int(connection.execute("SELECT count(*) FROM embedding_cache").fetchone()[0])
    set_aside = connection.execute(
        "SELECT hash, reason FROM set_aside WHERE hash IN (SELECT hash FROM chunks)"
    ).fetchall()
    pages, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return Facts(cached, set_aside, int(pages * size))
