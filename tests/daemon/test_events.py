"""Events for the daemon's followers, and the notifications that agents send."""

import os
import socket
from collections.abc import Iterator

import pytest
from harness import Daemon
from waiting import eventually

from memoryd_client.errors import BadRequestError, ConnectionLostError, ShuttingDownError
from memoryd_client.schema.memory import Event


def until(events: Iterator[Event], kind: str, path: str | None = None) -> Event:
    return next(e for e in events if e.kind == kind and path in (None, e.path))


def test_a_file_is_followed_from_its_saving_to_its_end(hybrid: Daemon) -> None:
    hybrid.start()
    with hybrid.client() as client:
        events = client.events()
        assert next(events).kind == "listening"
        file = hybrid.write("memory/note.md", "a new note\n")
        until(events, "noticed", "memory/note.md")
        indexed = until(events, "indexed", "memory/note.md")
        assert (indexed.agent, indexed.count) == ("main", 1)
        assert until(events, "embedded").count == 1
        client.search("note")
        searched = until(events, "searched")
        assert (searched.count, searched.text) == (1, "note")
        file.unlink()
        until(events, "removed", "memory/note.md")
        events.close()


def test_only_the_kinds_and_the_agent_that_are_wanted(hybrid: Daemon) -> None:
    hybrid.provider = "none"
    bee = hybrid.add_agent("bee")
    hybrid.start()
    with hybrid.client("bee") as client, hybrid.client("main") as main:
        events = client.events(["listening", "searched", "indexed"])
        assert next(events).kind == "listening"
        main.search("of main")
        client.search("of bee")
        (bee / "MEMORY.md").write_text("changed\n")
        client.sync()
        first, second = next(events), next(events)
        assert {(e.agent, e.kind) for e in (first, second)} == {
            ("bee", "searched"),
            ("bee", "indexed"),
        }
        events.close()
        with pytest.raises(BadRequestError, match="valid kinds: listening, noticed"):
            next(client.events(["sung"]))


def test_a_file_that_was_only_touched_is_not_told_as_indexed(daemon: Daemon) -> None:
    file = daemon.write("memory/a.md", "one\n")
    daemon.start().sync()
    with daemon.client() as client:
        events = client.events(["listening", "indexed"])
        next(events)
        os.utime(file)
        client.sync()
        daemon.write("memory/b.md", "two\n")
        client.sync()
        assert next(events).path == "memory/b.md"
        events.close()


def test_what_stops_working_is_told_and_what_works_again(daemon: Daemon) -> None:
    good = daemon.start().config.read_text()
    with daemon.client() as client:
        events = client.events(["listening", "degraded", "recovered"])
        next(events)
        daemon.config.write_text("nonsense")
        with pytest.raises(BadRequestError):
            client.reload()
        worse = next(events)
        assert (worse.kind, worse.agent) == ("degraded", "main")
        assert "not valid TOML" in (worse.text or "")
        daemon.config.write_text(good)
        client.reload()
        assert next(events).kind == "recovered"
        events.close()


def socket_buffer_bytes() -> int:
    with socket.socket(socket.AF_UNIX) as one:
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


@pytest.mark.long
def test_a_listener_that_never_reads_harms_nobody_and_is_told_what_it_missed(
    daemon: Daemon,
) -> None:
    daemon.start()
    with daemon.client() as client:
        events = client.events(["listening", "searched", "missed"])
        next(events)
        # This exceeds the buffers of the daemon and the socket; the kernel charges a frame more
        # than its length.
        searches = 2_000 + socket_buffer_bytes() // 256
        for _ in range(searches):
            client.search("x " * 50)
        client.search("end")
        told = 0
        while (event := next(events)).kind == "searched":
            told += 1
        assert event.kind == "missed"
        assert told + (event.count or 0) == searches + 1
        events.close()


def test_the_end_of_the_daemon_ends_the_stream(daemon: Daemon) -> None:
    daemon.start()
    with daemon.client() as client:
        events = client.events()
        next(events)
        daemon.stop()
        with pytest.raises((ShuttingDownError, ConnectionLostError)):
            until(events, "never")


def test_a_session_start_takes_what_waits_and_starts_the_model(hybrid: Daemon) -> None:
    hybrid.settings = "sync = { watch_debounce_ms = 3600000, on_search = false }"
    hybrid.start()
    with hybrid.client() as client:
        events = client.events(["listening", "indexed"])
        next(events)
        client.sync()
        assert hybrid.embedded() == []
        hybrid.write("memory/a.md", "one\n")
        eventually(lambda: client.status().pending_files > 0)
        assert client.session_start("my session").syncing is True
        assert next(events).path == "memory/a.md"
        events.close()
    eventually(lambda: "Load the weights" in hybrid.model_log.read_text())


def test_a_session_start_may_be_switched_off(daemon: Daemon) -> None:
    daemon.settings = "sync = { on_session_start = false }"
    daemon.start()
    with daemon.client() as client:
        assert client.session_start().syncing is False


def test_a_file_that_its_writer_tells_of_is_looked_at_now(daemon: Daemon) -> None:
    daemon.settings = "sync = { watch = false, interval_minutes = 0 }"
    daemon.start()
    with daemon.client() as client:
        events = client.events(["listening", "indexed"])
        next(events)
        client.sync()
        file = daemon.write("memory/a.md", "one\n")
        assert client.transcript_updated(str(file)).accepted is True
        assert next(events).path == "memory/a.md"
        refused = client.transcript_updated("/etc/passwd")
        assert refused.accepted is False
        assert "not a note, and transcripts are disabled" in (refused.reason or "")
        assert client.transcript_updated(str(daemon.workspace / "a\0b.md")).accepted is False
        events.close()
