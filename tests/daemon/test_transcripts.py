"""Transcripts that other processes write: discovery, incremental reading, forgetting."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon
from waiting import eventually

from memoryd.embed.local import WINDOW_UNITS
from memoryd.embed.windows import windows
from memoryd_client.errors import BadRequestError, DeniedError, NotFoundError
from memoryd_client.schema.transcripts import SessionEntry

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
ENABLED = "sessions = { enabled = true }"


@pytest.fixture
def chats(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, that reads `~/chats`, without automatic scans for an hour."""
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    (hybrid.folder / "chats").mkdir()
    return hybrid


def say(daemon: Daemon, name: str, *texts: str, role: str = "user") -> Path:
    """Append messages to a transcript of the plain format."""
    file = daemon.folder / "chats" / name
    with file.open("a", encoding="utf-8") as chat:
        for text in texts:
            chat.write(json.dumps({"role": role, "content": text}, ensure_ascii=False) + "\n")
    return file


def listed(daemon: Daemon) -> dict[str, SessionEntry]:
    with daemon.client() as client:
        return {entry.path: entry for entry in client.sessions()}


def test_what_people_said_is_found_and_cited_by_its_record(chats: Daemon) -> None:
    say(chats, "a.jsonl", "hello there", "the ferry leaves at noon", role="assistant")
    say(chats, "a.jsonl", "船は正午に出ます 🛳")
    chats.write("MEMORY.md", "a note about trains\n")
    chats.start().sync()
    with chats.client() as client:
        (hit,) = client.search("ferry", sources=["sessions"]).results[:1]
        assert (hit.path, hit.source) == ("sessions/chats/a.jsonl", "sessions")
        assert "Assistant: the ferry leaves at noon" in hit.snippet
        assert client.search("正午").results[0].path == hit.path
        shown = client.get(hit.path, start_line=2, lines=1)
        assert shown.text == "Assistant: the ferry leaves at noon"
        raw = client.get(hit.path, start_line=2, lines=1, raw=True)
        assert json.loads(raw.text)["role"] == "assistant"
        assert client.search("trains").results[0].source == "memory"
        status = client.status()
        assert status.sources == ["memory", "sessions"]
        assert [(c.source, c.files, c.total_files) for c in status.source_counts] == [
            ("memory", 1, 1),
            ("sessions", 1, 1),
        ]
    entry = listed(chats)["sessions/chats/a.jsonl"]
    assert (entry.format, entry.messages, entry.state) == ("plain", 3, "indexed")
    assert Path(entry.real_path) == chats.folder / "chats/a.jsonl"


def test_only_what_was_added_is_read_and_embedded(chats: Daemon) -> None:
    say(chats, "a.jsonl", *(f"message {n} about topic{n} " + "words " * 60 for n in range(300)))
    chats.start().sync()
    before = chats.embedded()
    with chats.client() as client:
        chunks = client.status().chunks
        say(chats, "a.jsonl", "a last word about gooseberries")
        client.sync()
        added = chats.embedded()[len(before) :]
        assert len(added) == 1, "only the open chunk is replaced"
        assert "gooseberries" in added[0]
        assert client.status().chunks - chunks in (0, 1)
        assert client.search("gooseberries", sources=["sessions"]).results
        assert client.search("topic7", sources=["sessions"]).results


TABLE = """Two sites:

| site | snow |
|------|------|
| fell | 12 cm |

```python
for day in week:
    print(day)
```"""


def test_a_message_keeps_its_lines(chats: Daemon) -> None:
    say(chats, "a.jsonl", "how much snow?", f"  {TABLE}\n\n\n\n- one  \n", role="assistant")
    chats.start().sync()
    with chats.client() as client:
        (hit,) = client.search("snow fell", sources=["sessions"]).results[:1]
        assert "| fell | 12 cm |" in hit.snippet.split("\n")
        shown = client.get(hit.path, start_line=2)
        assert shown.text == f"Assistant: {TABLE}\n\n- one"
        assert (shown.lines, shown.total_lines) == (1, 2)
        assert client.forget(match="| site | snow | |------|------|", dry_run=True).messages == 1
        assert client.forget(match=TABLE).messages == 1
        assert client.get(hit.path).text == "Assistant: how much snow?"


