"""Notes on a full or read-only disk, and where a folder has taken the place of their file."""

from collections.abc import Iterator

import pytest
from harness import Daemon
from small_disks import fill, remount, small_disk

from memoryd_client.errors import DeniedError, UnavailableError

FILE = "memory/a.md"
FULL = r"nothing was written: .*No space left"


@pytest.fixture
def noted(daemon: Daemon) -> Iterator[Daemon]:
    """A started daemon with one note on a disk of a mebibyte."""
    with small_disk(daemon.workspace / "memory", mebibytes=1):
        daemon.start()
        with daemon.client() as client:
            client.note("first", file=FILE)
        yield daemon
        daemon.stop()


def lost(daemon: Daemon) -> list[str]:
    with daemon.client() as client:
        return [line for line in client.status().degraded if "memctl note" in line]


def check_goes_on(daemon: Daemon) -> None:
    """Check that the next note is written, after which only acknowledged notes stand there."""
    with daemon.client() as client:
        client.note("third", file=FILE)
        assert client.search("third").results
        assert not client.search("second").results
    text = (daemon.workspace / FILE).read_text()
    assert [line.split(" <!--")[0] for line in text.splitlines()] == ["- first", "- third"]
    assert lost(daemon) == []
    daemon.assert_healthy()


def test_a_full_disk_loses_nothing(noted: Daemon) -> None:
    before = (noted.workspace / FILE).read_bytes()
    filler = fill(noted.workspace / "memory")
    with noted.client() as client:
        for file in (FILE, "memory/new.md"):
            with pytest.raises(UnavailableError, match=FULL) as error:
                client.note("second " * 1_000, file=file)
            assert error.value.hint == "free disk space, then write the note again"
    assert (noted.workspace / FILE).read_bytes() == before
    assert not (noted.workspace / "memory/new.md").exists()
    filler.unlink()
    check_goes_on(noted)


def test_a_full_disk_while_notes_are_restored_loses_none(noted: Daemon) -> None:
    with noted.client() as client:
        client.note("third " * 1_000, file=FILE)
        (noted.workspace / FILE).unlink()
        filler = fill(noted.workspace / "memory")
        for _ in range(2):
            with pytest.raises(UnavailableError, match=FULL):
                client.note(action="restore")
            assert "memoryd wrote 2 notes" in lost(noted)[0]
        filler.unlink()
        assert len(client.note(action="restore").restored) == 2
    assert lost(noted) == []
    noted.assert_healthy()


def test_a_read_only_disk_loses_nothing(noted: Daemon) -> None:
    before = (noted.workspace / FILE).read_bytes()
    remount(noted.workspace / "memory", "ro")
    with noted.client() as client:
        for file in (FILE, "memory/new.md"):
            with pytest.raises(DeniedError, match=r"nothing was written: .*Read-only file system"):
                client.note("second", file=file)
    assert (noted.workspace / FILE).read_bytes() == before
    remount(noted.workspace / "memory", "rw")
    check_goes_on(noted)


def test_a_full_disk_of_the_journal_writes_nothing(daemon: Daemon) -> None:
    with small_disk(daemon.database.parent, mebibytes=16):
        daemon.start()
        with daemon.client() as client:
            client.note("first", file=FILE)
        filler = fill(daemon.database.parent)
        with (
            daemon.client() as client,
            pytest.raises(UnavailableError, match=FULL),
        ):
            client.note("second " * 1_000, file=FILE)
        filler.unlink()
        check_goes_on(daemon)
        daemon.stop()


def test_a_folder_in_place_of_the_file_loses_nothing(daemon: Daemon) -> None:
    daemon.start()
    with daemon.client() as client:
        client.note("first", file=FILE)
        place = daemon.workspace / FILE
        place.unlink()
        place.mkdir()
        with pytest.raises(DeniedError, match=rf"nothing was written: .*{FILE}"):
            client.note("second", file=FILE)
        for _ in range(2):
            (line,) = lost(daemon)
            assert line.startswith(f"memoryd wrote 1 note to {FILE} that is no longer there")
            with pytest.raises(DeniedError, match=rf"nothing was written: .*{FILE}"):
                client.note(action="restore")
        place.rmdir()
        assert client.note(action="restore").restored == [f"{FILE}#L1"]
    check_goes_on(daemon)
