"""The common behaviour of calls in the blocking and the asyncio client."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from both_clients import SHORT_S, Connect, with_both_clients
from fake_daemon import WELCOME, FakeDaemon, Peer, answering
from golden_bodies import golden

from memoryd_client import Client, errors
from memoryd_client.schema.agents import (
    AddBody,
    AddResult,
    AgentsResult,
    DropBody,
    DropResult,
    ReloadResult,
)
from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactCaptureResult,
    FactForgetBody,
    FactForgetResult,
    FactRecallBody,
    FactRecallResult,
    FactsBody,
    FactsResult,
    FactStoreBody,
    FactStoreResult,
)
from memoryd_client.schema.memory import (
    BODY_OF_OP,
    ConfigResult,
    Empty,
    FilesBody,
    FilesResult,
    GetBody,
    GetResult,
    IndexBody,
    IndexResult,
    PingResult,
    ProbeResult,
    SessionStartBody,
    SessionStartResult,
    SyncBody,
    SyncResult,
    TranscriptUpdatedBody,
    TranscriptUpdatedResult,
)
from memoryd_client.schema.promotion import PromoteBody, PromoteResult
from memoryd_client.schema.recall import ContextBody, ContextResult, RecallBody, RecallResult
from memoryd_client.schema.search import Origin, SearchBody, SearchResult
from memoryd_client.schema.stale import StaleResult
from memoryd_client.schema.status import StatusResult
from memoryd_client.schema.transcripts import ExportBody, ExportResult, ImportBody, ImportResult
from memoryd_client.wire.framing import HEADER_BYTES
from memoryd_client.wire.protocol import Body, Error, Hello, Op, Result, raw
from memoryd_client.wire.requests import ProgressCallback

pytestmark = with_both_clients

PONG = golden("ping_result", PingResult)
STATUS = golden("status_result", StatusResult)
CONFIG = golden("config_result", ConfigResult)
FOUND = golden("search_result", SearchResult)
CONTEXT = golden("context_result", ContextResult)
RECALLED = golden("recall_result", RecallResult)
PROMOTED = golden("promote_result", PromoteResult)
STALE = golden("stale_result", StaleResult)
GOT = golden("get_result", GetResult)
SYNCED = golden("sync_result", SyncResult)
INDEXED = golden("index_result", IndexResult)
FILES = golden("files_result", FilesResult)
PROBED = golden("probe_result", ProbeResult)
EXPORTED = golden("export_result", ExportResult)
IMPORTED = golden("import_result", ImportResult)
FACT_STORED = golden("fact_store_result", FactStoreResult)
FACTS_RECALLED = golden("fact_recall_result", FactRecallResult)
FACT_FORGOTTEN = golden("fact_forget_result", FactForgetResult)
FACTS_CAPTURED = golden("fact_capture_result", FactCaptureResult)
FACTS = golden("facts_result", FactsResult)
STARTED = golden("session_start_result", SessionStartResult)
UPDATED = golden("transcript_updated_result", TranscriptUpdatedResult)
AGENTS = golden("agents_result", AgentsResult)
ADDED = golden("add_result", AddResult)
DROPPED = golden("drop_result", DropResult)
RELOADED = golden("reload_result", ReloadResult)

HERE = os.getcwd()


def test_connects_on_the_first_call_and_says_who_it_is(connect: Connect) -> None:
    seen: list[Hello] = []

    def script(peer: Peer) -> None:
        seen.append(peer.greet())
        peer.answer(peer.request(), PONG)

    with FakeDaemon(script) as daemon:
        client = connect(daemon.path, name="test/1", kind="agent")
        assert seen == []
        assert client.ping() == PONG
        client.close()
    assert seen == [Hello(1, 1, "test/1", HERE, "agent")]


CASES: list[tuple[Callable[[Client], object], Body, Body]] = [
    (lambda client: client.ping(), Empty(), PONG),
    (lambda client: client.status(), Empty(), STATUS),
    (lambda client: client.config(), Empty(), CONFIG),
    (lambda client: client.export(after="a"), ExportBody("a"), EXPORTED),
    (
        lambda client: client.import_transcripts([b"x"], dry_run=True),
        ImportBody([b"x"], True),
        IMPORTED,
    ),
    (lambda client: client.search("tea"), SearchBody("tea"), FOUND),
    (
        lambda client: client.search(
            "tea",
            max_results=3,
            min_score=0.5,
            sources=["memory"],
            path_glob="memory/**",
            since="2026-01-01",
            until="2026-02-01",
            min_confidence=0.25,
        ),
        SearchBody(
            "tea",
            3,
            0.5,
            ["memory"],
            "memory/**",
            "2026-01-01",
            "2026-02-01",
            min_confidence=0.25,
        ),
        FOUND,
    ),
    (lambda client: client.get("MEMORY.md"), GetBody("MEMORY.md", 1, None), GOT),
    (
        lambda client: client.get("MEMORY.md", start_line=5, lines=9),
        GetBody("MEMORY.md", 5, 9),
        GOT,
    ),
    (lambda client: client.context(), ContextBody(), CONTEXT),
    (
        lambda client: client.context("s", chat_type="group", max_chars=9, now="2026"),
        ContextBody("s", "group", 9, "2026"),
        CONTEXT,
    ),
    (lambda client: client.recall("tea"), RecallBody("tea"), RECALLED),
    (
        lambda client: client.recall("tea", max_chars=9, now="2026"),
        RecallBody("tea", 9, "2026"),
        RECALLED,
    ),
    (lambda client: client.promote(), PromoteBody(), PROMOTED),
    (
        lambda client: client.promote(apply=True, candidate="3f2a", limit=2),
        PromoteBody(True, "3f2a", 2),
        PROMOTED,
    ),
    (lambda client: client.stale(), Empty(), STALE),
    (lambda client: client.sync(), SyncBody(vectors=True), SYNCED),
    (lambda client: client.sync(vectors=False), SyncBody(vectors=False), SYNCED),
    (lambda client: client.index(), IndexBody(force=False), INDEXED),
    (lambda client: client.index(force=True), IndexBody(force=True), INDEXED),
    (lambda client: client.files_page(), FilesBody("indexed", None, 200), FILES),
    (
        lambda client: client.files_page("failed", after="memory/a.md", limit=10),
        FilesBody("failed", "memory/a.md", 10),
        FILES,
    ),
    (lambda client: client.fact_store("tea"), FactStoreBody("tea"), FACT_STORED),
    (
        lambda client: client.fact_store(
            "tea", importance=0.5, category="entity", origin=Origin.OWNER, owner="a", created_at=9
        ),
        FactStoreBody("tea", 0.5, "entity", Origin.OWNER, "a", 9),
        FACT_STORED,
    ),
    (lambda client: client.fact_recall("tea"), FactRecallBody("tea"), FACTS_RECALLED),
    (
        lambda client: client.fact_recall("tea", limit=2, min_score=0.1, owner="a"),
        FactRecallBody("tea", 2, 0.1, "a"),
        FACTS_RECALLED,
    ),
    (
        lambda client: client.fact_forget(fact_id="i", owner="a"),
        FactForgetBody("i", None, "a"),
        FACT_FORGOTTEN,
    ),
    (lambda client: client.fact_forget(query="t"), FactForgetBody(query="t"), FACT_FORGOTTEN),
    (lambda client: client.fact_capture("tea"), FactCaptureBody("tea"), FACTS_CAPTURED),
    (lambda client: client.facts_page(), FactsBody(), FACTS),
    (
        lambda client: client.facts_page("t", category="fact", owner="a", after="i", limit=2),
        FactsBody("t", "fact", "a", "i", 2),
        FACTS,
    ),
    (lambda client: client.probe(), Empty(), PROBED),
    (lambda client: client.session_start(), SessionStartBody(""), STARTED),
    (lambda client: client.session_start("tea"), SessionStartBody("tea"), STARTED),
    (
        lambda client: client.transcript_updated("/sessions/1.jsonl"),
        TranscriptUpdatedBody("/sessions/1.jsonl"),
        UPDATED,
    ),
    (
        lambda client: client.transcript_updated(Path("1.jsonl")),
        TranscriptUpdatedBody(f"{HERE}/1.jsonl"),
        UPDATED,
    ),
    (lambda client: client.agents(), Empty(), AGENTS),
    (lambda client: client.add("../notes"), AddBody(f"{os.path.dirname(HERE)}/notes"), ADDED),
    (lambda client: client.add(Path("~/notes")), AddBody(os.path.expanduser("~/notes")), ADDED),
    (lambda client: client.drop("notes-1a2b3c4d"), DropBody("notes-1a2b3c4d"), DROPPED),
    (lambda client: client.drop("."), DropBody(HERE), DROPPED),
    (lambda client: client.drop("./notes"), DropBody(f"{HERE}/notes"), DROPPED),
    (lambda client: client.drop("~"), DropBody(os.path.expanduser("~")), DROPPED),
    (lambda client: client.reload(), Empty(), RELOADED),
]


@pytest.mark.parametrize(("ask", "asked", "answer"), CASES)
def test_arguments_and_answers_travel_whole(
    connect: Connect, ask: Callable[[Client], object], asked: Body, answer: Body
) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        body = msgspec.msgpack.decode(request.body, type=BODY_OF_OP[Op(request.op)])
        assert body == asked
        peer.answer(request, answer)

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        assert ask(client) == answer


@pytest.mark.usefixtures("standing")
@pytest.mark.parametrize(
    ("ask", "deadline_ms"),
    [
        (lambda client: client.search("tea"), 12500),
        (lambda client: client.search("tea", timeout_s=2), 2000),
        (lambda client: client.search("tea", timeout_s=math.inf), None),
        (lambda client: client.search("tea", timeout_s=1e300), None),
        (lambda client: client.sync(), None),
        (lambda client: client.sync(timeout_s=2), 2000),
        (lambda client: client.index(), None),
        (lambda client: client.index(timeout_s=2), 2000),
        (lambda client: client.probe(), 120_000),
        (lambda client: client.probe(timeout_s=2), 2000),
        (lambda client: client.add("/notes"), 12500),
    ],
)
def test_requests_carry_their_deadline(
    connect: Connect, ask: Callable[[Client], object], deadline_ms: int | None
) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        assert request.deadline_ms == deadline_ms
        peer.refuse(request, "unavailable")

    with (
        FakeDaemon(script) as daemon,
        connect(daemon.path, timeout_s=12.5) as client,
        pytest.raises(errors.UnavailableError),
    ):
        ask(client)


def test_one_connection_serves_many_calls(connect: Connect) -> None:
    with FakeDaemon(answering(PONG, FOUND, GOT)) as daemon, connect(daemon.path) as client:
        assert client.ping() == PONG
        assert client.search("tea") == FOUND
        assert client.get("MEMORY.md") == GOT


def test_an_answer_larger_than_one_read_arrives_whole(connect: Connect) -> None:
    result = GetResult("MEMORY.md", "a line of memory\n" * 100_000, 1, 100_000, 100_000)
    with FakeDaemon(answering(result, PONG)) as daemon, connect(daemon.path) as client:
        assert client.get("MEMORY.md") == result
        assert client.ping() == PONG


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda client, report: client.index(on_progress=report), INDEXED),
        (lambda client, report: client.sync(on_progress=report), SYNCED),
    ],
)
def test_long_requests_report_progress(
    connect: Connect, ask: Callable[[Client, ProgressCallback], object], answer: Body
) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        peer.item(request, PONG)
        peer.progress(request, 3, 3, "embedding")
        peer.answer(request, answer)

    seen: list[tuple[int, int, str]] = []
    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        assert ask(client, lambda *state: seen.append(state)) == answer
    assert seen == [(1, 3, "reading"), (3, 3, "embedding")]


def test_progress_that_nobody_asked_for_is_no_harm(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        peer.answer(request, INDEXED)

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        assert client.index() == INDEXED


def test_a_failing_progress_callback_ends_its_own_call_only(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.request()
        peer.progress(request, 1, 3, "reading")
        assert peer.cancel().id == request.id
        peer.refuse(request, "cancelled")
        peer.answer(peer.request(), PONG)

    def fail(completed: int, total: int, label: str) -> None:
        # The client must not mistake the caller's TimeoutError for its own.
        raise TimeoutError(label)

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        with pytest.raises(TimeoutError, match=r"^reading$"):
            client.index(on_progress=fail)
        assert client.ping() == PONG


def test_an_error_answers_one_call_and_the_connection_goes_on(connect: Connect) -> None:
    script = answering(Error("not_found", "no such memory file: x.md"), PONG)
    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.NotFoundError, match=r"x\.md"):
            client.get("x.md")
        assert client.ping() == PONG


@pytest.mark.usefixtures("standing")
def test_a_timeout_cancels_and_the_late_answer_is_not_mistaken(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        slow = peer.request()
        assert slow.deadline_ms == round(SHORT_S * 1000)
        assert peer.cancel().id == slow.id
        late = Result(slow.id, raw(FOUND))
        quick = peer.request()
        peer.send(late, Result(quick.id, raw(GOT)))

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.RequestTimeoutError, match=r"search .* 0\.02 s"):
            client.search("tea", timeout_s=SHORT_S)
        assert client.get("MEMORY.md") == GOT


def test_garbage_ends_the_connection(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.request()
        peer.connection.sendall(bytes(HEADER_BYTES))
        assert peer.hung_up()

    with FakeDaemon(script, answering(PONG)) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.ProtocolMismatchError):
            client.search("tea")
        assert client.ping() == PONG


def test_an_answer_of_another_shape_is_told_and_the_connection_goes_on(
    connect: Connect,
) -> None:
    with FakeDaemon(answering(GOT, PONG)) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.ProtocolMismatchError, match=r"ping: .*`pid`"):
            client.ping()
        assert client.ping() == PONG


def test_a_request_too_large_for_the_daemon_is_not_sent(connect: Connect) -> None:
    def script(peer: Peer) -> None:
        peer.next(Hello)
        peer.send(msgspec.structs.replace(WELCOME, max_frame_bytes=1000))
        peer.answer(peer.request(), PONG)

    with FakeDaemon(script) as daemon, connect(daemon.path) as client:
        with pytest.raises(errors.TooLargeError, match="accepts 1000"):
            client.search("tea" * 1000)
        assert client.ping() == PONG
