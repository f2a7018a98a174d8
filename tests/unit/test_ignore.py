"""`.memoryignore` in a real tree: its effect on the walk, single checks and the watcher."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from descriptors import path_of

from memoryd.config.settings import ExtraPath
from memoryd.messages import FileKey
from memoryd.source.notes import ignore
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
    """Scan, and check that a separate check of each file agrees."""
    discovery = Discovery(workspace, extra_paths)
    result = discovery.scan()
    paths = list(workspace.parent.rglob("*.md"))
    for path in paths:
        looked = discovery.stat(path)
        assert (looked is not None) == (path in {file for file, _ in result.files.values()}), path
    hidden = {str(path) for path in paths if discovery.hides(path)}
    assert discovery.hidden_among(map(str, paths)) == hidden
    return result


def found(scan: Scan) -> set[str]:
    return {key.path for key in scan.files}


def test_in_the_workspace_it_hides_from_there_on(workspace: Path) -> None:
    for name in ("MEMORY.md", "memory/a.md", "memory/draft.md", "memory/sub/draft.md"):
        write(workspace / name)
    write(workspace / ".memoryignore", "# not these\n\ndraft.md\n")
    assert found(scan(workspace)) == {"MEMORY.md", "memory/a.md"}
    write(workspace / ".memoryignore", "/MEMORY.md\n/memory/*.md\n")
    assert found(scan(workspace)) == {"memory/sub/draft.md"}
    (workspace / ".memoryignore").unlink()
    assert len(scan(workspace).files) == 4


def test_one_in_a_folder_counts_there_and_below(workspace: Path) -> None:
    for name in ("memory/a.md", "memory/sub/a.md", "memory/sub/deep/a.md"):
        write(workspace / name)
    write(workspace / "memory/sub/.memoryignore", "a.md")
    assert found(scan(workspace)) == {"memory/a.md"}


def test_the_nearest_one_decides(workspace: Path) -> None:
    for name in ("memory/a.md", "memory/keep/a.md", "memory/keep/not/a.md"):
        write(workspace / name)
    write(workspace / "memory/.memoryignore", "*.md")
    write(workspace / "memory/keep/.memoryignore", "!a.md")
    write(workspace / "memory/keep/not/.memoryignore", "a.md")
    assert found(scan(workspace)) == {"memory/keep/a.md"}


def test_below_a_hidden_folder_nothing_is_walked_watched_or_shown_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace / "memory/archive/old/a.md")
    write(workspace / "memory/archive/.memoryignore", "!*")
    write(workspace / ".memoryignore", "archive/\n!memory/archive/old/a.md\n")
    listed: list[Path] = []
    real = os.scandir

    def scandir(folder: int) -> object:
        listed.append(path_of(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    discovery = Discovery(workspace, ())
    result = discovery.scan()
    assert (found(result), result.skipped) == (set(), {})
    assert listed == [workspace / "memory"]
    assert set(result.folders) == {workspace, workspace / "memory"}
    assert not discovery.concerns(workspace / "memory/archive")
    assert not discovery.concerns(workspace / "memory/archive/old")
    assert discovery.concerns(workspace / "memory/other")


def test_the_memory_folder_itself_can_be_hidden(workspace: Path) -> None:
    write(workspace / "MEMORY.md")
    write(workspace / "memory/a.md")
    write(workspace / ".memoryignore", "memory/")
    result = scan(workspace)
    assert (found(result), result.skipped) == ({"MEMORY.md"}, {})


def test_an_extra_path_has_its_own(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    write(outside / "a.md")
    write(outside / "b.md")
    write(outside / ".memoryignore", "b.md")
    write(workspace.parent / ".memoryignore", "a.md")
    result = scan(workspace, "../outside")
    assert found(result) == {str(outside / "a.md")}, "the outer ignore file has no effect"


def test_it_counts_whatever_leads_to_a_file(workspace: Path) -> None:
    write(workspace / "docs/notes/a.md")
    write(workspace / "docs/notes/b.md")
    write(workspace / ".memoryignore", "docs/notes/a.md")
    write(workspace / "docs/.memoryignore", "b.md")
    assert found(scan(workspace, "docs/notes")) == set()
    assert found(scan(workspace, "docs/notes", "docs", "docs/notes/a.md")) == set()
    outside = workspace.parent / "outside"
    write(outside / "sub/a.md")
    write(outside / ".memoryignore", "a.md")
    assert found(scan(workspace, "../outside/sub", "../outside")) == set()
    assert found(scan(workspace, "../outside/sub")) == {str(outside / "sub/a.md")}


def test_folders_where_one_may_come_are_watched(workspace: Path) -> None:
    write(workspace / "docs/deep/notes/a.md")
    folders = set(scan(workspace, "docs/deep/notes").folders)
    assert {workspace / "docs", workspace / "docs/deep", workspace / "docs/deep/notes"} <= folders


def test_an_extra_path_that_is_hidden_is_told(workspace: Path) -> None:
    write(workspace / "docs/a.md")
    write(workspace / "b.md")
    write(workspace / ".memoryignore", "docs/\nb.md")
    assert scan(workspace, "docs", "b.md").skipped == {
        str(workspace / "docs"): "hidden by a .memoryignore file",
        str(workspace / "b.md"): "hidden by a .memoryignore file",
    }


def test_what_is_hidden_is_not_told_as_skipped(workspace: Path) -> None:
    (workspace / "memory/link.md").symlink_to("nowhere")
    (workspace / "memory/folder").symlink_to("/etc")
    write(workspace / ".memoryignore", "link.md\nfolder")
    assert scan(workspace).skipped == {}


def test_names_with_line_ends_are_hidden_too(workspace: Path) -> None:
    write(workspace / "memory/two\nlines/a.md")
    write(workspace / "memory/b\n.md")
    write(workspace / ".memoryignore", "a.md\nb*.md")
    assert found(scan(workspace)) == set()


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_part_of_a_pattern(
    workspace: Path,
) -> None:
    write(workspace / "memory/a.md")
    write(workspace / "memory/b.md")
    (workspace / ".memoryignore").write_bytes(b"\xef\xbb\xbfa.md\r\nb.md\r\n")
    assert found(scan(workspace)) == set()


# --- unusable ignore files


def dangling(path: Path) -> None:
    path.symlink_to("missing")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def link_to_folder(path: Path) -> None:
    path.symlink_to(".")


def bad_line(path: Path) -> None:
    path.write_text("a.md\n[z-a]\n")


def too_many(path: Path) -> None:
    path.write_text("x.md\n" * (ignore.MAX_PATTERNS + 1))


def not_utf8(path: Path) -> None:
    path.write_bytes(b"a.md\n\xff\n")


def huge(path: Path) -> None:
    path.write_bytes(b"a.md\n" + b"#" * 1024 * 1024)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (not_utf8, "not UTF-8"),
        (huge, "larger than 1 MiB"),
        (bad_line, "line 2: it is not a valid pattern"),
        (too_many, "more than 1,000 patterns"),
        (dangling, "a link to a missing file"),
        (loop, "Too many levels of symbolic links"),
        (link_to_folder, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
    ],
)
@pytest.mark.parametrize("where", ["", "memory"])
def test_one_that_can_not_be_used_hides_its_folder_and_is_told(
    workspace: Path, make: Callable[[Path], None], reason: str, where: str
) -> None:
    write(workspace / "MEMORY.md")
    for name in ("a.md", "b.md", "sub/c.md", "sub/deep/d.md"):
        write(workspace / "memory" / name)
    write(workspace / "memory/sub/.memoryignore", "!*")
    path = workspace / where / ".memoryignore"
    make(path)
    result = scan(workspace)
    assert found(result) == ({"MEMORY.md"} if where else set())
    assert result.skipped == {str(path): f"{reason}; its folder is left out until it can be used"}
    folder = where or "the whole workspace"
    name = os.path.join(where, ".memoryignore")
    assert result.left_out() == [
        f"{name} can't be used ({reason}); memoryd leaves out {folder} until it can"
    ]
    assert result.unread == []
    assert path.parent in result.folders, "its repair must be noticed"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EPERM, errno.ELOOP])
def test_one_that_can_not_be_read_hides_its_folder_until_it_can(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    a, b = write(workspace / "memory/a.md"), write(workspace / "memory/b.md")
    path = write(workspace / "memory/.memoryignore", "a.md")
    write(workspace / "MEMORY.md")
    os.utime(path, (1, 1))
    discovery = Discovery(workspace, ())

    def refuse(*arguments: object, **options: object) -> object:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(ignore, "RegularFile", refuse)
        result = discovery.scan()
        assert found(result) == {"MEMORY.md"}
        assert result.unread == []
        reason = f"{os.strerror(number)}; its folder is left out until it can be used"
        assert result.skipped == {str(path): reason}
        assert discovery.stat(b) is None
        assert not discovery.rules_have_changed()
    assert discovery.rules_have_changed()
    assert found(discovery.scan()) == {"MEMORY.md", "memory/b.md"}
    assert not discovery.rules_have_changed()
    assert discovery.stat(a) is None


def test_one_that_can_not_be_used_hides_an_extra_path(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    write(outside / "a.md")
    write(outside / "sub/b.md")
    not_utf8(outside / ".memoryignore")
    for extra in ("../outside", "../outside/a.md", "../outside/*.md"):
        result = scan(workspace, extra, "../outside")
        assert found(result) == set()
        assert result.left_out() == [
            f"{outside}/.memoryignore can't be used (not UTF-8);"
            f" memoryd leaves out {outside} until it can"
        ]


def test_a_line_that_could_only_show_paths_is_left_out_and_told(workspace: Path) -> None:
    write(workspace / "memory/a.md")
    write(workspace / "memory/b.md")
    path = write(workspace / ".memoryignore", "a.md\n![z-a]\n")
    result = scan(workspace)
    assert found(result) == {"memory/b.md"}
    assert result.skipped == {str(path): "line 2 is not used: it is not a valid pattern"}
    assert result.left_out() == []


# --- links


def test_a_link_to_a_file_of_the_same_user_counts(workspace: Path) -> None:
    """Managers of dotfiles link to the files that they keep elsewhere."""
    a, b = write(workspace / "memory/a.md"), write(workspace / "memory/b.md")
    rules = write(workspace.parent / "dotfiles/rules", "a.md")
    (workspace.parent / "way").symlink_to("dotfiles")
    (workspace / "memory/.memoryignore").symlink_to(workspace.parent / "way/rules")
    discovery = Discovery(workspace, ())
    result = discovery.scan()
    assert (found(result), result.skipped) == ({"memory/b.md"}, {})
    assert discovery.stat(a) is None
    assert not discovery.rules_have_changed()
    rules.write_text("*.md")
    assert discovery.rules_have_changed()
    assert discovery.stat(b) is None, "a check of one file does not hide the change"
    assert discovery.rules_have_changed()
    assert found(discovery.scan()) == set()
    rules.unlink()
    assert discovery.rules_have_changed()
    assert discovery.scan().left_out() != []
    rules.write_text("a.md")
    assert discovery.rules_have_changed()
    assert found(discovery.scan()) == {"memory/b.md"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a file to another user")
def test_a_link_to_a_file_of_another_user_hides_the_folder(workspace: Path) -> None:
    write(workspace / "memory/a.md")
    rules = write(workspace.parent / "rules", "nothing")
    os.chown(rules, 4321, 4321)
    (workspace / "memory/.memoryignore").symlink_to(rules)
    discovery = Discovery(workspace, ())
    (line,) = discovery.scan().left_out()
    assert "(a link to a file of another user)" in line
    os.chown(rules, 0, 0)
    assert discovery.rules_have_changed()
    assert found(discovery.scan()) == {"memory/a.md"}


def test_a_link_that_changes_during_the_check_is_not_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is checked is the one that is read, whatever the link leads to by then."""
    write(workspace / "memory/a.md")
    mine, pipe = write(workspace.parent / "mine", "other.md"), workspace.parent / "pipe"
    os.mkfifo(pipe)
    link = workspace / "memory/.memoryignore"
    link.symlink_to(mine)
    real = os.fstat

    def swap(descriptor: int) -> os.stat_result:
        stat = real(descriptor)
        if stat.st_ino == mine.stat().st_ino:
            link.unlink(missing_ok=True)
            link.symlink_to(pipe)
        return stat

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", swap)
        Discovery(workspace, ()).scan()
    (line,) = Discovery(workspace, ()).scan().left_out()
    assert "(not a regular file)" in line


