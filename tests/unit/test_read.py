"""Reading one file, and refusals before a client may read it."""

import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.messages import FileStat
from memoryd.source.notes import read as read_module
from memoryd.source.notes.discover import Discovery
from memoryd.source.notes.read import NOT_CLOSED, NoteExcerpt, NotMemoryError, read_file, read_lines

LONG_AGO_NS = 1_600_000_000_000_000_000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "work"
    (root / "memory").mkdir(parents=True)
    (root / "README.md").write_text("not memory\n")
    (root / "MEMORY.md").write_text("one\ntwo\nthree\n")
    (root / "memory/a.md").write_text("alpha\r\nbeta\rgamma")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/passwd").write_text("root\n")
    (tmp_path / "secret/passwd.md").write_text("root\n")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/e.md").write_text("extra\n")
    (tmp_path / "extra/link").symlink_to(tmp_path / "secret")
    return root


def get(
    workspace: Path, path: str, *, start: int = 1, lines: int = 100, chars: int = 10_000
) -> NoteExcerpt:
    discovery = Discovery(workspace, ("../extra",))
    return read_lines(discovery, path, start_line=start, max_lines=lines, max_chars=chars)


# --- whole files


def test_a_file_is_its_stat_its_hash_and_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes("grün\n".encode())
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    content = read_file(path)
    found = path.stat()
    assert content.stat == FileStat(LONG_AGO_NS, 6, found.st_ino, found.st_ctime_ns)
    assert content.hash == hashlib.sha256("grün\n".encode()).hexdigest()
    assert (content.lines, content.remarks) == (["grün"], ())


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    assert read_file(tmp_path / "a.md")[2:] == ([], ())


