"""Conversations in OpenClaw's SQLite store, while the agent writes to it."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from harness import Daemon
from openclaw_stores import OpenClawWriter

from memoryd_client.errors import NotFoundError
from memoryd_client.schema.transcripts import SessionEntry

STORE = ".openclaw/agents/main/agent/openclaw-agent.sqlite"


@pytest.fixture
def reader(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, that reads transcripts only when told to."""
    hybrid.settings += "\nsessions = { enabled = true }"
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    return hybrid


@pytest.fixture
def agent(reader: Daemon) -> Iterator[OpenClawWriter]:
    writer = OpenClawWriter(reader.folder / STORE)
    yield writer
    writer.close()


def listed(daemon: Daemon) -> dict[str, SessionEntry]:
    with daemon.client() as client:
        return {entry.path: entry for entry in client.sessions()}


def found(daemon: Daemon, word: str) -> list[str]:
    """Return the transcripts in which a search finds a word."""
    hits = daemon.search(word, sources=["sessions"]).results
    return [hit.path for hit in hits if word in hit.snippet]


def texts(daemon: Daemon, name: str) -> list[str]:
    with daemon.client() as client:
        return client.get(name).text.splitlines()


def test_a_conversation_is_found_and_cited_by_the_numbers_of_its_events(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    agent.begin("first")
    agent.add("first", {"type": "model_change", "modelId": "scripted"})
    agent.say("first", "when does the ferry leave?")
    agent.say("first", "the ferry leaves at noon", role="assistant", packed=True)
    agent.say("first", "a tool's gooseberry", role="toolResult")
    reader.start().sync()
    name = "sessions/openclaw/first"
    with reader.client() as client:
        (hit,) = client.search("ferry noon", sources=["sessions"]).results
        assert (hit.path, hit.start_line, hit.end_line) == (name, 2, 3)
        shown = client.get(name, start_line=3, lines=1)
        assert (shown.text, shown.total_lines) == ("Assistant: the ferry leaves at noon", 4)
        raw = json.loads(client.get(name, start_line=3, lines=1, raw=True).text)
        assert raw["message"]["content"] == "the ferry leaves at noon"
        with pytest.raises(NotFoundError):
            client.get("sessions/openclaw/second")
    assert found(reader, "gooseberry") == []
    entry = listed(reader)[name]
    assert (entry.format, entry.state, entry.messages) == ("openclaw", "indexed", 2)
    assert (entry.session, entry.owner, entry.pending_bytes) == ("first", "main", 0)
    assert entry.real_path == f"{reader.folder / STORE}/first"
    reader.assert_healthy()


def test_only_what_was_added_is_read_and_embedded(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    for number in range(60):
        agent.say("first", f"message {number} about topic{number} " + "words " * 60)
    reader.start().sync()
    before = reader.embedded()
    agent.say("first", "a last word about gooseberries")
    entry = listed(reader)["sessions/openclaw/first"]
    assert (entry.state, entry.pending_bytes) == ("pending", 1)
    reader.sync()
    (added,) = reader.embedded()[len(before) :]
    assert "gooseberries" in added
    assert found(reader, "gooseberries") == ["sessions/openclaw/first"]
    assert found(reader, "topic7") == ["sessions/openclaw/first"]


def test_a_writer_that_reports_its_store_has_it_read_at_once(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    agent.begin("first")
    agent.say("first", "an apricot")
    reader.start().sync()
    agent.say("first", "a quince")
    with reader.client() as client:
        assert client.transcript_updated(str(agent.path)).accepted
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]


def test_no_file_is_created_beside_the_store(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    agent.say("first", "an apricot")
    reader.start().sync()
    agent.close()
    assert {path.name for path in agent.path.parent.iterdir()} == {agent.path.name}
    again = OpenClawWriter(agent.path)
    again.say("first", "a quince")
    again.close()
    before = agent.path.read_bytes()
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    assert texts(reader, "sessions/openclaw/first") == ["User: an apricot", "User: a quince"]
    assert {path.name for path in agent.path.parent.iterdir()} == {agent.path.name}
    assert agent.path.read_bytes() == before


def test_what_a_killed_agent_has_left_in_its_log_is_read(reader: Daemon) -> None:
    path = reader.folder / STORE
    writer = OpenClawWriter(path)
    writer.begin("first")
    writer.close()
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from openclaw_stores import OpenClawWriter\n"
        "OpenClawWriter(Path(sys.argv[1])).say('first', 'a quince'); os._exit(0)"
    )
    tests = str(Path(__file__).parents[1])
    subprocess.run([sys.executable, "-c", script, str(path), tests], check=True)
    assert path.with_name(f"{path.name}-wal").stat().st_size
    reader.start().sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]


def test_rewound_messages_leave_the_index(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    agent.say("first", "a quiet apricot")
    second = agent.say("first", "a loud quince")
    agent.begin("other")
    agent.say("other", "a medlar")
    agent.say("other", "a pear", active=False)
    reader.start().sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    assert found(reader, "pear") == []
    agent.abandon("first", second)
    agent.say("first", "a plum instead")
    reader.sync()
    assert found(reader, "quince") == []
    assert found(reader, "plum") == found(reader, "apricot") == ["sessions/openclaw/first"]
    assert texts(reader, "sessions/openclaw/first") == [
        "User: a quiet apricot",
        "User: a plum instead",
    ]
    agent.rewind("first", 1, "copy")
    agent.say("copy", "a cherry")
    reader.sync()
    assert found(reader, "apricot") == []
    assert found(reader, "cherry") == ["sessions/openclaw/copy"]
    entry = listed(reader)["sessions/openclaw/first"]
    assert (entry.state, entry.reason) == ("left out", "rewound; it continues as copy")
    reader.assert_healthy()


def test_a_rewritten_conversation_is_read_again(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    agent.say("first", "a medlar")
    reader.start().sync()
    event = json.dumps({"type": "message", "message": {"role": "user", "content": "a plum"}})
    agent.db.execute("UPDATE transcript_events SET event_json = ? WHERE seq = 1", (event,))
    agent.db.execute("UPDATE transcript_rewrite_watermarks SET generation = 'another'")
    reader.sync()
    assert found(reader, "quince") == []
    assert found(reader, "plum") == ["sessions/openclaw/first"]


def test_a_locked_or_unreadable_store_keeps_what_is_indexed(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    reader.start().sync()
    agent.close()
    kept = agent.path.read_bytes()
    with closing(sqlite3.connect(agent.path)) as connection:
        connection.execute("ALTER TABLE transcript_events RENAME TO events")
    reader.stop()
    reader.start().sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    shown = f"{agent.path}: a store of an unknown OpenClaw: it has no transcript_events.event_json"
    assert shown in reader.memctl("sessions").stderr
    with reader.client() as client:
        (skipped,) = client.status().skipped_paths
        assert (skipped.path, shown.partition(": ")[2]) == (str(agent.path), skipped.reason)
    agent.path.write_bytes(b"no database " * 1_000)
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    assert "not a sound SQLite database" in reader.memctl("sessions").stderr
    agent.path.write_bytes(kept)
    agent.path.with_name(f"{agent.path.name}-journal").write_bytes(b"journal")
    reader.sync()
    assert "its program is writing to it" in reader.memctl("sessions").stderr
    agent.path.with_name(f"{agent.path.name}-journal").unlink()
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    reader.assert_healthy()


def test_links_to_stores_are_not_followed(reader: Daemon, tmp_path: Path) -> None:
    writer = OpenClawWriter(tmp_path / "elsewhere.sqlite")
    writer.begin("first")
    writer.say("first", "a quince")
    writer.close()
    path = reader.folder / STORE
    path.parent.mkdir(parents=True)
    path.symlink_to(writer.path)
    reader.start().sync()
    assert listed(reader) == {}
    path.unlink()
    path.hardlink_to(writer.path)
    path.with_name(f"{path.name}-wal").symlink_to(writer.path)
    reader.sync()
    assert "not a regular file" in reader.memctl("sessions").stderr


@pytest.mark.parametrize(
    "place", ["", "/*", "/*/agent", f"/{STORE.removeprefix('.openclaw/agents/')}"]
)
def test_paths_name_the_store_or_a_folder_above_it(reader: Daemon, place: str) -> None:
    reader.settings = reader.settings.replace(
        "sessions = { enabled = true }",
        f'sessions = {{ enabled = true, paths = ["~/.openclaw/agents{place}"] }}',
    )
    for name in ("main", "work"):
        path = reader.folder / STORE.replace("main", name)
        with closing(OpenClawWriter(path)) as writer:
            writer.begin("first")
            writer.say("first", f"the quince of {name}")
    reader.start().sync()
    names = {"sessions/openclaw/first": "User: the quince of main"}
    if "main" not in place:
        names["sessions/openclaw/work/first"] = "User: the quince of work"
    assert listed(reader).keys() == names.keys()
    assert {name: texts(reader, name)[0] for name in names} == names


def test_a_format_that_is_not_enabled_is_not_read(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    reader.settings = reader.settings.replace(
        "enabled = true }", 'enabled = true, formats = ["claude"] }'
    )
    reader.start().sync()
    assert listed(reader) == {}
