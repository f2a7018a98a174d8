"""Salvage of data from a corrupt index that can't be rebuilt from the files.

These data are embeddings, which cost money; tombstones, so that forgotten transcripts stay away;
batch jobs; recalls; and the choice of the provider. Unreadable pages are skipped, and rows are
validated before they are copied.
"""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from memoryd.identity import Choice, Identity
from memoryd.index import recalls, schema
from memoryd.index.driver import Connection, Database, Error
from memoryd.index.forget import HASHED_KINDS, KINDS, Tombstone
from memoryd.index.quantize import is_embedding, of_any_version
from memoryd.index.repair.checks import is_hash, is_near, is_unit_vector

READ_ROWS = 256
_TRIES = 2_000_000
"""Maximum single reads of unreadable rows: a few seconds."""
_LEAST_ROW_BYTES = 128
_CACHE = "provider, model, provider_key, hash, dims, embedding, used_at"
_JOBS = "key, provider, model, provider_key, created_at, attempts, remote_id, hashes"
_CACHE_TYPES = (str, str, str, str, int, bytes, int)
_JOB_TYPES = (str, str, str, str, float, int, str | None, str)

SalvagedRow = tuple[Any, ...]


@dataclass(slots=True)
class Salvaged:
    """Counts of salvaged data. `whole`: all tombstones are known."""

    embeddings: int = 0
    jobs: int = 0
    tombstones: int = 0
    whole: bool = False


def check_owner(connection: Connection, workspace: Path) -> None:
    """Raise `IndexRefusedError` for an index of another workspace or a newer memoryd."""
    with suppress(Error):
        version = schema.version_of(connection)
        if schema.VERSION < version < 256:
            raise schema.newer(version)
    with suppress(Error):
        owner = schema.get_note(connection, "workspace")
        if owner not in (None, str(workspace)):
            raise schema.of_another(owner, workspace)


async def salvage(
    source: Database, target: Database, tombstones: Collection[Tombstone]
) -> Salvaged:
    """Copy the readable data of a corrupt index into a new one.

    `tombstones` are known from memory. Unreadable data is left out; errors of the new index are
    raised. Call it within a transaction of the new index.
    """
    found, whole = await source.run(_read_tombstones)
    found |= set(tombstones)
    await insert_tombstones(target, found)
    await _insert(target, "meta", 2, await source.run(_read_meta))
    await _insert(target, "set_aside", 2, sorted(await source.run(_read_set_aside)))
    counted, _ = await source.run(partial(_scan, query=f"SELECT {recalls.COLUMNS} FROM recalls"))
    await _insert(target, "recalls", recalls.COLUMNS.count(",") + 1, recalls.valid(counted))
    return Salvaged(
        await _copy_rows(source, target, "embedding_cache", "vector_id", _CACHE, _good_cached),
        await _copy_rows(source, target, "batch_jobs", "rowid", _JOBS, _good_jobs),
        len(found),
        whole,
    )


async def insert_tombstones(target: Database, tombstones: Collection[Tombstone]) -> int:
    """Insert tombstones. Returns their number."""
    await _insert(target, "forgotten", 2, sorted(tombstones))
    return len(tombstones)


def open_to_salvage(connection: Connection) -> None:
    """Allow reads of a corrupt file. Raises the driver's error if nothing is readable."""
    # Without this, SQLite refuses a file that is shorter than its header says.
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _read_meta(connection: Connection) -> list[SalvagedRow]:
    good: list[SalvagedRow] = []
    for key, type_ in (("identity", Identity), ("choice", Choice)):
        rows, _ = _scan(connection, "SELECT key, value FROM meta WHERE key = ?", (key,))
        with suppress(msgspec.MsgspecError, TypeError):
            good += [row for row in rows if msgspec.json.decode(row[1], type=type_)]
    return good


def _read_tombstones(connection: Connection) -> tuple[set[Tombstone], bool]:
    """Return the readable tombstones, and whether they are complete."""
    query = "SELECT kind, value FROM forgotten"
    rows, whole = _scan(connection, query)
    with suppress(Error):
        if schema.version_of(connection) == 1:
            return set(), True  # version 1 had no `forget`
    with suppress(Error):
        whole = whole and _is_sound(connection, "forgotten")
    if not whole:
        for kind in KINDS:
            for order in ("ASC", "DESC"):
                one = f"{query} WHERE kind = ? ORDER BY value {order}"
                rows += _scan(connection, one, (kind,))[0]
            for start, end in _prefixes():
                between = f"{query} WHERE kind = ? AND value >= ? AND value < ?"
                rows += _scan(connection, between, (kind, start, end))[0]
    good = {row for row in rows if _is_tombstone(row)}
    return good, whole and len(good) == len(set(rows))


def _read_set_aside(connection: Connection) -> set[tuple[str, str]]:
    query = "SELECT hash, reason FROM set_aside"
    rows, whole = _scan(connection, query)
    if not whole:
        rows += _scan(connection, f"{query} ORDER BY hash DESC")[0]
        for start, end in _prefixes():
            rows += _scan(connection, f"{query} WHERE hash >= ? AND hash < ?", (start, end))[0]
    return {row for row in rows if is_hash(row[0]) and isinstance(row[1], str)}


def _prefixes() -> Iterable[tuple[str, str]]:
    """Yield bounds that divide hashes, so that a bad page hides only its neighbours."""
    for first, second in product("0123456789abcdef", repeat=2):
        yield first + second, first + second + "g"