class Clock:
    """The time of day, which only `sleep` advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_ns: int) -> None:
        self.now_ns = now_ns
        self.on_sleep: Callable[[], None] = lambda: None
        monkeypatch.setattr(time, "time_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        self.on_sleep()


def written(path: Path, text: str, mtime_ns: int) -> Path:
    path.write_text(text)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def test_a_second_change_within_a_tick_of_the_clock_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.md", "old", LONG_AGO_NS)
    clock = Clock(monkeypatch, LONG_AGO_NS + 1_000_000)
    clock.on_sleep = lambda: None if path.read_text() == "new" else change()

    def change() -> None:
        written(path, "new", LONG_AGO_NS + 4_000_000)

    content = read_file(path)
    assert (content.lines, content.stat.mtime_ns) == (["new"], LONG_AGO_NS + 4_000_000)
    assert clock.now_ns >= content.stat.mtime_ns + read_module.TICK_NS


@pytest.mark.parametrize("age_s", [60, -60, -(10**9)])
def test_an_old_file_and_one_of_the_future_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: int
) -> None:
    path = written(tmp_path / "a.md", "x", LONG_AGO_NS)
    clock = Clock(monkeypatch, LONG_AGO_NS + age_s * 1_000_000_000)
    clock.on_sleep = lambda: pytest.fail("slept")
    assert read_file(path).stat.mtime_ns == LONG_AGO_NS


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("old")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    real, calls = os.fstat, 0

    def fstat(descriptor: int) -> os.stat_result:
        nonlocal calls
        calls += 1
        if calls == 2:
            path.write_text("new and longer")
            os.utime(path, ns=(LONG_AGO_NS + 1, LONG_AGO_NS + 1))
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", fstat)
    content = read_file(path)
    assert content.lines == ["new and longer"]
    assert content.stat.mtime_ns == LONG_AGO_NS + 1
    assert content.hash == hashlib.sha256(b"new and longer").hexdigest()


def test_a_file_that_never_rests_has_the_stat_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    real, size = os.fstat, 1

    def fstat(descriptor: int) -> os.stat_result:
        nonlocal size
        found = real(descriptor)
        size += 1
        with path.open("a") as file:
            file.write("x")
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    content = read_file(path)
    assert content.stat.size < len(path.read_text())
    assert content.hash == hashlib.sha256(content.lines[0].encode()).hexdigest()


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("x")
    (tmp_path / "link.md").symlink_to("real.md")
    with pytest.raises(OSError, match=r"link\.md"):
        read_file(tmp_path / "link.md")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(OSError, match="not a regular file"):
        read_file(tmp_path / "pipe.md")


def test_a_socket_is_refused() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{name}/s.md")
        with pytest.raises(OSError, match=r"s\.md"):
            read_file(Path(f"{name}/s.md"))


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "missing"])
def test_a_refusal_leaves_no_descriptor_open(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.md"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/etc/hostname")
    before = set(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match=r"director|regular|links|No such"):
            read_file(path)
    assert set(os.listdir("/dev/fd")) <= before


def test_lines_come_together_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_module, "BLOCK_BYTES", 3)
    data = "one\r\ntwo\rgrün 🦊\n\n".encode()
    (tmp_path / "a.md").write_bytes(data)
    content = read_file(tmp_path / "a.md")
    assert content.lines == ["one", "two", "grün 🦊", ""]
    assert content.hash == hashlib.sha256(data).hexdigest()


def test_a_file_says_what_is_odd_about_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"caf\xe9 and a\0NUL\n<private>never closed\nsecret")
    assert read_file(tmp_path / "a.md")[2:] == (
        ["caf\ufffd and a\ufffdNUL", "", ""],
        (
            "not UTF-8: 1 byte can't be read; save it as UTF-8",
            "1 NUL byte, read as U+FFFD",
            NOT_CLOSED,
        ),
    )


def test_an_image_named_like_a_note_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1_000))
    with pytest.raises(OSError, match="not text"):
        read_file(tmp_path / "a.md")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.touch()
    os.truncate(path, read_module.MAX_BYTES + 1)
    with pytest.raises(OSError, match="larger than 256 MiB; split it"):
        read_file(path)


def test_a_file_that_grows_while_it_is_read_is_refused_when_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("a line\n" * 100)
    small = os.stat(path)
    monkeypatch.setattr(os, "fstat", lambda _: small)
    monkeypatch.setattr(read_module, "MAX_BYTES", 2 * 1024**2)
    path.write_text("a line\n" * 1024**2)
    with pytest.raises(OSError, match="larger than 2 MiB; split it"):
        read_file(path)


def test_a_file_of_too_many_lines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "MAX_LINES", 10)
    (tmp_path / "a.md").write_text("a\n" * 10)
    assert len(read_file(tmp_path / "a.md").lines) == 10
    (tmp_path / "a.md").write_text("a\n" * 11)
    with pytest.raises(OSError, match="more than 10 lines; split it"):
        read_file(tmp_path / "a.md")


def test_numbers_that_sqlite_cannot_hold_are_brought_into_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    fields = list(os.stat(path))
    fields[1] = 2**64 - 1
    far = os.stat_result(fields, {"st_mtime_ns": 15_032_385_535_000_000_000, "st_ctime_ns": 2**70})
    monkeypatch.setattr(os, "fstat", lambda _: far)
    Clock(monkeypatch, 2**65)
    assert all(-(2**63) <= number < 2**63 for number in read_file(path).stat)


# --- lines for clients


def test_lines_of_a_file(workspace: Path) -> None:
    assert get(workspace, "MEMORY.md") == ("MEMORY.md", ["one", "two", "three"], 3, False)
    assert get(workspace, "memory/a.md") == ("memory/a.md", ["alpha", "beta", "gamma"], 3, False)


def test_a_range_of_lines(workspace: Path) -> None:
    assert get(workspace, "MEMORY.md", start=2, lines=1) == ("MEMORY.md", ["two"], 3, False)


def test_lines_past_the_end_are_none(workspace: Path) -> None:
    assert get(workspace, "MEMORY.md", start=4) == ("MEMORY.md", [], 3, False)


def test_only_whole_lines_that_fit(workspace: Path) -> None:
    assert get(workspace, "MEMORY.md", chars=8)[1] == ["one", "two"]
    assert get(workspace, "MEMORY.md", chars=7)[1] == ["one"]


def test_a_single_line_that_is_too_long_is_cut(workspace: Path) -> None:
    (workspace / "memory/long.md").write_text("x" * 5000 + "\nshort")
    assert get(workspace, "memory/long.md", chars=10) == ("memory/long.md", ["x" * 10], 2, True)


def test_lines_that_end_where_they_were_asked_to_are_not_cut(workspace: Path) -> None:
    assert not get(workspace, "MEMORY.md", lines=2).cut
    assert not get(workspace, "MEMORY.md", chars=14).cut
    assert get(workspace, "MEMORY.md", chars=13).cut


def test_private_lines_are_placeholders(workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("a <private>b\nc\n</private>\nd `<private>`\n")
    lines = ["a [private]", "[private]", "[private]", "d `<private>`"]
    assert get(workspace, "MEMORY.md") == ("MEMORY.md", lines, 4, False)
    assert get(workspace, "MEMORY.md", start=2, lines=1).lines == ["[private]"]


def test_what_an_ignore_file_hides_is_refused(workspace: Path) -> None:
    (workspace / ".memoryignore").write_text("a.md")
    with pytest.raises(NotMemoryError):
        get(workspace, "memory/a.md")
    with pytest.raises(NotMemoryError):
        get(workspace, ".memoryignore")
    assert get(workspace, "MEMORY.md").total_lines == 3


@pytest.mark.parametrize("path", ["./MEMORY.md", "memory/../MEMORY.md", "memory//../MEMORY.md"])
def test_a_path_is_shown_as_results_show_it(workspace: Path, path: str) -> None:
    assert get(workspace, path)[0] == "MEMORY.md"
    assert get(workspace, str(workspace / path))[0] == "MEMORY.md"


def test_an_extra_path_is_memory(workspace: Path) -> None:
    absolute = str(workspace.parent / "extra/e.md")
    assert get(workspace, absolute) == (absolute, ["extra"], 1, False)
    assert get(workspace, "../extra/e.md") == (absolute, ["extra"], 1, False)


@pytest.mark.parametrize(
    "path",
    [
        "../extra/link/passwd",
        "../extra/link/passwd.md",
        "../extra/link",
        "../secret/passwd.md",
        "memory/../../secret/passwd.md",
        "memory/../README.md",
        "/etc/passwd",
        "../../../../../../etc/passwd",
        "README.md",
        "memory",
        "memory/",
        "memory/a.txt",
        "memory/.hidden.md",
        "memory/.git/a.md",
        "memory/node_modules/a.md",
        ".",
        "",
        "/",
        "~/a.md",
    ],
)
def test_what_is_no_memory_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(NotMemoryError):
        get(workspace, path)


@pytest.mark.parametrize("path", ["memory/link.md", "memory/folder/passwd.md"])
def test_links_are_refused(workspace: Path, path: str) -> None:
    secret = workspace.parent / "secret"
    (workspace / "memory/link.md").symlink_to(secret / "passwd.md")
    (workspace / "memory/folder").symlink_to(secret)
    with pytest.raises(NotMemoryError, match="links"):
        get(workspace, path)


def test_a_root_file_that_is_a_link_is_refused(workspace: Path) -> None:
    (workspace / "MEMORY.md").unlink()
    (workspace / "MEMORY.md").symlink_to(workspace.parent / "secret/passwd.md")
    with pytest.raises(NotMemoryError, match="links"):
        get(workspace, "MEMORY.md")


@pytest.mark.parametrize("path", ["memory/a\0.md", "\0", "memory/a.md\0", "memory/\ud800.md"])
def test_a_path_that_no_file_can_have_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises((NotMemoryError, ValueError)):
        get(workspace, path)


def test_memory_that_is_not_there_is_not_found(workspace: Path) -> None:
    with pytest.raises(FileNotFoundError):
        get(workspace, "memory/2026-01-01.md")


def test_a_name_that_is_too_long_is_an_error_of_the_system(workspace: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        get(workspace, "memory/" + "x" * 300 + ".md")


def test_a_path_may_be_longer_than_the_system_takes_at_once(workspace: Path) -> None:
    path = "memory/" + "x/" * 3000 + "a.md"
    with pytest.raises(FileNotFoundError):
        get(workspace, path)


def test_a_folder_named_like_a_file_is_refused(workspace: Path) -> None:
    (workspace / "memory/trip.md").mkdir()
    with pytest.raises(OSError, match=r"director|regular"):
        get(workspace, "memory/trip.md")
