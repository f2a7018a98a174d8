"""The disk of an index is full, failing or read-only, or the index disappears while open."""

import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Daemon
from small_disks import fill, remount, small_disk
from waiting import PATIENCE_S, eventually

from memoryd.index.repair.word_proof import prove_words
from memoryd_client.errors import UnavailableError
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared import paths

NO_LIMIT = resource.RLIM_INFINITY
CAN_T_WRITE = "the index can't be written since "


@pytest.fixture
def disk(hybrid: Daemon) -> Iterator[Daemon]:
    """A daemon whose indexes are on a disk of 16 MiB, with ten notes; not started yet."""
    for number in range(10):
        hybrid.write(f"memory/{number}.md", f"old note number{number}\n")
    with small_disk(hybrid.database.parent, mebibytes=16):
        yield hybrid
        if hybrid.process is not None and hybrid.process.poll() is None:
            hybrid.kill()


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def finds(daemon: Daemon, word: str, path: str) -> Callable[[], bool]:
    """Return a condition: a search finds a file, even if the agent restarts meanwhile."""

    def found() -> bool:
        try:
            return path in daemon.paths(word)
        except UnavailableError:
            return False

    return found


def refused(daemon: Daemon) -> UnavailableError:
    """Check that a `sync` fails with the disk's problem."""
    with daemon.client() as client, pytest.raises(UnavailableError) as failed:
        client.sync()
    assert failed.value.retryable
    return failed.value


def cannot_write(found: list[str]) -> str:
    """Return the one line of a list that reports an index that can't be written."""
    (line,) = [line for line in found if line.startswith(CAN_T_WRITE)]
    return line


def warned(daemon: Daemon) -> int:
    return daemon.log().count(CAN_T_WRITE)


def is_whole(daemon: Daemon, *, files: int) -> None:
    """Check a stopped daemon's index: complete, and nothing embedded twice."""
    with sqlite3.connect(daemon.database) as index:
        assert index.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counts = "SELECT count(*), count(vector_id), (SELECT count(*) FROM files) FROM chunks"
        assert index.execute(counts).fetchone() == (files, files, files)
        prove_words(index)
    index.close()
    texts = [text for text in daemon.embedded() if "note" in text]
    assert sorted(texts) == sorted(set(texts)), daemon.log()
    assert "Traceback" not in daemon.log(), daemon.log()


def test_a_full_disk_stops_no_search_and_is_over_when_there_is_room(disk: Daemon) -> None:
    disk.start().sync()
    filler = fill(disk.database.parent)
    for number in range(10, 30):
        disk.write(f"memory/{number}.md", f"new note number{number} {'word ' * 200}\n")
    error = refused(disk)
    assert "full" in error.message
    assert error.hint is not None
    assert "free some space" in error.hint
    told = status(disk)
    assert "full" in cannot_write(told.degraded)
    assert [(failure.what, failure.retry_in_s is not None) for failure in told.errors] == [
        ("index", True)
    ]
    found = disk.search("number3")
    assert found.results[0].path == "memory/3.md"
    assert found.mode == "hybrid"
    assert found.stale
    cannot_write(found.warnings)
    refused(disk)
    assert warned(disk) == 1, "logged once, not for every try"
    filler.unlink()
    eventually(lambda: status(disk).files == 30)
    disk.sync()
    assert status(disk).degraded == []
    assert disk.paths("number27")[0] == "memory/27.md"
    assert "is writable again" in disk.log()
    assert disk.stop() == 0
    is_whole(disk, files=30)


