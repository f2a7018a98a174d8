"""Present names of transcripts that an earlier version has indexed under others."""

import asyncio
from collections.abc import Collection
from concurrent.futures import Executor
from pathlib import Path

from memoryd.index.catalog import Catalog, load_catalog
from memoryd.index.rename import rename_files
from memoryd.index.store import Store
from memoryd.messages import FileKey
from memoryd.source.transcripts.kept import KeptCopies
from memoryd.source.transcripts.locations import SOURCE, TranscriptLocations
from memoryd.source.transcripts.stored import is_stored

RENAME_S = 10.0
"""Maximum seconds for which a start waits for the disk of renamed transcripts."""


def present_name(path: str, places: TranscriptLocations, indexed: Collection[FileKey]) -> str:
    """Return the name by which a transcript is indexed, given one of an earlier version."""
    if FileKey(SOURCE, path) in indexed:
        return path
    keys = (places.key(Path(place)) for place in places.names.paths(path))
    return next((key.path for key in keys if key is not None and key in indexed), path)


async def rename(
    places: TranscriptLocations, index: Store, copies: KeptCopies, thread: Executor
) -> None:
    """Give indexed transcripts their present names. They keep their rows and vectors."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RENAME_S):
            names = await loop.run_in_executor(thread, _renamed, places, [*index.catalog.rows])
    except TimeoutError:
        return  # a disk hangs; the next start renames
    if not names:
        return
    renamed = await loop.run_in_executor(thread, copies.rename, names)
    await index.database.run(lambda c: rename_files(c, index.tables, names))
    index.catalog = Catalog(await index.database.run(load_catalog))
    for old in renamed:
        await loop.run_in_executor(thread, copies.remove, old)


def _renamed(places: TranscriptLocations, rows: Collection[FileKey]) -> dict[FileKey, FileKey]:
    """Return the present names of indexed transcripts that have other names. Blocking."""
    found: dict[FileKey, FileKey] = {}
    indexed = frozenset(rows)
    for key in [key for key in rows if key.source == SOURCE]:
        if key in map(places.key, map(Path, places.names.paths(key.path))):
            continue
        path = places.present_path(key) or places.real_path(key)
        name = None if path is None or is_stored(path) else places.key(path)
        if name is not None and name != key and name not in indexed:
            found[key] = name
    return found
