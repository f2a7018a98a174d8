"""Unusual files: each is handled and reported, and none affects the others."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from descriptors import path_of
from harness import Daemon
from waiting import PATIENCE_S, eventually

from memctl import render_search
from memoryd.app import RunOptions, run
from memoryd.chunk.parser import BATCH_BYTES
from memoryd.source.notes.reconcile import LARGE_BYTES
from memoryd_client import Client, tool_answers
from memoryd_client.shared.style import Style


def listed(daemon: Daemon, state: str) -> dict[str, str]:
    with daemon.client() as client:
        return {entry.path: entry.reason or "" for entry in client.files(state)}


def test_encodings_and_line_ends(daemon: Daemon) -> None:
    daemon.write("memory/utf16.md", "# Title\n\nwalrus 海象\n".encode("utf-16"))
    daemon.write("memory/latin.md", "caf\u00e9 walrus\n".encode("latin-1"))
    daemon.write("memory/nul.md", b"a walrus\0 with a NUL\n")
    daemon.write("memory/bom.md", b"\xef\xbb\xbf# walrus\n")
    daemon.write("memory/ends.md", b"one\r\ntwo\rthree\nwalrus\r\n")
    daemon.write("memory/empty.md", b"")
    daemon.write("memory/blank.md", b"\n \n\t\n")
    daemon.write("memory/image.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40)
    daemon.start().sync()
    with daemon.client() as client:
        hits = {hit.path: hit for hit in client.search('"walrus"', max_results=20).results}
        assert hits.keys() == {
            f"memory/{name}.md" for name in ("utf16", "latin", "nul", "bom", "ends")
        }
        assert client.search("海象").results[0].path == "memory/utf16.md"
        assert hits["memory/bom.md"].snippet == "# walrus"
        assert client.get("memory/ends.md", start_line=4).text == "walrus"
        assert client.status().files == 7
    assert listed(daemon, "remarked") == {
        "memory/utf16.md": "UTF-16, not UTF-8; it is read anyway",
        "memory/latin.md": "not UTF-8: 1 line in Windows-1252; read anyway",
        "memory/nul.md": "1 NUL byte, read as U+FFFD",
    }
    assert listed(daemon, "failed") == {"memory/image.md": "not text"}


def test_names(daemon: Daemon) -> None:
    names = ["new\nline", "quo'te\"s", "per%cent_", "semi;colon -- drop", "Case", "case", "🦭"]
    for name in names:
        daemon.write(f"memory/{name}.md", "a seal\n")
    bad = os.fsencode(daemon.workspace / "memory") + b"/\xff\xfe.md"
    Path(os.fsdecode(bad)).write_text("a seal\n")
    daemon.start().sync()
    found = daemon.paths("seal", max_results=20)
    assert sorted(found) == sorted(f"memory/{name}.md" for name in names)
    assert [*listed(daemon, "skipped").values()] == ["its name is not UTF-8"]
    shown = daemon.memctl("search", "seal", "--max-results", "20").stdout
    heads = [line for line in shown.splitlines() if line[:1].isdigit()]
    assert len(heads) == len(names), "a name never contains a line break"
    for name in names:
        assert daemon.memctl("get", f"memory/{name}.md").stdout == "a seal\n"
    (daemon.workspace / "memory/new\nline.md").unlink()
    daemon.sync()
    assert "memory/new\nline.md" not in daemon.paths("seal", max_results=20)


def test_a_name_can_not_forge_a_line_of_the_log(daemon: Daemon) -> None:
    forged = "2026-11-28 00:00:00,000 ERROR memoryd: forged"
    name = f"x\x1b]0;OWNED\a\x1b[31m\n{forged}\u202e\u2028.md"
    options = ["--config", str(daemon.config), "--log-file", str(daemon.folder / "file.log")]
    daemon.write(f"memory/{name}", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    shown = rf"x\x1b]0;OWNED\x07\x1b[31m\n{forged}\u202e\u2028.md"
    for given in (None, options):  # standard error, then a file
        daemon.start(options=given).sync()
        if given is not None:
            logged = daemon.memctl("logs").stdout
            assert shown in logged
            lines = logged.splitlines()  # more may have come since
            assert daemon.memctl_json("logs")["lines"][: len(lines)] == lines
        assert daemon.stop() == 0
    for text in (daemon.log(), logged, (daemon.folder / "file.log").read_text()):
        assert shown in text
        assert not any(line.startswith(forged) for line in text.splitlines())
        assert not set(text) & set("\x1b\a\u202e\u2028")


def test_long_lines_and_many_lines(daemon: Daemon) -> None:
    daemon.write("memory/line.md", "otter " * 500_000 + "needle")
    daemon.write("memory/lines.md", "otter\n" * 100_000 + "haystack\n")
    daemon.start().sync()
    with daemon.client() as client:
        needle = next(h for h in client.search("needle").results if "needle" in h.snippet)
        assert (needle.path, needle.start_line) == ("memory/line.md", 1)
        haystack = client.search("haystack").results[0]
        assert haystack.snippet_end_line == 100_001


def test_a_writer_that_never_rests_leaves_the_last_state(daemon: Daemon) -> None:
    daemon.start()
    script = (
        "import sys, pathlib\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "for n in range(400):\n"
        "    file = folder / f'{n % 7}.md'\n"
        "    if n % 5 == 4: file.unlink(missing_ok=True)\n"
        "    else: file.open('a').write(f'beaver line{n}\\n' * 50)\n"
    )
    (daemon.workspace / "memory").mkdir()
    command = [sys.executable, "-c", script, str(daemon.workspace / "memory")]
    with subprocess.Popen(command) as writer:
        while writer.poll() is None:
            daemon.sync()
    daemon.sync()
    with daemon.client() as client:
        indexed = {e.path: e.size_bytes for e in client.files()}
        assert listed(daemon, "failed") == {}
    on_disk = {
        f"memory/{file.name}": file.stat().st_size
        for file in (daemon.workspace / "memory").glob("*.md")
    }
    assert indexed == on_disk


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: drops its own rights to files")
def test_files_and_folders_without_permission(daemon: Daemon) -> None:
    secret = daemon.write("memory/secret.md", "a mole\n")
    daemon.write("memory/locked/inside.md", "a mole too\n")
    daemon.write("memory/open.md", "a mole as well\n")
    daemon.start().sync()
    assert len(daemon.paths("mole")) == 3
    daemon.stop()
    secret.chmod(0)
    secret.write_bytes(b"a changed mole\n")
    (daemon.workspace / "memory/locked").chmod(0)
    no_override = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    daemon.start(before=[*no_override, "--inh-caps", "-dac_override,-dac_read_search"])
    daemon.sync()
    assert len(daemon.paths("mole")) == 3, "an unreadable file is not deleted"
    assert listed(daemon, "failed") == {"memory/secret.md": "Permission denied"}
    (reason,) = listed(daemon, "skipped").values()
    assert reason == "can't be read: Permission denied"
    with daemon.client() as client:
        assert any("locked can't be read" in line for line in client.status().degraded)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Block the listing of a folder called `stuck` until the event is set."""
    release, scandir = threading.Event(), os.scandir

    def slow(path: int) -> object:
        if path_of(path).name == "stuck":
            release.wait(PATIENCE_S)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", slow)
    yield release
    release.set()


