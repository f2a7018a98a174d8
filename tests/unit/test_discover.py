"""Discovery of memory files in a real tree."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from descriptors import path_of

from memoryd.config.settings import ExtraPath
from memoryd.messages import FileKey
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.walk import Scan


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "work"
    (root / "memory").mkdir(parents=True)
    return root


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def scan(workspace: Path, *extra_paths: str | ExtraPath) -> Scan:
    return Discovery(workspace, extra_paths).scan()


def found(scan: Scan) -> set[str]:
    assert {key.source for key in scan.files} <= {"memory"}
    return {key.path for key in scan.files}


def skipped(scan: Scan) -> dict[str, str]:
    return scan.skipped


# --- memory files


def test_memory_is_the_root_files_and_markdown_below_the_folder(workspace: Path) -> None:
    for name in ("MEMORY.md", "README.md", "notes/a.md", "memory/a.md", "memory/deep/er/b.md"):
        write(workspace / name)
    for name in ("memory/a.txt", "memory/a.md.bak", "memory/.hidden.md", "memory/h.json"):
        write(workspace / name)
    assert found(scan(workspace)) == {"MEMORY.md", "memory/a.md", "memory/deep/er/b.md"}


def test_the_suffix_counts_in_any_case(workspace: Path) -> None:
    write(workspace / "memory/A.MD")
    assert found(scan(workspace)) == {"memory/A.MD"}


def test_an_empty_workspace_is_no_fault(tmp_path: Path) -> None:
    result = scan(tmp_path.resolve())
    assert (result.files, result.skipped, result.unread) == ({}, {}, [])
    assert set(result.folders) == {tmp_path.resolve()}, "watched for the first file"


def test_the_stat_is_the_quick_check(workspace: Path) -> None:
    path = write(workspace / "memory/a.md", "four")
    os.utime(path, ns=(1, 1_234_567_891))
    ((real, stat),) = scan(workspace).files.values()
    assert real == path
    found = path.stat()
    assert stat == (1_234_567_891, 4, found.st_ino, found.st_ctime_ns)


def test_names_that_differ_in_case_are_two_files(workspace: Path) -> None:
    upper, lower = write(workspace / "MEMORY.md"), write(workspace / "memory.md")
    if upper.samefile(lower):
        pytest.skip("needs a case-sensitive file system")
    write(workspace / "memory/Note.md")
    write(workspace / "memory/note.md")
    assert found(scan(workspace)) == {"MEMORY.md", "memory.md", "memory/Note.md", "memory/note.md"}


def test_hard_links_count_once(workspace: Path) -> None:
    path = write(workspace / "memory/a.md")
    os.link(path, workspace / "memory/b.md")
    first = scan(workspace)
    assert found(first) == {"memory/a.md"}
    assert found(scan(workspace)) == found(first)


def test_keys_and_paths_are_inverse(workspace: Path) -> None:
    outside = write(workspace.parent / "extra/b.md")
    write(workspace / "memory/a.md")
    discovery = Discovery(workspace, (str(outside.parent),))
    files = discovery.scan().files
    assert {key.path for key in files} == {"memory/a.md", str(outside)}
    for key, (path, stat) in files.items():
        assert discovery.stat(path) == (key, stat)
        assert discovery.real_path(key) == path


# --- links and special files


def test_links_are_not_followed_and_said_so(workspace: Path) -> None:
    secret = write(workspace.parent / "secret/passwd.md")
    (workspace / "memory/file.md").symlink_to(secret)
    (workspace / "memory/folder").symlink_to(secret.parent)
    (workspace / "memory/dangling.md").symlink_to("nowhere.md")
    (workspace / "memory/loop").symlink_to(workspace / "memory")
    (workspace / "MEMORY.md").symlink_to(secret)
    result = scan(workspace)
    assert result.files == {}
    names = ("memory/file.md", "memory/folder", "memory/dangling.md", "memory/loop", "MEMORY.md")
    assert set(skipped(result)) == {str(workspace / name) for name in names}
    assert all("symbolic link" in reason for reason in skipped(result).values())
    assert set(result.folders) == {workspace, workspace / "memory"}


def test_a_memory_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    workspace = tmp_path.resolve() / "work"
    workspace.mkdir()
    write(tmp_path / "elsewhere/a.md")
    (workspace / "memory").symlink_to(tmp_path / "elsewhere")
    result = scan(workspace)
    assert result.files == {}
    assert str(workspace / "memory") in skipped(result)


def test_special_files_are_skipped(workspace: Path) -> None:
    os.mkfifo(workspace / "memory/pipe.md")
    assert "not a regular file" in skipped(scan(workspace))[str(workspace / "memory/pipe.md")]


def test_a_socket_is_skipped() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        workspace = Path(name).resolve()
        (workspace / "memory").mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(workspace / "memory/s.md"))
            assert len(scan(workspace).skipped) == 1


def test_a_folder_named_like_a_file_is_a_folder(workspace: Path) -> None:
    write(workspace / "memory/trip.md/day1.md")
    assert found(scan(workspace)) == {"memory/trip.md/day1.md"}


# --- folders


@pytest.mark.parametrize(
    "ignored",
    ["node_modules", ".venv", ".git", "venv", "__pycache__", "site-packages", ".obsidian"],
)
def test_folders_of_tools_are_neither_walked_nor_watched(
    workspace: Path, ignored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace / "memory" / ignored / "deep/README.md")
    write(workspace / "memory/sub/a.md")
    listed: list[Path] = []
    real = os.scandir

    def scandir(folder: int) -> object:
        listed.append(path_of(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    discovery = Discovery(workspace, ())
    result = discovery.scan()
    assert found(result) == {"memory/sub/a.md"}
    assert set(listed) == {workspace / "memory", workspace / "memory/sub"}
    assert set(result.folders) == {workspace, workspace / "memory", workspace / "memory/sub"}
    assert discovery.stat(workspace / "memory" / ignored / "deep/README.md") is None


def test_watched_are_folders_and_not_files(workspace: Path) -> None:
    for number in range(300):
        write(workspace / f"memory/{number}.md")
    assert len(scan(workspace).folders) == 2


def test_a_folder_that_is_replaced_has_another_identity(workspace: Path) -> None:
    before = scan(workspace).folders[workspace / "memory"]
    (workspace / "memory").rename(workspace / "old")
    (workspace / "memory").mkdir()
    assert scan(workspace).folders[workspace / "memory"] != before


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path, error: OSError) -> None:
    """Make the listing of one folder fail; permissions would not stop root."""
    real = os.scandir

    def scandir(wanted: int) -> object:
        if path_of(wanted) == folder:
            raise error
        return real(wanted)

    monkeypatch.setattr(os, "scandir", scandir)


def test_below_an_unreadable_folder_nothing_is_known(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace / "memory/private/a.md")
    write(workspace / "memory/b.md")
    private = workspace / "memory/private"
    refuse(monkeypatch, private, PermissionError(13, "Permission denied"))
    result = scan(workspace)
    assert found(result) == {"memory/b.md"}
    assert result.unread == [private], "its rows must not be pruned"
    assert skipped(result) == {str(private): "can't be read: Permission denied"}


def test_a_folder_that_goes_while_we_look_is_just_gone(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = workspace / "memory/gone"
    gone.mkdir()
    refuse(monkeypatch, gone, FileNotFoundError(2, "No such file or directory"))
    result = scan(workspace)
    assert (result.unread, result.skipped) == ([], {})


def test_a_workspace_that_is_not_there_is_unread(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert nowhere in scan(nowhere).unread


# --- extra paths


def test_extra_paths_are_files_and_folders_relative_absolute_or_at_home(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = workspace.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    write(home / "notes/h.md")
    write(workspace / "docs/d.md")
    write(workspace.parent / "one.md")
    write(workspace.parent / "other.md")
    result = scan(workspace, "docs", str(workspace.parent / "one.md"), "~/notes")
    assert found(result) == {
        "docs/d.md",
        str(workspace.parent / "one.md"),
        str(home / "notes/h.md"),
    }


def test_overlapping_extra_paths_count_once(workspace: Path) -> None:
    write(workspace / "docs/sub/a.md")
    write(workspace / "memory/b.md")
    result = scan(
        workspace, "docs", "docs/", "./docs/../docs", "docs/sub", "docs/sub/a.md", "memory", "."
    )
    assert found(result) == {"docs/sub/a.md", "memory/b.md"}
    assert result.skipped == {}


@pytest.mark.parametrize("single", ["docs/sub/a.md", "docs/sub/missing.md"])
def test_a_file_named_before_the_folder_around_it_hides_nothing(
    workspace: Path, single: str
) -> None:
    write(workspace / "docs/sub/a.md")
    write(workspace / "docs/sub/b.md")
    assert found(scan(workspace, single, "docs")) == {"docs/sub/a.md", "docs/sub/b.md"}


def test_a_folder_named_as_extra_path_is_walked_whatever_its_name(workspace: Path) -> None:
    write(workspace / ".notes/a.md")
    write(workspace / ".notes/.trash/b.md")
    discovery = Discovery(workspace, (".notes",))
    assert found(discovery.scan()) == {".notes/a.md"}
    assert discovery.stat(workspace / ".notes/a.md") is not None
    assert discovery.stat(workspace / ".notes/.trash/b.md") is None


def test_an_extra_path_inside_an_ignored_folder_of_another_is_memory(workspace: Path) -> None:
    path = write(workspace / "memory/.archive/a.md")
    discovery = Discovery(workspace, ("memory/.archive",))
    assert found(discovery.scan()) == {"memory/.archive/a.md"}
    assert discovery.stat(path) is not None, "a single check must agree with the scan"


@pytest.mark.parametrize(
    "missing", ["notes", "far/away/notes", "far/away/notes/a.md", "nowhere/*.md"]
)
def test_a_missing_extra_path_is_told_and_keeps_nothing_else_from_working(
    workspace: Path, missing: str
) -> None:
    write(workspace / "memory/a.md")
    result = scan(workspace, missing)
    assert skipped(result) == {str(workspace / missing): "missing"}
    assert result.unread == [], "a missing path is not unreadable"
    assert found(result) == {"memory/a.md"}


@pytest.mark.parametrize("missing", ["docs/notes", "docs/far/away/notes", "docs/.a/b.md"])
def test_a_missing_extra_path_is_seen_coming(workspace: Path, missing: str) -> None:
    (workspace / "docs").mkdir()
    discovery = Discovery(workspace, (missing,))
    assert workspace / "docs" in discovery.scan().folders
    first = workspace.joinpath(*Path(missing).parts[:2])
    assert discovery.concerns(first), "the first folder is a candidate"
    assert not discovery.concerns(workspace / "docs/other")


def test_an_extra_path_below_a_file_is_missing(workspace: Path) -> None:
    write(workspace / "docs")
    result = scan(workspace, "docs/notes")
    assert (skipped(result), result.unread) == ({str(workspace / "docs/notes"): "missing"}, [])


def test_a_link_on_the_way_to_an_extra_path_may_come_later(workspace: Path) -> None:
    path = write(workspace.parent / "real/notes/a.md")
    discovery = Discovery(workspace, ("link/notes",))
    assert found(discovery.scan()) == set()
    (workspace / "link").symlink_to(workspace.parent / "real")
    assert found(discovery.scan()) == {str(path)}
    assert discovery.stat(path) is not None


# --- one folder under two paths


def test_a_folder_that_is_there_twice_counts_once_and_is_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bind mount has this effect; within itself it could cause an endless walk."""
    write(workspace / "memory/sub/loop/a.md")
    same, real = os.stat(workspace / "memory"), os.fstat

    def fstat(folder: int) -> os.stat_result:
        return same if path_of(folder) == workspace / "memory/sub/loop" else real(folder)

    monkeypatch.setattr(os, "fstat", fstat)
    result = scan(workspace)
    assert found(result) == set()
    assert skipped(result) == {
        str(workspace / "memory/sub/loop"): f"the same folder as {workspace / 'memory'}"
    }
    assert set(result.folders) == {workspace, workspace / "memory", workspace / "memory/sub"}


