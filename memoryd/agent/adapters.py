"""Where two stages meet: what one asks of the other, with the errors that it knows."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd.agent.transcripts import Transcripts, notes
from memoryd.chunk.parser import Parsed, Parser
from memoryd.daemon.agents import AgentSupervisor
from memoryd.embed.feeder import PendingText
from memoryd.embed.pool import EmbedPool
from memoryd.embed.provider import ProviderError
from memoryd.identity import Identity
from memoryd.index import batch_jobs, queries
from memoryd.index.driver import Connection, Error
from memoryd.index.rebuild.actor import RebuildRequest
from memoryd.index.rebuild.rebuild import RebuildError
from memoryd.index.schema import get_places
from memoryd.index.store import Store
from memoryd.messages import (
    BatchJobRow,
    FileChanged,
    FileKey,
    FileStat,
    GivesDims,
    SyncMarker,
    ToParser,
    ToWriter,
    Unreadable,
)
from memoryd.search.retrievers import RetrieverError
from memoryd.source.mounts import Mounts
from memoryd.source.notes.discover import SOURCE as NOTES
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.walk import Scan
from memoryd.source.transcripts.locations import SOURCE as SESSIONS
from memoryd.source.transcripts.locations import TranscriptLocations

log = logging.getLogger(__name__)

HEALTHY_S = 10.0
QUERY_S = 5.0
"""How long a search waits for the vector of its query; then keywords answer alone."""


async def read_pending(store: Store, after: int, limit: int) -> list[PendingText]:
    """Return the next chunks that wait for a vector, as the feeder wants them."""
    found = await store.readers.read(partial(queries.read_pending, after=after, limit=limit))
    return [PendingText(*row) for row in found]


async def count_pending(store: Store) -> int:
    """Return how many texts wait for vectors."""
    return await store.readers.read(queries.count_pending)


async def read_jobs(store: Store) -> list[BatchJobRow]:
    """Return the batch jobs that a former process has left."""
    return await store.readers.read(partial(batch_jobs.load_jobs, identity=store.wanted))


def embeddable(store: Store) -> Identity | None:
    """Return what vectors are to be made for; None while the index can't take them."""
    return None if store.vector_problem() or not store.writable else store.identity


def embeddable_now(store: Store) -> Identity | None:
    """Like `embeddable`; None too while what has been paid for could not be kept."""
    return None if store.outage.error is not None else embeddable(store)


async def healthy(host: AgentSupervisor) -> bool:
    """Say whether both sides of every index answer: what systemd's watchdog is fed for.

    A disk that fails is none of its business, nor is an agent that has failed: starting the daemon
    again would change nothing.
    """
    try:
        async with asyncio.timeout(HEALTHY_S):
            for hosted in host.all():
                if hosted.opened is not None and hosted.state == "ready":
                    store = hosted.opened.agent.store
                    await store.readers.read(_trivial)
                    if store.writable:
                        await store.database.run(_trivial)
    except TimeoutError:
        return False
    except (Error, ValueError):
        pass  # it has answered; ValueError: with a connection that was just closed
    return True


def _trivial(connection: Connection) -> None:
    connection.execute("SELECT 1").fetchone()


async def mounts_of(store: Store, sought: Discovery | TranscriptLocations) -> Mounts:
    """Return which folder is to be found at each place of notes, or of transcripts."""
    if isinstance(sought, Discovery):
        recorded = await store.readers.read(partial(get_places, source=NOTES))
        return Mounts(recorded, locate=sought.real_path, workspace=sought.workspace)
    recorded = await store.readers.read(partial(get_places, source=SESSIONS))
    return Mounts(recorded, locate=sought.real_path)


async def scan_for_rebuild(
    discovery: Discovery,
    mounts: Mounts,
    store: Store,
    transcripts: Transcripts | None,
    threads: Executor,
) -> dict[FileKey, tuple[Path, FileStat]]:
    """Return all files of all sources. Raises `RebuildError` when some can't be seen."""
    loop = asyncio.get_running_loop()
    known = notes(store.catalog)

    def look() -> Scan:
        scan = discovery.scan()
        for problem in (*scan.problems(), *mounts.judge(scan, known).away.values()):
            raise RebuildError(problem)
        return scan

    files = (await loop.run_in_executor(threads, look)).files
    if transcripts is not None:
        files |= (await loop.run_in_executor(threads, transcripts.find)).files
    return files


async def parse_for_rebuild(
    parser: Parser, transcripts: Transcripts | None, threads: Executor, change: FileChanged
) -> Parsed:
    """Read one file of any source, whole."""
    if transcripts is None or change.key.source != SESSIONS:
        return await parser.parse(change)
    return await asyncio.get_running_loop().run_in_executor(threads, transcripts.parse, change)


async def embed_or_fail(
    pool: EmbedPool, texts: list[tuple[str, str]]
) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]], int | None]:
    """Embed for a rebuild, which doesn't wait for a provider that is out of order."""
    work = asyncio.ensure_future(pool.embed(texts))
    blocked = asyncio.ensure_future(pool.blocked.wait())
    try:
        await asyncio.wait({work, blocked}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise RebuildError(pool.stats().blocked_reason or "the provider is out of order")
        outcome = work.result()
        return outcome.vectors, outcome.bad, outcome.dims
    finally:
        work.cancel()
        blocked.cancel()


async def embed_query(
    pool: EmbedPool, store: Store, writer: asyncio.Queue[ToWriter], text: str
) -> NDArray[np.float32]:
    """Embed a query for the search, which waits for it for `QUERY_S`. Raises `RetrieverError`.

    One whose vector can't be compared with those of the index is looked into: its provider may
    have changed what it gives to texts too.
    """
    try:
        vector = await pool.embed_query(text, patience_s=QUERY_S)
        if store.identity.dims in (None, len(vector)):
            return vector
        async with asyncio.timeout(QUERY_S):
            dims = await pool.calls.dims_now()
    except (ProviderError, TimeoutError) as error:
        raise RetrieverError(str(error) or "the provider took too long") from error
    if dims != store.identity.dims:
        await writer.put(GivesDims(dims))
        raise RetrieverError(
            f"the provider gives vectors of {dims} dimensions now, and the index has some of"
            f" {store.identity.dims}; it will be rebuilt"
        )
    raise RetrieverError(
        f"the provider gives a question {len(vector)} dimensions and a text {dims}; set"
        " query_input_type, document_input_type or the server so that one model answers both"
    )


def note_unreadable(unreadable: dict[FileKey, str], message: Unreadable) -> None:
    """Keep why a file could not be read, and log it once."""
    if unreadable.get(message.key) != message.reason:
        log.warning("%s can't be read: %s", message.key.path, message.reason)
    unreadable[message.key] = message.reason


def tell_noticed(publish: Callable[..., None], message: ToParser) -> None:
    """Publish that a file was found new, changed or gone."""
    if not isinstance(message, SyncMarker):
        publish("noticed", path=message.key.path)


def tell_wanted(rebuilder: asyncio.Queue[RebuildRequest | None]) -> None:
    """Have the rebuilder look whether the index is what is wanted; it may be about to anyway."""
    if rebuilder.empty():
        rebuilder.put_nowait(None)


def tell_written(
    publish: Callable[..., None],
    store: Store,
    unreadable: dict[FileKey, str],
    key: FileKey,
    changed: bool,
) -> None:
    """Publish what the writer has committed, if rows changed."""
    unreadable.pop(key, None)
    if not changed:
        return
    row = store.catalog.rows.get(key)
    if row is None:
        publish("removed", path=key.path)
    else:
        publish("indexed", path=key.path, count=row.chunks)