@contextmanager
def served_here(daemon: Daemon, release: threading.Event) -> Iterator[None]:
    """Serve in a thread of this process, where a test can replace functions."""
    daemon.write_config()
    loop_of: list[asyncio.AbstractEventLoop] = []
    stop = asyncio.Event()

    async def serve() -> None:
        loop_of.append(asyncio.get_running_loop())
        options = RunOptions(daemon.socket, daemon.config)
        await run(options, stop=stop, hangup=asyncio.Event())

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_STATE_HOME", str(daemon.folder / "state"))
        serving = threading.Thread(target=lambda: asyncio.run(serve()))
        serving.start()
        try:
            yield
        finally:
            release.set()
            loop_of[0].call_soon_threadsafe(stop.set)
            serving.join(PATIENCE_S)
    assert not serving.is_alive()


def test_a_disk_that_hangs_holds_up_nobody_else(daemon: Daemon, hanging: threading.Event) -> None:
    daemon.add_agent("bee")
    daemon.write("memory/stuck/note.md", "a snail\n")
    with (
        served_here(daemon, hanging),
        Client(str(daemon.socket), agent="bee", wait_s=PATIENCE_S) as bee,
    ):
        bee.sync()
        assert len(bee.search("note").results) == 1
        bee.agent = "main"
        for _ in range(20):
            bee.ping()
        assert {served.agent for served in bee.agents().agents} == {"bee", "main"}
        found = bee.search("snail", timeout_s=PATIENCE_S)
        assert found.stale
        assert found.first_index == "first index under way"
        hanging.set()
        bee.sync()
        found = bee.search("snail")
        assert (len(found.results), found.stale, found.warnings) == (1, False, [])


def test_a_search_tells_how_far_the_first_index_is(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, real_open = threading.Event(), os.open

    def slow(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "z.md":
            release.wait(PATIENCE_S)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    daemon.write(
        "memory/a.md", "a quince\n" + "nothing else\n" * (BATCH_BYTES // 10)
    )  # a batch by itself
    daemon.write("memory/z.md", f"{'z' * LARGE_BYTES}\na medlar\n")  # after all others
    monkeypatch.setattr(os, "open", slow)
    with (
        served_here(daemon, release),
        Client(str(daemon.socket), agent="main", wait_s=PATIENCE_S) as client,
    ):
        eventually(lambda: len(client.search("quince", timeout_s=1).results) == 1)
        found = client.search("medlar", timeout_s=1)
        assert found.results == []
        assert (found.first_index, found.stale) == ("first index under way, 1 of 2 files", True)
        assert found.warnings == [found.first_index]
        assert render_search.search(found, Style(colour=False)) == (
            "No matches yet: first index under way, 1 of 2 files.\n"
        )
        assert tool_answers.text(found).startswith("No match in memory yet.")
        release.set()
        eventually(lambda: client.search("medlar").first_index == "")  # each waits 2 s
        assert len(client.search("medlar").results) == 1
