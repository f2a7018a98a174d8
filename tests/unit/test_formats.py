"""Transcript formats: detection, and the messages extracted from records."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.source.transcripts.claude import own_session, source_sessions
from memoryd.source.transcripts.detect import (
    FORMATS,
    by_name,
    detect,
    excluded,
    excluded_key,
    family,
)
from memoryd.source.transcripts.format import Message, Record
from memoryd.source.transcripts.strip import on_one_line

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
ALL = ("openclaw", "claude", "codex", "gemini", "plain")
NAMES = [known.name for known in FORMATS]

T = 1771280820.0

# Line of the file, role, text, seconds.
EXPECTED: dict[str, list[tuple[int, str, str, float | None]]] = {
    "openclaw": [
        (4, "user", "When do I sow the tomatoes? 🍅", T),
        (5, "assistant", "Let me look.", T + 5),
        (7, "assistant", "In the second week of March, on the window sill.", T + 9),
        (12, "assistant", "The watering can is behind the shed.", T + 243),
        (20, "user", "明天下午三点开项目评审会议", T + 420),
    ],
    "claude": [
        (6, "user", "Why is the 温室 sensor so slow? 🌡️", 1777798810.0),
        (8, "assistant", "I read the driver first.", 1777798813.0),
        (
            18,
            "assistant",
            "It sleeps between readings; `<system-reminder>x</system-reminder>` is not why.",
            1777798822.0,
        ),
    ],
    "codex": [
        (6, "user", "Where is the 堆肥 plan? 🪱", 1784481780.1),
        (14, "assistant", "It is in docs/compost.md.", 1784481785.01),
        (18, "user", "And the worms?", 1788076800.001),
        (21, "assistant", "In the blue box.", 1788076802.01),
    ],
    "codex-events": [
        (4, "user", "Prune the 蔷薇 🌹", 1759557601.0),
        (8, "assistant", "Pruned above the third bud.", 1759557604.0),
    ],
    "codex-items": [
        (5, "user", "Which 葡萄 ripens first? 🍇", 1790841601.0),
        (8, "assistant", "The blue one.", 1790841604.0),
        (13, "user", "And this one?", 1790841607.0),
    ],
    "gemini": [
        (3, "user", "Which 堆肥 bin is full? 🪱", T),
        (9, "assistant", "The left one.", T + 4),
        (11, "assistant", "It was turned on Friday.", T + 5),
        (14, "user", "And the other?", T + 60),
    ],
    "plain": [
        (2, "user", "What did we call the cat? 🐈", T),
        (3, "assistant", "玉米, like the corn.", T + 5),
        (8, "user", "Thank you", T + 10.5),
        (9, "assistant", "You are welcome", None),
    ],
}
SESSIONS = {
    "openclaw": "6f1c2a",
    "claude": "5e55",
    "codex": "thread-1",
    "codex-events": "old-thread",
    "codex-items": "item-thread",
    "gemini": "ge-11",
    "plain": "own-7",
}


def records(name: str) -> Iterator[tuple[int, Record]]:
    """Yield the records of a fixture with their line numbers, malformed records excluded."""
    lines = (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield number, record


def head(name: str) -> list[Record]:
    return [record for _, record in records(name)]


def test_there_is_a_fixture_for_each_format() -> None:
    assert {path.stem for path in FIXTURES.iterdir()} == set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_has_a_malformed_line(name: str) -> None:
    lines = (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(head(name)) < len(lines)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_said_is_taken(name: str) -> None:
    read = by_name(name).message
    found = [(number, read(record)) for number, record in records(name)]
    said = [(n, m.role, on_one_line(m.text), m.at) for n, m in found if m]
    assert said == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_any_line_may_come_first(name: str) -> None:
    read = by_name(name).message
    found = {number: read(record) for number, record in reversed(list(records(name)))}
    assert sorted(n for n, message in found.items() if message) == [n for n, *_ in EXPECTED[name]]


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_detected_by_content_and_knows_its_session(name: str) -> None:
    found = detect(head(name), ALL)
    assert found is by_name(name)
    assert found.session(head(name)) == SESSIONS[name]
    assert excluded(head(name)) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_detected_without_its_first_line(name: str) -> None:
    assert detect(head(name)[1:], ALL) is by_name(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_that_is_not_enabled_is_not_read_as_another(name: str) -> None:
    setting = family(name)
    assert detect(head(name), [setting]) is by_name(name)
    assert detect(head(name), [other for other in ALL if other != setting]) is None


@pytest.mark.parametrize("records", [[], [{}], [{"type": "message"}], [{"role": 1, "content": ""}]])
def test_what_is_no_transcript_has_no_format(records: list[Record]) -> None:
    assert detect(records, ALL) is None


def test_a_rollout_that_has_only_begun_is_read_from_both_lanes() -> None:
    begun = head("codex")[:4]
    assert detect(begun, ALL) is by_name("codex")


def test_an_event_before_its_item_does_not_hide_the_items() -> None:
    torn = [record for record in head("codex") if record["timestamp"] < "2026-07-19T17:23:05.005Z"]
    assert torn[-1]["payload"]["type"] == "agent_message"
    assert detect(torn, ALL) is by_name("codex")


def test_no_format_has_an_unknown_name() -> None:
    with pytest.raises(KeyError):
        by_name("unknown")


def test_a_role_that_nobody_speaks_in_is_left_out() -> None:
    for role in ("toolResult", "system", "developer", "User", None, 3, ["user"]):
        record = {"type": "message", "message": {"role": role, "content": "x"}}
        assert by_name("openclaw").message(record) is None
        assert by_name("plain").message(record) is None


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"type": "custom", "data": {"sessionKey": "agent:main:cron:7e57:run:9a"}}, "cron run"),
        ({"type": "custom", "sessionKey": "cron:7e57:run:9a"}, "cron run"),
        (
            {
                "type": "custom",
                "customType": "openclaw:bootstrap-context:full",
                "data": {"runId": "dreaming-narrative-light-3"},
            },
            "dreaming narrative",
        ),
        ({"sessionKey": "agent:main:dreaming-narrative-rem-1"}, "dreaming narrative"),
        ({"type": "session_meta", "payload": {"id": "x", "thread_source": "subagent"}}, "subagent"),
        (
            {"type": "session_meta", "payload": {"source": {"subagent": {"other": "guardian"}}}},
            "subagent",
        ),
        ({"type": "custom", "data": {"sessionKey": "agent:main:main"}}, None),
        ({"type": "custom", "data": {"sessionKey": "agent:main:cron:7e57"}}, None),
        ({"type": "session_meta", "payload": {"source": "cli", "thread_source": "user"}}, None),
        ({"type": "session_meta", "payload": None}, None),
    ],
)
def test_sessions_that_nobody_takes_part_in_are_left_out(
    record: Record, reason: str | None
) -> None:
    assert excluded([{"type": "session", "id": "x"}, record]) == reason


def test_only_the_first_of_the_heads_says_whose_thread_it_is() -> None:
    child = {"type": "session_meta", "payload": {"id": "c", "thread_source": "subagent"}}
    parent = {"type": "session_meta", "payload": {"id": "p", "thread_source": "user"}}
    assert excluded([child, parent]) == "subagent"
    assert excluded([parent, child]) is None
    assert by_name("codex").session([child, parent]) == "c"


def test_nobody_can_hide_a_session_by_what_they_say() -> None:
    said: list[Record] = [
        {"type": "session", "id": "x"},
        {
            "type": "message",
            "message": {"role": "user", "content": "[cron:1] agent:main:cron:1:run:2"},
        },
        {"type": "message", "message": {"role": "user", "content": "dreaming-narrative-light-3"}},
    ]
    assert excluded(said) is None


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("agent:main:cron:a:run:b", "cron run"),
        ("agent:main:dreaming-narrative-deep-1", "dreaming narrative"),
        ("dreaming-narrative-deep-1", "dreaming narrative"),
        ("agent:main:telegram:direct:dreaming-narrative-x", None),
        ("", None),
    ],
)
def test_a_key_says_what_a_session_is(key: str, reason: str | None) -> None:
    assert excluded_key(key) == reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
WORDS = st.sampled_from(
    [
        *("message", "session", "custom", "user", "assistant", "text", "session_meta", "event_msg"),
        *("response_item", "user_message", "agent_message", "item_completed", "UserMessage"),
        *("custom-title", "ai-title", "summary", "session_info", "thread_name_updated"),
    ]
)
KEYS = st.sampled_from(
    [
        *(
            "type",
            "message",
            "role",
            "content",
            "text",
            "timestamp",
            "payload",
            "item",
            "id",
            "uuid",
        ),
        *("kind", "origin", "provenance", "sessionId", "parentId", "data", "runId", "sessionKey"),
        *(
            "source",
            "forkedFrom",
            "isMeta",
            "session_id",
            "title",
            "name",
            "summary",
            "$set",
            "leafUuid",
        ),
    ]
)
VALUES = st.recursive(
    WORDS | JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=15,
)
RECORDS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(KEYS, VALUES, max_size=8)


@given(st.lists(RECORDS, max_size=4))
def test_no_record_is_too_strange(records: list[Record]) -> None:
    excluded(records)
    detect(records, ALL)
    own = own_session("x", records)
    assert isinstance(own, str)
    assert all(isinstance(source, str) for source in source_sessions(records, own))
    for known in FORMATS:
        assert isinstance(known.session(records), str)
        for record in records:
            known.title(record)
            said = known.message(record)
            assert said is None or (
                isinstance(said, Message) and said.text.strip() == said.text != ""
            )


def answer(name: str, text: str) -> Record:
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }
    answers: dict[str, Record] = {
        "openclaw": {"type": "message", "message": {"role": "assistant", "content": text}},
        "claude": {"type": "assistant", "message": {"role": "assistant", "content": text}},
        "codex": {"type": "response_item", "payload": item},
        "codex-items": {"type": "response_item", "payload": item},
        "codex-events": {
            "type": "event_msg",
            "payload": {"type": "agent_message", "message": text},
        },
        "gemini": {"id": "m", "type": "gemini", "content": text},
        "plain": {"role": "assistant", "content": text},
    }
    return answers[name]


@pytest.mark.parametrize("name", NAMES)
@given(before=RECORDS, text=st.text(alphabet="abc 你🍅[]:", min_size=1).filter(str.strip))
def test_no_answer_is_dropped_for_what_came_before_it(name: str, before: Record, text: str) -> None:
    known = by_name(name)
    for record in (before, *head(name)):
        known.message(record)
        assert known.message(answer(name, text)) == Message("assistant", " ".join(text.split()))


def test_a_resumed_session_has_records_of_others() -> None:
    new, old, older = (f"{n}0000000-0000-4000-8000-000000000000" for n in "123")
    head: list[Record] = [
        {"sessionId": old},
        {"sessionId": new, "forkedFrom": {"sessionId": older}},
        {"sessionId": 7, "forkedFrom": "x"},
    ]
    assert own_session(new, head[:1]) == own_session(new, head) == new
    assert own_session("chat", head) == old
    assert own_session("chat", [{"sessionId": "chat2"}, {"sessionId": "chat"}]) == "chat"
    assert source_sessions(head, new) == {old, older}


@pytest.mark.parametrize("name", ["openclaw", "plain"])
@pytest.mark.parametrize("kind", ["inter_session", "internal_system"])
def test_what_another_session_sent_is_not_said(name: str, kind: str) -> None:
    said = {"role": "user", "content": "x"}
    origin = {"provenance": {"kind": kind}}
    read = by_name(name).message
    assert read({"type": "message", "message": said | origin}) is None
    assert read({"type": "message", "message": said} | origin) is None
    person = {"provenance": {"kind": "external_user"}}
    assert read({"type": "message", "message": said | person}) is not None
    answer = {"role": "assistant", "content": "x"}
    assert read({"type": "message", "message": answer | origin}) is not None