def _scan(
    connection: Connection, query: str, parameters: SalvagedRow = ()
) -> tuple[list[SalvagedRow], bool]:
    """Return the rows before the first unreadable one, and whether all could be read."""
    rows: list[SalvagedRow] = []
    with suppress(Error):
        for row in connection.execute(query, parameters):
            rows.append(row)
        return rows, True
    return rows, False


def _is_sound(connection: Connection, table: str) -> bool:
    return bool(connection.execute(f"PRAGMA integrity_check({table})").fetchall() == [("ok",)])


async def _copy_rows(
    source: Database,
    target: Database,
    table: str,
    key: str,
    columns: str,
    good: Callable[[Connection, list[SalvagedRow]], list[SalvagedRow]],
) -> int:
    """Copy the valid rows of a table, read by id. Returns the number of new rows."""
    last = await source.run(partial(_last_id, table=table, key=key, path=source.path))
    query = f"SELECT {key}, {columns} FROM {table} WHERE {key} > ? AND {key} <= ? ORDER BY {key}"
    after = lost = kept = 0

    def read(connection: Connection) -> list[SalvagedRow]:
        nonlocal after, lost
        rows, after, unreadable = read_span(connection, query, after, last)
        lost += unreadable
        return good(connection, rows)

    while after < last and lost < _TRIES:
        rows = await source.run(read)
        kept += await _insert(target, f"{table} ({columns})", columns.count(",") + 1, rows)
    return kept


def _last_id(connection: Connection, table: str, key: str, path: Path) -> int:
    """Return an upper bound of the row ids, as far as it can be read."""
    found = [0]
    for query, parameters in (
        (f"SELECT max({key}) FROM {table}", ()),
        ("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)),
    ):
        with suppress(Error):
            row = connection.execute(query, parameters).fetchone()
            if row is not None and isinstance(row[0], int):
                found.append(row[0])
    if max(found) == 0:
        rows, whole = _scan(connection, f"SELECT {key} FROM {table} LIMIT 1")
        # The last page is unreadable: estimate from the file's size and the smallest row.
        found.append(0 if whole and not rows else path.stat().st_size // _LEAST_ROW_BYTES)
    return max(found)


def read_span(
    connection: Connection, query: str, after: int, last: int
) -> tuple[list[SalvagedRow], int, int]:
    """Read the next rows by id, skipping unreadable ones.

    Returns them with the id reached and the number of unreadable ids, with or without a row.
    """
    rows, whole = _scan(connection, f"{query} LIMIT {READ_ROWS}", (after, last))
    lost = 0
    if whole:
        reached = rows[-1][0] if len(rows) == READ_ROWS else last
    else:
        reached = min(last, after + READ_ROWS)
        rows, lost = _read_halves(connection, query, after, reached)
    # A corrupt page may contain any id: never go back.
    reached = min(last, max(after + 1, reached)) if isinstance(reached, int) else after + READ_ROWS
    return rows, reached, lost


def _read_halves(
    connection: Connection, query: str, after: int, last: int
) -> tuple[list[SalvagedRow], int]:
    rows, whole = _scan(connection, f"{query} LIMIT {last - after}", (after, last))
    if whole:
        return rows, 0
    if last - after <= 1:
        return [], 1
    middle = (after + last) // 2
    lower, lost = _read_halves(connection, query, after, middle)
    upper, lost_too = _read_halves(connection, query, middle, last)
    return lower + upper, lost + lost_too


async def _insert(target: Database, into: str, width: int, rows: list[SalvagedRow]) -> int:
    """Insert rows that do not exist yet. Returns their number."""
    if not rows:
        return 0
    statement = f"INSERT OR IGNORE INTO {into} VALUES ({', '.join('?' * width)})"
    return await target.run(lambda c: int(c.executemany(statement, rows).rowcount))


def _good_cached(connection: Connection, rows: list[SalvagedRow]) -> list[SalvagedRow]:
    """Return valid embeddings that match sqlite-vec's copy where there is one.

    They count as used now, because the chunks that use them are not in the new index yet.
    """
    good: list[SalvagedRow] = []
    for vector_id, *values in rows:
        digest, dims, embedding, _ = values[3:]
        if not (all(map(isinstance, values, _CACHE_TYPES)) and is_hash(digest)):
            continue
        stored = of_any_version(embedding, dims, digest)
        if not is_embedding(stored, dims, digest):
            continue
        query = "SELECT embedding FROM chunks_vec WHERE rowid = ?"
        for (other,) in _scan(connection, query, (vector_id,))[0]:
            if is_unit_vector(other, dims) and not is_near(stored, dims, other):
                break
        else:
            good.append((*values[:-2], stored, int(time.time())))
    return good


def _good_jobs(connection: Connection, rows: list[SalvagedRow]) -> list[SalvagedRow]:
    return [row[1:] for row in rows if _is_job(row[1:])]


def _is_tombstone(row: SalvagedRow) -> bool:
    kind, value = row
    return kind in KINDS and bool(value) and (kind not in HASHED_KINDS or is_hash(value))


def _is_job(job: SalvagedRow) -> bool:
    with suppress(msgspec.MsgspecError):
        if all(map(isinstance, job, _JOB_TYPES)):
            return all(map(is_hash, msgspec.json.decode(job[-1], type=list[str])))
    return False
