"""Replacement of a corrupt index by a new one with all salvaged data.

The new file is built beside the corrupt one and renamed to `.salvaged-…` when it is complete. Then
the corrupt file is moved aside, and the new one takes its place. After a crash, the next start
continues from there.
"""

import asyncio
import datetime
import glob
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memoryd.errors import IndexRefusedError
from memoryd.fs.atomic_replace import remove_files, remove_index
from memoryd.index import schema
from memoryd.index.driver import Connection, Database, Error, Fault, fault_of, transaction
from memoryd.index.forget import Tombstone
from memoryd.index.repair.checks import DERIVED, Problem, corrupt_tables
from memoryd.index.repair.header import check_kind, copy_mended, header_problem, seems_ours

if TYPE_CHECKING:
    from memoryd.index.repair.salvage import Salvaged

log = logging.getLogger(__name__)

MAX_COPIES = 3
"""Maximum corrupt files to keep; older ones are removed."""
AGAIN_S = 3600.0
MAX_AGAIN = 2
"""Maximum repairs, and maximum moves, within `AGAIN_S`; after that the disk is suspected."""
_STAMP = "%Y%m%dT%H%M%SZ"
_FILES = ("-wal", "-shm", "")
_NOTE, _REPAIRS = "recovered", "repaired"


class FailingDiskError(OSError):
    """An index is corrupt again and again; the message includes the next step."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """A corrupt index. `tombstones` are all tombstones in memory, None if not loaded."""

    problem: Problem
    tombstones: frozenset[Tombstone] | None = None


class Recovered(msgspec.Struct, frozen=True):
    """Result of a replacement: the corrupt file, the reason, and counts of salvaged data.

    `whole`: all tombstones are known.
    """

    copy: str
    why: str
    embeddings: int
    tombstones: int
    whole: bool

    @property
    def message(self) -> str:
        """The result in one line."""
        text = (
            f"the index was corrupt ({self.why}) and is being rebuilt; the corrupt file is kept:"
            f" {self.copy}; {self.embeddings} embeddings were salvaged"
        )
        if not self.whole:
            text += (
                ". Not everything that was forgotten could be read: check `memctl sessions` for"
                " transcripts that came back, and forget them again"
            )
        return text


def inspect(path: Path) -> Corruption | None:
    """Finish an interrupted replacement, then check the file's header. Blocking.

    Raises `IndexRefusedError` if the path is not a regular file.
    """
    check_kind(path)
    finish(path)
    problem = header_problem(path)
    return None if problem is None else Corruption(Problem("header", problem))


async def recover(
    path: Path,
    workspace: Path,
    finding: Corruption,
    *,
    extension: str | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Repair an index in place if only derived tables are corrupt, else build a new one.

    Raises `IndexRefusedError` for a file of another program, `FailingDiskError` for an index that
    is corrupt again and again, and the disk's error if it can't be written now. In these cases the
    file stays unchanged.
    """
    problem = finding.problem
    if not await asyncio.to_thread(seems_ours, path):
        raise IndexRefusedError(
            f"{path} can't be read ({problem.message}) and nothing in it says that it is an index"
            " of memoryd",
            "set store.path to another file, or move it away",
        )
    if problem.word not in ("header", "content") and await _repair(path, problem, extension, clock):
        return
    stamp = _new_stamp(path, problem.word, clock)
    copy = Path(f"{path}.damaged-{stamp}")
    partial = Path(f"{path}.salvaging")
    remove_index(partial)
    try:
        kept = await _salvage(path, workspace, partial, finding, copy, extension)
        os.replace(partial, f"{path}.salvaged-{stamp}")
    finally:
        remove_index(partial)
    await asyncio.to_thread(finish, path)
    log.warning("%s: %s; moved to %s", path, problem.message, copy)
    counts = kept.embeddings, kept.jobs, kept.tombstones
    log.warning("%s: salvaged %d embeddings, %d batch jobs, %d tombstones", path, *counts)
    if not kept.whole:
        log.error("%s: not all tombstones could be read", copy)


def finish(path: Path) -> None:
    """Move the corrupt index aside and the salvaged one into its place. Blocking."""
    for salvaged in sorted(_beside(path, "salvaged-*")):
        copy = f"{path}.damaged-{salvaged.name.partition('.salvaged-')[2]}"
        for suffix in _FILES:
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{copy}{suffix}")
                os.chmod(f"{copy}{suffix}", 0o600)
        os.replace(salvaged, path)
    for old in copies(path)[:-MAX_COPIES]:
        remove_index(old)
    for left in _beside(path, "salvaging*"):
        left.unlink(missing_ok=True)


def copies(path: Path) -> list[Path]:
    """Return the corrupt files that were moved aside, oldest first."""
    return sorted(
        found for found in _beside(path, "damaged-*") if not found.name.endswith(("-wal", "-shm"))
    )


def remove_copies(path: Path) -> None:
    """Remove all corrupt files, which may contain forgotten transcripts. Blocking."""
    for copy in copies(path):
        remove_index(copy)


def empty_copies(path: Path) -> None:
    """Empty all corrupt files, because a text that they contain was deleted. Blocking.

    Their names stay: they show how often the index was corrupt, and keep a warning alive.
    """
    for copy in copies(path):
        with suppress(OSError):
            os.truncate(copy, 0)
            remove_files(copy, "-wal", "-shm")


