"""Workspaces, extra paths and folders that are temporarily missing: nothing is lost."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Daemon
from hung_disk import hung_disk
from waiting import eventually

from memoryd_client import StatusResult
from memoryd_client.errors import NotFoundError, UnavailableError

NOT_THERE = "some of the results are in missing files: their disk may not be mounted"


class Disks:
    """Real file systems that are mounted on a folder and unmounted again, with their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores: dict[str, Path] = {}
        self._mounted: list[Path] = []

    def mount(self, place: Path, name: str = "disk") -> None:
        """Mount a disk on a folder; the first time it is empty."""
        place.mkdir(parents=True, exist_ok=True)
        if name not in self._stores:
            store = self._stores[name] = self._folder / f"tmpfs-{name}"
            store.mkdir()
            self._run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(store))
            self._mounted.append(store)
        self._run("mount", "--bind", str(self._stores[name]), str(place))
        self._mounted.append(place)

    def unmount(self, place: Path) -> None:
        """Unmount the disk; its empty folder remains."""
        self._run("umount", "-l", str(place))
        self._mounted.remove(place)

    def close(self) -> None:
        for place in reversed(self._mounted):
            subprocess.run(["umount", "-l", str(place)], check=False)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and command[:2] == ("mount", "-t"):
            pytest.skip(f"needs root and the right to mount: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def disks(daemon: Daemon) -> Iterator[Disks]:
    made = Disks(daemon.folder)
    yield made
    if daemon.process is not None and daemon.process.poll() is None:
        daemon.kill()
    made.close()


def status(daemon: Daemon) -> StatusResult:
    with daemon.client() as client:
        return client.status()


def assert_kept(daemon: Daemon, query: str, paths: set[str], problem: str) -> None:
    """Check that all files are still found, and that answer and status report the problem."""
    daemon.sync()
    found = daemon.search(query)
    assert {hit.path for hit in found.results} == paths
    assert any(problem in warning for warning in found.warnings), found.warnings
    assert any(problem in line for line in status(daemon).degraded)


def assert_well(daemon: Daemon, query: str, paths: set[str]) -> None:
    daemon.sync()
    found = daemon.search(query)
    assert ({hit.path for hit in found.results}, found.warnings) == (paths, [])
    assert status(daemon).degraded == []


def test_a_workspace_that_is_renamed_comes_back_as_another_folder(daemon: Daemon) -> None:
    daemon.write("MEMORY.md", "the first feijoa")
    daemon.write("memory/a.md", "a second feijoa")
    daemon.write("memory/b.md", "a third feijoa")
    daemon.start().sync()
    away = daemon.workspace.rename(daemon.folder / "away")
    # Before any scan: files of the missing workspace are still found, with a warning.
    found = daemon.search("feijoa")
    assert len(found.results) == 3
    assert NOT_THERE in found.warnings
    paths = {"MEMORY.md", "memory/a.md", "memory/b.md"}
    assert_kept(daemon, "feijoa", paths, f"the workspace {daemon.workspace} can't be read")
    (away / "memory/a.md").unlink()
    (away / "memory/c.md").write_text("one more feijoa")
    shutil.copytree(away, daemon.workspace)
    # memoryd watches for the missing workspace, so no request is needed.
    eventually(lambda: set(daemon.paths("feijoa")) == {"MEMORY.md", "memory/b.md", "memory/c.md"})
    assert_well(daemon, "feijoa", {"MEMORY.md", "memory/b.md", "memory/c.md"})
    daemon.write("memory/d.md", "watched again: feijoa")
    eventually(lambda: "memory/d.md" in daemon.paths("feijoa"))
    assert daemon.log().count("nothing is removed from the index") == 1


def test_a_workspace_that_is_unmounted_keeps_its_index(daemon: Daemon, disks: Disks) -> None:
    disks.mount(daemon.workspace)
    daemon.write("MEMORY.md", "a mounted tamarillo")
    daemon.write("memory/a.md", "another tamarillo")
    paths = {"MEMORY.md", "memory/a.md"}
    daemon.start().sync()
    disks.unmount(daemon.workspace)
    assert os.listdir(daemon.workspace) == []
    assert_kept(daemon, "tamarillo", paths, "its disk may not be mounted")
    assert_kept(daemon, "tamarillo", paths, "`memctl index`")
    assert status(daemon).files == 2
    daemon.assert_healthy()
    # Restarts without the disk change nothing.
    for _ in range(2):
        daemon.stop()
        daemon.start()
        assert_kept(daemon, "tamarillo", paths, "its disk may not be mounted")
    daemon.stop()
    disks.mount(daemon.workspace)
    daemon.write("memory/a.md", "changed meanwhile: tamarillo pepino")
    daemon.start()
    assert_well(daemon, "tamarillo", paths)
    assert daemon.paths("pepino") == ["memory/a.md"]


def test_a_disk_that_comes_back_to_a_running_daemon_is_taken_up(
    daemon: Daemon, disks: Disks
) -> None:
    disks.mount(daemon.workspace)
    daemon.write("memory/a.md", "a tamarillo")
    daemon.start().sync()
    disks.unmount(daemon.workspace)
    daemon.sync()
    disks.mount(daemon.workspace)
    daemon.write("memory/b.md", "one more tamarillo")
    assert_well(daemon, "tamarillo", {"memory/a.md", "memory/b.md"})
    daemon.write("memory/c.md", "a watched tamarillo")
    eventually(lambda: "memory/c.md" in daemon.paths("tamarillo"))


@pytest.mark.long
def test_mounting_and_unmounting_are_noticed_without_a_request(
    daemon: Daemon, disks: Disks
) -> None:
    disks.mount(daemon.workspace)
    daemon.write("memory/a.md", "a tamarillo")
    daemon.start().sync()
    disks.unmount(daemon.workspace)
    eventually(lambda: "may not be mounted" in "".join(status(daemon).degraded))
    disks.mount(daemon.workspace)
    eventually(lambda: status(daemon).degraded == [])


def test_a_workspace_that_is_emptied_by_hand_is_emptied(daemon: Daemon, disks: Disks) -> None:
    disks.mount(daemon.workspace)
    daemon.write("MEMORY.md", "a lone salak")
    daemon.write("memory/a.md", "a second salak")
    daemon.start().sync()
    (daemon.workspace / "MEMORY.md").unlink()
    shutil.rmtree(daemon.workspace / "memory")
    assert_well(daemon, "salak", set())
    assert status(daemon).files == 0


def test_asked_to_index_it_takes_an_empty_workspace_as_meant(daemon: Daemon, disks: Disks) -> None:
    disks.mount(daemon.workspace)
    daemon.write("memory/a.md", "a salak")
    daemon.start().sync()
    disks.unmount(daemon.workspace)
    assert_kept(daemon, "salak", {"memory/a.md"}, "may not be mounted")
    daemon.memctl("index")
    assert_well(daemon, "salak", set())
    # The present folder is the workspace, also after a restart.
    daemon.write("memory/b.md", "another salak")
    assert_well(daemon, "salak", {"memory/b.md"})
    daemon.stop()
    shutil.rmtree(daemon.workspace / "memory")
    daemon.start()
    assert_well(daemon, "salak", set())


def test_a_rebuild_does_without_no_disk(daemon: Daemon, disks: Disks) -> None:
    disks.mount(daemon.workspace)
    daemon.write("memory/a.md", "a salak")
    daemon.start().sync()
    daemon.stop()
    disks.unmount(daemon.workspace)
    daemon.settings += "\nchunking = { tokens = 300 }"
    daemon.start()
    eventually(lambda: "the last rebuild failed" in "".join(status(daemon).degraded))
    assert_kept(daemon, "salak", {"memory/a.md"}, "may not be mounted")
    daemon.stop()
    disks.mount(daemon.workspace)
    daemon.start()
    daemon.memctl("index", "--force")
    assert_well(daemon, "salak", {"memory/a.md"})
    # The new index has the old one's knowledge of the disk.
    daemon.stop()
    disks.unmount(daemon.workspace)
    daemon.start()
    assert_kept(daemon, "salak", {"memory/a.md"}, "may not be mounted")


@pytest.mark.parametrize("place", ["memory", "memory/shared"])
def test_a_folder_of_the_workspace_on_a_disk_of_its_own(
    daemon: Daemon, disks: Disks, place: str
) -> None:
    disks.mount(daemon.workspace / place)
    daemon.write("MEMORY.md", "a loquat")
    daemon.write(f"{place}/deep/a.md", "a loquat on a disk")
    paths = {"MEMORY.md", f"{place}/deep/a.md"}
    daemon.start().sync()
    disks.unmount(daemon.workspace / place)
    assert_kept(daemon, "loquat", paths, f"{daemon.workspace / place} is empty")
    daemon.stop()
    (daemon.workspace / "MEMORY.md").unlink()
    daemon.start()
    assert_kept(daemon, "loquat", {f"{place}/deep/a.md"}, "may not be mounted")
    disks.mount(daemon.workspace / place)
    assert_well(daemon, "loquat", {f"{place}/deep/a.md"})


def _stays_empty(place: Path) -> None:
    assert os.listdir(place) == []


def _is_removed(place: Path) -> None:
    place.rmdir()  # as desktops do after unmounting


@pytest.mark.parametrize(
    ("below", "leave"),
    [
        ("", _is_removed),
        ("notes", _stays_empty),
        pytest.param("", _stays_empty, marks=pytest.mark.long),
        pytest.param("notes", _is_removed, marks=pytest.mark.long),
    ],
)
def test_an_extra_path_on_a_disk_that_is_unplugged(
    daemon: Daemon, disks: Disks, below: str, leave: Callable[[Path], None]
) -> None:
    place = daemon.folder / "media"
    disks.mount(place)
    notes = place / below
    notes.mkdir(exist_ok=True)
    (notes / "a.md").write_text("an unplugged rambutan")
    (place / "one.md").write_text("a rambutan by itself")
    daemon.settings += f'\nextra_paths = ["{notes}", "{place / "one.md"}"]'
    paths = {str(notes / "a.md"), str(place / "one.md")}
    daemon.write("memory/b.md", "a rambutan at home")
    daemon.start()
    assert_well(daemon, "rambutan", {"memory/b.md", *paths})
    disks.unmount(place)
    leave(place)
    assert_kept(daemon, "rambutan", {"memory/b.md", *paths}, "its indexed text is kept")
    daemon.stop()
    daemon.start()
    (daemon.workspace / "memory/b.md").unlink()
    assert_kept(daemon, "rambutan", paths, "its indexed text is kept")
    disks.mount(place)
    assert_well(daemon, "rambutan", paths)
    shutil.rmtree(notes) if below else (notes / "a.md").unlink()
    daemon.sync()
    assert daemon.paths("rambutan") == [str(place / "one.md")], (
        "the file was deleted: its disk is mounted"
    )


def test_it_starts_without_its_workspace_if_there_is_an_index(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "a served guava")
    daemon.start().sync()
    daemon.stop()
    away = daemon.workspace.rename(daemon.folder / "away")
    daemon.start()
    problem = f"the workspace {daemon.workspace} can't be read: No such file or directory"
    assert_kept(daemon, "guava", {"memory/a.md"}, problem)
    # A reload does not stop the agent.
    daemon.memctl("reload", cwd=daemon.folder)
    assert_kept(daemon, "guava", {"memory/a.md"}, problem)
    (away / "memory/b.md").write_text("a late guava")
    away.rename(daemon.workspace)
    eventually(lambda: set(daemon.paths("guava")) == {"memory/a.md", "memory/b.md"})
    assert_well(daemon, "guava", {"memory/a.md", "memory/b.md"})


def test_it_starts_without_the_folders_around_its_workspace(daemon: Daemon) -> None:
    daemon.workspace.rmdir()
    daemon.workspace = daemon.folder / "home" / "deep" / "workspace"
    daemon.write("memory/a.md", "a guava in the deep")
    daemon.start().sync()
    daemon.stop()
    away = (daemon.folder / "home").rename(daemon.folder / "away")
    daemon.start()
    assert daemon.paths("guava") == ["memory/a.md"]
    away.rename(daemon.folder / "home")
    eventually(lambda: status(daemon).degraded == [])
    daemon.write("memory/b.md", "another guava")
    eventually(lambda: len(daemon.paths("guava")) == 2)


def test_a_workspace_that_never_was_is_a_mistake(daemon: Daemon) -> None:
    daemon.workspace.rmdir()
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(60) == 78
    assert f"workspace {daemon.workspace} (" in daemon.log()
    assert "is not a folder; create it or name another" in daemon.log()
    # The index of another workspace does not validate a mistyped one.
    daemon.write("memory/a.md", "a note")
    daemon.start().sync()
    daemon.stop()
    daemon.workspace = daemon.folder / "worksapce"
    daemon.start(wait=False)
    assert daemon.process.wait(60) == 78
    assert "worksapce" in daemon.log().splitlines()[-1]


NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: runs as another user")
def test_permissions_that_are_taken_and_given_back(daemon: Daemon) -> None:
    command = [*NOBODY, *daemon.command("--version")]
    if subprocess.run(command, env=daemon.environment, capture_output=True).returncode:
        pytest.skip("another user can't run this Python here")
    transcripts = daemon.folder / "chats" / "deep"
    transcripts.mkdir(parents=True)
    said = '{"role": "user", "content": "an ocelot was seen"}\n'
    (transcripts / "a.jsonl").write_text(said)
    daemon.settings += (
        f'\nsessions = {{ enabled = true, keep_days = 0, formats = ["plain"],'
        f' paths = ["{daemon.folder}/chats/**/*.jsonl"], visibility = "all" }}'
    )
    daemon.write("memory/locked/inside.md", "an ocelot in here\n")
    daemon.write("memory/open.md", "an ocelot out there\n")
    daemon.write_config()  # that user then owns this file too
    for path in (daemon.folder, *daemon.folder.rglob("*")):
        os.chown(path, 65534, 65534)
    with daemon.start(before=NOBODY).client():  # permissions apply to the user nobody
        pass
    everything = {"memory/locked/inside.md", "memory/open.md", "sessions/chats/deep/a.jsonl"}
    assert_well(daemon, "ocelot", everything)
    locked = daemon.workspace / "memory/locked"
    locked.chmod(0)
    transcripts.chmod(0)
    assert_kept(daemon, "ocelot", everything, f"{locked} can't be read: Permission denied")
    assert any(f"{transcripts}/a.jsonl can't be read" in line for line in status(daemon).degraded)
    # Either listing or entering the folder is forbidden.
    for mode in (0o300, 0o400):
        locked.chmod(mode)
        transcripts.chmod(mode)
        daemon.sync()
        assert set(daemon.paths("ocelot")) == everything
    locked.chmod(0o700)
    transcripts.chmod(0o700)
    (locked / "inside.md").unlink()
    (transcripts / "a.jsonl").unlink()
    assert_well(daemon, "ocelot", {"memory/open.md"})


def test_transcripts_on_a_disk_that_is_unplugged(daemon: Daemon, disks: Disks) -> None:
    chats = daemon.folder / "chats"
    disks.mount(chats)
    said = '{"role": "user", "content": "an ocelot was seen"}\n'
    (chats / "a.jsonl").write_text(said)
    daemon.settings += (
        f'\nsessions = {{ enabled = true, formats = ["plain"], paths = ["{chats}/*.jsonl"],'
        ' visibility = "all", keep_days = 0 }'
    )
    daemon.start()
    paths = {"sessions/chats/a.jsonl"}
    assert_well(daemon, "ocelot", paths)
    disks.unmount(chats)
    assert_kept(daemon, "ocelot", paths, "may not be mounted")
    daemon.stop()
    daemon.start()
    assert_kept(daemon, "ocelot", paths, "may not be mounted")
    disks.mount(chats)
    assert_well(daemon, "ocelot", paths)
    (chats / "a.jsonl").unlink()
    assert_well(daemon, "ocelot", set())


def assert_out_of_reach(daemon: Daemon, path: str, problem: str) -> None:
    with daemon.client() as client, pytest.raises(UnavailableError) as refused:
        client.get(path)
    assert refused.value.message.startswith(f"{path} is unavailable: {problem}")
    assert refused.value.retryable
    assert "`memctl index`" in refused.value.hint


def test_get_tells_a_disk_that_is_not_there_from_a_file_that_is_gone(
    daemon: Daemon, disks: Disks
) -> None:
    media, chats = daemon.folder / "media", daemon.folder / "chats"
    for place in (daemon.workspace / "memory", media, chats):
        disks.mount(place, place.name)
    daemon.write("MEMORY.md", "at home")
    daemon.write("memory/a.md", "far away")
    (media / "b.md").write_text("farther away")
    (chats / "c.jsonl").write_text('{"role": "user", "content": "said"}\n')
    daemon.settings += (
        f'\nextra_paths = ["{media}"]\n'
        f'sessions = {{ enabled = true, formats = ["plain"], paths = ["{chats}/*.jsonl"] }}'
    )
    paths = {
        "memory/a.md": (daemon.workspace / "memory", "far away"),
        str(media / "b.md"): (media, "farther away"),
        "sessions/chats/c.jsonl": (chats, "User: said"),
    }
    daemon.start().sync()
    for path, (place, text) in paths.items():
        with daemon.client() as client:
            assert client.get(path).text == text
            with pytest.raises(NotFoundError):
                client.get(f"{path.rpartition('.')[0]}-never.{path.rpartition('.')[2]}")
        disks.unmount(place)
        assert_out_of_reach(daemon, path, f"{place} is empty and not the folder that was indexed")
        place.rmdir()
        assert_out_of_reach(daemon, path, f"{place} is missing, and so is its file system")
        disks.mount(place, place.name)
        with daemon.client() as client:
            assert client.get(path).text == text
    # Another folder with files in it is no mount point without its disk.
    disks.unmount(media)
    (media / "d.md").write_text("another")
    with daemon.client() as client, pytest.raises(NotFoundError):
        client.get(str(media / "b.md"))


def test_get_from_a_workspace_that_is_not_there(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "far away")
    daemon.start().sync()
    away = daemon.workspace.rename(daemon.folder / "away")
    assert_out_of_reach(daemon, "memory/a.md", f"the workspace {daemon.workspace} is missing")
    said = daemon.memctl("get", "memory/a.md", cwd=daemon.folder, code=1).stderr
    assert f"the workspace {daemon.workspace} is missing" in said
    away.rename(daemon.workspace)
    with daemon.client() as client:
        assert client.get("memory/a.md").text == "far away"


def test_get_from_a_disk_that_fails_says_so(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "far away")
    daemon.start().sync()
    with hung_disk(daemon.workspace / "memory", fails=True):
        assert_out_of_reach(daemon, "memory/a.md", os.strerror(errno.ENOTCONN))
    with daemon.client() as client:
        assert client.get("memory/a.md").text == "far away"