# --- cached ignore files


class Reads:
    """Counts the reads of ignore files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._real = ignore._read
        monkeypatch.setattr(ignore, "_read", self._read)

    def _read(self, *arguments: object) -> object:
        self.count += 1
        return self._real(*arguments)  # type: ignore[arg-type]


def test_it_is_read_once_while_it_stays_as_it_is(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(workspace / ".memoryignore", "a.md")
    file = write(workspace / "memory/a.md")
    reads = Reads(monkeypatch)
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + 10 * ignore.SETTLED_NS)
    discovery = Discovery(workspace, ())
    for _ in range(3):
        assert discovery.stat(file) is None
        assert found(discovery.scan()) == set()
    assert reads.count == 1
    path.write_text("b.md")
    assert discovery.stat(file) is not None
    path.unlink()
    assert discovery.stat(file) is not None
    assert reads.count == 2


def test_one_that_has_just_changed_is_read_each_time(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change in the same tick of the file system's clock could be invisible."""
    path = write(workspace / ".memoryignore", "a.md")
    file = write(workspace / "memory/a.md")
    stamp = path.stat().st_mtime_ns
    monkeypatch.setattr(time, "time_ns", lambda: stamp + 1)
    discovery = Discovery(workspace, ())
    assert discovery.stat(file) is None
    path.write_text("b.md")
    os.utime(path, ns=(stamp, stamp))
    assert discovery.stat(file) is not None


