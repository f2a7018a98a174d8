"""The writer of notes: local days, the journal, and files that can't be written."""

import errno
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memoryd.chunk.provenance import provenance, without_provenance
from memoryd.fs import change_file
from memoryd.source.notes import journal as journal_module
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.journal import NoteJournal
from memoryd.source.notes.write import NoteWriter
from memoryd_client.schema.notes import NoteBody

Make = Callable[..., NoteWriter]


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        return self.now


ZONES = [
    "Australia/Lord_Howe",  # its clocks change by half an hour
    *(pytest.param(zone, marks=pytest.mark.long) for zone in ("Europe/Berlin", "America/New_York")),
]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Make:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)

    def writer(zone: str = "UTC") -> NoteWriter:
        return NoteWriter(
            Discovery(workspace, ()),
            NoteJournal(tmp_path / "main.sqlite.notes"),
            lock=tmp_path / "state" / "notes.lock",
            mask=str,
            zone=ZoneInfo(zone),
            clock=clock,
        )

    return writer


@pytest.mark.parametrize("zone", ZONES)
def test_each_note_of_a_year_is_in_the_file_of_its_local_day(
    make: Make, clock: Clock, tmp_path: Path, zone: str
) -> None:
    writer, local = make(zone), ZoneInfo(zone)
    at = datetime(2026, 1, 1, tzinfo=local).astimezone(UTC)
    until = datetime(2027, 1, 1, tzinfo=local).astimezone(UTC)
    written: dict[str, int] = {}
    while at < until:
        # Around midnight, and in the hours in which the clocks change.
        for minutes in (1, 90, 150, 12 * 60, 23 * 60 + 58):
            moment = at + timedelta(minutes=minutes)
            clock.now = moment.timestamp()
            placed, _ = writer.write(NoteBody(f"at {moment.isoformat()}"))
            day = moment.astimezone(local).date().isoformat()
            assert placed.note.path == f"memory/{day}.md"
            written[day] = written.get(day, 0) + 1
        at = datetime.fromisoformat(f"{at.astimezone(local).date()}").replace(tzinfo=local)
        at = (at + timedelta(days=1)).astimezone(UTC)
    files = sorted((tmp_path / "workspace" / "memory").iterdir())
    counted = {file.stem: file.read_text().count("\n- at ") for file in files}
    assert counted == written
    assert len(written) in (365, 366)
    assert writer.lost() == []


def session_lines(note_id: str, observed: str) -> list[str]:
    comment = provenance({"id": note_id, "observed": observed})
    return [f"- User: hello {comment}"]


@pytest.mark.parametrize("zone", ZONES)
def test_each_session_note_of_a_year_is_named_for_its_local_minute(
    make: Make, tmp_path: Path, zone: str
) -> None:
    writer, local = make(zone), ZoneInfo(zone)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    expected: dict[str, int] = {}
    for number in range(4 * 366):
        moment = at + timedelta(hours=6 * number, minutes=30 * (number % 12))
        placed = writer.write_session(f"session {number}", moment.timestamp(), session_lines)
        assert placed is not None
        minute = f"{moment.astimezone(local):%Y-%m-%d-%H%M}"
        expected[minute] = expected.get(minute, 0) + 1
        suffix = f"-{expected[minute]}" if expected[minute] > 1 else ""
        assert placed.note.path == f"memory/{minute}{suffix}.md"
        (_, _, line) = placed.path.read_text().splitlines()
        stated = datetime.fromisoformat(line.partition("observed=")[2].partition(" ")[0])
        assert stated == moment
        assert stated.utcoffset() == moment.astimezone(local).utcoffset()
    assert writer.lost() == []


def test_a_repeated_hour_has_two_session_notes(make: Make, tmp_path: Path) -> None:
    writer = make("Europe/Berlin")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    for number in (0, 1):  # the clock shows half past two twice
        writer.write_session(f"session {number}", first + 3_600 * number, session_lines)
    files = sorted((tmp_path / "workspace" / "memory").iterdir())
    assert [file.name for file in files] == ["2026-10-25-0230-2.md", "2026-10-25-0230.md"]