def test_a_torn_line_waits_and_a_malformed_one_is_counted(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "the first apricot")
    with file.open("a") as chat:
        chat.write('{"role": "user", "content": "the second')
    chats.start().sync()
    assert "second" not in " ".join(hit.snippet for hit in chats.search("apricot").results)
    with file.open("a") as chat:
        chat.write(' apricot"}\nno JSON at all\n')
    say(chats, "a.jsonl", "the third apricot")
    chats.sync()
    text = " ".join(hit.snippet for hit in chats.search("apricot").results)
    assert "the second apricot" in text
    assert "the third apricot" in text
    assert listed(chats)["sessions/chats/a.jsonl"].malformed == 1


def test_a_transcript_that_is_cut_or_replaced_leaves_nothing_of_the_old(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "an old quince", "an older medlar")
    chats.start().sync()
    file.write_text(json.dumps({"role": "user", "content": "a new plum"}) + "\n")
    chats.sync()
    assert [hit.snippet for hit in chats.search("plum").results] == ["User: a new plum"]
    assert not any("quince" in hit.snippet for hit in chats.search("quince").results)
    other = say(chats, "other", "a rotated cherry")
    other.rename(file)
    chats.sync()
    assert [hit.snippet for hit in chats.search("cherry").results] == ["User: a rotated cherry"]


def test_an_archive_takes_the_place_of_a_transcript(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "we spoke of walnuts")
    chats.start().sync()
    embedded = chats.embedded()
    file.rename(f"{file}.reset.2026-11-28T10-00-00.000Z")
    chats.sync()
    hits = chats.search("walnuts", sources=["sessions"]).results
    assert [hit.path for hit in hits] == ["sessions/chats/a.jsonl.reset.2026-11-28T10-00-00.000Z"]
    assert [text for text in chats.embedded()[len(embedded) :] if "spoke" in text] == []
    with chats.client() as client:
        counts = client.status().source_counts[1]
    assert (counts.files, counts.total_files) == (1, 1)


def test_the_last_record_needs_no_line_end(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "first a walnut")
    with file.open("a") as chat:
        chat.write(json.dumps({"role": "user", "content": "last a chestnut"}))
    chats.start().sync()
    name = "sessions/chats/a.jsonl"
    (hit,) = chats.search("chestnut", sources=["sessions"]).results
    assert hit.end_line == 2
    assert (listed(chats)[name].messages, listed(chats)[name].pending_bytes) == (2, 0)
    with chats.client() as client:
        shown = client.get(name, start_line=2)
        assert (shown.text, shown.total_lines) == ("User: last a chestnut", 2)
        with file.open("a") as chat:
            chat.write("\n")
        say(chats, "a.jsonl", "then a hazelnut")
        client.sync()
        assert client.get(name).text.count("chestnut") == 1
    assert listed(chats)[name].messages == 3
    hits = chats.search("chestnut", sources=["sessions"]).results
    assert sum(hit.snippet.count("chestnut") for hit in hits) == 1


def test_the_only_record_of_an_archive_needs_no_line_end(chats: Daemon) -> None:
    name = "a.jsonl.deleted.2026-11-28T10-00-00.000Z"
    file = chats.folder / "chats" / name
    file.write_text(json.dumps({"role": "user", "content": "last a chestnut"}))
    chats.start().sync()
    (hit,) = chats.search("chestnut", sources=["sessions"]).results
    with chats.client() as client:
        assert client.get(hit.path).text == "User: last a chestnut"


def test_a_short_conversation_is_read_once_it_is_still(hybrid: Daemon) -> None:
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 0 }, "
    )
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    (hybrid.folder / "chats").mkdir()
    hybrid.start().sync()
    file = say(hybrid, "a.jsonl", "by itself, a hazelnut")
    with file.open("a") as chat:
        chat.write(
            json.dumps({"role": "assistant", "content": "and without a line end, a beechnut"})
        )
    eventually(lambda: bool(hybrid.search("hazelnut", sources=["sessions"]).results))
    eventually(lambda: bool(hybrid.search("beechnut", sources=["sessions"]).results))


