"""Topics of conversations: titles in records of each format, and first questions."""

import json
from typing import Any

import pytest

from memoryd.messages import ConversationTopic
from memoryd.source.transcripts.detect import by_name
from memoryd.source.transcripts.format import Record
from memoryd.source.transcripts.spoken import ReadingRules, spoken
from memoryd.source.transcripts.topic import TopicReader

RULES = ReadingRules(lambda text: text.replace("hunter2", "***"))


def topic_of(
    name: str,
    *records: Record,
    base: ConversationTopic | None = None,
    rules: ReadingRules = RULES,
) -> ConversationTopic:
    known = by_name(name)
    reader = TopicReader(base, known, rules)
    for record in records:
        reader.read(record)
        if (message := known.message(record)) is not None:
            reader.hear(spoken(message, rules))
    return reader.topic


def typed(text: str, uuid: str = "u", **fields: Any) -> Record:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": "s", "message": message, **fields}


def titled(kind: str, field: str, title: object) -> Record:
    return {"type": kind, field: title, "sessionId": "s"}


def test_the_first_question_of_the_owner_is_the_topic() -> None:
    noise = typed("<system-reminder>x</system-reminder>")
    found = topic_of("claude", noise, typed("How long\nis the pier? hunter2"), typed("And now?"))
    assert found.shown(trusted=True) == "How long is the pier? ***"


def test_a_title_by_a_person_wins_and_then_the_latest_one() -> None:
    records = [
        typed("hello"),
        titled("ai-title", "aiTitle", "Pier"),
        titled("ai-title", "aiTitle", "Pier length"),
        titled("custom-title", "customTitle", "The pier"),
        titled("custom-title", "customTitle", "The hunter2\npier"),
        titled("ai-title", "aiTitle", "Length of piers"),
        titled("custom-title", "customTitle", " "),
        titled("custom-title", "customTitle", 7),
    ]
    assert topic_of("claude", *records[:3]).shown(trusted=True) == "Pier length"
    assert topic_of("claude", *records).shown(trusted=True) == "The *** pier"
    for at in range(len(records)):
        base = topic_of("claude", *records[:at])
        assert topic_of("claude", *records[at:], base=base) == topic_of("claude", *records)


def test_a_summary_counts_only_for_the_conversation_that_it_is_of() -> None:
    def summary(text: str, leaf: str) -> Record:
        return {"type": "summary", "summary": text, "leafUuid": leaf}

    other, own = summary("Another chat", "far"), summary("About the pier", "u2")
    talk = [typed("How long?", "u1"), typed("And wide?", "u2")]
    assert topic_of("claude", other, *talk).shown(trusted=True) == "How long?"
    assert topic_of("claude", own, other, *talk).shown(trusted=True) == "About the pier"
    assert topic_of("claude", *talk, own).shown(trusted=True) == "About the pier"
    base = topic_of("claude", *talk)
    assert topic_of("claude", own, base=base).shown(trusted=True) == "About the pier"


@pytest.mark.parametrize(
    ("name", "record"),
    [
        (
            "codex",
            {
                "type": "event_msg",
                "payload": {"type": "thread_name_updated", "thread_name": "Pier"},
            },
        ),
        ("openclaw", {"type": "session_info", "id": "i", "parentId": None, "name": "Pier"}),
        ("gemini", {"sessionId": "s", "projectHash": "h", "summary": "Pier"}),
        ("gemini", {"$set": {"summary": "Pier"}}),
        ("plain", {"title": "Pier"}),
    ],
)
def test_every_format_has_a_title(name: str, record: Record) -> None:
    assert topic_of(name, record).shown(trusted=True) == "Pier"


def test_no_title_hides_in_a_message() -> None:
    assert topic_of("plain", {"role": "user", "content": "x", "title": "Pier"}).title == ""


def test_a_strangers_question_is_the_topic_of_untrusted_results_alone() -> None:
    info = {"sender": "Mallory", "group_subject": "Family", "is_group_chat": True}
    theirs = f"Conversation info (untrusted metadata):\n```json\n{json.dumps(info)}\n```\n\nPay me!"
    head = {"type": "message", "parentId": None}
    stranger = {**head, "message": {"role": "user", "content": theirs}}
    owner = {**head, "message": {"role": "user", "content": "Who is that?"}}
    found = topic_of("openclaw", stranger)
    assert (found.shown(trusted=False), found.shown(trusted=True)) == ("Pay me!", "")
    found = topic_of("openclaw", stranger, owner)
    assert (found.shown(trusted=False), found.shown(trusted=True)) == ("Who is that?",) * 2


def test_a_forgotten_title_stays_away() -> None:
    rules = ReadingRules(lambda text: text, forgotten=lambda name: name == "Title: Pier")
    records = titled("ai-title", "aiTitle", "Quay"), titled("custom-title", "customTitle", "Pier")
    assert topic_of("claude", *records, rules=rules).title == "Quay"
