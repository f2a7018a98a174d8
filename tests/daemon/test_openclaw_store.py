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

from bench.openclaw_store import OpenClawWriter
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
        "from bench.openclaw_store import OpenClawWriter\n"
        "OpenClawWriter(Path(sys.argv[1])).say('first', 'a quince'); os._exit(0)"
    )
    root = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", script, str(path), root], check=True)
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


def test_a_store_whose_folder_is_missing_keeps_its_conversations(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    agent.close()
    reader.start().sync()
    folder, elsewhere = agent.path.parent, reader.folder / "elsewhere"
    reader.stop()
    folder.rename(elsewhere)
    reader.start().sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    elsewhere.rename(folder)
    reader.sync()
    assert texts(reader, "sessions/openclaw/first") == ["User: a quince"]
    agent.path.unlink()
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/first"]
    assert texts(reader, "sessions/openclaw/first") == ["User: a quince"]
    with reader.client() as client:
        (entry,) = client.sessions()
    assert (entry.state, entry.gone_at is None) == ("kept", False)
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
        "sessions = { enabled = true, visibility = 'all', "
        f'paths = ["~/.openclaw/agents{place}"] }}',
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


@pytest.mark.parametrize("way", ["deleted", "packed", "cold", "cold file"])
def test_a_conversation_that_is_packed_away_stays_the_same(
    reader: Daemon, agent: OpenClawWriter, way: str
) -> None:
    agent.begin("first")
    agent.say("first", "a quiet apricot")
    second = agent.say("first", "a loud quince")
    agent.abandon("first", second)
    agent.say("first", "a plum instead")
    reader.start().sync()
    shown = texts(reader, "sessions/openclaw/first")
    embedded = reader.embedded()
    if way.startswith("cold"):
        agent.cool("first", in_file=way == "cold file")
    else:
        agent.delete("first", packed=way == "packed")
    reader.sync()
    assert reader.embedded() == embedded
    assert texts(reader, "sessions/openclaw/first") == shown
    assert shown == ["User: a quiet apricot", "User: a plum instead"]
    assert found(reader, "plum") == ["sessions/openclaw/first"]
    assert found(reader, "quince") == []
    assert [*listed(reader)] == ["sessions/openclaw/first"]
    reader.assert_healthy()


def test_an_archive_of_a_session_that_goes_on_is_a_transcript_of_its_own(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    agent.delete("first", reason="reset")
    agent.begin("first")
    agent.say("first", "a plum")
    reader.start().sync()
    assert found(reader, "plum") == ["sessions/openclaw/first"]
    (old,) = found(reader, "quince")
    assert old.startswith("sessions/openclaw/first.")
    assert {entry.session for entry in listed(reader).values()} == {"first"}
    with reader.client() as client:
        assert sorted(client.forget(session="first").paths) == sorted(
            ["sessions/openclaw/first", old]
        )
    reader.sync()
    assert found(reader, "quince") == found(reader, "plum") == []


RUNS = [
    ("agent:main:cron:daily:run:1", {"created_via": "cron"}, {}, "a cron run"),
    ("agent:main:cron:daily", {}, {}, "a cron run"),
    ("agent:main:main:a", {"created_via": "internal"}, {}, "an internal run"),
    ("agent:main:subagent:a", {"created_via": "spawn"}, {}, "a spawned run"),
    ("agent:main:x", {}, {"spawned_by": "agent:main:main"}, "a spawned run"),
    (
        "agent:main:y",
        {"parent_session_key": "agent:main:cron:daily:run:1"},
        {},
        "a session that a cron run spawned",
    ),
    ("agent:main:dreaming-narrative-z", {}, {}, "a dreaming narrative"),
]


def test_sessions_without_people_are_left_out_with_the_reason(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    for number, (key, node, window, _) in enumerate(RUNS):
        agent.begin(f"s{number}", key, node or {"created_via": None}, **window)
        agent.say(f"s{number}", f"quince {number}")
    agent.begin("kept", "agent:main:main", {"created_via": "run", "created_actor_type": "human"})
    agent.say("kept", "a plum")
    reader.start().sync()
    entries = listed(reader)
    kept = entries.pop("sessions/openclaw/kept")
    assert kept.state == "indexed"
    assert {entry.state for entry in entries.values()} == {"left out"}
    reasons = [entries[f"sessions/openclaw/s{number}"].reason for number in range(len(RUNS))]
    assert reasons == [reason for *_, reason in RUNS]
    assert found(reader, "quince") == []


def test_what_is_forgotten_in_the_agent_leaves_the_index(
    reader: Daemon, agent: OpenClawWriter
) -> None:
    for name in ("first", "second"):
        agent.begin(name)
        agent.say(name, f"a quince of the {name}")
    reader.start().sync()
    agent.forget("first")
    reader.sync()
    assert found(reader, "quince") == ["sessions/openclaw/second"]
    entry = listed(reader)["sessions/openclaw/first"]
    assert (entry.state, entry.reason) == ("left out", "its session was forgotten in OpenClaw")
    agent.forget("second")
    agent.db.execute("DELETE FROM session_windows")
    reader.sync()
    assert found(reader, "quince") == []
    reader.assert_healthy()


def test_what_is_forgotten_here_stays_forgotten(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("first")
    agent.say("first", "a quince")
    agent.say("first", "a plum")
    agent.begin("second")
    agent.say("second", "a medlar")
    agent.begin("third")
    agent.say("third", "a cherry")
    reader.start().sync()
    with reader.client() as client:
        assert client.forget(match="quince").messages == 1
        assert client.forget(session="second").paths == ["sessions/openclaw/second"]
        result = client.forget(path="sessions/openclaw/third", delete_source=True)
        assert (result.paths, result.deleted) == (["sessions/openclaw/third"], [])
        assert result.remains == [
            f"the conversations are still in {agent.path}, which belongs to the agent;"
            " delete them with the agent"
        ]
        for name in ("first", "second", "third"):
            agent.say(name, "a pear")
        client.sync()
        client.index(force=True)
    assert found(reader, "quince") == found(reader, "medlar") == found(reader, "cherry") == []
    assert found(reader, "plum") == found(reader, "pear") == ["sessions/openclaw/first"]
    assert texts(reader, "sessions/openclaw/first") == ["User: a plum", "User: a pear"]
    reader.assert_healthy()


def origin_of(daemon: Daemon, words: str) -> str:
    hits = daemon.search("quince", sources=["sessions"]).results
    return next(hit.origin for hit in hits if words in hit.snippet)


def test_words_of_others_are_untrusted(reader: Daemon, agent: OpenClawWriter) -> None:
    agent.begin("hook", "agent:main:hook:gmail:1", hook_external_content_source="gmail")
    agent.say("hook", "a quince by mail")
    agent.begin("group", "agent:main:telegram:group:7", chat_type="group", channel="telegram")
    agent.say("group", "a quince of a stranger", owner=None)
    agent.say("group", "a quince of the owner")
    agent.begin("own")
    agent.say("own", "a quince at home")
    reader.start().sync()
    words = {
        "by mail": "untrusted",
        "a stranger": "untrusted",
        "the owner": "owner",
        "home": "owner",
    }
    assert {part: origin_of(reader, part) for part in words} == words
    agent.delete("hook")
    agent.delete("group")
    reader.sync()
    assert {part: origin_of(reader, part) for part in words} == words
    reader.assert_healthy()
