"""`memctl` in a separate process: interrupts, pipes, terminals, locales."""

import os
import signal
import threading

import pytest
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from golden_bodies import golden
from memctl_process import Terminal, process

from memoryd_client.schema.memory import IndexResult, PingResult, SyncResult
from memoryd_client.schema.search import SearchResult
from memoryd_client.wire.protocol import Body

FOUND = golden("search_result", SearchResult)
INDEXED = golden("index_result", IndexResult)
PONG = golden("ping_result", PingResult)


def test_an_interrupt_cancels_the_request_and_is_quiet() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with (
        Terminal() as terminal,
        FakeDaemon(script) as daemon,
        process("index", "--socket", daemon.path, stderr=terminal.end) as running,
    ):
        terminal.until("\r\x1b[Kreading 1/3")
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate()
        assert out == b""
        assert terminal.whole().endswith("\r\x1b[K")
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
    assert err == b"memctl: can't write the output: No space left on device\n"
    assert running.returncode == 1


def test_output_is_utf_8_in_any_locale() -> None:
    with (
        FakeDaemon(answering(FOUND)) as daemon,
        process("search", "x", "--json", "--socket", daemon.path, locale="POSIX") as running,
    ):
        out, _ = running.communicate()
    assert "Dentist — 3 pm".encode() in out


@pytest.mark.parametrize(
    ("command", "answer", "says"),
    [
        ("index", INDEXED, "Memory index rebuilt: 12 files"),
        ("sync", golden("sync_result", SyncResult), "In sync: 12 files"),
    ],
)
def test_progress_is_live_on_a_terminal(command: str, answer: Body, says: str) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        peer.answer(request, answer)

    with (
        Terminal() as terminal,
        FakeDaemon(script) as daemon,
        process(command, "--socket", daemon.path, stderr=terminal.end) as running,
    ):
        out, _ = running.communicate()
        shown = terminal.whole()
    assert shown.startswith("\r\x1b[Kreading 1/3 · elapsed 0:0")
    assert "\r\x1b[Kwarning: " in shown
    assert out.decode().startswith(says)
    assert running.returncode == 0


def on_terminal(*, columns: int = 0) -> str:
    """Run a search whose stdout is a terminal; return its output."""
    with (
        Terminal(columns=columns) as terminal,
        FakeDaemon(answering(FOUND)) as daemon,
        process("search", "x", "--socket", daemon.path, stdout=terminal.end) as running,
    ):
        running.communicate()
        return terminal.whole()


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mmemory/2026-08-14.md:12-14\x1b[0m" in on_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on_terminal()


def test_snippets_are_wrapped_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    wrapped = "   14 │ Dentist — 3 pm, bring\r\n      │ the card.\r\n"
    assert wrapped in on_terminal()
    with (
        FakeDaemon(answering(FOUND)) as daemon,
        process("search", "x", "--socket", daemon.path) as running,
    ):
        out, _ = running.communicate()
    assert "   14 │ Dentist — 3 pm, bring the card.\n" in out.decode()


def test_the_terminal_tells_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "      │ the card.\r\n" in on_terminal(columns=30)
    assert "   14 │ Dentist — 3 pm, bring the card.\r\n" in on_terminal(columns=80)
