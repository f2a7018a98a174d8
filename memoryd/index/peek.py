"""Looks into an index before it is opened: what it was built with, and who chose that."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from memoryd.identity import Choice, Identity
from memoryd.index.driver import Connection, Database, Error
from memoryd.index.file_identity import has_log
from memoryd.index.schema import get_choice, get_identity, get_workspace


class Peeked(NamedTuple):
    """What an index tells about itself; None where it doesn't."""

    built: Identity | None = None
    choice: Choice | None = None
    workspace: str | None = None


async def peek(path: Path) -> Peeked:
    """Return what an index file tells. One that can't be read tells nothing: opening it will."""
    # One that is not there is not made by reading it, nor is its log.
    with suppress(Error, OSError):
        no_log = not await asyncio.to_thread(has_log, path)
        async with Database(path, readonly=True, immutable=no_log) as database:
            return await database.run(_read)
    return Peeked()


def _read(connection: Connection) -> Peeked:
    choice, workspace = get_choice(connection), get_workspace(connection)
    with suppress(msgspec.MsgspecError):
        return Peeked(get_identity(connection), choice, workspace)
    return Peeked(None, choice, workspace)
