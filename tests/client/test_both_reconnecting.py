"""Calls whose connection ends before the answer, in both clients."""

import os
import threading
from collections.abc import Callable

import pytest
from both_clients import SHORT_S, Connect, with_both_clients
from fake_daemon import STUCK_TIMEOUT_S, WELCOME, FakeDaemon, Peer, Script, answering
from golden_bodies import golden
from waiting import Standing

from memoryd_client import Client, errors
from memoryd_client.schema.agents import AgentsResult
from memoryd_client.schema.facts import (
    FactCaptureResult,
    FactRecallResult,
    FactsResult,
    FactStoreResult,
)
from memoryd_client.schema.memory import (
    FilesResult,
    GetResult,
    IndexResult,
    PingResult,
    ProbeResult,
    SessionStartResult,
    SyncResult,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.recall import ContextResult, RecallResult
from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.wire.framing import HEADER_BYTES
from memoryd_client.wire.protocol import Body, Error, Hello, Request

pytestmark = with_both_clients

PONG = golden("ping_result", PingResult)
FOUND = golden("search_result", SearchResult)
INDEXED = golden("index_result", IndexResult)

Ask = Callable[[Client], object]

REPEATED: list[tuple[Ask, Body]] = [
    (lambda client: client.ping(), PONG),
    (lambda client: client.status(), golden("status_result", StatusResult)),
    (lambda client: client.search("tea"), FOUND),
    (lambda client: client.get("MEMORY.md"), golden("get_result", GetResult)),
    (lambda client: client.context(), golden("context_result", ContextResult)),
    (lambda client: client.recall("tea"), golden("recall_result", RecallResult)),
    (lambda client: client.sync(), golden("sync_result", SyncResult)),
    (lambda client: client.index(), INDEXED),
    (lambda client: client.files_page(), golden("files_result", FilesResult)),
    (lambda client: client.fact_store("x"), golden("fact_store_result", FactStoreResult)),
    (lambda client: client.fact_recall("x"), golden("fact_recall_result", FactRecallResult)),
    (lambda client: client.fact_capture("x"), golden("fact_capture_result", FactCaptureResult)),
    (lambda client: client.facts_page(), golden("facts_result", FactsResult)),
    (lambda client: client.probe(), golden("probe_result", ProbeResult)),
    (lambda client: client.agents(), golden("agents_result", AgentsResult)),
    (lambda client: client.session_start(), golden("session_start_result", SessionStartResult)),
    (
        lambda client: client.transcript_updated("/1.jsonl"),
        golden("transcript_updated_result", TranscriptUpdatedResult),
    ),
]
SENT_ONCE: list[Ask] = [
    lambda client: client.index(force=True),
    lambda client: client.fact_forget(query="x"),
    lambda client: client.add("/notes"),
    lambda client: client.drop("notes"),
    lambda client: client.reload(),
]

# The ways in which a daemon can end a connection with a request in flight.


def vanish(peer: Peer, request: Request) -> None:
    """Close the connection without a word, like a killed daemon."""


def vanish_in_a_frame(peer: Peer, request: Request) -> None:
    peer.connection.sendall((100).to_bytes(HEADER_BYTES, "big") + b"\x82")


def stop(peer: Peer, request: Request) -> None:
    peer.refuse(request, "shutting_down", "memoryd is stopping")


def say_goodbye(peer: Peer, request: Request) -> None:
    peer.send(Error("shutting_down", "memoryd is stopping", retryable=True))


End = Callable[[Peer, Request], None]
ENDS: list[End] = [vanish, vanish_in_a_frame, stop, say_goodbye]
of_any_kind = pytest.mark.parametrize("end", ENDS)


def ending(end: End, *, seen: list[Request] | None = None) -> Script:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        if seen is not None:
            seen.append(request)
        end(peer, request)

    return script


@pytest.mark.parametrize(("ask", "answer"), REPEATED)
def test_what_changes_nothing_is_asked_once_more(connect: Connect, ask: Ask, answer: Body) -> None:
    first: list[Request] = []
    again: list[Request] = []

    def script(peer: Peer) -> None:
        peer.greet()
        again.append(peer.request())
        peer.answer(again[0], answer)

    with (
        FakeDaemon(ending(vanish, seen=first), script) as daemon,
        connect(daemon.path, agent="work", timeout_s=None) as client,
    ):
        assert ask(client) == answer
    assert (again[0].op, again[0].body, again[0].agent) == (first[0].op, first[0].body, "work")


@of_any_kind
def test_however_the_daemon_went(connect: Connect, end: End) -> None:
    with (
        FakeDaemon(ending(end), answering(FOUND, PONG)) as daemon,
        connect(daemon.path) as client,
    ):
        assert client.search("tea") == FOUND
        assert client.ping() == PONG


@pytest.mark.parametrize("ask", SENT_ONCE)
def test_what_changes_something_is_never_sent_twice(connect: Connect, ask: Ask) -> None:
    with (
        FakeDaemon(ending(vanish), answering(PONG)) as daemon,
        connect(daemon.path) as client,
    ):
        with pytest.raises(errors.ConnectionLostError, match="may or may not have run") as caught:
            ask(client)
        assert not caught.value.retryable
        assert client.ping() == PONG


@pytest.mark.parametrize("end", [stop, say_goodbye])
def test_nor_when_the_daemon_says_that_it_stops(connect: Connect, end: End) -> None:
    with (
        FakeDaemon(ending(end), answering(PONG)) as daemon,
        connect(daemon.path) as client,
    ):
        with pytest.raises(errors.ShuttingDownError, match="memoryd is stopping"):
            client.index(force=True)
        assert client.ping() == PONG


def test_a_call_is_not_sent_a_third_time(connect: Connect) -> None:
    with (
        FakeDaemon(ending(vanish), ending(vanish), answering(PONG)) as daemon,
        connect(daemon.path) as client,
    ):
        with pytest.raises(errors.ConnectionLostError, match="lost twice before search"):
            client.search("tea")
        assert client.ping() == PONG


def test_a_daemon_that_stops_twice_is_told(connect: Connect) -> None:
    with (
        FakeDaemon(ending(stop), ending(stop)) as daemon,
        connect(daemon.path) as client,
        pytest.raises(errors.ShuttingDownError),
    ):
        client.search("tea")


def test_one_that_hangs_up_before_it_greets_was_asked_nothing(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        """Accept the connection and close it, like a daemon that is shutting down."""

    with (
        FakeDaemon(ending(vanish), script, script, answering(FOUND)) as daemon,
        connect(daemon.path, wait_s=STUCK_TIMEOUT_S) as client,
    ):
        assert client.search("tea") == FOUND


def test_the_second_try_has_what_is_left_of_the_time(connect: Connect, standing: Standing) -> None:
    """The new daemon sends a greeting but never answers: the call ends when its time is over."""
    ended = threading.Event()

    def script(peer: Peer) -> None:
        peer.next(Hello)
        standing.now_s += STUCK_TIMEOUT_S - SHORT_S
        peer.send(WELCOME)
        request = peer.request()
        assert request.deadline_ms == SHORT_S * 1000
        assert peer.cancel().id == request.id
        ended.set()

    with (
        FakeDaemon(ending(vanish), script) as daemon,
        connect(daemon.path) as client,
        pytest.raises(errors.RequestTimeoutError, match=rf"search .* {STUCK_TIMEOUT_S:g} s"),
    ):
        client.search("tea", timeout_s=STUCK_TIMEOUT_S)
    assert ended.is_set()


def gone_for_good() -> FakeDaemon:
    def vanish_with_the_socket(peer: Peer, request: Request) -> None:
        os.unlink(daemon.path)

    daemon = FakeDaemon(ending(vanish_with_the_socket))
    return daemon


@pytest.mark.parametrize("end", [stop, say_goodbye])
@pytest.mark.parametrize("greets", [True, False])
def test_a_daemon_that_was_stopped_is_told(
    connect: Connect, end: End, greets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket takes connections until its agents have stopped."""

    def stop_later(peer: Peer, request: Request) -> None:
        monkeypatch.setattr("memoryd_client.transport.dial.HELLO_TIMEOUT_S", SHORT_S)
        end(peer, request)

    def hang(peer: Peer) -> None:
        peer.next(Hello)
        assert peer.hung_up()

    def goodbye(peer: Peer) -> None:
        peer.send(Error("shutting_down", "memoryd is stopping"))

    with (
        FakeDaemon(ending(stop_later), goodbye if greets else hang) as daemon,
        connect(daemon.path, wait_s=0, timeout_s=None) as client,
        pytest.raises(errors.DaemonNotRunningError, match="was stopped before index was") as caught,
    ):
        client.index()
    assert "memctl start" in caught.value.hint


def test_a_daemon_that_stays_away_is_told_as_such(connect: Connect) -> None:
    with (
        gone_for_good() as daemon,
        connect(daemon.path, wait_s=SHORT_S, timeout_s=None) as client,
        pytest.raises(errors.DaemonNotRunningError, match="no memoryd is running"),
    ):
        client.search("tea")


def test_waiting_for_it_to_come_back_ends_with_the_calls_time(connect: Connect) -> None:
    with (
        gone_for_good() as daemon,
        connect(daemon.path, wait_s=STUCK_TIMEOUT_S) as client,
        pytest.raises(errors.RequestTimeoutError, match=r"search .* 0\.02 s"),
    ):
        client.search("tea", timeout_s=SHORT_S)


def test_a_callbacks_own_lost_connection_is_not_the_calls(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        peer.answer(peer.request(), PONG)

    def fail(completed: int, total: int, label: str) -> None:
        raise errors.ConnectionLostError("another one")

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.ConnectionLostError, match=r"^another one$"):
            client.sync(on_progress=fail)
        assert client.ping() == PONG


def test_pages_of_files_go_on_over_a_restart(connect: Connect) -> None:
    page = golden("files_result", FilesResult)
    last = FilesResult(page.files[:1], total=page.total)
    assert page.next_after is not None
    scripts = (answering(page), answering(last))

    with FakeDaemon(*scripts) as daemon, connect(daemon.path) as client:
        assert list(client.files("failed")) == [*page.files, *last.files]
