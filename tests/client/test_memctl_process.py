"""`memctl` as a process of its own: interrupts, pipes, terminals, locales."""

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from golden_bodies import golden

import memoryd_client
from memoryd_client.bodies import IndexResult, PingResult, SearchResult

FOUND = golden("search_result", SearchResult)
INDEXED = golden("index_result", IndexResult)
PONG = golden("ping_result", PingResult)


@contextmanager
def process(
    *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, locale: str = "C"
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `memctl` as a process of its own."""
    folder = str(Path(memoryd_client.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": folder, "LC_ALL": locale}
    command = [sys.executable, "-m", "memoryd_client.memctl", *words]
    with subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr) as running:
        yield running


def test_an_interrupt_cancels_the_request_and_is_quiet() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with FakeDaemon(script) as daemon, process("index", "--socket", daemon.path) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith(b"reading 1/3")
        running.send_signal(signal.SIGINT)
        assert running.communicate() == (b"", b"")
    assert running.returncode == 130


def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    closed = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert closed.wait(STUCK_TIMEOUT_S)
        peer.answer(request, FOUND)

    with FakeDaemon(script) as daemon, process("search", "x", "--socket", daemon.path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        closed.set()
        assert running.stderr.read() == b""
    assert running.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_told_plainly() -> None:
    with (
        FakeDaemon(answering(PONG)) as daemon,
        open("/dev/full", "wb") as full,
        process("ping", "--socket", daemon.path, stdout=full.fileno()) as running,
    ):
        _, err = running.communicate()
    assert err == b"memctl: [Errno 28] No space left on device\n"
    assert running.returncode == 1


def test_output_is_utf_8_in_any_locale() -> None:
    with (
        FakeDaemon(answering(FOUND)) as daemon,
        process("search", "x", "--json", "--socket", daemon.path, locale="POSIX") as running,
    ):
        out, _ = running.communicate()
    assert "Dentist — 3 pm".encode() in out


def test_progress_is_live_on_a_terminal() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        peer.answer(request, INDEXED)

    terminal, end = pty.openpty()
    try:
        with (
            FakeDaemon(script) as daemon,
            process("index", "--socket", daemon.path, stderr=end) as running,
        ):
            out, _ = running.communicate()
        shown = os.read(terminal, 4096).decode()
    finally:
        os.close(terminal)
        os.close(end)
    assert shown.startswith("\r\x1b[Kreading 1/3 · elapsed 0:0")
    assert "\r\x1b[Kwarning: 1 text was refused" in shown
    assert out.decode().startswith("Memory index rebuilt: 12 files")
    assert running.returncode == 0


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_terminal() -> str:
        terminal, end = pty.openpty()
        try:
            with (
                FakeDaemon(answering(FOUND)) as daemon,
                process("search", "x", "--socket", daemon.path, stdout=end) as running,
            ):
                running.communicate()
            return os.read(terminal, 65536).decode()
        finally:
            os.close(terminal)
            os.close(end)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mmemory/2026-08-14.md:12-14\x1b[0m" in on_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal()