def test_a_bind_mount_of_a_folder_into_itself(workspace: Path) -> None:
    write(workspace / "memory/a.md")
    (workspace / "memory/sub/loop").mkdir(parents=True)
    memory, loop = str(workspace / "memory"), str(workspace / "memory/sub/loop")
    script = (
        "import sys; from pathlib import Path; from memoryd.source.notes.discover import Discovery;"
        "scan = Discovery(Path(sys.argv[1]), ()).scan();"
        "print([key.path for key in scan.files], scan.skipped)"
    )
    mount = 'mount --rbind "$1" "$2" && shift 2 && "$@"'
    python = (sys.executable, "-c", script, str(workspace))
    mounted = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "-", memory, loop, *python],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if mounted.returncode != 0 and mounted.stderr.startswith(("mount", "unshare")):
        pytest.skip("needs the right to mount")
    assert mounted.stdout.strip() == (
        f"['memory/a.md'] {{'{loop}': 'the same folder as {memory}'}}"
    ), mounted.stderr


def test_an_extra_file_that_is_no_markdown_is_told(workspace: Path) -> None:
    write(workspace / "a.txt")
    assert skipped(scan(workspace, "a.txt")) == {
        str(workspace / "a.txt"): "not a Markdown file (.md)"
    }


def test_an_extra_path_that_is_a_link_is_told(workspace: Path) -> None:
    write(workspace.parent / "real/a.md")
    (workspace / "link").symlink_to(workspace.parent / "real")
    result = scan(workspace, "link")
    assert result.files == {}
    assert "symbolic link" in skipped(result)[str(workspace / "link")]


