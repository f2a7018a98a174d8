"""Conversations in OpenCode's SQLite store, as OpenCode 1.18.33 writes them."""

import json
import time
from collections.abc import Iterator

import pytest
from harness import Daemon

from bench.opencode_store import OpenCodeWriter
from memoryd_client.schema.transcripts import SessionEntry

STORE = ".local/share/opencode/opencode.db"


@pytest.fixture
def agent(hybrid: Daemon) -> Iterator[OpenCodeWriter]:
    hybrid.settings += "\nsessions = { enabled = true }"
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    writer = OpenCodeWriter(hybrid.folder / STORE)
    yield writer
    writer.db.close()


def listed(daemon: Daemon) -> dict[str, SessionEntry]:
    with daemon.client() as client:
        return {entry.path: entry for entry in client.sessions()}


def texts(daemon: Daemon, first: int = 1) -> list[str]:
    with daemon.client() as client:
        return client.get("sessions/opencode/ses_1", start_line=first).text.splitlines()


def test_complete_messages_are_found_and_cited_by_their_numbers(
    hybrid: Daemon, agent: OpenCodeWriter
) -> None:
    agent.begin("ses_1")
    message = agent.say("ses_1", "when does the ferry leave?")
    agent.fill(message, "an injected gooseberry", synthetic=True)
    agent.fill(message, "an ignored gooseberry", ignored=True)
    agent.fill(message, "a tool's gooseberry", type="tool")
    answer = agent.add("ses_1", "assistant")
    hybrid.start().sync()
    assert texts(hybrid) == ["User: when does the ferry leave?"]
    agent.fill(answer, "the ferry leaves at noon")
    hybrid.sync()
    name = "sessions/opencode/ses_1"
    with hybrid.client() as client:
        (hit,) = client.search("ferry noon", sources=["sessions"]).results
        assert (hit.path, hit.start_line, hit.end_line, hit.date) == (name, 1, 2, "2026-11-29")
        shown = client.get(name, start_line=2)
        assert (shown.text, shown.total_lines) == ("Assistant: the ferry leaves at noon", 2)
        raw = json.loads(client.get(name, start_line=2, raw=True).text)
        assert raw["parts"] == [{"type": "text", "text": "the ferry leaves at noon"}]
    entry = listed(hybrid)[name]
    assert (entry.format, entry.messages, entry.session) == ("opencode", 2, "ses_1")
    assert not any("gooseberry" in hit.snippet for hit in hybrid.search("gooseberry").results)
    hybrid.assert_healthy()


def test_only_additions_are_read_and_removed_messages_leave_the_index(
    hybrid: Daemon, agent: OpenCodeWriter
) -> None:
    agent.begin("ses_1")
    for number in range(40):
        agent.say("ses_1", f"message {number} about topic{number} " + "words " * 60)
    hybrid.start().sync()
    before = hybrid.embedded()
    quince = agent.say("ses_1", "a quince")
    hybrid.sync()
    added = hybrid.embedded()[len(before) :]
    assert "quince" in added[-1]
    assert not any("topic30" in text for text in added), "only the open chunk is replaced"
    revert = json.dumps({"messageID": quince})
    agent.db.execute("UPDATE session SET revert = ?, time_updated = time_updated + 1", (revert,))
    hybrid.sync()
    (last,) = texts(hybrid, 40)
    assert "topic39" in last
    agent.db.execute("DELETE FROM message WHERE id = ?", (quince,))
    agent.db.execute("UPDATE session SET revert = NULL")
    agent.say("ses_1", "a plum instead")
    hybrid.sync()
    assert texts(hybrid, 41) == ["User: a plum instead"]
    assert not any("quince" in hit.snippet for hit in hybrid.search("quince").results)
    hybrid.assert_healthy()


def test_messages_replaced_between_two_polls_are_noticed(
    hybrid: Daemon, agent: OpenCodeWriter
) -> None:
    agent.begin("ses_1")
    agent.say("ses_1", "an apricot")
    quince = agent.say("ses_1", "a quince")
    hybrid.start().sync()
    agent.db.execute("DELETE FROM message WHERE id = ?", (quince,))
    agent.say("ses_1", "a plum")
    agent.say("ses_1", "a pear")
    hybrid.sync()
    assert texts(hybrid) == ["User: an apricot", "User: a plum", "User: a pear"]
    assert not any("quince" in hit.snippet for hit in hybrid.search("quince").results)
    hybrid.assert_healthy()


def test_subagents_and_summaries_are_left_out(hybrid: Daemon, agent: OpenCodeWriter) -> None:
    agent.begin("ses_1")
    agent.say("ses_1", "an apricot")
    agent.say("ses_1", "a summary with a quince", role="assistant", summary=True)
    agent.begin("ses_2", parent="ses_1")
    agent.say("ses_2", "look for a quince")
    hybrid.start().sync()
    assert texts(hybrid) == ["User: an apricot"]
    entry = listed(hybrid)["sessions/opencode/ses_2"]
    assert (entry.state, entry.reason) == ("left out", "a subagent")
    assert not any("quince" in hit.snippet for hit in hybrid.search("quince").results)


def test_a_quiet_conversation_becomes_a_note(hybrid: Daemon) -> None:
    notes = "notes = { enabled = true, idle_minutes = 0.00001 }"
    hybrid.settings += f"\nsessions = {{ enabled = true, {notes} }}"
    hybrid.start().sync()
    writer = OpenCodeWriter(hybrid.folder / STORE)
    writer._now_ms = time.time_ns() // 1_000_000 - 10_000
    marks = hybrid.database.parent / "main.sqlite.session-notes"
    hybrid.stop()
    marks.write_text('{"since": 1}')
    hybrid.start()
    writer.begin("ses_1")
    writer.say("ses_1", "a quince", role="user")
    writer.say("ses_1", "A fruit.", role="assistant")
    hybrid.sync()
    writer.db.close()
    (file,) = (hybrid.workspace / "memory").iterdir()
    text = file.read_text()
    assert "- User: a quince <!--" in text
    assert "- Assistant: A fruit. <!--" in text
    assert "conversation=sessions/opencode/ses_1#L" in text
