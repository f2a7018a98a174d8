"""Facts in a SQLite file of their own beside the index, `<index>.facts`.

The index is derived from notes: a rebuild, another model or damage replaces its file. Nobody else
has the facts, so none of this touches theirs. A removed fact is overwritten in the file at once.
"""

import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from memoryd.facts import FILE_SUFFIX
from memoryd.facts.store import FactStoreError, Vector
from memoryd.fs.atomic_replace import SIDE_FILES, remove_files, rename_over
from memoryd.index.driver import (
    BUSY_TIMEOUT_MS,
    Connection,
    Error,
    Fault,
    fault_of,
    in_words,
    one_value,
    sqlite,
    transaction,
)
from memoryd_client.schema.facts import Fact, FactCategory
from memoryd_client.schema.search import Origin
from memoryd_client.shared.humanize import counted

log = logging.getLogger(__name__)

T = TypeVar("T")
DAMAGED = ".damaged-"
VERSION = 1
APPLICATION_ID = int.from_bytes(b"memf", "big")
"""Number in the header that tells a file of facts from other databases."""

_TABLE = f"""
CREATE TABLE facts (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    importance REAL NOT NULL,
    category TEXT NOT NULL,
    created_at REAL NOT NULL,
    origin TEXT NOT NULL,
    owner TEXT NOT NULL,
    vector_key TEXT,
    embedding BLOB
) STRICT;
CREATE INDEX facts_owner ON facts (owner, created_at, id);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""
_COLUMNS = "id, text, importance, category, created_at, origin, owner"
_OF_OWNER = f"SELECT {_COLUMNS} FROM facts WHERE owner = ? ORDER BY created_at, id"
_INSERT = f"""
INSERT OR IGNORE INTO facts ({_COLUMNS}, vector_key, embedding) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs blocking work in a thread."""


class BuiltinFacts:
    """The facts of one agent. `run` runs blocking work in a thread.

    Each call opens the file anew: a daemon whose agents use no facts has no file and holds nothing.
    """

    name = "builtin"

    def __init__(self, index: Path, run: Run) -> None:
        self.path = Path(f"{index}{FILE_SUFFIX}")
        self.warnings: list[str] = []
        self._run = run
        # Nobody may use a file that another thread repairs.
        self._in_use = threading.Lock()

    async def put(self, fact: Fact, vector: Vector | None, key: str) -> None:
        """Store a fact durably; see `FactStore`."""
        row = (*_row(fact), *_embedding(vector, key))

        def work(connection: Connection) -> None:
            with transaction(connection):
                connection.execute(_INSERT, row)

        await self._write(work)

    async def all(self, owner: str) -> list[Fact]:
        """Return the facts of an owner, oldest first."""
        return await self._read(
            lambda c: [_fact(row) for row in c.execute(_OF_OWNER, (owner,))], []
        )

    async def erasable(self, owner: str) -> list[Fact]:
        """Return the facts of every owner: the file is the agent's."""
        query = f"SELECT {_COLUMNS} FROM facts ORDER BY created_at, id"
        return await self._read(lambda c: [_fact(row) for row in c.execute(query)], [])

    async def nearest(
        self, vector: Vector, key: str, owner: str, limit: int
    ) -> list[tuple[Fact, float]]:
        """Return the owner's facts with the highest cosines, best first."""
        read = partial(_nearest, vector=vector, key=key, owner=owner, limit=limit)
        return await self._read(read, [])

    async def remove(self, fact_id: str, owner: str) -> Fact | None:
        """Remove a fact, and overwrite its bytes; return it if it was there."""

        def work(connection: Connection) -> Fact | None:
            with transaction(connection):
                row = connection.execute(
                    f"DELETE FROM facts WHERE id = ? AND owner = ? RETURNING {_COLUMNS}",
                    (fact_id, owner),
                ).fetchone()
            return None if row is None else _fact(row)

        removed = await self._read(work, None)
        if removed is not None:
            await self._guarded(self._remove_copies)
        return removed

    async def missing(self, key: str, limit: int) -> tuple[list[Fact], int]:
        """Return facts without a vector of this key, and the number of all such."""
        without = "FROM facts WHERE vector_key IS NOT ?"

        def work(connection: Connection) -> tuple[list[Fact], int]:
            query = f"SELECT {_COLUMNS} {without} ORDER BY row_id LIMIT ?"
            rows = connection.execute(query, (key, limit)).fetchall()
            return [_fact(row) for row in rows], one_value(
                connection, f"SELECT count(*) {without}", key
            )

        return await self._read(work, ([], 0))

    async def embed(self, vectors: Mapping[str, Vector], key: str) -> None:
        """Give facts, by their id, their vectors."""
        rows = [(*_embedding(vector, key), fact_id) for fact_id, vector in vectors.items()]

        def work(connection: Connection) -> None:
            with transaction(connection):
                connection.executemany(
                    "UPDATE facts SET vector_key = ?, embedding = ? WHERE id = ?", rows
                )

        await self._write(work)

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await self._guarded(partial(self._repaired, work))

    async def _read(self, work: Callable[[Connection], T], empty: T) -> T:
        """Run work that needs facts; without a file, return `empty` and create none."""
        return await self._guarded(lambda: self._repaired(work) if self.path.exists() else empty)

    def _repaired(self, work: Callable[[Connection], T]) -> T:
        """Run work on a connection, and again if the file is corrupt and was repaired. Blocking."""
        with self._in_use:
            try:
                with _opened(self.path) as connection:
                    return work(connection)
            except Error as error:
                if fault_of(error) is not Fault.CORRUPT:
                    raise
                self._repair(error)
            with _opened(self.path) as connection:
                return work(connection)

    async def _guarded(self, work: Callable[[], T]) -> T:
        try:
            found: T = await self._run(work)
        except (Error, OSError) as error:
            raise FactStoreError(
                f"the facts in {self.path} can't be used: {error}",
                "check the disk and the file's permissions, then try again",
            ) from error
        return found

    def _repair(self, error: Exception) -> None:
        """Move a corrupt file aside and keep its readable facts. Blocking."""
        aside, fresh = Path(f"{self.path}{DAMAGED}{time.time_ns()}"), Path(f"{self.path}.new")
        remove_files(fresh, "", *SIDE_FILES)
        rows: list[tuple[Any, ...]] = []
        with suppress(Error), closing(_connect(self.path)) as source:
            rows = _readable(source)
        with _opened(fresh) as target, transaction(target):
            target.executemany(_INSERT, rows)
        os.link(self.path, aside)
        remove_files(self.path, *SIDE_FILES)
        rename_over(fresh, self.path)
        self.warnings = [
            f"the facts were corrupt ({error}); {counted(len(rows), 'fact')} could be read and"
            f" stayed; the corrupt file is {aside}"
        ]
        log.error("%s", self.warnings[0])

    def _remove_copies(self) -> None:
        """Remove corrupt files, which may have the text of a removed fact. Blocking."""
        for copy in copies(self.path):
            copy.unlink(missing_ok=True)
            self.warnings = []