def test_looks_and_scans_may_run_side_by_side(workspace: Path) -> None:
    for number in range(30):
        write(workspace / f"memory/{number}/.memoryignore", "hidden.md")
        write(workspace / f"memory/{number}/hidden.md")
        write(workspace / f"memory/{number}/shown.md")
    discovery = Discovery(workspace, ("../nowhere/*.md",))

    def look(number: int) -> tuple[object, object]:
        folder = workspace / f"memory/{number % 30}"
        return discovery.stat(folder / "hidden.md"), discovery.stat(folder / "shown.md")

    with ThreadPoolExecutor(4) as threads:
        scans = [threads.submit(discovery.scan) for _ in range(10)]
        looks = list(threads.map(look, range(300)))
    assert all(len(scan.result().files) == 30 for scan in scans)
    assert all(hidden is None and shown is not None for hidden, shown in looks)


def test_one_that_can_not_be_read_at_this_moment_shows_nothing(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If descriptors run out, for example, hidden files must not become memory meanwhile."""
    (workspace / "memory" / ".memoryignore").write_text("secret.md\n")
    secret = workspace / "memory" / "secret.md"
    secret.write_text("hidden")
    discovery = Discovery(workspace, ())

    def too_many(path: str, below: str, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(ignore, "RegularFile", too_many)
        scan = discovery.scan()
        assert FileKey("memory", "memory/secret.md") not in scan.stats
        assert scan.unread == [workspace / "memory"]
        with pytest.raises(OSError, match="Too many open files"):
            discovery.stat(secret)
    assert discovery.stat(secret) is None
