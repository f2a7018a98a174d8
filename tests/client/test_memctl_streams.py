"""`memctl files` and `memctl events`: answers that arrive in parts."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from fake_daemon import STUCK_TIMEOUT_S, FakeDaemon, Peer, answering
from memctl_process import process

from memctl import main as memctl
from memctl.streams import PAGE_FILES, event_line
from memoryd_client.schema.memory import (
    Event,
    EventsBody,
    EventsResult,
    FileEntry,
    FilesBody,
    FilesResult,
)
from memoryd_client.wire.protocol import Error

Captured = pytest.CaptureFixture[str]
NOTE = FileEntry("MEMORY.md", "indexed", "memory", 1536, 3)
WIDE = FileEntry("memory/東京.md", "indexed", "memory", 52, 1, "2 bytes are not UTF-8")
LAST = FileEntry("memory/z\nz.md", "indexed", "sessions", 10 * 1024 * 1024, 1200)


# --- files -------------------------------------------------------------------------------------


def pages(*expected: tuple[FilesBody, FilesResult]) -> FakeDaemon:
    def script(peer: Peer) -> None:
        peer.greet()
        for asked, answer in expected:
            request = peer.request()
            assert request.op == "files"
            assert msgspec.msgpack.decode(request.body, type=FilesBody) == asked
            peer.answer(request, answer)

    return FakeDaemon(script)


def two_pages() -> FakeDaemon:
    return pages(
        (
            FilesBody("indexed", None, PAGE_FILES),
            FilesResult([NOTE, WIDE], 3, next_after="memory/東京.md"),
        ),
        (FilesBody("indexed", "memory/東京.md", PAGE_FILES), FilesResult([LAST], 3)),
    )


def test_files_of_all_pages_are_listed(capsys: Captured) -> None:
    with two_pages() as daemon:
        assert memctl.main(["files", "--socket", daemon.path]) == 0
    assert capsys.readouterr() == (
        """\
chunks        size  source    path
     3     1.5 KiB  memory    MEMORY.md
     1        52 B  memory    memory/東京.md  (2 bytes are not UTF-8)
  1200    10.0 MiB  sessions  memory/z\ufffdz.md
""",
        "",
    )


def test_files_json_is_one_document(capsys: Captured) -> None:
    with two_pages() as daemon:
        assert memctl.main(["files", "--json", "--socket", daemon.path]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert answer.keys() == {"files", "hidden"}
    files = answer["files"]
    assert [file["path"] for file in files] == ["MEMORY.md", "memory/東京.md", "memory/z\nz.md"]
    assert files[1] == {
        "path": "memory/東京.md",
        "state": "indexed",
        "source": "memory",
        "sizeBytes": 52,
        "chunks": 1,
        "reason": "2 bytes are not UTF-8",
    }


@pytest.mark.parametrize("state", ["skipped", "failed", "remarked"])
def test_files_of_another_state(state: str, capsys: Captured) -> None:
    asked = FilesBody(state, None, PAGE_FILES)
    answer = FilesResult([FileEntry("memory/x.pdf", state, reason="not a\nMarkdown file")], 1)
    with pages((asked, answer)) as daemon:
        assert memctl.main(["files", f"--{state}", "--socket", daemon.path]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "                    memory    memory/x.pdf  (not a Markdown file)"
    ]


def test_no_files(capsys: Captured) -> None:
    with pages((FilesBody("indexed", None, PAGE_FILES), FilesResult([], 0))) as daemon:
        assert memctl.main(["files", "--socket", daemon.path]) == 0
    with pages((FilesBody("failed", None, PAGE_FILES), FilesResult([], 0))) as daemon:
        assert memctl.main(["files", "--failed", "--socket", daemon.path]) == 0
    assert capsys.readouterr().out == "No files.\nNo failed files.\n"


def test_files_that_fail_half_way_are_no_document(capsys: Captured) -> None:
    first = FilesResult([NOTE], 2, next_after="MEMORY.md")
    with FakeDaemon(answering(first, Error("unavailable", "stopped"))) as daemon:
        assert memctl.main(["files", "--json", "--socket", daemon.path]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "stopped"


# --- events ------------------------------------------------------------------------------------

AT = 1795834800.25
INDEXED = Event("indexed", "main", AT, "memory/a\nb.md", 3)


@pytest.fixture
def lisbon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Lisbon")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("lisbon")
@pytest.mark.parametrize(
    ("event", "line"),
    [
        (INDEXED, "indexed    main  memory/a\ufffdb.md  3 chunks"),
        (Event("noticed", "main", AT, "x.md"), "noticed    main  x.md"),
        (Event("embedded", "main", AT, count=1), "embedded   main  1 vector"),
        (Event("searched", "main", AT, count=2, text="tea"), "searched   main  2 results  tea"),
        (Event("degraded", "main", AT, text="no\nquota"), "degraded   main  no quota"),
        (Event("missed", "", AT, count=7), "missed     7 events"),
    ],
)
def test_an_event_is_one_line_with_the_local_time(event: Event, line: str) -> None:
    assert event_line(event) == f"2026-11-28 03:00:00  {line}\n"


def happening(*events: Event, end: Error | None = None) -> FakeDaemon:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert request.op == "events"
        for event in events:
            peer.item(request, event)
        if end is None:
            peer.answer(request, EventsResult())
        else:
            peer.send(msgspec.structs.replace(end, id=request.id))

    return FakeDaemon(script)


def test_events_json_is_one_object_a_line(capsys: Captured) -> None:
    with happening(INDEXED, Event("searched", "main", AT, count=2)) as daemon:
        assert memctl.main(["events", "--json", "--socket", daemon.path]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        '{"kind":"indexed","agent":"main","at":1795834800.25,'
        '"path":"memory/a\\nb.md","count":3,"text":null}'
    )
    assert json.loads(second)["kind"] == "searched"


def test_the_error_that_ends_events_is_a_line_too(capsys: Captured) -> None:
    with happening(INDEXED, end=Error("shutting_down", "memoryd stops")) as daemon:
        assert memctl.main(["events", "--json", "--socket", daemon.path]) == 1
    _, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["error"]["code"] == "shutting_down"


@pytest.mark.parametrize(
    ("line", "kinds"),
    [("events", None), ("events --kind indexed --kind searched", ["indexed", "searched"])],
)
def test_events_of_some_kinds(line: str, kinds: list[str] | None) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert msgspec.msgpack.decode(request.body, type=EventsBody) == EventsBody(kinds)
        assert request.deadline_ms is None
        peer.answer(request, EventsResult())

    with FakeDaemon(script) as daemon:
        assert memctl.main([*line.split(), "--socket", daemon.path]) == 0


def test_an_event_is_shown_at_once_and_an_interrupt_ends_it_quietly() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.item(request, INDEXED)
        assert peer.cancel().id == request.id
        assert peer.hung_up()

    with FakeDaemon(script) as daemon, process("events", "--socket", daemon.path) as running:
        assert running.stdout is not None
        assert b"indexed" in running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.communicate() == (b"", b"")
    assert running.returncode == 130


def test_a_reader_that_has_seen_enough_ends_events_quietly() -> None:
    closed = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.item(request, INDEXED)
        assert closed.wait(STUCK_TIMEOUT_S)
        peer.item(request, INDEXED)
        assert peer.cancel().id == request.id

    with FakeDaemon(script) as daemon, process("events", "--socket", daemon.path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert os.fsdecode(running.stdout.readline()).endswith("3 chunks\n")
        running.stdout.close()
        closed.set()
        assert running.stderr.read() == b""
    assert running.returncode == 0