def test_below_the_thresholds_it_waits_until_a_client_tells(chats: Daemon) -> None:
    chats.start().sync()
    file = say(chats, "a.jsonl", "not yet a pecan")
    with chats.client() as client:
        assert client.transcript_updated(file).accepted
        eventually(lambda: bool(client.search("pecan", sources=["sessions"]).results))
        say(chats, "a.jsonl", "and an almond")
        assert client.session_start().syncing
        eventually(lambda: bool(client.search("almond", sources=["sessions"]).results))


def test_secrets_are_nowhere(chats: Daemon) -> None:
    secret = "sk-proj-" + "Zq7" * 16
    say(chats, "a.jsonl", f"my key is OPENAI_API_KEY={secret} keep it", "password=hunter22hunter")
    chats.start().sync()
    with chats.client() as client:
        for query in ("key", secret, "password"):
            for hit in client.search(query).results:
                assert secret not in hit.snippet
                assert "hunter22" not in hit.snippet
        shown = client.get("sessions/chats/a.jsonl").text
        raw = client.get("sessions/chats/a.jsonl", raw=True).text
    for text in (shown, raw, *chats.embedded()[:-3], chats.log()):
        assert secret not in text
    chats.stop()
    for file in chats.database.parent.glob("main.sqlite*"):
        assert secret[10:].encode() not in file.read_bytes()


def test_every_format_of_the_fixtures_is_read(chats: Daemon) -> None:
    for fixture in FIXTURES.glob("*.jsonl"):
        (chats.folder / "chats" / fixture.name).write_bytes(fixture.read_bytes())
    chats.start().sync()
    found = listed(chats)
    assert {entry.format for entry in found.values()} == {
        "openclaw",
        "claude",
        "codex",
        "codex-events",
        "codex-items",
        "gemini",
        "pi",
        "plain",
    }
    assert all(entry.state == "indexed" and entry.messages > 1 for entry in found.values())


def test_enabling_and_disabling_is_no_rebuild(hybrid: Daemon) -> None:
    (hybrid.folder / "chats").mkdir()
    say(hybrid, "a.jsonl", "a persimmon")
    hybrid.write("MEMORY.md", "a note\n")
    hybrid.start().sync()
    with hybrid.client() as client:
        assert client.sessions_page().enabled is False
        hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
        hybrid.write_config()
        client.reload()
        client.sync()
        assert client.status().files == 2
        hybrid.settings = hybrid.settings.replace("enabled = true", "enabled = false")
        hybrid.write_config()
        client.reload()
        client.sync()
        assert client.status().files == 1
    assert "building a new index" not in hybrid.log()


def test_a_rebuild_takes_transcripts_along(chats: Daemon) -> None:
    say(chats, "a.jsonl", "one loquat", "two loquats")
    chats.start().sync()
    with chats.client() as client:
        result = client.index(force=True)
        assert (result.files, result.embedded) == (1, 0)
        say(chats, "a.jsonl", "three loquats")
        client.sync()
        texts = [hit.snippet for hit in client.search("loquats").results]
    assert "three loquats" in texts[0]
    assert sum(text.count("two loquats") for text in texts) == 1


def test_killed_and_started_again_it_goes_on(chats: Daemon) -> None:
    for number in range(40):
        say(chats, f"{number}.jsonl", f"conversation{number} " + "words " * 300)
    chats.start()
    eventually(lambda: len(chats.embedded()) > 5)
    chats.kill()
    chats.start().sync()
    texts = [text for text in chats.embedded() if "conversation" in text]
    assert len(set(texts)) >= 40
    found = listed(chats)
    assert all(entry.state == "indexed" and entry.pending_bytes == 0 for entry in found.values())


