"""`get` returns lines of memory files only."""

import pytest
from harness import Daemon

from memoryd_client.errors import BadRequestError, DeniedError, NotFoundError


@pytest.fixture
def started(daemon: Daemon) -> Daemon:
    daemon.write("memory/a.md", "".join(f"line {n}\n" for n in range(1, 301)))
    daemon.write("secret.md", "not memory")
    daemon.write("memory/wide.md", f"short\n{'w' * 20_000}\nend")
    outside = daemon.folder / "outside"
    outside.mkdir()
    (outside / "passwd.md").write_text("root")
    (daemon.workspace / "memory/link").symlink_to(outside)
    (daemon.workspace / "memory/alias.md").symlink_to(daemon.workspace / "secret.md")
    return daemon.start()


def test_pages_of_120_lines_join_to_the_file(started: Daemon) -> None:
    text, start, pages = "", 1, 0
    with started.client() as client:
        while True:
            page = client.get("memory/a.md", start_line=start)
            text += page.text + "\n"
            pages += 1
            assert page.total_lines == 300
            if page.next_from is None:
                break
            start = page.next_from
    assert text == (started.workspace / "memory/a.md").read_text()
    assert pages == 3


def test_a_range_is_exact_and_past_the_end_is_nothing(started: Daemon) -> None:
    with started.client() as client:
        part = client.get("memory/a.md", start_line=10, lines=3)
        assert (part.text, part.start_line, part.lines) == ("line 10\nline 11\nline 12", 10, 3)
        assert (part.next_from, part.truncated) == (13, False)
        last = client.get("memory/a.md", start_line=300)
        assert (last.text, last.next_from) == ("line 300", None)
        past = client.get("memory/a.md", start_line=301)
        assert (past.text, past.lines, past.next_from) == ("", 0, None)


def test_an_overlong_line_is_cut_and_said_to_be(started: Daemon) -> None:
    with started.client() as client:
        first = client.get("memory/wide.md")
        assert (first.text, first.truncated, first.next_from) == ("short", True, 2)
        second = client.get("memory/wide.md", start_line=2)
        assert (len(second.text), second.truncated, second.next_from) == (12_000, True, 3)


def test_absolute_paths_are_the_same_file(started: Daemon) -> None:
    with started.client() as client:
        result = client.get(str(started.workspace / "memory/a.md"), lines=1)
    assert result.path == "memory/a.md"


@pytest.mark.parametrize(
    "path",
    [
        "secret.md",
        "memory/../secret.md",
        "memory/link/passwd.md",
        "memory/alias.md",
        "/etc/passwd",
        "../outside/passwd.md",
        "memory",
        "memory/a.txt",
        "memory/.git/a.md",
        "memory/a.md\0.md",
    ],
)
def test_what_is_not_memory_is_denied(started: Daemon, path: str) -> None:
    with started.client() as client, pytest.raises(DeniedError):
        client.get(path)


def test_what_is_not_there_is_told_apart(started: Daemon) -> None:
    with started.client() as client:
        with pytest.raises(NotFoundError, match=r"not in memory: memory/none\.md"):
            client.get("memory/none.md")
        with pytest.raises(BadRequestError):
            client.get("memory/a.md", start_line=0)
        with pytest.raises(BadRequestError):
            client.get("memory/a.md", lines=0)
