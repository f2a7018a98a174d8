import math
import os
from pathlib import Path
from typing import Any

import pytest

from memoryd_client import errors
from memoryd_client.schema.agents import AddBody, DropBody
from memoryd_client.schema.facts import (
    FactCaptureBody,
    FactForgetBody,
    FactRecallBody,
    FactsBody,
    FactStoreBody,
)
from memoryd_client.schema.memory import GetBody, TranscriptUpdatedBody
from memoryd_client.schema.notes import NoteBody
from memoryd_client.schema.search import SearchBody
from memoryd_client.schema.transcripts import ForgetBody
from memoryd_client.wire import requests
from memoryd_client.wire.codec import Conversation
from memoryd_client.wire.protocol import Op
from memoryd_client.wire.requests import FOREVER_S, Call, ProgressReport, TimeLimit


def search(query: str, *, since: str | None = None) -> Call[Any]:
    return requests.search(SearchBody(query, since=since))


ALL: list[Call[Any]] = [
    requests.PING,
    requests.STATUS,
    requests.CONFIG,
    search("tea"),
    requests.get(GetBody("MEMORY.md")),
    requests.context("", chat_type="direct", max_chars=8_000, now=None),
    requests.recall("tea", max_chars=1_500, now=None),
    requests.sync(vectors=True),
    requests.index(force=False, provider=None),
    requests.index(force=True, provider=None),
    requests.files("indexed", after=None, limit=200),
    requests.why("MEMORY.md"),
    requests.sessions(after=None, limit=200),
    requests.forget(ForgetBody(match="x")),
    requests.export(None),
    requests.import_transcripts([b"x"], dry_run=True),
    requests.note(NoteBody("x")),
    requests.note(NoteBody(action="undo")),
    requests.promote(apply=False, candidate=None, limit=None),
    requests.promote(apply=True, candidate="3f2a", limit=None),
    requests.STALE,
    requests.fact_store(FactStoreBody("x")),
    requests.fact_recall(FactRecallBody("x")),
    requests.fact_forget(FactForgetBody(query="x")),
    requests.facts(FactsBody()),
    requests.fact_capture(FactCaptureBody("x")),
    requests.PROBE,
    requests.session_start(""),
    requests.transcript_updated("/1.jsonl"),
    requests.events(None),
    requests.AGENTS,
    requests.add("/notes"),
    requests.drop("notes"),
    requests.RELOAD,
]


def test_only_what_changes_nothing_more_may_be_sent_twice() -> None:
    assert {call.op for call in ALL} == set(Op)
    once = {call.op for call in ALL if not call.repeatable}
    assert once == {
        Op.INDEX,
        Op.NOTE,
        Op.PROMOTE,
        Op.FACT_FORGET,
        Op.EVENTS,
        Op.ADD,
        Op.DROP,
        Op.RELOAD,
    }
    assert requests.note(NoteBody("x")).repeatable
    assert requests.index(force=False, provider=None).repeatable


def test_what_takes_long_has_its_own_time() -> None:
    own = {call.op: call.patience_s for call in ALL if call.patience_s is not None}
    assert own == {
        **dict.fromkeys((Op.SYNC, Op.INDEX, Op.EVENTS, Op.FORGET), FOREVER_S),
        **dict.fromkeys((Op.EXPORT, Op.IMPORT, Op.STALE), FOREVER_S),
        Op.PROBE: 120.0,
    }


@pytest.mark.parametrize(
    ("call", "timeout_s", "default_s", "limit_s"),
    [
        (requests.PING, None, 30.0, 30.0),
        (requests.PING, 2.0, 30.0, 2.0),
        (requests.PING, math.inf, 30.0, None),
        (requests.PING, -1.0, 30.0, 0.0),
        (requests.PING, None, None, None),
        (requests.sync(vectors=True), None, 30.0, None),
        (requests.sync(vectors=True), 2.0, 30.0, 2.0),
        (requests.PROBE, None, 30.0, 120.0),
        (requests.PROBE, None, None, 120.0),
    ],
)
def test_the_limit_of_a_call(
    call: Call[Any], timeout_s: float | None, default_s: float | None, limit_s: float | None
) -> None:
    assert call.limit_s(timeout_s, default_s) == limit_s


def test_time_that_is_over_stays_over() -> None:
    limit = TimeLimit(0.0)
    assert limit.left_s() == 0.0
    limit.extend(1000.0)
    assert 990.0 < (limit.left_s() or 0.0) <= 1000.0


def test_no_limit_is_never_over() -> None:
    limit = TimeLimit(None)
    limit.extend(1.0)
    assert limit.left_s() is None


def test_what_a_callback_raises_is_remembered() -> None:
    def fail(completed: int, total: int, label: str) -> None:
        raise ValueError(f"{label} {completed}/{total}")

    report = ProgressReport(fail)
    with pytest.raises(ValueError, match="reading 1/3") as caught:
        report(1, 3, "reading")
    assert report.error is caught.value


# --- paths -------------------------------------------------------------------------------------


def test_paths_are_those_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    assert requests.add("notes").body == AddBody(f"{tmp_path}/notes")
    assert requests.add(".").body == AddBody(str(tmp_path))
    assert requests.add("~/notes/").body == AddBody("/home/ada/notes")
    assert requests.add(tmp_path / "a" / ".." / "b").body == AddBody(f"{tmp_path}/b")
    assert requests.transcript_updated("1.jsonl").body == TranscriptUpdatedBody(
        f"{tmp_path}/1.jsonl"
    )


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        ("notes", "notes"),
        ("notes-1a2b3c4d", "notes-1a2b3c4d"),
        ("a.b", "a.b"),
        ("./notes", "{here}/notes"),
        ("notes/", "{here}/notes"),
        (".", "{here}"),
        ("..", "{above}"),
        ("~", "/home/ada"),
        ("~/notes", "/home/ada/notes"),
        ("/notes", "/notes"),
    ],
)
def test_an_agent_is_named_by_id_or_by_a_path(
    named: str, sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    assert requests.drop(named).body == DropBody(sent.format(here=tmp_path, above=tmp_path.parent))


@pytest.fixture
def in_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()


@pytest.mark.usefixtures("in_a_folder_that_is_gone")
def test_without_a_current_directory_there_are_absolute_paths_only() -> None:
    assert requests.current_folder() == ""
    assert requests.add("/notes").body == AddBody("/notes")
    with pytest.raises(errors.BadRequestError, match="notes is relative"):
        requests.add("notes")


def test_of_a_folder_without_a_unicode_name_the_one_above_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / os.fsdecode(b"caf\xe9") / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert requests.current_folder() == str(tmp_path)


# --- strings that UTF-8 cannot encode
# --------------------------------------------------------------


def test_half_an_emoji_is_searched_as_a_question_mark() -> None:
    assert search("tea \ud83c").body.query == "tea ?"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "agent"), [(search("tea", since="\udcff"), None), (requests.PING, "\udcff")]
)
def test_other_arguments_without_utf_8_are_refused(call: Call[Any], agent: str | None) -> None:
    with pytest.raises(errors.BadRequestError, match=f"an argument of {call.op}"):
        Conversation("test", "").request(call, agent, None)