def test_how_one_gets_to_an_extra_path_is_the_users_business(workspace: Path) -> None:
    path = write(workspace.parent / "real/notes/a.md")
    (workspace / "link").symlink_to(workspace.parent / "real")
    discovery = Discovery(workspace, ("link/notes",))
    assert found(discovery.scan()) == {str(path)}
    assert discovery.stat(path) is not None


# --- names


@pytest.fixture
def odd_name(workspace: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        path = workspace / "memory" / name.encode("latin-1").decode("utf-8", "surrogateescape")
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text("x")
        except OSError:
            pytest.skip("needs a file system with names that are not UTF-8")
        return path

    return make


def test_a_name_that_is_not_utf8_is_skipped_and_told(
    workspace: Path, odd_name: Callable[[str], Path]
) -> None:
    odd_name("caf\xe9.md")
    result = scan(workspace)
    assert result.files == {}
    assert skipped(result) == {rf"{workspace}/memory/caf\xe9.md": "its name is not UTF-8"}


def test_a_folder_whose_name_is_not_utf8_is_skipped_told_and_not_watched(
    workspace: Path, odd_name: Callable[[str], Path]
) -> None:
    """The watcher accepts only strings, and a folder that it can't name would end it."""
    odd_name("caf\xe9/a.md")
    write(workspace / "memory/b.md")
    result = scan(workspace)
    assert found(result) == {"memory/b.md"}
    assert set(result.folders) == {workspace, workspace / "memory"}
    assert all("not UTF-8" in reason for reason in skipped(result).values())
    for name in skipped(result):
        name.encode()


@pytest.mark.parametrize("name", ["a b.md", "a:b#c?d%.md", "日本.md", "two\nlines.md", "-x.md"])
def test_other_odd_names_are_names(workspace: Path, name: str) -> None:
    write(workspace / "memory" / name)
    assert found(scan(workspace)) == {f"memory/{name}"}


# --- checks of a single path


def test_a_look_agrees_with_the_scan(workspace: Path) -> None:
    write(workspace / "MEMORY.md")
    write(workspace / "memory/a.md")
    write(workspace / "docs/b.md")
    discovery = Discovery(workspace, ("docs",))
    for key, (path, stat) in discovery.scan().files.items():
        assert discovery.stat(path) == (key, stat)


def test_a_file_that_is_gone_has_no_stat(workspace: Path) -> None:
    discovery = Discovery(workspace, ())
    assert discovery.stat(workspace / "memory/a.md") == (FileKey("memory", "memory/a.md"), None)


def test_what_is_no_regular_file_has_no_stat(workspace: Path) -> None:
    (workspace / "memory/folder.md").mkdir()
    (workspace / "memory/link.md").symlink_to("/etc/hostname")
    discovery = Discovery(workspace, ())
    for name in ("memory/folder.md", "memory/link.md"):
        assert discovery.stat(workspace / name) == (FileKey("memory", name), None)


@pytest.mark.parametrize(
    "name",
    ["README.md", "notes/a.md", "memory/a.txt", "memory/.a.md", "memory/.git/a.md", "../x.md"],
)
def test_what_can_be_no_memory_is_not_looked_at(workspace: Path, name: str) -> None:
    write(workspace / name)
    assert Discovery(workspace, ()).stat(Path(os.path.normpath(workspace / name))) is None


def test_numbers_that_sqlite_cannot_hold_are_brought_into_its_range(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inodes of network file systems use all 64 bits; a date in the year 2400 overflows in ns."""
    path = write(workspace / "memory/a.md")
    real = os.lstat

    def far(wanted: Path) -> os.stat_result:
        found = real(wanted)
        if Path(wanted) != path:
            return found
        fields = list(found)
        fields[1] = 2**64 - 1
        return os.stat_result(fields, {"st_mtime_ns": 15_032_385_535_000_000_000})

    monkeypatch.setattr(os, "lstat", far)
    seen = Discovery(workspace, ()).stat(path)
    assert seen is not None
    assert seen[1] is not None
    assert all(-(2**63) <= number < 2**63 for number in seen[1])