def test_a_process_that_writes_all_the_time_loses_nothing(chats: Daemon) -> None:
    chats.start()
    script = (
        "import json, sys\n"
        "for n in range(600):\n"
        "    with open(sys.argv[1], 'a') as chat:\n"
        "        line = json.dumps({'role': 'user', 'content': f'count{n} ' + 'x ' * 50}) + '\\n'\n"
        "        chat.write(line[:20]); chat.flush(); chat.write(line[20:])\n"
    )
    command = [sys.executable, "-c", script, str(chats.folder / "chats/a.jsonl")]
    with subprocess.Popen(command) as writer, chats.client() as client:
        while writer.poll() is None:
            client.sync(vectors=False)
    chats.sync()
    entry = listed(chats)["sessions/chats/a.jsonl"]
    assert (entry.messages, entry.malformed, entry.pending_bytes) == (600, 0, 0)
    with chats.client() as client:
        text = "\n".join(
            client.get("sessions/chats/a.jsonl", start_line=n, lines=100).text
            for n in range(1, 601, 100)
        )
    assert [n for n in range(600) if f"count{n} " not in text] == []


def test_what_is_no_transcript_is_told(chats: Daemon) -> None:
    (chats.folder / "chats/odd.jsonl").write_text('{"some": "thing"}\n{"else": 1}\n')
    (chats.folder / "chats/a.txt").write_text("text\n")
    chats.start().sync()
    (entry,) = listed(chats).values()
    assert entry.state == "failed"
    assert "not a transcript of a known format" in (entry.reason or "")


def test_sessions_in_which_nobody_takes_part_are_left_out(chats: Daemon) -> None:
    meta = {"type": "session_meta", "payload": {"id": "x", "thread_source": "subagent"}}
    turn = {"type": "response_item", "payload": {"type": "message", "role": "assistant"}}
    turn["payload"] |= {"content": [{"type": "output_text", "text": "a lychee"}]}  # type: ignore[operator]
    file = chats.folder / "chats/rollout-1.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in (meta, turn)))
    chats.start().sync()
    (entry,) = listed(chats).values()
    assert (entry.state, entry.reason) == ("left out", "a subagent")
    with chats.client() as client:
        assert client.status().failure_count == 0
        assert client.search("lychee").results == []


def test_a_format_that_is_not_wanted_any_more_leaves_the_index(chats: Daemon) -> None:
    say(chats, "a.jsonl", "a rambutan")
    chats.start().sync()
    chats.settings = chats.settings.replace(
        "enabled = true,", 'enabled = true, formats = ["codex"],'
    )
    chats.write_config()
    with chats.client() as client:
        assert client.search("rambutan").results
        client.reload()
        client.sync()
        assert client.search("rambutan").results == []


def test_names_that_lead_elsewhere_are_refused(chats: Daemon) -> None:
    say(chats, "a.jsonl", "one")
    chats.start().sync()
    os.symlink("/etc/passwd", chats.folder / "chats/link.jsonl")
    with chats.client() as client:
        for path in ("sessions/chats/../config.toml", "sessions/chats/link.jsonl"):
            with pytest.raises((DeniedError, NotFoundError)):
                client.get(path)
        with pytest.raises(NotFoundError):
            client.get("sessions/chats/gone.jsonl")


def test_notes_are_not_crowded_out(chats: Daemon) -> None:
    for number in range(50):
        what = "spare fuse" if number == 7 else f"thing{number} of room{number % 9}"
        chats.write(
            f"memory/{number}.md", f"# Note {number}\n\nThe {what} is in drawer {number}.\n"
        )
    for number in range(550):
        say(chats, f"{number}.jsonl", "where is the spare fuse? the spare fuse, the spare fuse")
    chats.start().sync()
    results = chats.search("the spare fuse is in drawer", max_results=6).results
    assert "memory/7.md" in [hit.path for hit in results[:2]]
    assert sum(hit.source == "memory" for hit in results) >= 3
    for source in ("memory", "sessions"):
        only = chats.search("spare fuse", sources=[source]).results
        assert {hit.source for hit in only} == {source}


def test_what_is_hidden_takes_no_places(chats: Daemon) -> None:
    for owner, count in (("bob", 9), ("main", 3)):
        folder = chats.folder / "chats/agents" / owner / "sessions"
        folder.mkdir(parents=True)
        for number in range(count):
            said = {"role": "user", "content": f"a kumquat, said {owner} ({number})"}
            (folder / f"{number}.jsonl").write_text(json.dumps(said) + "\n")
    chats.start().sync()
    results = chats.search("kumquat", max_results=3).results
    assert len(results) == 3
    assert not any("bob" in hit.snippet for hit in results)