def test_a_disk_that_fails_at_writing_is_waited_for_with_nothing_lost(hybrid: Daemon) -> None:
    hybrid.write("memory/3.md", "old note number3\n")
    hybrid.start().sync()
    assert hybrid.process is not None
    limit = Path(f"{hybrid.database}-wal").stat().st_size + 100 * 1024
    resource.prlimit(hybrid.process.pid, resource.RLIMIT_FSIZE, (limit, NO_LIMIT))
    for number in range(10, 209):
        hybrid.write(f"memory/{number}.md", f"note number{number} {number * 'word '}\n")
    refused(hybrid)
    assert "SQLITE_IOERR" in cannot_write(status(hybrid).degraded)
    assert hybrid.search("number3").results
    assert hybrid.process.poll() is None
    assert warned(hybrid) == 1
    resource.prlimit(hybrid.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
    eventually(lambda: status(hybrid).files == 200)
    hybrid.sync()
    assert status(hybrid).degraded == []
    assert hybrid.stop() == 0
    is_whole(hybrid, files=200)


def test_writes_that_fail_are_told_as_events_and_so_is_their_end(disk: Daemon) -> None:
    disk.start().sync()
    with disk.client() as listener:
        events = listener.events(kinds=["listening", "degraded", "recovered"])
        assert next(events).kind == "listening"
        filler = fill(disk.database.parent)
        disk.write("memory/new.md", "word " * 20_000)
        event = next(events)
        assert (event.kind, event.agent) == ("degraded", "main")
        assert "full" in cannot_write([event.text or ""])
        filler.unlink()
        assert next(events).kind == "recovered"


def test_a_full_disk_at_the_start_still_has_what_was_there_found(disk: Daemon) -> None:
    disk.start().sync()
    assert disk.stop() == 0
    filler = fill(disk.database.parent)
    disk.write("memory/new.md", "new note orchid\n")
    disk.start()
    assert disk.paths("number3")[0] == "memory/3.md"
    assert "full" in cannot_write(status(disk).degraded)
    assert "full" in refused(disk).message
    filler.unlink()
    eventually(finds(disk, "orchid", "memory/new.md"))
    disk.sync()
    assert status(disk).degraded == []
    assert disk.stop() == 0
    is_whole(disk, files=11)


def test_a_read_only_disk_is_searched_and_written_when_it_can_be(disk: Daemon) -> None:
    disk.start().sync()
    assert disk.stop() == 0
    remount(disk.database.parent, "ro")
    disk.write("memory/new.md", "new note orchid\n")
    disk.start()
    assert disk.search("number3").results[0].path == "memory/3.md"
    assert "Read-only file system" in cannot_write(status(disk).degraded)
    refused(disk)
    assert disk.embedded() == [text for text in disk.embedded() if "orchid" not in text]
    remount(disk.database.parent, "rw")
    eventually(finds(disk, "orchid", "memory/new.md"))
    disk.sync()
    assert disk.stop() == 0
    is_whole(disk, files=11)


@pytest.mark.long
def test_after_a_kill_a_read_only_disk_is_searched_with_its_log(disk: Daemon) -> None:
    disk.start().sync()
    disk.kill()
    assert Path(f"{disk.database}-wal").stat().st_size
    remount(disk.database.parent, "ro")
    disk.start()
    assert disk.paths("number3")[0] == "memory/3.md"
    remount(disk.database.parent, "rw")
    eventually(lambda: "is writable again" in disk.log())
    eventually(finds(disk, "number3", "memory/3.md"))
    assert status(disk).degraded == []
    assert disk.stop() == 0
    is_whole(disk, files=10)


def test_a_deleted_index_is_written_anew_from_what_is_open(disk: Daemon) -> None:
    disk.start().sync()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{disk.database}{suffix}").unlink()
    disk.write("memory/new.md", "new note orchid\n")
    disk.sync()
    assert disk.database.exists()
    assert disk.paths("orchid") == ["memory/new.md"]
    assert disk.paths("number3")[0] == "memory/3.md"
    assert "was deleted or moved away while it was open" in disk.log()
    assert status(disk).degraded == []
    assert disk.stop() == 0
    assert [file.name for file in disk.database.parent.glob("*rebuild*")] == []
    is_whole(disk, files=11)


@pytest.mark.long
def test_an_index_that_is_deleted_in_a_quiet_hour_is_soon_there_again(disk: Daemon) -> None:
    disk.start().sync()
    disk.database.unlink()
    eventually(disk.database.exists)
    disk.sync()
    assert disk.stop() == 0
    is_whole(disk, files=10)


def test_a_lost_log_loses_nothing(disk: Daemon) -> None:
    disk.start().sync()
    Path(f"{disk.database}-wal").unlink()
    disk.write("memory/new.md", "new note orchid\n")
    disk.sync()
    disk.kill()
    disk.start().sync()
    assert disk.paths("orchid") == ["memory/new.md"]
    assert disk.stop() == 0
    is_whole(disk, files=11)


def test_a_folder_that_is_moved_away_is_made_anew(hybrid: Daemon) -> None:
    for number in range(10):
        hybrid.write(f"memory/{number}.md", f"old note number{number}\n")
    hybrid.start().sync()
    state = hybrid.database.parent
    state.rename(state.with_name("elsewhere"))
    hybrid.write("memory/new.md", "new note orchid\n")
    eventually(hybrid.database.exists)
    eventually(Path(f"{hybrid.database}.lock").exists)
    eventually(finds(hybrid, "orchid", "memory/new.md"))
    assert state.stat().st_mode & 0o777 == 0o700
    hybrid.sync()
    assert hybrid.stop() == 0
    is_whole(hybrid, files=11)


def test_another_index_in_its_place_is_opened_and_nothing_is_paid_twice(disk: Daemon) -> None:
    """Restoring yesterday's copy has this effect."""
    disk.start().sync()
    assert disk.stop() == 0
    yesterday = disk.database.with_name("yesterday")
    shutil.copy(disk.database, yesterday)
    disk.write("memory/new.md", "new note orchid\n")
    disk.start().sync()
    yesterday.rename(disk.database)
    disk.write("memory/another.md", "another note of today\n")
    eventually(lambda: "was replaced by another file; opening the new file" in disk.log())
    eventually(finds(disk, "orchid", "memory/new.md"))
    disk.sync()
    assert disk.stop() == 0
    assert [file.name for file in disk.database.parent.glob("*rebuild*")] == []
    is_whole(disk, files=12)


def test_somebody_elses_file_in_its_place_is_left_alone(disk: Daemon) -> None:
    disk.start().sync()
    foreign = disk.database.with_name("foreign")
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = foreign.read_bytes()
    foreign.rename(disk.database)
    disk.write("memory/new.md", "new note orchid\n")
    eventually(lambda: "it is not an index of memoryd" in disk.log())
    with disk.client() as client, pytest.raises(UnavailableError, match="not an index of memoryd"):
        client.search("number3")
    assert disk.database.read_bytes() == content
    assert disk.process is not None
    assert disk.process.poll() is None, "the daemon waits until that file is gone"
    disk.database.unlink()
    disk.memctl("reload")
    eventually(finds(disk, "orchid", "memory/new.md"))
    disk.sync()
    assert disk.paths("number3")[0] == "memory/3.md"
    assert disk.stop() == 0
    is_whole(disk, files=11)


def test_an_index_it_may_not_write_is_searched_and_written_when_it_may(hybrid: Daemon) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root: drops rights of the daemon")
    hybrid.write("memory/3.md", "old note number3\n")
    hybrid.start().sync()
    assert hybrid.stop() == 0
    hybrid.write("memory/new.md", "new note orchid\n")
    hybrid.database.chmod(0o400)
    without_root = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    hybrid.start(before=without_root)
    assert hybrid.paths("number3") == ["memory/3.md"]
    assert "Permission denied" in cannot_write(status(hybrid).degraded)
    error = refused(hybrid)
    assert error.hint is not None
    assert "make it and its folder readable and writable" in error.hint
    hybrid.database.chmod(0o600)
    eventually(finds(hybrid, "orchid", "memory/new.md"))
    hybrid.sync()
    assert hybrid.stop() == 0
    is_whole(hybrid, files=2)


def test_a_new_index_in_a_folder_it_may_not_write_is_told_with_what_to_do(daemon: Daemon) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root: drops rights of the daemon")
    daemon.write("MEMORY.md", "number0")
    daemon.start(before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"]).sync()
    daemon.database.parent.chmod(0o500)
    told = daemon.memctl("index", "--force", code=1).stderr
    assert (
        "the rebuild failed: Permission denied; make it and its folder readable and writable for"
        f" memoryd's user: {daemon.database}; the old index stays"
    ) in told
    assert "Errno" not in told
    assert "Errno" not in daemon.log()
    daemon.database.parent.chmod(0o700)
    daemon.memctl("index", "--force")
    assert daemon.paths("number0") == ["MEMORY.md"]


def test_an_index_it_may_not_read_is_told_with_what_to_do(daemon: Daemon) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root: drops rights of the daemon")
    daemon.start().sync()
    assert daemon.stop() == 0
    daemon.database.chmod(0)
    daemon.start(before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"], wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(PATIENCE_S) == 1
    assert daemon.log().splitlines()[-1] == (
        f"memoryd: can't open the index {daemon.database}: Permission denied;"
        " make it and its folder readable and writable for memoryd's user"
    )


def test_a_log_that_is_a_link_is_refused_and_not_followed(daemon: Daemon) -> None:
    daemon.start().sync()
    assert daemon.stop() == 0
    theirs = daemon.folder / "theirs"
    theirs.write_text("theirs")
    log = Path(f"{daemon.database}-wal")
    log.unlink(missing_ok=True)
    log.symlink_to(theirs)
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(PATIENCE_S) == 78
    last = daemon.log().splitlines()[-1]
    assert last == f"memoryd: {log} is a symbolic link, not a file; move it away"
    assert theirs.read_text() == "theirs"


def test_a_full_disk_takes_no_facts_and_loses_none(disk: Daemon) -> None:
    with disk.start().client() as client:
        client.sync()
        kept = client.fact_store("Ana can't eat hazelnuts").fact
        filler = fill(disk.database.parent)
        for change in (
            lambda: client.fact_store(f"Ben plays {' and '.join(map(str, range(60)))}"),
            lambda: client.fact_forget(fact_id=kept.id),
        ):
            with pytest.raises(UnavailableError, match=r"facts can't be used: .*disk is full"):
                change()
        assert [match.fact for match in client.fact_recall("can Ana eat hazelnuts").facts] == [kept]
        filler.unlink()
        assert client.fact_store("Ben plays chess").fact in client.facts_page().facts
        assert client.fact_forget(fact_id=kept.id).forgotten == [kept]


def test_a_log_on_a_full_disk_ends_nothing_and_goes_on_when_there_is_room(daemon: Daemon) -> None:
    daemon.write("memory/3.md", "old note number3\n")
    logs = daemon.folder / "logs"
    with small_disk(logs, mebibytes=1):
        log = logs / "memoryd.log"
        filler = fill(logs)
        daemon.start(options=["--config", str(daemon.config), "--log-file", str(log)])
        daemon.sync()
        assert daemon.paths("number3") == ["memory/3.md"]
        filler.unlink()
        daemon.memctl("reload")
        assert "configuration reloaded, " in log.read_text()
        fill(logs)
        assert daemon.stop() == 0
    assert daemon.log() == "", "no output either"


def test_a_workspace_that_can_not_be_written_down_is_not_served(daemon: Daemon) -> None:
    other = daemon.new_folder("other")
    daemon.start().sync()
    suffix = paths.socket_suffix(str(daemon.socket))
    in_the_way = daemon.database.parent / f"added{suffix}.json.new"
    in_the_way.mkdir()
    refused = daemon.memctl("add", str(other), code=1)
    assert "can't write " in refused.stderr
    assert "the workspace is not served" in refused.stderr
    assert "other" not in daemon.memctl("agents").stdout
    assert "Traceback" not in daemon.log()
    in_the_way.rmdir()
    daemon.memctl("add", str(other))
    assert "other" in daemon.memctl("agents").stdout