def test_a_session_note_is_written_once_after_any_crash(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CrashError(BaseException):
        pass

    def crash(*arguments: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr("memoryd.source.notes.write.append", crash)
        with pytest.raises(CrashError):
            make().write_session("s", 0.0, session_lines)
    assert make().lost() == []
    first = make().write_session("s", 0.0, session_lines)
    again = make().write_session("s", 60.0, session_lines)
    assert first is not None
    assert again is not None
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.path == first.path
    assert [note.id for note in make().noted()] == [first.note.id]
    assert len(list((tmp_path / "workspace" / "memory").iterdir())) == 1


@pytest.mark.parametrize("written", [0, 20])
def test_a_session_note_is_completed_after_a_crash_in_its_file(
    make: Make, tmp_path: Path, written: int
) -> None:
    placed = make().write_session("s", 0.0, session_lines)
    assert placed is not None
    whole = placed.path.read_text()
    placed.path.write_text(whole[:written])
    again = make().write_session("s", 60.0, session_lines)
    assert again is not None
    assert again.note.id == placed.note.id
    assert [path.read_text() for path in placed.path.parent.iterdir()] == [whole]


def test_a_session_note_never_replaces_a_file(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir()
    (folder / "1970-01-01-0000.md").write_text("mine\n")
    (folder / "1970-01-01-0000-2.md").symlink_to("nowhere.md")
    placed = make().write_session("s", 0.0, session_lines)
    assert placed is not None
    assert placed.note.path == "memory/1970-01-01-0000-3.md"
    assert (folder / "1970-01-01-0000.md").read_text() == "mine\n"
    assert make().write_session("t", 0.0, lambda note_id, observed: []) is None


def test_a_full_disk_leaves_no_session_note(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("memoryd.fs.change_file.os.write", full)
        with pytest.raises(OSError, match="No space left"):
            make().write_session("s", 0.0, session_lines)
    assert list((tmp_path / "workspace" / "memory").iterdir()) == []
    assert make().noted() == []
    assert make().write_session("s", 0.0, session_lines) is not None


def test_the_same_note_is_written_again_after_a_day(make: Make, clock: Clock) -> None:
    writer = make()
    first, _ = writer.write(NoteBody("Ana", file="MEMORY.md"))
    clock.now += 86_399
    assert writer.write(NoteBody("Ana"))[0] == first._replace(duplicate=True)
    clock.now += 1
    assert writer.write(NoteBody("Ana", file="MEMORY.md"))[0].citation == "MEMORY.md#L2"


def test_a_note_that_is_gone_is_written_again(make: Make, tmp_path: Path) -> None:
    writer = make()
    writer.write(NoteBody("Ana", file="MEMORY.md"))
    (tmp_path / "workspace" / "MEMORY.md").write_text("")
    assert not writer.write(NoteBody("Ana", file="MEMORY.md"))[0].duplicate


def test_a_crash_before_the_file_leaves_nothing_to_report(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CrashError(BaseException):
        pass

    def crash(*arguments: object) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr("memoryd.source.notes.write.append", crash)
        with pytest.raises(CrashError):
            make().write(NoteBody("x"))
    writer = make()
    assert len(writer.lost()) == 1
    assert not writer.write(NoteBody("x"))[0].duplicate
    assert writer.lost() == []
    assert make().lost() == []


def test_a_full_disk_leaves_the_file_as_it_was(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, file = make(), tmp_path / "workspace" / "MEMORY.md"
    file.write_text("# A\n\n- a\n\n# B\n")
    writes = os.write

    def write_half(descriptor: int, data: memoryview) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writes(descriptor, data[: len(data) - 9])

    for body in (
        NoteBody("a long text", file="MEMORY.md"),
        NoteBody("a long text", file="MEMORY.md", heading="A"),
        NoteBody("a long text", file="memory/new.md"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("memoryd.fs.change_file.os.write", write_half)
            with pytest.raises(OSError, match="No space left"):
                writer.write(body)
    assert file.read_text() == "# A\n\n- a\n\n# B\n"
    assert [entry.name for entry in file.parent.rglob("*.*")] == ["MEMORY.md"]
    assert writer.lost() == []
    assert make().lost() == []


def test_an_editor_that_writes_meanwhile_loses_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, file = make(), tmp_path / "workspace" / "MEMORY.md"
    file.write_text("# A\n\n# B\n")
    reads, edits = change_file.read_bytes, ["edited once\n", "edited twice\n"]

    def read_and_edit(*arguments: object) -> change_file.FileBytes:
        found = reads(*arguments)  # type: ignore[arg-type]
        if edits:
            with file.open("a") as opened:
                opened.write(edits.pop(0))
        return found

    monkeypatch.setattr("memoryd.source.notes.write.read_bytes", read_and_edit)
    writer.write(NoteBody("x", file="MEMORY.md", heading="A"))
    text = re.sub(" <!--.*?-->", "", file.read_text())
    assert text == "# A\n\n- x\n\n# B\nedited once\nedited twice\n"


def test_a_journal_that_is_cut_off_keeps_all_other_notes(make: Make, tmp_path: Path) -> None:
    writer = make()
    for text in ("one", "two"):
        writer.write(NoteBody(text, file="MEMORY.md"))
    with (tmp_path / "main.sqlite.notes").open("ab") as file:
        file.write(b'\n{"note":{"id":"x","at":1.0,"pa')
    writer = make()
    writer.write(NoteBody("three", file="MEMORY.md"))
    (tmp_path / "workspace" / "MEMORY.md").unlink()
    lost = [without_provenance(note.lines) for note in make().lost()]
    assert lost == [["- one"], ["- two"], ["- three"]]


def test_the_journal_is_bounded(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MAX_NOTES", 5)
    writer = make()
    for number in range(40):
        writer.write(NoteBody(f"note {number}", file="MEMORY.md"))
    lines = (tmp_path / "main.sqlite.notes").read_bytes().splitlines()
    assert 5 <= len(lines) <= 12
    (tmp_path / "workspace" / "MEMORY.md").unlink()
    assert without_provenance(make().lost()[-1].lines) == ["- note 39"]


def test_a_note_whose_text_stands_without_its_comment_is_not_lost(
    make: Make, tmp_path: Path
) -> None:
    writer = make()
    for text in ("figs", "plums\nand pears"):
        writer.write(NoteBody(text, file="memory/a.md"))
    file = tmp_path / "workspace/memory/a.md"
    lines = without_provenance(file.read_text().splitlines())
    file.write_text("\n".join(lines))
    assert writer.lost() == []
    file.write_text("\n".join(lines).replace("plums", "more plums").replace("figs", "figs, dried"))
    assert len(writer.lost()) == 2


def test_a_workspace_that_is_away_has_lost_nothing(make: Make, tmp_path: Path) -> None:
    writer = make()
    writer.write(NoteBody("x"))
    (tmp_path / "workspace").rename(tmp_path / "away")
    assert writer.lost() == []