def test_visibility_narrows_and_never_widens(chats: Daemon) -> None:
    place = chats.folder / "chats/agents"
    for owner, words in (("main", "mine kiwi"), ("bob", "his kiwi")):
        folder = place / owner / "sessions"
        folder.mkdir(parents=True)
        line = json.dumps({"role": "user", "content": words})
        (folder / f"{owner}.jsonl").write_text(f"{line}\n{line}\n")
    chats.start().sync()
    with chats.client() as client:
        owners = [hit.path.split("/")[3] for hit in client.search("kiwi").results]
        assert owners == ["main"]
        assert client.search("kiwi", visibility="self", session="none").results == []
        with pytest.raises(BadRequestError, match="visibility"):
            client.search("kiwi", visibility="everything")
        with pytest.raises(DeniedError, match=r"sessions\.visibility"):
            client.search("kiwi", visibility="all")


def files_of(daemon: Daemon) -> bytes:
    """Return the bytes of all files of the index."""
    return b"".join(f.read_bytes() for f in daemon.database.parent.glob("main.sqlite*"))


@pytest.mark.parametrize("how", ["path", "session", "match"])
def test_what_is_forgotten_is_in_no_file_and_stays_away(chats: Daemon, how: str) -> None:
    file = chats.folder / "chats/a.jsonl"
    record = {"role": "user", "content": "the mulberry affair", "sessionId": "s1"}
    file.write_text(json.dumps(record) + "\n")
    say(chats, "a.jsonl", "an innocent fig")
    say(chats, "b.jsonl", "another fig")
    chats.start().sync()
    names = {"path": "sessions/chats/a.jsonl", "session": "s1", "match": "Mulberry AFFAIR"}
    wanted: dict[str, Any] = {how: names[how]}
    with chats.client() as client:
        assert client.search("mulberry").results
        would = client.forget(**wanted, dry_run=True)
        assert would.paths == ["sessions/chats/a.jsonl"]
        assert client.search("mulberry").results, "a dry run changes nothing"
        result = client.forget(**wanted)
        assert (result.paths, result.messages) == (would.paths, int(how == "match"))
        client.sync()
        assert not any("mulberry" in hit.snippet for hit in client.search("mulberry").results)
        figs = {hit.path for hit in client.search("fig").results}
        assert ("sessions/chats/a.jsonl" in figs) is (how == "match")
        assert "sessions/chats/b.jsonl" in figs
        assert b"mulberry" not in files_of(chats)
        # After a write, a rename and a restart, the text is still forgotten.
        say(chats, "a.jsonl", "one more message")
        file.rename(f"{file}.reset.2026-11-28T10-00-00.000Z")
        client.index(force=True)
    assert file.with_name("a.jsonl.reset.2026-11-28T10-00-00.000Z").exists()
    chats.kill()
    chats.start().sync()
    assert not any("mulberry" in hit.snippet for hit in chats.search("mulberry").results)
    assert b"mulberry" not in files_of(chats)


def test_a_transcript_is_deleted_only_when_that_is_meant(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "a mulberry")
    chats.start().sync()
    name = "sessions/chats/a.jsonl"
    refused = chats.memctl("forget", "--path", name, "--delete-source", code=1)
    assert "--yes" in refused.stderr
    assert file.exists()
    done = chats.memctl("forget", "--path", name, "--delete-source", "--yes")
    assert done.stdout.splitlines()[0] == "Forgotten: 1 transcript"
    assert not file.exists()
    with chats.client() as client, pytest.raises(BadRequestError, match="one of session"):
        client.forget(session="a", match="b")


