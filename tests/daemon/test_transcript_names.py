"""One name for each transcript: compressed, archived, and in an index of an earlier version."""

import json
import sqlite3
from pathlib import Path

import pytest
import zstandard
from harness import Daemon

NAME = "sessions/codex/2026/11/28/rollout-2026-11-28T10-00-00-1f.jsonl"
ROLLOUT = "sessions/2026/11/28/rollout-2026-11-28T10-00-00-1f.jsonl"


@pytest.fixture
def codex(hybrid: Daemon) -> Daemon:
    """A daemon, not started yet, that reads the transcripts of Codex."""
    hybrid.settings += '\nsessions = { enabled = true, formats = ["codex"] }'
    hybrid.variables["CODEX_HOME"] = str(hybrid.folder / "codex")
    return hybrid


def rollout(daemon: Daemon, path: str, session: str, count: int) -> Path:
    """Write a transcript of Codex with so many messages."""
    file = daemon.folder / "codex" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"type": "session_meta", "payload": {"id": session}}]
    for number in range(count):
        text = f"{session} message {number} about topic{number}: " + "several words of it " * 20
        lines.append({"type": "event_msg", "payload": {"type": "user_message", "message": text}})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def pack(file: Path) -> Path:
    """Replace a file by a packed one, as Codex does: the new one is complete before."""
    new = Path(f"{file}.zst")
    part = new.with_suffix(".part")
    part.write_bytes(zstandard.ZstdCompressor().compress(file.read_bytes()))
    part.rename(new)
    file.unlink()
    return new


def texts(daemon: Daemon) -> list[tuple[object, ...]]:
    """Return the chunks of transcripts with the names of their files."""
    connection = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    try:
        return connection.execute(
            "SELECT path, chunks.id, row_id, vector_id FROM chunks JOIN files USING (file_id)"
            " WHERE source = 'sessions' ORDER BY row_id"
        ).fetchall()
    finally:
        connection.close()


def states(daemon: Daemon) -> dict[str, str]:
    with daemon.client() as client:
        return {entry.path: entry.state for entry in client.sessions()}


def test_a_packed_or_archived_transcript_is_the_same_one(codex: Daemon) -> None:
    file = rollout(codex, ROLLOUT, "1f", 30)
    codex.start().sync()
    before, embedded = texts(codex), len(codex.embedded())
    assert {row[0] for row in before} == {NAME}

    def assert_unchanged(state: str) -> None:
        codex.sync()
        assert texts(codex) == before
        assert states(codex) == {NAME: state}
        with codex.client() as client:
            assert "topic3" in client.get(NAME, start_line=5).text
            assert [hit.path for hit in client.search("topic3", sources=["sessions"]).results[:1]]

    packed = pack(file)
    with codex.client() as client:  # before memoryd has noticed it
        assert "topic3" in client.get(NAME, start_line=5).text
    assert_unchanged("indexed")
    archive = codex.folder / "codex/archived_sessions" / packed.name
    archive.parent.mkdir()
    packed.rename(archive)
    assert_unchanged("indexed")
    plain = archive.with_suffix("")
    plain.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(archive.read_bytes()))
    assert_unchanged("indexed")  # both forms are there, and the plain one wins
    archive.unlink()
    plain.unlink()
    assert_unchanged("kept")
    packed.write_bytes(b"not packed at all")
    codex.sync()
    assert texts(codex) == before, "a damaged form takes nothing away"
    packed.unlink()
    rollout(codex, ROLLOUT, "1f", 30)
    assert_unchanged("indexed")
    assert [text for text in codex.embedded()[embedded:] if "several words" in text] == []


def test_what_is_forgotten_stays_forgotten_in_every_form(codex: Daemon) -> None:
    file = rollout(codex, ROLLOUT, "1f", 3)
    codex.start().sync()
    codex.memctl("forget", "--path", NAME)
    packed = pack(file)
    codex.sync()
    assert states(codex) == {}
    archive = codex.folder / "codex/archived_sessions" / packed.name
    archive.parent.mkdir()
    packed.rename(archive)
    codex.sync()
    assert states(codex) == {}


