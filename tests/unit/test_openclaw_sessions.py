"""Sessions without people, as OpenClaw's `sessions.json` tells them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.source.transcripts.openclaw_sessions import SessionKeys

STORE = {
    "agent:main:main": {"sessionId": "talk", "skillsSnapshot": {"prompt": "x"}},
    "agent:main:cron:daily": {"sessionId": "cron"},
    "agent:main:cron:daily:run:cron": {"sessionId": "cron"},
    "agent:main:subagent:a": {"sessionId": "child", "spawnedBy": "agent:main:cron:daily:run:cron"},
    "agent:main:subagent:b": {
        "sessionId": "grandchild",
        "parentSessionKey": "agent:main:subagent:a",
    },
    "agent:main:subagent:c": {"sessionId": "helper", "spawnedBy": "agent:main:main"},
    "agent:main:dreaming-narrative-light-1": {"sessionFile": "/x/sessions/dream.jsonl"},
    "agent:main:cron:shared": {"sessionId": "shared"},
    "agent:main:telegram:direct:7": {"sessionId": "shared", "spawnedBy": "agent:main:round"},
    "agent:main:round": {"sessionId": 7, "spawnedBy": "agent:main:telegram:direct:7"},
}
REASONS = {
    "talk": None,
    "cron": "cron run",
    "child": "session that a cron run spawned",
    "grandchild": "session that a cron run spawned",
    "helper": None,
    "dream": "dreaming narrative",
    "shared": None,
    "unknown": None,
}


def write(folder: Path, store: Any) -> SessionKeys:
    (folder / "sessions.json").write_text(json.dumps(store))
    return SessionKeys(lambda path: path.parent)


@pytest.mark.parametrize(
    "ending",
    [".jsonl", "-topic-12.jsonl", ".jsonl.deleted.2026-11-28T10-00-00.000Z"],
)
def test_runs_and_what_they_spawn_are_left_out(tmp_path: Path, ending: str) -> None:
    keys = write(tmp_path, STORE)
    assert {name: keys.facts(tmp_path / f"{name}{ending}").reason for name in REASONS} == REASONS


def test_a_change_is_noticed_and_a_torn_store_keeps_what_was_known(tmp_path: Path) -> None:
    keys = write(tmp_path, STORE)
    cron, talk = tmp_path / "cron.jsonl", tmp_path / "talk.jsonl"
    assert keys.facts(cron).reason == "cron run"
    (tmp_path / "sessions.json").write_text('{"agent:main:cron:daily": {"sess')
    assert keys.facts(cron).reason == "cron run"
    write(tmp_path, {"agent:main:cron:other": {"sessionId": "talk"}})
    assert (keys.facts(cron).reason, keys.facts(talk).reason) == (None, "cron run")
    os.unlink(tmp_path / "sessions.json")
    assert keys.facts(talk).reason is None
    (tmp_path / "away").mkdir()
    (tmp_path / "away/sessions.json").write_text(json.dumps(STORE))
    (tmp_path / "sessions.json").symlink_to("away/sessions.json")
    assert keys.facts(cron).reason is None


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists) | st.just([1]))
def test_no_store_is_too_strange(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    folder = tmp_path_factory.mktemp("store")
    for store in (value, {"agent:main:cron:a": value}, {"cron:a": {"sessionId": value}}):
        write(folder, store).facts(folder / "a.jsonl")


@pytest.mark.parametrize(
    ("key", "stated", "kind"),
    [
        ("agent:main:main", None, "direct"),
        ("agent:main:telegram:direct:7", None, "direct"),
        ("agent:main:dm:ana", None, "direct"),
        ("agent:main:telegram:group:-100", None, "group"),
        ("agent:main:discord:channel:77:thread:9", None, "channel"),
        ("agent:main:subagent:x", None, ""),
        ("agent:group:x:y", None, ""),
        ("agent:main:slack:group", None, ""),
        ("agent:main:telegram:group:-100", "direct", "direct"),
        ("agent:main:x", "channel", "channel"),
        ("agent:main:telegram:group:-100", ["direct"], "group"),
    ],
)
def test_a_session_tells_the_kind_of_its_chat(
    tmp_path: Path, key: str, stated: object, kind: str
) -> None:
    keys = write(tmp_path, {key: {"sessionId": "a", "chatType": stated}})
    assert keys.facts(tmp_path / "a.jsonl").chat_type == kind


def test_a_session_that_is_direct_too_is_private(tmp_path: Path) -> None:
    both = ("agent:main:telegram:group:-100", "agent:main:main")
    keys = write(tmp_path, {key: {"sessionId": "a"} for key in both})
    assert keys.facts(tmp_path / "a.jsonl").chat_type == "direct"


def test_the_sessions_above_one_are_named_by_key_and_id(tmp_path: Path) -> None:
    keys = write(tmp_path, STORE)
    assert keys.facts(tmp_path / "helper.jsonl").spawned_by == ("agent:main:main", "talk")
    assert keys.facts(tmp_path / "grandchild.jsonl").spawned_by == (
        "agent:main:subagent:a",
        "child",
        "agent:main:cron:daily:run:cron",
        "cron",
    )
    assert keys.facts(tmp_path / "talk.jsonl").spawned_by == ()
