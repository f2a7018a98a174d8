"""Where two stages meet: what one asks of the other, with the errors that it knows."""

import asyncio
import logging
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd.embed.feeder import PendingText
from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import ProviderError
from memoryd.flow import FileKey, FileStat, MeteredQueue, ToWriter, Unreadable
from memoryd.index import rows
from memoryd.index.rebuild import RebuildError, salvage, unfinished
from memoryd.index.rebuilder import Rebuilder
from memoryd.index.store import Store
from memoryd.search.engine import LegError
from memoryd.source.discover import Discovery

log = logging.getLogger(__name__)

QUERY_S = 5.0
"""How long a search waits for the vector of its query; then keywords answer alone."""


async def read_pending(store: Store, after: int, limit: int) -> list[PendingText]:
    """Return the next chunks that wait for a vector, as the feeder wants them."""
    found = await store.readers.read(partial(rows.read_pending, after=after, limit=limit))
    return [PendingText(*row) for row in found]


async def scan_for_rebuild(
    discovery: Discovery, threads: Executor
) -> dict[FileKey, tuple[Path, FileStat]]:
    """Return all memory files, for a rebuild. Raises `RebuildError` when some can't be seen."""
    scan = await asyncio.get_running_loop().run_in_executor(threads, discovery.scan)
    if scan.unread:
        raise RebuildError(f"{scan.unread[0]} can't be read")
    return scan.files


async def embed_or_fail(
    pool: EmbedPool, texts: list[tuple[str, str]]
) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """Embed for a rebuild, which doesn't wait for a provider that is out of order."""
    work = asyncio.ensure_future(pool.embed(texts))
    blocked = asyncio.ensure_future(pool.blocked.wait())
    try:
        await asyncio.wait({work, blocked}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise RebuildError(pool.stats().blocked_reason or "the provider is out of order")
        outcome = work.result()
        return outcome.vectors, outcome.bad
    finally:
        work.cancel()
        blocked.cancel()


async def embed_query(pool: EmbedPool, text: str) -> NDArray[np.float32]:
    """Embed a query for the search, which waits for it for `QUERY_S`. Raises `LegError`."""
    try:
        async with asyncio.timeout(QUERY_S):
            return await pool.embed_query(text)
    except ProviderError as error:
        raise LegError(str(error)) from error
    except TimeoutError as error:
        raise LegError(f"the query was not embedded within {QUERY_S:g} s") from error


def note_unreadable(unreadable: dict[FileKey, str], message: Unreadable) -> None:
    """Keep why a file could not be read, and log it once."""
    if unreadable.get(message.key) != message.reason:
        log.warning("%s can't be read: %s", message.key.path, message.reason)
    unreadable[message.key] = message.reason


async def sweep_then_rebuild(
    store: Store, rebuilder: Rebuilder, to_writer: MeteredQueue[ToWriter]
) -> None:
    """Take back what a rebuild that was cut off had embedded, then wait for rebuilds."""
    for leftover in unfinished(store.path):
        await salvage(leftover, to_writer)
    await rebuilder.run()
