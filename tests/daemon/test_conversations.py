"""Conversations as search results show them: their day, and what they were about."""

import json
import os
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from harness import Daemon

from memoryd_client import for_prompt, tool_answers
from memoryd_client.schema.search import Hit


@pytest.fixture
def chats(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, that reads `~/chats`, without automatic scans for an hour."""
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    (hybrid.folder / "chats").mkdir()
    return hybrid


def at(day: int) -> str:
    """Return noon of a day in March 2026, in the time zone of the machine."""
    return datetime(2026, 3, day, 12).astimezone().isoformat()


def claude(
    role: str, text: str, uuid: str, *, day: int | None = None, **more: Any
) -> dict[str, Any]:
    """Return a record of Claude Code."""
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    record = {"type": role, "uuid": uuid, "sessionId": "s", "message": message}
    return record | ({} if day is None else {"timestamp": at(day)}) | more


def write(daemon: Daemon, name: str, *records: dict[str, Any]) -> Path:
    """Append records to a transcript."""
    file = daemon.folder / "chats" / name
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as chat:
        chat.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return file


def found(daemon: Daemon, query: str) -> Hit:
    """Return the best result among the transcripts."""
    with daemon.client() as client:
        return client.search(query, sources=["sessions"]).results[0]


def test_a_result_shows_its_day_and_the_first_question(chats: Daemon) -> None:
    filler = "some more words to fill this chunk of the conversation " * 30
    write(
        chats,
        "a.jsonl",
        claude("user", "How long is the pier?\nIn metres, please", "1", day=2),
        claude("assistant", "About forty metres.", "2", day=2),
        claude("assistant", filler, "3", day=3),
        claude("user", "The lighthouse is white", "4", day=5),
        claude("user", "The harbour is grey", "5"),
    )
    chats.start().sync()
    hit = found(chats, "lighthouse white")
    assert (hit.title, hit.date) == ("How long is the pier? In metres, please", "2026-03-05")
    hit = found(chats, "forty metres")
    assert (hit.title, hit.date) == ("How long is the pier? In metres, please", "2026-03-02")
    shown = chats.memctl("search", "lighthouse", "white")
    assert "   How long is the pier? In metres, please · 2026-03-05\n" in shown.stdout
    (first, *_) = json.loads(chats.memctl("search", "lighthouse", "--json").stdout)["results"]
    assert (first["title"], first["date"]) == (hit.title, "2026-03-05")
    with chats.client() as client:
        result = client.search("lighthouse white")
    attributes = 'title="How long is the pier? In metres, please" date="2026-03-05"'
    assert attributes in for_prompt(result)
    assert attributes in tool_answers.text(result)
    answer = tool_answers.json(result, citations="on", cited=True)["results"][0]
    assert (answer["title"], answer["date"]) == (hit.title, "2026-03-05")
    chats.assert_healthy()


def test_a_message_without_a_time_is_of_the_first_day(chats: Daemon) -> None:
    write(
        chats,
        "a.jsonl",
        claude("user", "How long is the pier?", "1", day=2),
        claude("user", "word " * 400, "2", day=3),
        *(claude("assistant", "more " * 90, str(n)) for n in range(5)),
        claude("user", "The lighthouse is white", "3"),
    )
    write(chats, "b.jsonl", claude("user", "The harbour is grey", "4"))
    chats.start().sync()
    assert found(chats, "lighthouse").date == "2026-03-02"
    assert (found(chats, "harbour").title, found(chats, "harbour").date) == (
        "The harbour is grey",
        "",
    )


def test_additions_keep_the_title_and_bring_a_better_one(chats: Daemon) -> None:
    write(chats, "a.jsonl", claude("user", "How long is the pier?", "1", day=2))
    chats.start().sync()
    write(chats, "a.jsonl", claude("user", "The lighthouse is white", "2", day=3))
    chats.sync()
    before = chats.embedded()
    assert found(chats, "lighthouse").title == "How long is the pier?"
    write(chats, "a.jsonl", {"type": "ai-title", "aiTitle": "Pier length", "sessionId": "s"})
    chats.sync()
    assert found(chats, "lighthouse").title == "Pier length"
    write(chats, "a.jsonl", {"type": "custom-title", "customTitle": "My pier", "sessionId": "s"})
    write(chats, "a.jsonl", claude("user", "The harbour is grey", "3", day=4))
    chats.stop()
    chats.start().sync()
    assert found(chats, "lighthouse").title == "My pier"
    chats.memctl("index", "--force")
    assert found(chats, "lighthouse").title == "My pier"
    assert sum("User" in text for text in chats.embedded()[len(before) :]) == 1
    chats.assert_healthy()


def test_a_title_changes_no_rank(chats: Daemon) -> None:
    words = claude("user", "The lighthouse is white", "1")
    write(chats, "a.jsonl", words)
    write(
        chats,
        "b.jsonl",
        words | {"sessionId": "t", "uuid": "2"},
        {"type": "custom-title", "customTitle": "zebra"},
    )
    chats.start().sync()
    with chats.client() as client:
        one, other = client.search("lighthouse", explain=True).results
        assert one.score == other.score
        assert {one.title, other.title} == {"The lighthouse is white", "zebra"}
        assert all(hit.text_score is None for hit in client.search("zebra").results)
        assert client.search("zebra", mode="keyword").results == []


def test_labels_of_openclaw_are_titles(chats: Daemon) -> None:
    store = {"agent:main:main": {"sessionId": "a", "label": "Harbour plans"}}
    (chats.folder / "chats" / "sessions.json").write_text(json.dumps(store))
    message = {"role": "user", "content": "The lighthouse is white"}
    header = {"type": "session", "version": 3, "id": "a"}
    write(chats, "a.jsonl", header, {"type": "message", "parentId": None, "message": message})
    chats.start().sync()
    assert found(chats, "lighthouse").title == "Harbour plans"


def test_a_text_is_forgotten_in_titles_too(chats: Daemon) -> None:
    title = {"type": "custom-title", "customTitle": "Plans for the Zanzibar", "sessionId": "s"}
    write(chats, "a.jsonl", claude("user", "The lighthouse is white", "1"), title)
    chats.start().sync()
    assert found(chats, "lighthouse").title == "Plans for the Zanzibar"
    chats.memctl("forget", "--match", "zanzibar", "--yes")
    chats.sync()
    assert found(chats, "lighthouse").title == "The lighthouse is white"
    chats.memctl("forget", "--match", "lighthouse", "--yes")
    chats.sync()
    write(chats, "a.jsonl", claude("user", "The harbour is grey", "2"))
    chats.sync()
    assert found(chats, "harbour").title == "The harbour is grey"


FIRST, SECOND = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
OLD = (("user", "How long is the pier?"), ("assistant", "About forty metres."))


def session_of(session: str, **more: Any) -> list[dict[str, Any]]:
    """Return the records of the first session, as one session or another has them."""
    return [
        claude(role, text, f"u{n}", day=n, sessionId=session, **more)
        for n, (role, text) in enumerate(OLD, start=1)
    ]


def places(daemon: Daemon, query: str) -> list[str]:
    """Return the transcripts in which a word is found."""
    with daemon.client() as client:
        hits = client.search(query, mode="keyword", sources=["sessions"]).results
    return [hit.path.removeprefix("sessions/chats/") for hit in hits if query in hit.snippet]


def resumed(daemon: Daemon, how: str, old: str = FIRST, new: str = SECOND) -> None:
    """Write a session, and another one that goes on from it."""
    fork = {"forkedFrom": {"sessionId": old, "messageUuid": "u1"}} if how == "forked" else {}
    write(daemon, f"{old}.jsonl", *session_of(old))
    copies = session_of(old if how == "kept" else new, **fork)
    write(daemon, f"{new}.jsonl", *copies, claude("user", "And wide?", "u9", sessionId=new))


@pytest.mark.parametrize("how", ["kept", "rewritten", "forked"])
@pytest.mark.parametrize("names", [(FIRST, SECOND), ("old", "new")])
def test_what_a_resumed_session_repeats_is_found_once(
    chats: Daemon, how: str, names: tuple[str, str]
) -> None:
    old, new = names
    write(chats, f"{old}.jsonl", *session_of(old))
    chats.start().sync()
    (chats.folder / "chats" / f"{old}.jsonl").unlink()
    resumed(chats, how, old, new)
    chats.sync()
    assert places(chats, "forty") == [f"{old}.jsonl"]
    assert places(chats, "wide") == [f"{new}.jsonl"]
    write(chats, f"{new}.jsonl", claude("assistant", "Four metres.", "u10", sessionId=new))
    write(chats, f"{old}.jsonl", claude("user", "And deep?", "u11", sessionId=old))
    chats.sync()
    assert places(chats, "Four") == [f"{new}.jsonl"]
    assert places(chats, "deep") == places(chats, "forty") == [f"{old}.jsonl"]
    chats.memctl("index", "--force")
    assert places(chats, "forty") == [f"{old}.jsonl"]
    with chats.client() as client:
        sessions = {entry.path: entry for entry in client.sessions()}
        assert sessions[f"sessions/chats/{new}.jsonl"].session == new
        assert sessions[f"sessions/chats/{new}.jsonl"].messages == 2
        whole = client.get(f"sessions/chats/{new}.jsonl").text
        assert "forty metres" in whole
    chats.assert_healthy()


@pytest.mark.parametrize("how", ["kept", "rewritten", "forked"])
def test_both_sessions_may_be_there_from_the_start(chats: Daemon, how: str) -> None:
    resumed(chats, how)
    chats.start().sync()
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()


@pytest.mark.parametrize("how", ["kept", "rewritten", "forked"])
def test_nothing_is_lost_with_the_session_that_was_resumed(chats: Daemon, how: str) -> None:
    chats.settings = chats.settings.replace("enabled = true", "enabled = true, keep_days = 0")
    resumed(chats, how)
    chats.start().sync()
    (chats.folder / "chats" / f"{FIRST}.jsonl").unlink()
    chats.sync()
    chats.sync()
    assert places(chats, "forty") == [f"{SECOND}.jsonl"]
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()


def test_a_session_may_be_resumed_again_and_again(chats: Daemon) -> None:
    chats.settings = chats.settings.replace("enabled = true", "enabled = true, keep_days = 0")
    third = FIRST.replace("1", "3")
    resumed(chats, "kept")
    copies = [*session_of(FIRST), claude("user", "And wide?", "u9", sessionId=SECOND)]
    write(chats, f"{third}.jsonl", *copies, claude("user", "And deep?", "u12", sessionId=third))
    chats.start().sync()
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[f"{name}.jsonl"] for name in (FIRST, SECOND, third)]
    for gone, left in ((FIRST, [SECOND, third]), (SECOND, [third])):
        (chats.folder / "chats" / f"{gone}.jsonl").unlink()
        chats.sync()
        chats.sync()
        chats.sync()
        for word in ("forty", "wide", "deep"):
            (name,) = places(chats, word)
            assert name.removesuffix(".jsonl") in left
    chats.assert_healthy()


def test_what_was_forgotten_does_not_come_back_in_a_copy(chats: Daemon) -> None:
    resumed(chats, "kept")
    chats.start().sync()
    chats.memctl("forget", "--session", FIRST, "--yes")
    chats.sync()
    chats.sync()
    chats.memctl("index", "--force")
    assert places(chats, "forty") == []
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]


def test_of_sessions_that_were_resumed_meanwhile_neither_loses_its_words(chats: Daemon) -> None:
    other = FIRST.replace("1", "0")
    write(chats, f"{other}.jsonl", claude("user", "Another", "x1", sessionId=other))
    write(chats, f"{FIRST}.jsonl", *session_of(FIRST))
    chats.start().sync()
    chats.stop()
    wide = claude("user", "And wide?", "u9", sessionId=SECOND)
    write(chats, f"{SECOND}.jsonl", *session_of(SECOND), wide)
    # Longer and newer than the other, so that what was added to it is read first.
    added = [claude("user", "Another", f"x{n}", sessionId=other) for n in range(2, 90)]
    write(chats, f"{other}.jsonl", *added)
    chats.start().sync()
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    chats.memctl("index", "--force")
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]


@pytest.mark.parametrize("how", ["kept", "rewritten", "forked"])
def test_what_a_purged_session_said_is_found_once_after_a_rebuild(chats: Daemon, how: str) -> None:
    long = claude("user", "The pier " + "is very long " * 100, "u3", sessionId=FIRST)
    write(chats, f"{FIRST}.jsonl", *session_of(FIRST), long)
    copies = [record | {"sessionId": SECOND} for record in (*session_of(FIRST), long)]
    if how != "rewritten":
        copies[0] |= {"forkedFrom": {"sessionId": FIRST, "messageUuid": "u1"}}
    if how == "kept":
        copies = [*session_of(FIRST), long]
    wide = claude("user", "And wide?", "u9", sessionId=SECOND)
    write(chats, f"{SECOND}.jsonl", *copies, wide)
    chats.start().sync()
    (chats.folder / "chats" / f"{FIRST}.jsonl").unlink()
    chats.sync()
    for _ in range(2):
        chats.memctl("index", "--force")
        chats.sync()
        assert places(chats, "forty") == places(chats, "long") == [f"{FIRST}.jsonl"]
        assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()


@pytest.mark.parametrize("how", ["there", "purged before", "purged later", "both", "second"])
def test_a_forgotten_session_does_not_come_back_in_one_that_resumed_it(
    chats: Daemon, how: str
) -> None:
    resumed(chats, "rewritten")
    first, second = (chats.folder / "chats" / f"{name}.jsonl" for name in (FIRST, SECOND))
    if how == "second":
        os.utime(second, (0, 0))  # the older one is read first, so that it has all
    chats.start().sync()
    assert places(chats, "forty") == [f"{SECOND if how == 'second' else FIRST}.jsonl"]
    data = second.read_bytes()
    if how in ("purged before", "both"):
        first.unlink()
        if how == "both":
            second.unlink()
        chats.sync()
    chats.memctl("forget", "--path", f"sessions/chats/{FIRST}.jsonl", "--yes")
    if how == "purged later":
        first.unlink()
    chats.sync()
    assert places(chats, "forty") == []
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    second.unlink(missing_ok=True)
    chats.sync()
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    second.write_bytes(data)  # somebody restores it from a backup
    chats.sync()
    chats.memctl("index", "--force")
    assert places(chats, "forty") == []
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]


def test_words_that_two_sessions_left_to_each_other_come_back(chats: Daemon) -> None:
    resumed(chats, "kept")
    chats.start().sync()
    chats.stop()
    names = [f"sessions/chats/{name}.jsonl" for name in (FIRST, SECOND)]
    with sqlite3.connect(chats.database) as index:
        for name, other in (names, names[::-1]):
            index.execute(
                "UPDATE files SET hash = hash || ':', transcript = json_set(transcript,"
                " '$.repeats', json(?)) WHERE path = ?",
                (json.dumps({other: 0}), name),
            )
        query = "DELETE FROM chunks WHERE file_id = (SELECT file_id FROM files WHERE path = ?)"
        index.execute(query, names[:1])
    index.close()
    chats.start().sync()
    chats.sync()
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]


def test_equal_words_in_two_sessions_are_no_copies(chats: Daemon) -> None:
    write(chats, f"{FIRST}.jsonl", claude("user", "Is the harbour free?", "a1", sessionId=FIRST))
    write(chats, f"{SECOND}.jsonl", claude("user", "Is the harbour free?", "b1", sessionId=SECOND))
    chats.start().sync()
    assert sorted(places(chats, "harbour")) == [f"{FIRST}.jsonl", f"{SECOND}.jsonl"]


THIRD = FIRST.replace("1", "3")


def purge(daemon: Daemon, name: str) -> bytes:
    """Delete a transcript, and return what it had."""
    file = daemon.folder / "chats" / f"{name}.jsonl"
    data = file.read_bytes()
    file.unlink()
    daemon.sync()
    return data


def restore(daemon: Daemon, name: str, data: bytes) -> None:
    """Bring a transcript back as another file, never with the inode that it had."""
    file = daemon.folder / "chats" / f"{name}.jsonl"
    for part in (daemon.folder / "part", daemon.folder / "part2"):
        part.write_bytes(data)
    part.rename(file)
    daemon.sync()


def resumed_twice(daemon: Daemon) -> None:
    """Write a session, one that goes on from it, and one that goes on from that."""
    resumed(daemon, "rewritten")
    daemon.start().sync()
    copies = session_of(THIRD), [claude("user", "And wide?", "u9", day=9, sessionId=THIRD)]
    deep = claude("user", "And deep?", "u12", day=12, sessionId=THIRD)
    write(daemon, f"{THIRD}.jsonl", *copies[0], *copies[1], deep)
    daemon.sync()


def test_a_copy_that_comes_back_as_another_file_repeats_nothing(chats: Daemon) -> None:
    resumed(chats, "rewritten")
    chats.start().sync()
    data = purge(chats, SECOND)
    restore(chats, SECOND, data)
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    chats.memctl("forget", "--session", FIRST, "--yes")
    data = purge(chats, SECOND)
    restore(chats, SECOND, data)
    assert places(chats, "forty") == []
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()


def test_of_three_sessions_none_leaves_words_to_one_that_leaves_them_to_it(chats: Daemon) -> None:
    resumed_twice(chats)
    data = purge(chats, SECOND)
    restore(chats, SECOND, data)
    chats.memctl("forget", "--match", "How long is the pier", "--yes")
    chats.sync()
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[f"{name}.jsonl"] for name in (FIRST, SECOND, THIRD)]
    chats.assert_healthy()


@pytest.mark.parametrize("gone", [FIRST, SECOND])
def test_a_forgotten_session_takes_no_words_of_the_one_it_resumed(chats: Daemon, gone: str) -> None:
    resumed(chats, "rewritten")
    chats.start().sync()
    data = purge(chats, gone)
    if gone == SECOND:
        restore(chats, gone, data)
    chats.memctl("forget", "--session", SECOND, "--yes")
    if gone == FIRST:
        restore(chats, gone, data)
    chats.sync()
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    assert places(chats, "wide") == []
    chats.assert_healthy()


def test_sessions_keep_their_words_when_one_of_them_is_forgotten(chats: Daemon) -> None:
    resumed_twice(chats)
    chats.memctl("forget", "--session", THIRD, "--yes")
    chats.memctl("forget", "--session", SECOND, "--yes")
    chats.sync()
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[f"{FIRST}.jsonl"], [], []]
    chats.assert_healthy()


def test_a_session_first_read_when_the_file_of_the_resumed_one_is_gone(chats: Daemon) -> None:
    resumed(chats, "rewritten")
    first, second = (chats.folder / "chats" / f"{name}.jsonl" for name in (FIRST, SECOND))
    data = second.read_bytes()
    second.unlink()
    chats.start().sync()
    second.write_bytes(data)
    first.unlink()
    chats.sync()
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    chats.memctl("forget", "--session", SECOND, "--yes")
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    assert places(chats, "wide") == []
    chats.assert_healthy()


def test_a_copy_that_was_never_read_brings_back_no_forgotten_words(chats: Daemon) -> None:
    resumed(chats, "rewritten")
    data = (chats.folder / "chats" / f"{SECOND}.jsonl").read_bytes()
    (chats.folder / "chats" / f"{SECOND}.jsonl").unlink()
    same = claude("assistant", "About forty metres.", "b1", sessionId=THIRD)
    write(chats, f"{THIRD}.jsonl", same)
    chats.start().sync()
    purge(chats, FIRST)
    chats.memctl("forget", "--session", FIRST, "--yes")
    restore(chats, SECOND, data)
    assert places(chats, "forty") == [f"{THIRD}.jsonl"]
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()
    purge(chats, SECOND)
    chats.memctl("index", "--force")
    assert places(chats, "forty") == [f"{THIRD}.jsonl"]
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]


def test_a_forgotten_message_leaves_the_others_to_the_first_session(chats: Daemon) -> None:
    resumed(chats, "rewritten")
    chats.start().sync()
    # Newer than its copy, so that it is read later.
    write(chats, f"{FIRST}.jsonl", claude("user", "And deep?", "u11", sessionId=FIRST))
    os.utime(chats.folder / "chats" / f"{SECOND}.jsonl", (0, 0))
    chats.sync()
    chats.memctl("forget", "--match", "And deep", "--yes")
    assert places(chats, "forty") == [f"{FIRST}.jsonl"]
    chats.assert_healthy()


def test_a_kept_copy_loses_the_words_of_a_forgotten_session(chats: Daemon) -> None:
    resumed(chats, "rewritten")
    # The older one is read first, so that it has all.
    os.utime(chats.folder / "chats" / f"{SECOND}.jsonl", (0, 0))
    chats.start().sync()
    purge(chats, SECOND)
    (copy,) = Path(f"{chats.database}.kept").iterdir()
    unpack = zstandard.ZstdDecompressor().decompressobj().decompress
    assert b"forty" in unpack(copy.read_bytes())
    chats.memctl("forget", "--session", FIRST, "--yes")
    unpack = zstandard.ZstdDecompressor().decompressobj().decompress
    assert b"forty" not in unpack(copy.read_bytes())
    assert places(chats, "forty") == []
    assert places(chats, "wide") == [f"{SECOND}.jsonl"]
    chats.assert_healthy()


@pytest.mark.parametrize("how", ["named", "read before"])
def test_a_fork_in_the_middle_takes_no_words_of_its_source(chats: Daemon, how: str) -> None:
    fork = {"forkedFrom": {"sessionId": FIRST, "messageUuid": "u1"}} if how == "named" else {}
    write(
        chats,
        f"{FIRST}.jsonl",
        *session_of(FIRST),
        claude("user", "And wide?", "u9", day=9, sessionId=FIRST),
    )
    chats.start()
    if how == "read before":
        chats.sync()
    copies = session_of(SECOND, **fork)
    deep = claude("user", "And deep?", "u12", day=12, sessionId=SECOND)
    write(chats, f"{SECOND}.jsonl", *copies, deep)
    chats.sync()
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[f"{FIRST}.jsonl"], [f"{FIRST}.jsonl"], [f"{SECOND}.jsonl"]]
    chats.memctl("forget", "--session", SECOND, "--yes")
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[f"{FIRST}.jsonl"], [f"{FIRST}.jsonl"], []]
    chats.assert_healthy()


def test_words_of_a_forgotten_source_leave_a_fork_in_the_middle(chats: Daemon) -> None:
    write(
        chats,
        f"{FIRST}.jsonl",
        *session_of(FIRST),
        claude("user", "And wide?", "u9", day=9, sessionId=FIRST),
    )
    chats.start().sync()
    deep = claude("user", "And deep?", "u12", day=12, sessionId=SECOND)
    write(chats, f"{SECOND}.jsonl", *session_of(SECOND), deep)
    chats.sync()
    chats.memctl("forget", "--session", FIRST, "--yes")
    found_in = [places(chats, word) for word in ("forty", "wide", "deep")]
    assert found_in == [[], [], [f"{SECOND}.jsonl"]]
    chats.assert_healthy()
