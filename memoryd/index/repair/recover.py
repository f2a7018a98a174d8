"""A damaged index is moved aside, and a new one with all that could be salvaged takes its place.

The new file is made first, beside the damaged one, and gets a name that says that it is whole; then
the damaged one is renamed, then the new one. Whenever the process dies, the next start goes on.
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

import msgspec

from memoryd.index import schema
from memoryd.index.driver import Connection, Database, Error, Fault, fault_of, transaction
from memoryd.index.forget import Tombstone
from memoryd.index.repair.checks import DERIVED, Problem, damaged_tables
from memoryd.index.repair.header import check_kind, copy_mended, header_problem, seems_ours
from memoryd.index.repair.salvage import (
    Salvaged,
    check_owner,
    insert_tombstones,
    open_to_salvage,
    salvage,
)

log = logging.getLogger(__name__)

MAX_COPIES = 3
"""Damaged files that are kept; older ones are removed."""
AGAIN_S = 3600.0
MAX_AGAIN = 2
"""So often within that time an index is repaired, and moved aside: then the disk is to blame."""
_STAMP = "%Y%m%dT%H%M%SZ"
_FILES = ("-wal", "-shm", "")
_NOTE, _REPAIRS = "recovered", "repaired"


class FailingDiskError(OSError):
    """An index is found damaged again and again; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """An index was found damaged; `tombstones` are all that were in memory, if they were."""

    problem: Problem
    tombstones: frozenset[Tombstone] | None = None


class Recovered(msgspec.Struct, frozen=True):
    """What became of a damaged index: where it is, why, and what the new one has of it.

    `whole`: all that was forgotten is known.
    """

    copy: str
    why: str
    embeddings: int
    tombstones: int
    whole: bool

    @property
    def message(self) -> str:
        """Say it to people, in one line."""
        said = (
            f"the index was damaged ({self.why}) and is built anew; the damaged file is kept:"
            f" {self.copy}; {self.embeddings} embeddings were taken over"
        )
        if not self.whole:
            said += (
                ". What was forgotten could not be read whole: look at"
                " `memctl sessions` whether something has come back and forget it again"
            )
        return said


def look(path: Path) -> Corruption | None:
    """Look at a file before it is opened; finish first what a former process has begun. Blocking.

    Raises `IndexRefusedError` where there is something else than a file.
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
    """Repair a damaged index in place if only derived tables are, else build a new one.

    Raises `IndexRefusedError` for a file that is another's, `FailingDiskError` for one that is
    damaged again and again, and the error of the disk when nothing can be written now. Then the
    file stays as it is.
    """
    problem = finding.problem
    if not await asyncio.to_thread(seems_ours, path):
        raise schema.IndexRefusedError(
            f"{path} can't be read ({problem.message}) and nothing in it says that it is an index"
            " of memoryd; set store.path to another file, or move it away"
        )
    if problem.word not in ("header", "content") and await _repair(path, problem, extension, clock):
        return
    stamp = _new_stamp(path, problem.word, clock)
    copy = Path(f"{path}.damaged-{stamp}")
    partial = Path(f"{path}.salvaging")
    _remove(partial)
    try:
        kept = await _salvage(path, workspace, partial, finding, copy, extension)
        os.replace(partial, f"{path}.salvaged-{stamp}")
    finally:
        _remove(partial)
    await asyncio.to_thread(finish, path)
    log.warning("%s: %s; moved to %s", path, problem.message, copy)
    log.warning(
        "%s: taken over: %d embeddings, %d batch jobs, %d marks of what was forgotten",
        path,
        kept.embeddings,
        kept.jobs,
        kept.tombstones,
    )
    if not kept.whole:
        log.error("%s: what was forgotten could not be read whole", copy)


def finish(path: Path) -> None:
    """Put a salvaged index in the place of the damaged one, which is moved aside. Blocking."""
    for salvaged in sorted(_beside(path, "salvaged-*")):
        copy = f"{path}.damaged-{salvaged.name.partition('.salvaged-')[2]}"
        for suffix in _FILES:
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{copy}{suffix}")
                os.chmod(f"{copy}{suffix}", 0o600)
        os.replace(salvaged, path)
    for old in copies(path)[:-MAX_COPIES]:
        _remove(old)
    for left in _beside(path, "salvaging*"):
        left.unlink(missing_ok=True)


def copies(path: Path) -> list[Path]:
    """Return the damaged files that were moved aside, oldest first."""
    return sorted(
        found for found in _beside(path, "damaged-*") if not found.name.endswith(("-wal", "-shm"))
    )


def remove_copies(path: Path) -> None:
    """Remove all damaged files that were moved aside: they hold what is forgotten. Blocking."""
    for copy in copies(path):
        _remove(copy)


def take_note(connection: Connection, path: Path) -> Recovered | None:
    """Return what became of the damaged index, to be told until the next start.

    Where not all is known of what was forgotten, it is told as long as the damaged file is there.
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
    """Drop derived tables that alone are damaged; opening fills them again. Returns whether."""
    try:
        async with Database(path, extension=extension) as database:
            return await database.run(lambda c: _drop_damaged(c, problem, clock()))
    except (Error, msgspec.MsgspecError) as error:
        if fault_of(error) is Fault.SURROUNDINGS:
            raise
        return False


def _drop_damaged(connection: Connection, problem: Problem, now_s: float) -> bool:
    tables = damaged_tables(connection) or {problem.table or ""}
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
    if damaged_tables(connection):
        return False
    log.warning("%s; filled again: %s", problem.message, ", ".join(sorted(tables)))
    return True


def _cut_out(connection: Connection) -> None:
    """Take derived tables that can't even be dropped out of the schema, and their pages away.

    All of them: rows of sqlite-vec's table have no numbers that VACUUM keeps.
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
) -> Salvaged:
    """Make a new index, closed, of what can be read of the damaged one."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(Database(partial))
        await target.run(lambda c: _begin(c, workspace))
        kept = Salvaged()
        mend = finding.problem.word == "header"
        if (damaged := await _readable(path, mend, extension, stack)) is None:
            log.warning("%s: nothing can be read of it", path)
            kept.tombstones = await insert_tombstones(target, finding.tombstones or ())
        else:
            await damaged.run(lambda c: check_owner(c, workspace))
            kept = await salvage(damaged, target, finding.tombstones or ())
        kept.whole = kept.whole or finding.tombstones is not None
        why = finding.problem.message
        note = Recovered(str(copy), why, kept.embeddings, kept.tombstones, kept.whole)
        await target.run(lambda c: _commit(c, note))
    return kept


async def _readable(
    path: Path, mend: bool, extension: str | None, stack: AsyncExitStack
) -> Database | None:
    """Open a damaged file to read it: as it is, else a copy with a header as it must be."""
    if not mend and (found := await _try(path, extension, stack)) is not None:
        return found
    mended = Path(f"{path}.salvaging-copy")
    stack.callback(_remove, mended)
    await asyncio.to_thread(copy_mended, path, mended)
    return await _try(mended, extension, stack)


async def _try(path: Path, extension: str | None, stack: AsyncExitStack) -> Database | None:
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
    """Return when and why, for the name of a damaged file. Raises `FailingDiskError`."""
    now_s = clock()
    recent = [copy for copy in copies(path) if abs(now_s - _moved_at(copy)) < AGAIN_S]
    if len(recent) >= MAX_AGAIN:
        raise FailingDiskError(
            f"the index {path} is damaged again, {len(recent)} times within an hour: is the disk"
            f" failing? It is left as it is; the damaged ones are {', '.join(map(str, recent))}."
            " When the disk is in order, remove these, and it is built anew"
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


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
