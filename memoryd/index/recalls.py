"""Records of what searches of agents returned: how often each entry of a dated note, and when.

A row has neither the text of an entry nor a question, only keyed hashes of both.
"""

from collections.abc import Collection, Iterable
from datetime import date
from typing import NamedTuple

import msgspec

from memoryd.index.driver import Connection, one_value, transaction

MAX_ENTRIES = 2_000
"""Entries that are counted; those that were recalled last stay."""
MAX_QUESTIONS, MAX_DAYS = 32, 16
"""Hashes of questions and days that are kept for an entry, the latest ones."""
TABLE = """
CREATE TABLE IF NOT EXISTS recalls (
    path TEXT NOT NULL,
    hash TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    recalls INTEGER NOT NULL,
    total REAL NOT NULL,
    last_at REAL NOT NULL,
    questions TEXT NOT NULL,
    days TEXT NOT NULL,
    promoted_at REAL,
    PRIMARY KEY (path, hash)
) STRICT, WITHOUT ROWID
"""
"""The version of the index stays: any memoryd reads an index with this table or without it."""
COLUMNS = "path, hash, first_line, last_line, recalls, total, last_at, questions, days, promoted_at"


class Recall(NamedTuple):
    """One entry of a note in one answer.

    `hash` and `question` are keyed hashes of its place and text, and of what was asked. `relevance`
    is 0 to 1, `at` Unix time, `day` the local day, `YYYY-MM-DD`.
    """

    path: str
    hash: str
    first_line: int
    last_line: int
    question: str
    relevance: float
    at: float
    day: str


class RecalledEntry(msgspec.Struct, frozen=True, array_like=True):
    """All recalls of an entry. `total` is the sum of their relevance; `days` are in order.

    The lines are those at the last recall. `promoted_at` is the Unix time at which the entry was
    added to MEMORY.md, None if it was not.
    """

    path: str
    hash: str
    first_line: int
    last_line: int
    recalls: int
    total: float
    last_at: float
    questions: tuple[str, ...]
    days: tuple[str, ...]
    promoted_at: float | None = None


def count(connection: Connection, recalls: Iterable[Recall]) -> None:
    """Count recalls within the caller's transaction, and remove entries beyond `MAX_ENTRIES`."""
    for recall in recalls:
        known = _find(connection, recall)
        questions = _latest(known.questions if known else (), recall.question, MAX_QUESTIONS)
        days = _latest(known.days if known else (), recall.day, MAX_DAYS)
        _put(
            connection,
            RecalledEntry(
                recall.path,
                recall.hash,
                recall.first_line,
                recall.last_line,
                (known.recalls if known else 0) + 1,
                (known.total if known else 0.0) + recall.relevance,
                recall.at,
                questions,
                tuple(sorted(days)),
                known.promoted_at if known else None,
            ),
        )
    connection.execute(
        "DELETE FROM recalls WHERE (path, hash) IN (SELECT path, hash FROM recalls"
        " ORDER BY last_at DESC, path, hash LIMIT -1 OFFSET ?)",
        (MAX_ENTRIES,),
    )


def read(connection: Connection) -> list[RecalledEntry]:
    """Return all entries, the last recalled ones first; none from an index without the table."""
    if not one_value(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'recalls'"):
        return []
    rows = connection.execute(f"SELECT {COLUMNS} FROM recalls ORDER BY last_at DESC, path, hash")
    return [entry for row in rows.fetchall() if (entry := _decoded(row)) is not None]


def note_promoted(connection: Connection, path: str, digest: str, at: float) -> None:
    """Record that an entry was added to MEMORY.md."""
    with transaction(connection):
        connection.execute(
            "UPDATE recalls SET promoted_at = ? WHERE path = ? AND hash = ?", (at, path, digest)
        )


def forget_recalls(
    connection: Connection, paths: Collection[str], questions: Collection[str]
) -> None:
    """Remove the entries of some notes, and those that one of some questions found."""
    with transaction(connection):
        connection.executemany("DELETE FROM recalls WHERE path = ?", [(path,) for path in paths])
        connection.executemany(
            "DELETE FROM recalls WHERE json_valid(questions) AND EXISTS"
            " (SELECT 1 FROM json_each(questions) WHERE json_each.value = ?)",
            [(question,) for question in questions],
        )


def valid(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return the rows of a corrupt index that can be kept."""
    return [row for row in rows if _decoded(row) is not None]


def _find(connection: Connection, recall: Recall) -> RecalledEntry | None:
    row = connection.execute(
        f"SELECT {COLUMNS} FROM recalls WHERE path = ? AND hash = ?", (recall.path, recall.hash)
    ).fetchone()
    return None if row is None else _decoded(row)


def _put(connection: Connection, entry: RecalledEntry) -> None:
    values = msgspec.structs.astuple(entry)
    lists = [msgspec.json.encode(values[at]).decode() for at in (7, 8)]
    connection.execute(
        f"INSERT OR REPLACE INTO recalls ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values[:7], *lists, values[9]),
    )


def _decoded(row: tuple[object, ...]) -> RecalledEntry | None:
    """Return the entry of a row, None if the row is corrupt."""
    try:
        lists = [msgspec.json.decode(str(value)) for value in row[7:9]]
        entry = msgspec.convert([*row[:7], *lists, *row[9:]], RecalledEntry)
        list(map(date.fromisoformat, entry.days))
    except (msgspec.MsgspecError, ValueError):
        return None
    return entry


def _latest(known: tuple[str, ...], new: str, most: int) -> tuple[str, ...]:
    """Return the known values with a new one at the end, without the oldest beyond `most`."""
    return (*(value for value in known if value != new), new)[-most:]