def take_note(connection: Connection, path: Path) -> Recovered | None:
    """Return the result of the last replacement, to be reported until the next start.

    If tombstones are missing, it is reported as long as the corrupt file exists.
    """
    try:
        note = msgspec.json.decode(schema.get_note(connection, _NOTE) or "", type=Recovered)
    except msgspec.MsgspecError:
        return None
    there = os.path.exists(note.copy)
    if note.whole or not there:
        connection.execute("DELETE FROM meta WHERE key = ?", (_NOTE,))
    return note if there else None


async def _repair(
    path: Path, problem: Problem, extension: str | None, clock: Callable[[], float]
) -> bool:
    """Drop the corrupt tables if all are derived; opening refills them. Returns success."""
    try:
        async with Database(path, extension=extension) as database:
            return await database.run(lambda c: _drop_corrupt(c, problem, clock()))
    except (Error, msgspec.MsgspecError) as error:
        if fault_of(error) is Fault.SURROUNDINGS:
            raise
        return False


def _drop_corrupt(connection: Connection, problem: Problem, now_s: float) -> bool:
    tables = corrupt_tables(connection) or {problem.table or ""}
    if not tables <= set(DERIVED):
        return False
    before = msgspec.json.decode(schema.get_note(connection, _REPAIRS) or "[]", type=list[float])
    recent = [at for at in before if abs(now_s - at) < AGAIN_S]
    if len(recent) >= MAX_AGAIN:
        return False
    schema.put_note(connection, _REPAIRS, msgspec.json.encode([*recent, now_s]).decode())
    try:
        with transaction(connection):
            for table in sorted(tables):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
    except Error:
        _cut_out(connection)
    if corrupt_tables(connection):
        return False
    log.warning("%s; refilling %s", problem.message, ", ".join(sorted(tables)))
    return True


def _cut_out(connection: Connection) -> None:
    """Remove derived tables that can't be dropped from the schema, and free their pages.

    Removes all of them, because VACUUM does not keep the row ids of sqlite-vec's table.
    """
    connection.execute("PRAGMA writable_schema = ON")
    try:
        with transaction(connection):
            for table in DERIVED:
                connection.execute(
                    "DELETE FROM sqlite_schema WHERE tbl_name = ? OR tbl_name GLOB ?",
                    (table, f"{table}_*"),
                )
    finally:
        connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("VACUUM")


async def _salvage(
    path: Path,
    workspace: Path,
    partial: Path,
    finding: Corruption,
    copy: Path,
    extension: str | None,
) -> "Salvaged":
    """Build a new index from the readable data of the corrupt one, and close it."""
    from memoryd.index.repair.salvage import Salvaged, check_owner, insert_tombstones, salvage

    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(Database(partial))
        await target.run(lambda c: _begin(c, workspace))
        kept = Salvaged()
        mend = finding.problem.word == "header"
        if (corrupt := await _readable(path, mend, extension, stack)) is None:
            log.warning("%s: no data can be read", path)
            kept.tombstones = await insert_tombstones(target, finding.tombstones or ())
        else:
            await corrupt.run(lambda c: check_owner(c, workspace))
            kept = await salvage(corrupt, target, finding.tombstones or ())
        kept.whole = kept.whole or finding.tombstones is not None
        why = finding.problem.message
        note = Recovered(str(copy), why, kept.embeddings, kept.tombstones, kept.whole)
        await target.run(lambda c: _commit(c, note))
    return kept


async def _readable(
    path: Path, mend: bool, extension: str | None, stack: AsyncExitStack
) -> Database | None:
    """Open a corrupt file for reading: as it is, else a copy with a valid header."""
    if not mend and (found := await _try(path, extension, stack)) is not None:
        return found
    mended = Path(f"{path}.salvaging-copy")
    stack.callback(remove_index, mended)
    await asyncio.to_thread(copy_mended, path, mended)
    return await _try(mended, extension, stack)


async def _try(path: Path, extension: str | None, stack: AsyncExitStack) -> Database | None:
    from memoryd.index.repair.salvage import open_to_salvage

    database = Database(path, readonly=True, extension=extension)
    try:
        await stack.enter_async_context(database)
        await database.run(open_to_salvage)
    except Error:
        return None
    return database


def _begin(connection: Connection, workspace: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    schema.create(connection, workspace)


def _commit(connection: Connection, note: Recovered) -> None:
    schema.put_note(connection, _NOTE, msgspec.json.encode(note).decode())
    connection.execute("COMMIT")


def _new_stamp(path: Path, word: str, clock: Callable[[], float]) -> str:
    """Return time and reason for the name of a corrupt file. Raises `FailingDiskError`."""
    now_s = clock()
    recent = [copy for copy in copies(path) if abs(now_s - _moved_at(copy)) < AGAIN_S]
    if len(recent) >= MAX_AGAIN:
        raise FailingDiskError(
            f"the index {path} is corrupt again, {len(recent)} times within an hour; the disk may"
            " be failing. memoryd leaves it unchanged. When the disk works, remove the earlier"
            f" corrupt files, and memoryd rebuilds the index: {', '.join(map(str, recent))}"
        )
    while True:
        moment = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
        stamp = f"{moment.strftime(_STAMP)}-{word}"
        if not os.path.exists(f"{path}.damaged-{stamp}"):
            return stamp
        now_s += 1


def _moved_at(copy: Path) -> float:
    stamp = copy.name.partition(".damaged-")[2].partition("-")[0]
    try:
        moved = datetime.datetime.strptime(stamp, _STAMP)
    except ValueError:
        return 0.0
    return moved.replace(tzinfo=datetime.UTC).timestamp()


def _beside(path: Path, pattern: str) -> Iterable[Path]:
    return path.parent.glob(f"{glob.escape(path.name)}.{pattern}")