def purge_and_move_all(codex: Daemon, count: int) -> None:
    """Pack, archive and delete a third each of all transcripts at once: nothing changes."""
    files = [
        rollout(
            codex,
            f"sessions/2026/{n % 12 + 1:02}/{n % 28 + 1:02}/"
            f"rollout-2026-{n % 12 + 1:02}-{n % 28 + 1:02}T10-00-00-{n}.jsonl",
            f"session{n}",
            8,
        )
        for n in range(count)
    ]
    codex.start().sync()
    before, embedded = texts(codex), len(codex.embedded())
    archives = codex.folder / "codex/archived_sessions"
    archives.mkdir()
    for number, file in enumerate(files):
        if number % 3 == 0:
            pack(file)
        elif number % 3 == 1:
            file.rename(archives / file.name)
        else:
            file.unlink()
    codex.sync()
    assert texts(codex) == before
    found = list(states(codex).values())
    assert (found.count("kept"), len(found)) == (len(files[2::3]), count)
    for number in range(0, count, max(1, count // 20)):
        assert any(
            f"session{number} message" in hit.snippet
            for hit in codex.search(f"session{number} topic3").results
        )
    with codex.client() as client:
        client.index(force=True)
    assert [row[:2] for row in sorted(texts(codex))] == [row[:2] for row in sorted(before)]
    assert [text for text in codex.embedded()[embedded:] if "several words" in text] == []
    codex.assert_healthy()


def test_all_of_codex_at_once_keeps_every_answer_and_embeds_nothing(codex: Daemon) -> None:
    purge_and_move_all(codex, 12)


@pytest.mark.long
def test_thousands_of_codex_at_once_keep_every_answer_and_embed_nothing(codex: Daemon) -> None:
    purge_and_move_all(codex, 3_000)


def test_names_of_an_earlier_version_are_replaced_and_go_on_working(hybrid: Daemon) -> None:
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/one/logs", "~/two/logs"] }'
    for folder in ("one", "two"):
        file = hybrid.folder / folder / "logs" / "a.jsonl"
        file.parent.mkdir(parents=True)
        record = {"role": "user", "content": f"an ocelot in {folder}", "sessionId": folder}
        file.write_text(json.dumps(record) + "\n")
    gone = hybrid.folder / "two/logs/gone.jsonl"
    gone.write_text(json.dumps({"role": "user", "content": "a serval"}) + "\n")
    hybrid.start().sync()
    names = {"one": "", "two": ""}
    with hybrid.client() as client:
        for entry in client.sessions():
            if entry.path.endswith("/a.jsonl"):
                names[entry.session] = entry.path
    before, embedded = texts(hybrid), hybrid.embedded()
    hybrid.stop()
    label = names["two"].split("/")[1]
    with sqlite3.connect(hybrid.database) as connection:
        connection.execute(
            "UPDATE files SET path = 'sessions/logs~2/' || substr(path, ?) WHERE path LIKE ?",
            (len(label) + 11, f"sessions/{label}/%"),
        )
        connection.execute(
            "UPDATE chunks SET id = 'old' || row_id WHERE file_id IN"
            " (SELECT file_id FROM files WHERE path LIKE 'sessions/logs~2/%')"
        )
    connection.close()
    gone.unlink()
    hybrid.start()
    assert {row[0] for row in texts(hybrid)} == {row[0] for row in before}
    hybrid.sync()
    assert texts(hybrid) == before
    assert hybrid.embedded()[len(embedded) :] == []
    assert states(hybrid)[names["two"].replace("/a.", "/gone.")] == "kept"
    hybrid.assert_healthy()
    old = "sessions/logs~2/a.jsonl"
    with hybrid.client() as client:
        assert client.get(old).text == "User: an ocelot in two"
        assert client.forget(path=old).paths == [names["two"]]
        client.sync()
    assert hybrid.paths("ocelot") == [names["one"]]


def test_what_was_forgotten_under_an_earlier_name_stays_away(hybrid: Daemon) -> None:
    hybrid.settings += '\nsessions = { enabled = true, paths = ["~/one/logs", "~/two/logs"] }'
    for folder in ("one", "two"):
        (hybrid.folder / folder / "logs").mkdir(parents=True)
    hybrid.start()
    hybrid.stop()
    with sqlite3.connect(hybrid.database) as connection:
        connection.execute("INSERT INTO forgotten VALUES ('path', 'sessions/logs~2/a.jsonl')")
    connection.close()
    for folder in ("one", "two"):
        file = hybrid.folder / folder / "logs" / "a.jsonl"
        file.write_text(json.dumps({"role": "user", "content": f"an ocelot in {folder}"}) + "\n")
    hybrid.start().sync()
    (hit,) = hybrid.search("ocelot").results
    assert "in one" in hit.snippet
