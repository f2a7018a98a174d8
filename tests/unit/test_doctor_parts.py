"""The doctor's parts: messages, opening an index, and checks of the machine."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memoryd.doctor import comparing, limits
from memoryd.doctor.agent import check_leftovers
from memoryd.doctor.disk import Difference, Differences, What, changed_since
from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.reading import ChangedError, opened
from memoryd.doctor.running import RunningDaemon, StartOptions, started
from memoryd.index.driver import Connection, sqlite
from memoryd.messages import FileKey
from memoryd_client import Client
from memoryd_client.shared.humanize import counted
from memoryd_client.shared.lock_holder import Holder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "main.sqlite"
    with writing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (text)")
    return path


@contextmanager
def writing(path: Path) -> Iterator[Connection]:
    connection = sqlite.connect(str(path), isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def notes(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM notes").fetchone()[0])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Messages


def test_of_many_names_some_are_given_and_all_are_counted() -> None:
    assert not Tally()
    assert str(Tally("ab")) == "a, b"
    assert str(Tally("abcdefgh")) == "a, b, c, d, e and 3 more"
    assert (counted(1, "file"), counted(0, "file")) == ("1 file", "0 files")


def test_what_is_fine_is_said_only_if_nothing_else_is() -> None:
    assert [found.level for found in Topic("x").fine("well")] == ["ok"]
    topic = Topic("x", "main")
    topic.warning("tired", "sleep")
    (found,) = topic.fine("well")
    assert (found.level, found.message, found.fix, found.agent) == (
        "warning",
        "tired",
        "sleep",
        "main",
    )


# Opening an index


def test_an_index_at_rest_is_read_without_a_trace(index: Path) -> None:
    before = names(index.parent)
    with opened(index, None) as connection:
        assert notes(connection) == 0
        assert names(index.parent) == before
        with pytest.raises(sqlite.OperationalError, match="readonly"):
            connection.execute("INSERT INTO notes VALUES ('x')")
    assert names(index.parent) == before


def test_what_is_still_in_the_log_is_read(index: Path) -> None:
    with writing(index) as connection:
        connection.execute("INSERT INTO notes VALUES ('x')")
        assert Path(f"{index}-wal").stat().st_size
        with opened(index, None) as reading:
            assert notes(reading) == 1


def test_a_log_without_its_shared_file_gets_none(index: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "main.sqlite"
    copy.parent.mkdir()
    with writing(index) as connection:
        connection.execute("INSERT INTO notes VALUES ('x')")
        for suffix in ("", "-wal"):
            Path(f"{copy}{suffix}").write_bytes(Path(f"{index}{suffix}").read_bytes())
    with opened(copy, None) as reading:
        assert notes(reading) == 1
    assert names(copy.parent) == ["main.sqlite", "main.sqlite-wal"]


def test_what_was_written_to_meanwhile_is_looked_at_again(index: Path) -> None:
    with pytest.raises(ChangedError), opened(index, None), writing(index) as connection:
        connection.execute("INSERT INTO notes VALUES ('x')")


def test_what_was_replaced_meanwhile_is_looked_at_again(index: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(index.read_bytes())
    with pytest.raises(ChangedError), opened(index, None):
        other.replace(index)


def test_an_error_of_what_was_replaced_meanwhile_counts_for_nothing(
    index: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(index.read_bytes())

    def look() -> None:
        with opened(index, None) as connection:
            other.replace(index)
            connection.execute("SELECT * FROM nowhere")

    with pytest.raises(ChangedError):
        look()


def test_bytes_that_are_no_text_are_read_all_the_same(index: Path) -> None:
    with writing(index) as connection:
        connection.execute("INSERT INTO notes VALUES (CAST(x'ff61' AS TEXT))")
    with opened(index, None) as reading:
        assert reading.execute("SELECT text FROM notes").fetchone() == ("\ufffda",)


# The machine


def test_fewer_watches_than_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_INOTIFY", tmp_path)
    topic = Topic("limits")
    limits.check_watches(topic, 10_000, 1)
    assert topic.findings == []  # not reported, as on macOS
    (tmp_path / "max_user_watches").write_text("8192\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    limits.check_watches(topic, 8_192, 128)
    assert topic.findings == []
    limits.check_watches(topic, 8_193, 129)
    assert [finding.message for finding in topic.findings] == [
        "max_user_watches is 8192, and 8193 are needed",
        "max_user_instances is 128, and 129 are needed",
    ]


def test_a_log_that_is_never_written_back(index: Path) -> None:
    topic = Topic("limits")
    with Path(f"{index}-wal").open("wb") as log:
        log.truncate(limits.LOG_BYTES)
    limits.check_log(topic, index)
    assert topic.findings == []
    os.truncate(f"{index}-wal", limits.LOG_BYTES + 1)
    limits.check_log(topic, index)
    (finding,) = topic.findings
    assert finding.message == f"the write-ahead log of {index} has grown to 256 MiB"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    topic = Topic("limits")
    limits.check_name(topic, tmp_path / f"{'n' * 204}.sqlite")
    assert topic.findings == []
    limits.check_name(topic, tmp_path / f"{'n' * 205}.sqlite")
    assert len(topic.findings) == 1


# Files


def test_only_what_is_beside_an_index_is_named(tmp_path: Path) -> None:
    for name in ("main.sqlite", "main.sqlite-wal", "main.sqlite.lock", "main.sqlite2", "x.sqlite"):
        (tmp_path / name).touch()
    topic = Topic("daemon")
    check_leftovers(topic, tmp_path / "main.sqlite", running=False, rebuilding=False)
    assert topic.findings == []
    check_leftovers(topic, tmp_path / "gone.sqlite", running=False, rebuilding=False)
    assert topic.findings == []
    (tmp_path / "gone.sqlite-wal").touch()
    check_leftovers(topic, tmp_path / "gone.sqlite", running=False, rebuilding=False)
    assert [finding.level for finding in topic.findings] == ["error"]


def test_what_has_changed_since(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note.md").touch()
    changed_ns = (folder / "note.md").stat().st_ctime_ns
    assert changed_since(folder / "note.md", changed_ns)
    assert not changed_since(folder / "note.md", changed_ns + 1)
    # The folder of a deleted file has the time of the change, and so has the parent of a folder.
    for path in (folder / "gone.md", folder / "gone/note.md"):
        assert changed_since(path, folder.stat().st_ctime_ns)
        assert not changed_since(path, folder.stat().st_ctime_ns + 1)


class Comparison:
    """The differences that a series of comparisons finds."""

    def __init__(self, *looks: Differences) -> None:
        self.problems: list[str] = []
        self.looks = list(looks)

    def compare(self, only: Differences | None = None) -> Differences:
        return self.looks.pop(0)


@pytest.mark.parametrize(
    ("what", "looks", "is_new", "problem", "level", "syncs"),
    [
        ("new", 1, False, None, None, 2),
        ("new", 2, False, None, None, 3),
        ("new", 3, False, None, None, 4),
        ("new", 4, False, None, "error", 4),
        ("wrong", 4, False, None, "error", 4),
        ("new", 3, True, None, "warning", 3),
        ("new", 1, False, "the disk is full", "warning", 1),
        ("unreadable", 3, False, None, "warning", 3),
    ],
)
def test_what_differs_is_looked_at_again_behind_a_sync(
    what: What,
    looks: int,
    is_new: bool,
    problem: str | None,
    level: str | None,
    syncs: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = tmp_path / "note.md"
    note.touch()
    os.utime(note, ns=(0, 2**62 if is_new else 0))
    monkeypatch.setattr(time, "time_ns", lambda: 2**61)
    synced: list[str] = []

    def in_sync(daemon: RunningDaemon, agent: str) -> str | None:
        synced.append(agent)
        return problem

    monkeypatch.setattr(comparing, "in_sync", in_sync)
    differs = {FileKey("memory", "note.md"): Difference(what, note)}
    comparison = Comparison(*[differs] * looks, {})
    topic = Topic("disk")
    daemon = RunningDaemon(Client("/nowhere"), 1, None, {})
    comparing.Settling(topic, daemon, "main").settle(comparison, "note")
    assert [finding.level for finding in topic.findings] == ([] if level is None else [level])
    assert len(synced) == syncs


# The daemon's command line


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"config": "/w/c.toml", "agent": "a", "log-level": "info"},
            StartOptions(Path("/w/c.toml"), "a", None, Path("/w")),
        ),
        ({"workspace": "/notes"}, StartOptions(None, None, Path("/notes"), Path("/w"))),
        ({}, StartOptions(cwd=Path("/w"))),
        (None, StartOptions(cwd=Path("/w"))),
    ],
)
def test_what_a_daemon_was_told(options: dict[str, str] | None, expected: StartOptions) -> None:
    assert started(Holder(1, "/w", options=options)) == expected


def test_a_file_written_just_before_the_doctor_ran_is_no_excuse(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.touch()
    differs = {FileKey("memory", "note.md"): Difference("wrong", note)}
    topic = Topic("disk")
    comparing.Settling(topic, None, "main").settle(Comparison(differs, differs), "note")
    assert [finding.level for finding in topic.findings] == ["error"]