def copies(path: Path) -> list[Path]:
    """Return the corrupt files of facts that were moved aside, oldest first."""
    return sorted(path.parent.glob(f"{path.name}{DAMAGED}*"))


@contextmanager
def _opened(path: Path) -> Iterator[Connection]:
    """Open a file of facts, which is created if it is missing. Raises `FactStoreError`."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with closing(_connect(path)) as connection, in_words():
        if _is_blank(connection):
            with transaction(connection):
                # Another process may have created the table meanwhile.
                for statement in _TABLE.split(";\n") if _is_blank(connection) else ():
                    connection.execute(statement)
        elif one_value(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise FactStoreError(f"{path} has no facts of memoryd", "move the file away")
        elif one_value(connection, "PRAGMA user_version") > VERSION:
            raise FactStoreError(
                f"{path} was written by a newer memoryd", "upgrade memoryd, or move the file away"
            )
        yield connection


def _is_blank(connection: Connection) -> bool:
    return not (
        one_value(connection, "PRAGMA user_version")
        or one_value(connection, "SELECT count(*) FROM sqlite_schema")
    )


def _connect(path: Path) -> Connection:
    connection: Connection = sqlite.connect(str(path), isolation_level=None)
    # Deleted and replaced rows are overwritten, and the rollback journal is removed with the old
    # content; a write-ahead log would keep it.
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "secure_delete = ON",
        "temp_store = MEMORY",
        "synchronous = FULL",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _nearest(
    connection: Connection, *, vector: Vector, key: str, owner: str, limit: int
) -> list[tuple[Fact, float]]:
    query = "SELECT row_id, embedding FROM facts WHERE owner = ? AND vector_key = ?"
    rows = connection.execute(query, (owner, key)).fetchall()
    good = [(row_id, blob) for row_id, blob in rows if len(blob) == 4 * len(vector)]
    if not good:
        return []
    matrix = np.frombuffer(b"".join(blob for _, blob in good), "<f4").reshape(len(good), -1)
    cosines = matrix @ vector
    found = []
    for at in np.argsort(-cosines, kind="stable")[:limit]:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM facts WHERE row_id = ?", (good[at][0],)
        ).fetchone()
        found.append((_fact(row), float(cosines[at])))
    return found


def _readable(connection: Connection) -> list[tuple[Any, ...]]:
    """Return the readable rows of a corrupt file, from both sides of an unreadable page."""
    found: dict[str, tuple[Any, ...]] = {}
    for order in (
        "ORDER BY row_id",
        "ORDER BY row_id DESC",
        "ORDER BY owner, created_at",
        "ORDER BY owner DESC, created_at DESC",
    ):
        with suppress(Error, UnicodeDecodeError):
            query = f"SELECT {_COLUMNS}, vector_key, embedding FROM facts {order}"
            for row in connection.execute(query):
                if _is_fact(row):
                    found.setdefault(row[0], row)
    return list(found.values())


def _is_fact(row: tuple[Any, ...]) -> bool:
    kinds = (str, str, float, str, float, str, str, str | None, bytes | None)
    return (
        all(map(isinstance, row, kinds))
        and row[3] in get_args(FactCategory)
        and row[5] in list(Origin)
    )


def _row(fact: Fact) -> tuple[Any, ...]:
    return (
        *(fact.id, fact.text, float(fact.importance), fact.category),
        *(float(fact.created_at), str(fact.origin), fact.owner),
    )


def _fact(row: tuple[Any, ...]) -> Fact:
    fact_id, text, importance, category, created_at, origin, owner = row
    return Fact(fact_id, text, importance, category, created_at, Origin(origin), owner)


def _embedding(vector: Vector | None, key: str) -> tuple[str | None, bytes | None]:
    return (None, None) if vector is None else (key, vector.astype("<f4").tobytes())
