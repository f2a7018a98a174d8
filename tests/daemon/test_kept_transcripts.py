"""Transcripts whose files are gone: kept, read from copies, restored, and forgotten."""

import json
import re
import sqlite3
from datetime import date
from pathlib import Path

import pytest
import zstandard
from harness import Daemon
from waiting import eventually

from memoryd_client.errors import DeniedError, NotFoundError
from memoryd_client.schema.transcripts import SessionEntry

NAME = "sessions/chats/a.jsonl"


@pytest.fixture
def chats(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, that reads `~/chats`, without automatic scans for an hour."""
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    hybrid.settings = hybrid.settings.replace(
        "sync = { ", "sync = { sessions = { idle_seconds = 3600 }, "
    )
    (hybrid.folder / "chats").mkdir()
    return hybrid


def say(daemon: Daemon, name: str, *texts: str, session: str = "") -> Path:
    """Append messages of both roles in turn to a transcript of the plain format."""
    file = daemon.folder / "chats" / name
    with file.open("a", encoding="utf-8") as chat:
        for number, text in enumerate(texts):
            record = {"role": ("user", "assistant")[number % 2], "content": text}
            chat.write(json.dumps(record | ({"sessionId": session} if session else {})) + "\n")
    return file


def folder_of(daemon: Daemon) -> Path:
    return Path(f"{daemon.database}.kept")


def copies(daemon: Daemon) -> list[Path]:
    return sorted(folder_of(daemon).glob("*")) if folder_of(daemon).exists() else []


def content(copy: Path) -> str:
    return zstandard.ZstdDecompressor().decompressobj().decompress(copy.read_bytes()).decode()


def listed(daemon: Daemon) -> dict[str, SessionEntry]:
    with daemon.client() as client:
        return {entry.path: entry for entry in client.sessions()}


def rows(daemon: Daemon) -> list[tuple[object, ...]]:
    """Return all chunks of transcripts by their ids."""
    connection = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    try:
        return connection.execute(
            "SELECT chunks.id, start_line, end_line, text, line_map, origin, voices, vector_id"
            " IS NULL FROM chunks JOIN files USING (file_id) WHERE source = 'sessions' ORDER BY 1"
        ).fetchall()
    finally:
        connection.close()


LONG = [f"message {n} about topic{n}: " + "several words of it " * 30 for n in range(60)]


def purged(daemon: Daemon) -> list[tuple[object, ...]]:
    """Index a long and a short transcript, and delete the long one; return the rows."""
    file = say(daemon, "a.jsonl", "where is the ferry?", "at noon\n\n| a | b |\n\n    code", *LONG)
    say(daemon, "b.jsonl", "a fig")
    daemon.start().sync()
    before = rows(daemon)
    file.unlink()
    daemon.sync()
    return before


def test_a_purged_transcript_is_found_shown_and_listed(chats: Daemon) -> None:
    before = purged(chats)
    embedded = len(chats.embedded())
    assert rows(chats) == before
    (hit, *_) = chats.search("topic7").results
    assert hit.path == NAME
    assert chats.search("fig").results[0].gone_at is None
    mark = f" · kept, its file is gone since {date.today()}"
    assert mark in chats.memctl("search", "topic7").stdout
    assert "kept" not in chats.memctl("search", "fig").stdout
    assert chats.memctl_json("search", "topic7")["results"][0]["goneAt"] == hit.gone_at
    with chats.client() as client:
        shown = client.get(NAME, start_line=2, lines=2)
        assert shown.text.startswith("Assistant: at noon\n\n| a | b |\n\n    code\nUser: message 0")
        assert (shown.lines, shown.total_lines, shown.next_from) == (2, 62, 4)
        assert shown.gone_at == hit.gone_at is not None
        with pytest.raises(DeniedError, match="its records are not"):
            client.get(NAME, raw=True)
        assert client.get("sessions/chats/b.jsonl").gone_at is None
        assert client.status().source_counts[1].files == 2
    entry = listed(chats)[NAME]
    assert (entry.state, entry.messages, entry.pending_bytes) == ("kept", 62, 0)
    assert entry.gone_at == shown.gone_at
    assert entry.reason == f"its file is gone since {date.today()}"
    (copy,) = copies(chats)
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert copy.stat().st_size < 8_000
    assert "gone since" in chats.memctl("get", NAME).stderr
    assert chats.memctl_json("get", NAME)["goneAt"] == shown.gone_at
    assert re.search(rf"kept +{NAME} +\(its file is gone since", chats.memctl("sessions").stdout)
    chats.sync()
    assert [text for text in chats.embedded()[embedded:] if "User" in text] == []


@pytest.mark.parametrize("how", ["force", "lost", "corrupt", "model"])
def test_kept_text_outlives_the_index(chats: Daemon, how: str) -> None:
    before = purged(chats)
    embedded = chats.embedded()
    if how == "force":
        with chats.client() as client:
            client.index(force=True)
    elif how == "model":
        chats.stop()
        chats.settings += "\nchunking = { tokens = 100 }"
        chats.start()
        with chats.client() as client:
            client.index()
    else:
        chats.stop()
        if how == "lost":
            chats.database.unlink()
        else:
            data = bytearray(chats.database.read_bytes())
            data[4096 : len(data) // 2] = bytes(len(data) // 2 - 4096)
            chats.database.write_bytes(data)
        chats.start()
    chats.sync()
    if how != "model":
        assert rows(chats) == before
    assert chats.search("topic7").results[0].path == NAME
    assert listed(chats)[NAME].state == "kept"
    if how == "force":
        assert not [text for text in chats.embedded()[len(embedded) :] if "message" in text]
    with chats.client() as client:
        assert "at noon" in client.get(NAME).text


def test_a_transcript_that_comes_back_goes_on(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", *LONG)
    chats.start().sync()
    away = file.with_name("away")
    file.rename(away)
    chats.sync()
    assert listed(chats)[NAME].state == "kept"
    embedded = len(chats.embedded())
    away.rename(file)
    say(chats, "a.jsonl", "a last word about gooseberries")
    chats.sync()
    assert listed(chats)[NAME].state == "indexed"
    assert copies(chats) == []
    added = " ".join(chats.embedded()[embedded:])
    assert "gooseberries" in added
    assert "topic55" not in added, "only the open chunk is replaced"
    file.unlink()
    chats.sync()
    assert chats.search("gooseberries").results[0].path == NAME
    (copy,) = copies(chats)
    assert "gooseberries" in content(copy)


def test_a_transcript_is_shown_before_its_loss_is_noticed(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", "a fig")
    chats.start().sync()
    file.unlink()
    with chats.client() as client:
        assert client.get(NAME).text == "User: a fig"
        assert client.get(f"{NAME}#L1").text == "User: a fig"
        with pytest.raises(NotFoundError):
            client.get("sessions/chats/b.jsonl")


def test_an_archive_has_no_second_copy(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", *LONG)
    chats.start().sync()
    file.rename(f"{file}.reset.2026-11-28T10-00-00.000Z")
    chats.sync()
    assert list(listed(chats)) == [f"{NAME}.reset.2026-11-28T10-00-00.000Z"]
    assert copies(chats) == []
    Path(f"{file}.reset.2026-11-28T10-00-00.000Z").unlink()
    chats.sync()
    assert [entry.state for entry in listed(chats).values()] == ["kept"]


@pytest.mark.parametrize("how", ["path", "session", "match", "gone"])
def test_what_is_forgotten_leaves_the_copy_too(chats: Daemon, how: str) -> None:
    affair = (
        f"the mulberry affair {'東京' * 500} api_key=sk-proj-abcdefghijklmnop1234567890abcdefghij"
    )
    file = say(chats, "a.jsonl", affair, "an innocent fig", session="s1")
    say(chats, "b.jsonl", "a living fig")
    chats.start().sync()
    whole = file.read_bytes()
    file.unlink()
    chats.sync()
    (copy,) = copies(chats)
    assert "mulberry" in content(copy)
    options = {
        "path": ["--path", NAME],
        "session": ["--session", "s1"],
        "match": ["--match", "Mulberry AFFAIR"],
        "gone": ["--gone"],
    }
    would = chats.memctl_json("forget", "--dry-run", *options[how])
    assert would["paths"] == [NAME]
    assert copies(chats) == [copy]
    assert chats.memctl_json("forget", *options[how])["paths"] == [NAME]
    if how == "match":
        assert "mulberry" not in content(copy)
        assert "innocent" in content(copy)
    else:
        assert copies(chats) == []
    chats.sync()
    figs = {"sessions/chats/b.jsonl"} | ({NAME} if how == "match" else set())
    assert set(chats.paths("fig")) == figs
    file.write_bytes(whole)  # somebody restores it from a backup
    chats.sync()
    with chats.client() as client:
        client.index(force=True)
    assert set(chats.paths("fig")) == figs
    assert not any("mulberry" in hit.snippet for hit in chats.search("mulberry").results)


@pytest.mark.parametrize("days", [0, 1])
def test_retention_is_a_setting(chats: Daemon, days: int) -> None:
    chats.settings = chats.settings.replace("enabled = true", f"enabled = true, keep_days = {days}")
    purged(chats)
    assert (NAME in listed(chats)) is (days == 1)
    if days == 0:
        assert copies(chats) == []
        return
    chats.stop()
    (copy,) = copies(chats)
    head, _, rest = content(copy).partition("\n")
    header = json.loads(head)
    header["gone_at"] -= 86_401  # as if the file had vanished a day ago
    text = json.dumps(header) + "\n" + rest
    copy.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    with sqlite3.connect(chats.database) as connection:
        connection.execute(
            "UPDATE files SET transcript = json_set(transcript, '$.gone_at', ?) WHERE path = ?",
            (header["gone_at"], NAME),
        )
    connection.close()
    chats.start().sync()
    assert list(listed(chats)) == ["sessions/chats/b.jsonl"]
    assert copies(chats) == []
    with chats.client() as client, pytest.raises(NotFoundError):
        client.get(NAME)


@pytest.mark.parametrize("damage", ["cut", "junk", "gone"])
def test_a_damaged_copy_is_written_again(chats: Daemon, damage: str) -> None:
    before = purged(chats)
    (copy,) = copies(chats)
    whole = content(copy)
    if damage == "gone":
        copy.unlink()
    else:
        copy.write_bytes(copy.read_bytes()[:-40] if damage == "cut" else b"junk")
    chats.sync()
    assert rows(chats) == before
    with chats.client() as client:
        client.index(force=True)
    assert rows(chats) == before
    assert content(copy) == whole


def test_a_copy_that_cannot_be_written_keeps_the_rows(chats: Daemon) -> None:
    file = say(chats, "a.jsonl", *LONG)
    chats.start().sync()
    before = rows(chats)
    folder_of(chats).write_text("a file in the way")
    file.unlink()
    chats.sync()
    with chats.client() as client:
        assert any("can't write copies" in warning for warning in client.status().degraded)
    assert rows(chats) == before
    folder_of(chats).unlink()
    chats.sync()
    with chats.client() as client:
        assert client.status().degraded == []
    assert rows(chats) == before
    assert len(copies(chats)) == 1


def test_killed_after_the_copy_and_before_the_mark(chats: Daemon) -> None:
    before = purged(chats)
    chats.kill()
    with sqlite3.connect(chats.database) as connection:
        connection.execute(
            "UPDATE files SET transcript = json_remove(transcript, '$.gone_at'), mtime_ns = 1,"
            " hash = 'x' WHERE path = ?",
            (NAME,),
        )
    connection.close()
    chats.start().sync()
    assert rows(chats) == before
    assert listed(chats)[NAME].state == "kept"


def test_killed_while_copies_are_written(chats: Daemon) -> None:
    files = [say(chats, f"{number}.jsonl", f"ocelot {number}", *LONG[:9]) for number in range(40)]
    chats.start().sync()
    before, embedded = rows(chats), len(chats.embedded())
    for file in files:
        file.unlink()
    with chats.client() as client:
        client.session_start()
    eventually(lambda: len(copies(chats)) >= 3)
    chats.kill()
    chats.start().sync()
    assert rows(chats) == before
    assert {entry.state for entry in listed(chats).values()} == {"kept"}
    assert [copy.suffix for copy in copies(chats)] == [".zst"] * len(files)
    assert [text for text in chats.embedded()[embedded:] if "several words" in text] == []
    chats.assert_healthy()


def test_a_place_that_is_no_longer_read_is_not_kept(chats: Daemon) -> None:
    say(chats, "a.jsonl", "a fig")
    other = chats.folder / "more"
    other.mkdir()
    say(chats, "../more/c.jsonl", "a plum")
    chats.settings = chats.settings.replace('["~/chats"]', '["~/chats", "~/more"]')
    chats.start().sync()
    assert len(listed(chats)) == 2
    chats.stop()
    chats.settings = chats.settings.replace(', "~/more"', "")
    chats.start().sync()
    assert list(listed(chats)) == [NAME]
    assert copies(chats) == []


def test_the_doctor_reads_the_copies(chats: Daemon) -> None:
    purged(chats)
    chats.assert_healthy()
    (copy,) = copies(chats)
    whole = copy.read_bytes()

    def findings() -> dict[str, str]:
        found = chats.doctor()["findings"]
        return {f["message"]: f["fix"] for f in found if f["check"] == "transcripts" and f["fix"]}

    assert findings() == {}
    chats.stop()
    copy.write_bytes(whole[:-40])
    ((message, fix),) = findings().items()
    damage = "the copy of a transcript is damaged: it is incomplete"
    assert message == f"damaged copies of transcripts: {NAME} ({damage})"
    assert "`memctl index --force` writes them again" in fix
    chats.start().sync()
    assert findings() == {}
    (copy.parent / "notes.txt").write_text("not ours")
    stranger = copy.with_name(f"{'0' * 32}.jsonl.zst")
    stranger.write_bytes(whole)
    lost, other = findings().items()
    assert str(stranger) in lost[0]
    assert f"rm {stranger}" in lost[1]
    assert "notes.txt" in other[0]
    chats.stop()
    for file in (stranger, copy.parent / "notes.txt", copy):
        file.unlink()
    ((message, _),) = findings().items()
    assert message == f"transcripts without file and without copy: {NAME}"