def test_a_chat_of_the_older_store_is_compared_message_by_message(chats: Daemon) -> None:
    file = chats.folder / "chats/groups/g1.json5"
    file.parent.mkdir()
    (chats.folder / "chats/registry.json5").write_text("{ chats: [] }")

    def write(*texts: str, end: str = "]}") -> None:
        parts = "".join(f"{{ role: 'user', content: {json.dumps(text)}, }}, " for text in texts)
        file.write_text(f"// a chat\n{{ id: 'g1', messages: [{parts}{end}")

    many = [f"message {n} about topic{n} " + "words " * 60 for n in range(60)]
    write(*many)
    chats.start().sync()
    before = chats.embedded()
    with chats.client() as client:
        (hit,) = client.search("topic7", sources=["sessions"], max_results=1).results
        assert (hit.path, hit.snippet_start_line) == ("sessions/chats/groups/g1.json5", 8)
        assert client.get(hit.path, start_line=8, lines=1).text.startswith("User: message 7 about")
        assert json.loads(client.get(hit.path, start_line=8, lines=1, raw=True).text)["role"]
        write(*many, "the last word is cloudberry", end="")  # incomplete
        client.sync()
        assert client.search("topic7", sources=["sessions"]).results, (
            "an inconsistent read is never stored"
        )
        write(*many, "the last word is cloudberry", end="], compactions: ['they met a walrus']}")
        client.sync()
        assert client.search("cloudberry").results[0].snippet_end_line == 61
        assert client.search("walrus").results[0].path == hit.path
    added = chats.embedded()[len(before) :]
    assert len([text for text in added if "User: " in text]) <= 2 * 5  # windows of a chunk
    (entry,) = listed(chats).values()
    assert (entry.format, entry.session, entry.messages) == ("openclaw-store", "g1", 62)


def test_stores_that_can_not_be_read_are_told(hybrid: Daemon) -> None:
    hybrid.settings += f"\n{ENABLED}"
    place = hybrid.folder / ".openclaw/agents/main"
    (place / "sessions").mkdir(parents=True)
    (place / "agent").mkdir()
    (place / "agent/openclaw-agent.sqlite").touch()
    hybrid.start().sync()
    with hybrid.client() as client:
        page = client.sessions_page()
    assert (page.sessions, len(page.elsewhere)) == ([], 1)
    assert "openclaw-agent.sqlite" in page.elsewhere[0]
    assert page.missing == [], "locations of other agents are not searched"
    shown = hybrid.memctl("sessions")
    assert shown.stdout == "No transcripts.\n"
    assert "it has no transcript_events.event_json" in shown.stderr


@pytest.mark.long
def test_a_large_import_that_is_killed_goes_on_and_embeds_nothing_twice(chats: Daemon) -> None:
    """200 MB, a tenth of the benchmark's size."""
    tool = json.dumps({"role": "toolResult", "content": "x" * 20_000}) + "\n"
    for number in range(200):
        lines = [
            json.dumps({"role": "user", "content": f"talk{number} turn{turn} " + "words " * 40})
            for turn in range(50)
        ]
        file = chats.folder / f"chats/{number}.jsonl"
        file.write_text("".join(f"{line}\n{tool}" for line in lines))
    chats.write("MEMORY.md", "a note about elderberries\n")
    chats.start()
    stored: list[tuple[int, set[str]]] = []
    for files in (40, 120):
        eventually(partial(has_indexed, chats, files))
        assert chats.paths("elderberries")[0] == "MEMORY.md"
        chats.kill()
        stored.append((len(chats.embedded()), embedded_windows(chats)))
        chats.start()
    chats.sync()
    found = listed(chats)
    assert len(found) == 200
    assert all(e.state == "indexed" and e.messages == 50 for e in found.values())
    texts = chats.embedded()
    for count, windows_before in stored:
        assert windows_before
        assert windows_before <= set(texts[:count])
        assert not windows_before & set(texts[count:])


def embedded_windows(daemon: Daemon) -> set[str]:
    """Return the windows of all chunks with a vector, as the model's log shows them."""
    with contextlib.closing(sqlite3.connect(daemon.database)) as index:
        chunks = index.execute("SELECT text FROM chunks WHERE vector_id IS NOT NULL").fetchall()
    return {repr(window) for (text,) in chunks for window in windows(text, WINDOW_UNITS)}


