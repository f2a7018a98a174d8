"""Counts of recalls in the index: their bounds, and rows that are corrupt."""

from collections.abc import Iterator

import pytest

from memoryd.index import recalls
from memoryd.index.driver import Connection, sqlite
from memoryd.index.recalls import Recall, RecalledEntry, count, forget_recalls, read


@pytest.fixture
def connection() -> Iterator[Connection]:
    opened = sqlite.connect(":memory:", isolation_level=None)
    opened.execute(recalls.TABLE)
    yield opened
    opened.close()


def recall(number: int = 0, *, question: str = "q", day: str = "2026-11-20") -> Recall:
    path = "memory/2026-11-20.md"
    return Recall(path, f"hash {number}", 3, 4, question, 0.5, 1000.0 + number, day)


def test_recalls_of_an_entry_add_up(connection: Connection) -> None:
    count(connection, [recall(day="2026-11-21"), recall(question="p")])
    count(connection, [recall()._replace(first_line=7, last_line=8, relevance=1.0, at=2000.0)])
    assert read(connection) == [
        RecalledEntry(
            "memory/2026-11-20.md",
            "hash 0",
            7,
            8,
            3,
            2.0,
            2000.0,
            ("p", "q"),
            ("2026-11-20", "2026-11-21"),
        )
    ]


def test_questions_and_days_are_bounded(connection: Connection) -> None:
    count(
        connection,
        [recall(question=f"q{n}", day=f"2026-{1 + n // 28:02}-{1 + n % 28:02}") for n in range(60)],
    )
    (entry,) = read(connection)
    assert entry.recalls == 60
    assert entry.questions == tuple(f"q{n}" for n in range(28, 60))
    assert len(entry.days) == recalls.MAX_DAYS
    assert entry.days[-1] == "2026-03-04"


def test_the_entries_recalled_last_stay(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalls, "MAX_ENTRIES", 10)
    count(connection, map(recall, range(25)))
    assert [entry.hash for entry in read(connection)] == [f"hash {n}" for n in range(24, 14, -1)]


def test_an_index_without_the_table_has_none() -> None:
    connection = sqlite.connect(":memory:")
    assert read(connection) == []
    connection.close()


@pytest.mark.parametrize(
    ("column", "value"), [("questions", "["), ("days", "[1]"), ("days", '["x"]')]
)
def test_a_corrupt_row_begins_anew(connection: Connection, column: str, value: str) -> None:
    count(connection, [recall(), recall(1)])
    connection.execute(f"UPDATE recalls SET {column} = ? WHERE hash = 'hash 0'", (value,))
    rows = connection.execute(f"SELECT {recalls.COLUMNS} FROM recalls").fetchall()
    assert [row[1] for row in recalls.valid(rows)] == ["hash 1"]
    assert [entry.hash for entry in read(connection)] == ["hash 1"]
    forget_recalls(connection, (), ["none"])
    count(connection, [recall()])
    assert {entry.hash: entry.recalls for entry in read(connection)} == {"hash 0": 1, "hash 1": 1}


def test_forgetting_by_note_and_by_question(connection: Connection) -> None:
    others = recall(2)._replace(path="memory/2026-11-21.md")
    count(connection, [recall(), recall(1, question="p"), others])
    forget_recalls(connection, ["memory/2026-11-21.md"], ["p"])
    assert [entry.hash for entry in read(connection)] == ["hash 0"]