def has_indexed(daemon: Daemon, files: int) -> bool:
    with daemon.client() as client:
        return client.status().source_counts[1].files >= files


def test_paths_are_globs_of_folders_too_and_one_that_matches_nothing_is_told(
    hybrid: Daemon,
) -> None:
    paths = ["~/x/agents/*/sessions", "~/[old] chats", "~/.notes/*", "~/x/nothing-*", "~/away/*"]
    hybrid.settings += f"\nsessions = {{ enabled = true, paths = {json.dumps(paths)} }}"
    files = {
        "x/agents/bob/sessions/a.jsonl": "a quince",
        "x/agents/.eve/sessions/deep/b.jsonl": "a medlar",
        "[old] chats/c.jsonl": "a sloe",
        ".notes/.more/d.jsonl": "a damson",
        ".notes/.git/e.jsonl": "a rowan",
    }
    for name, text in files.items():
        (hybrid.folder / name).parent.mkdir(parents=True, exist_ok=True)
        record = json.dumps({"role": "user", "content": text})
        (hybrid.folder / name).write_text(record + "\n")
    hybrid.start().sync()
    with hybrid.client() as client:
        page = client.sessions_page()
        assert {Path(entry.real_path) for entry in client.sessions()} == {
            hybrid.folder / name for name in files if ".git" not in name
        }
    assert page.missing == [str(hybrid.folder / "away")]
    assert page.elsewhere == [f"{hybrid.folder}/x/nothing-*: no transcript"]
    told = hybrid.memctl("sessions")
    assert "nothing-*: no transcript" in told.stdout + told.stderr


def test_a_session_that_turns_out_to_be_a_cron_run_leaves_the_index(hybrid: Daemon) -> None:
    folder = hybrid.folder / ".openclaw/agents/main/sessions"
    folder.mkdir(parents=True)
    for name in ("talk", "job"):
        records: list[dict[str, Any]] = [
            {"type": "session", "id": name},
            {
                "type": "message",
                "id": "1",
                "message": {"role": "user", "content": f"a {name} quince"},
            },
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines)
    hybrid.settings += f"\n{ENABLED}"
    hybrid.start().sync()
    assert len(hybrid.search("quince", sources=["sessions"]).results) == 2
    keys = {"agent:main:main": {"sessionId": "talk"}, "agent:main:cron:x": {"sessionId": "job"}}
    (folder / "sessions.json").write_text(json.dumps(keys))
    hybrid.sync()  # the store is read after the index
    hybrid.sync()
    (hit,) = hybrid.search("quince", sources=["sessions"]).results
    assert hit.path == "sessions/openclaw/talk.jsonl"
    entry = listed(hybrid)["sessions/openclaw/job.jsonl"]
    assert (entry.state, entry.reason) == ("left out", "a cron run")


def test_a_chat_of_the_older_store_has_its_summaries_and_a_stale_lock(chats: Daemon) -> None:
    file = chats.folder / "chats/7.json5"
    file.write_text("""{
      // written by OpenClaw
      id: 'chat-7',
      messages: [
        { role: 'user', content: 'is the ferry late?', timestamp: 1771280820000 },
        { role: 'assistant', content: 'By ten minutes.', timestamp: 1771280825000 },
      ],
      compactedHistory: [
        { role: 'system', content: 'They agreed on the noon ferry and the blue tent.',
          compactedAt: 1771280830000, originalMessageCount: 12 },
      ],
    }""")
    lock = chats.folder / "chats/7.json5.lock"
    lock.mkdir()
    os.utime(lock, (4_000_000_000, 4_000_000_000))  # held, however long the test takes
    chats.start().sync()
    assert listed(chats)["sessions/chats/7.json5"].state == "new"
    os.utime(lock, (1_771_280_000, 1_771_280_000))
    chats.sync()
    with chats.client() as client:
        assert client.get("sessions/chats/7.json5").text.split("\n") == [
            "User: is the ferry late?",
            "Assistant: By ten minutes.",
            "Assistant: They agreed on the noon ferry and the blue tent.",
        ]
        (hit,) = client.search("blue tent", sources=["sessions"]).results
    assert hit.path == "sessions/chats/7.json5"
