"""`memctl forget`: every occurrence of a text is found and removed from all files."""

import hashlib
import json
import sqlite3
from itertools import pairwise
from pathlib import Path
from unicodedata import combining, normalize

import pytest
from harness import Daemon

from memoryd_client.errors import BadRequestError, UnavailableError

ENGLISH = " ".join(
    f"Sentence {n} tells of a walk number {n * 7} along the river." for n in range(130)
)
JAPANESE = "".join(f"第{n}章は川沿いの散歩について語る。" for n in range(200))
UNBROKEN = "".join(chr(0x4E00 + n) for n in range(2_500))
EMOJI = "".join(("👩‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301", "漢")[n % 5] + str(n) for n in range(600))
TEXTS = {"english": ENGLISH, "japanese": JAPANESE, "unbroken": UNBROKEN, "emoji": EMOJI}
SETTINGS = """
sessions = { enabled = true, paths = ["~/chats"] }
sync = { watch_debounce_ms = 20, sessions = { idle_seconds = 3600 } }
"""


@pytest.fixture
def chats(daemon: Daemon) -> Daemon:
    """A daemon, not started yet, that reads `~/chats`, without automatic scans for an hour."""
    daemon.settings = SETTINGS
    (daemon.folder / "chats").mkdir()
    return daemon


def say(daemon: Daemon, name: str, *texts: str) -> Path:
    file = daemon.folder / "chats" / name
    with file.open("a", encoding="utf-8") as chat:
        for text in texts:
            chat.write(json.dumps({"role": "user", "content": text}, ensure_ascii=False) + "\n")
    return file


def chunks(daemon: Daemon, path: str = "%") -> list[str]:
    """Return the chunks of transcripts in the index, in order."""
    connection = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    try:
        rows = connection.execute(
            "SELECT text FROM chunks JOIN files USING (file_id) WHERE path LIKE ? ORDER BY row_id",
            (path,),
        )
        return [text for (text,) in rows.fetchall()]
    finally:
        connection.close()


def test_a_text_on_the_boundary_of_two_chunks_is_found(chats: Daemon) -> None:
    for name, text in TEXTS.items():
        say(chats, f"{name}.jsonl", f"fig {name}", text, "another fig")
    chats.start().sync()
    with chats.client() as client:
        for name in TEXTS:
            path = f"sessions/chats/{name}.jsonl"
            parts = [part for part in chunks(chats, path) if "fig" not in part]
            assert len(parts) > 2
            # A line end stands for a space that the cut may have removed.
            across = [f"{one[-12:]}\n{two[:12]}" for one, two in pairwise(parts)]
            within = [text for part in parts[1:] for text in (part[780:820], part[-30:])]
            within = [text for text in within if text.strip() and not combining(text[0])]
            for text in (*across, *within, parts[1], "\n".join(parts)[:9_000]):
                found = client.forget(match=text, dry_run=True)
                assert (found.paths, found.messages) == ([path], 1), text
            assert client.forget(match=across[0] + "§", dry_run=True).paths == []
            done = chats.memctl("forget", "--match", across[0])
            assert done.stdout == f"Forgotten: 1 message in 1 transcript\n  {path}\n"
            client.sync()
            assert chunks(chats, path) == [f"User: fig {name}\nUser: another fig"]
    chats.assert_healthy()


DIFFERING = [
    ("Die Straße nach Ávila", "STRASSE NACH ávila"),
    ("ÄPFEL und Birnen", "äpfel"),
    (normalize("NFD", "das Café am Eck"), "café am"),
    ("das Cafè am Eck", normalize("NFD", "CAFÈ")),
    ("a line\n\n  another   line", "A LINE another"),
    ("first line\nsecond line", "first\nline\r\nsecond\n"),
    ("漢字の説明", "漢字\nの説明"),
    ("100% of a_b [x] (y) \\d+ .*", "% of a_b [X] (y) \\D+ .*"),
    ("👩‍👩‍👧 at home 🇩🇪", "👩‍👩‍👧 AT home 🇩🇪"),
]


def test_what_is_typed_may_differ_in_case_accents_and_space(chats: Daemon) -> None:
    for number, (said, _) in enumerate(DIFFERING):
        say(chats, f"{number}.jsonl", said, "an innocent fig")
    chats.start().sync()
    with chats.client() as client:
        for number, (_, typed) in enumerate(DIFFERING):
            path = f"sessions/chats/{number}.jsonl"
            found = client.forget(match=typed)
            assert (found.messages, found.paths) == (1, [path]), typed
            client.sync()
            assert chunks(chats, path) == ["User: an innocent fig"]


def test_letters_are_not_torn_from_their_words_and_accents(chats: Daemon) -> None:
    say(chats, "a.jsonl", "he is now here", "a cafe\u0301", "漢字 の説明")
    chats.start().sync()
    with chats.client() as client:
        for text in ("nowhere", "no w", "cafe", "漢字の説明"):
            assert client.forget(match=text, dry_run=True).paths == [], text


def test_what_is_not_in_the_index_yet_is_found_too(chats: Daemon) -> None:
    say(chats, "a.jsonl", "an innocent fig")
    chats.start().sync()
    say(chats, "a.jsonl", "the mulberry affair")
    say(chats, "b.jsonl", "the Mulberry once more", "a plum")
    found = chats.memctl_json("forget", "--match", "mulberry")
    assert found["messages"] == 2
    chats.sync()
    assert sorted(chunks(chats)) == ["User: a plum", "User: an innocent fig"]


def test_a_part_that_is_said_again_and_again_hides_nothing(chats: Daemon) -> None:
    again = "the same words again and again. " * 2_000
    say(chats, "a.jsonl", again + "mulberry " + again)
    chats.start().sync()
    with chats.client() as client:
        for text in ("again. mulberry the same", "again. " + again[:3_000].strip()):
            assert client.forget(match=text, dry_run=True).messages == 1, text
        with pytest.raises(BadRequestError, match="at most 10000 characters"):
            client.forget(match=again)


def test_a_transcript_that_cannot_be_read_is_told(chats: Daemon) -> None:
    say(chats, "a.jsonl", "the mulberry affair", "an innocent fig")
    say(chats, "b.jsonl", "a fig and a plum")
    (chats.folder / "more").mkdir()
    other = say(chats, "../more/c.jsonl", "another mulberry")
    chats.settings = chats.settings.replace('["~/chats"]', '["~/chats", "~/more"]')
    chats.start().sync()
    away = chats.folder / "away"
    other.parent.rename(away)  # like a disk that is not mounted
    done = chats.memctl("forget", "--match", "mulberry")
    assert done.stdout.startswith("Forgotten: 1 message in 2 transcripts\n")
    assert "sessions/more/c.jsonl can't be read, so all of it was removed" in done.stderr
    chats.sync()
    assert chunks(chats) == ["User: a fig and a plum", "User: an innocent fig"]
    away.rename(other.parent)
    chats.sync()
    assert chats.paths("mulberry") == ["sessions/more/c.jsonl"], "the unread transcript may return"
    assert chats.memctl_json("forget", "--match", "mulberry")["unread"] == []
    chats.sync()
    assert chats.paths("mulberry") == []


def remains(daemon: Daemon, word: str) -> list[str]:
    """Return the files other than transcripts that contain a word, in any case."""
    files = [file for file in daemon.folder.rglob("*") if file.is_file()]
    ours = [file for file in files if file.suffix != ".jsonl" and file != daemon.model_log]
    return [str(file) for file in ours if word.encode() in file.read_bytes().lower()]


def test_nothing_of_what_is_forgotten_is_left_in_any_file(hybrid: Daemon) -> None:
    words = ["mulberry", "quincunx", "zephyrs", "kohlrabi"]
    hybrid.settings = SETTINGS
    temporary = hybrid.folder / "temporary"
    temporary.mkdir()
    (hybrid.folder / "chats").mkdir()
    hybrid.variables |= {"SQLITE_TMPDIR": str(temporary), "TMPDIR": str(temporary)}
    config = ["--config", str(hybrid.config), "--log-level", "debug"]
    say(hybrid, "b.jsonl", *(f"walk {n} along the river " + "words " * 60 for n in range(50)))
    hybrid.start(options=config).sync()
    for word in words:  # each version of the last chunk has its own vector
        say(hybrid, "a.jsonl", f"the {word} affair", f"a fig {word[::-1]}")
        hybrid.sync()
        assert hybrid.search(word).results
    with sqlite3.connect(hybrid.database) as connection:
        before = {row for (row,) in connection.execute("SELECT hash FROM embedding_cache")}
        in_use = {row for (row,) in connection.execute("SELECT hash FROM chunks")}
    connection.close()
    assert before - in_use, "earlier chunks left vectors in the cache"
    assert all(remains(hybrid, word) for word in words)
    with hybrid.client() as client:
        for word in words:
            assert client.forget(match=word).messages == 1
        client.sync()
    for word in words:
        assert remains(hybrid, word) == []
    with sqlite3.connect(hybrid.database) as connection:
        # FTS5 stores only the difference of a word from the previous one.
        connection.execute("CREATE VIRTUAL TABLE temp.v USING fts5vocab(main, chunks_fts, 'row')")
        terms = {term for (term,) in connection.execute("SELECT term FROM temp.v")}
        after = {row for (row,) in connection.execute("SELECT hash FROM embedding_cache")}
        now = {row for (row,) in connection.execute("SELECT hash FROM chunks")}
    connection.close()
    assert "yrreblum" in terms, "the other messages remain"
    assert not {term for term in terms for word in words if term.startswith(word[:4])}
    assert after <= now, "no vector of an earlier version remains"
    hybrid.assert_healthy()


def test_bytes_that_somebody_still_reads_are_told(chats: Daemon) -> None:
    say(chats, "a.jsonl", "the mulberry affair", "an innocent fig")
    chats.start().sync()
    reader = sqlite3.connect(f"file:{chats.database}?mode=ro", uri=True, isolation_level=None)
    try:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM chunks").fetchone() == (1,)
        with chats.client() as client:
            with pytest.raises(UnavailableError, match="its bytes may remain in") as raised:
                client.forget(match="mulberry")
            assert raised.value.hint
            assert not client.search("mulberry").results
    finally:
        reader.close()
    with chats.client() as client:
        client.index(force=True)
    assert remains(chats, "mulberry") == []
    chats.assert_healthy()


# --- notes


def state(daemon: Daemon) -> bytes:
    """Return the contents of all files of the state folder."""
    files = [file for file in daemon.database.parent.rglob("*") if file.is_file()]
    return b"".join(file.read_bytes() for file in files)


def vectors(daemon: Daemon) -> int:
    connection = sqlite3.connect(f"file:{daemon.database}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM embedding_cache").fetchone()[0])
    finally:
        connection.close()


def test_a_deleted_note_is_forgotten_with_its_vectors(hybrid: Daemon) -> None:
    note = hybrid.write("memory/a.md", "the mulberry affair\n")
    hybrid.write("memory/b.md", "an innocent fig\n")
    hybrid.start().sync()
    refused = hybrid.memctl("forget", "--path", "memory/a.md", code=1)
    assert "memory/a.md still exists" in refused.stderr
    assert "--delete-source" in refused.stderr
    assert note.exists()
    note.unlink()
    assert hybrid.memctl("forget", "--path", "memory/a.md").stdout in (
        "Forgotten: 1 note\n  memory/a.md\n",
        "Forgotten: 0 notes, and what deleted ones had left\n",
    )
    assert vectors(hybrid) == 1
    assert b"mulberry" not in state(hybrid)
    assert b"innocent" in state(hybrid)
    # Known to nobody any more, but its leftovers may be there.
    done = hybrid.memctl("forget", "--path", "memory/a.md")
    assert done.stdout == "Forgotten: 0 notes, and what deleted ones had left\n"
    hybrid.assert_healthy()


def test_a_note_is_deleted_and_forgotten_after_a_question(hybrid: Daemon) -> None:
    note = hybrid.write("memory/a.md", "the mulberry affair\n")
    hybrid.write("memory/b.md", "an innocent fig\n")
    hybrid.start().sync()
    path = ("forget", "--path", "memory/a.md", "--delete-source")
    refused = hybrid.memctl(*path, code=1)
    assert "--yes" in refused.stderr
    assert hybrid.memctl(*path, "--dry-run").stdout == "Would forget: 1 note\n  memory/a.md\n"
    assert note.exists()
    done = hybrid.memctl(*path, "--yes")
    assert done.stdout == f"Forgotten: 1 note\n  memory/a.md\nDeleted: {note}\n"
    assert not note.exists()
    assert vectors(hybrid) == 1
    assert b"mulberry" not in state(hybrid)
    assert hybrid.paths("mulberry", mode="keyword") == []
    hybrid.assert_healthy()


@pytest.mark.parametrize("path", ["../outside.md", "/etc/passwd", "memory/link.md", "memory/sub"])
def test_nothing_but_a_note_is_deleted(hybrid: Daemon, path: str) -> None:
    outside = hybrid.folder / "outside.md"
    outside.write_text("not a note\n")
    hybrid.write("memory/sub/b.md", "an innocent fig\n")
    (hybrid.workspace / "memory/link.md").symlink_to(outside)
    hybrid.start().sync()
    with hybrid.client() as client:
        found = client.forget(path=path, delete_source=True)
    assert found.deleted == []
    assert outside.exists()
    assert (hybrid.workspace / "memory/link.md").is_symlink()
    assert (hybrid.workspace / "memory/sub/b.md").exists()


def test_a_text_in_notes_is_told_with_its_lines_and_leftovers_go(hybrid: Daemon) -> None:
    old = hybrid.write("memory/old.md", "the Mulberry affair, first told\n")
    hybrid.write("memory/a.md", "# Fruit\n\nthe mulberry\naffair\n\nno\n\nMULBERRY affair\n")
    hybrid.write("memory/b.md", "an innocent fig\n")
    hybrid.start().sync()
    old.unlink()
    hybrid.sync()
    assert vectors(hybrid) == 3
    found = hybrid.memctl_json("forget", "--match", "mulberry affair", "--dry-run")
    assert found["notes"] == ["memory/a.md:3", "memory/a.md:8"]
    assert vectors(hybrid) == 3
    done = hybrid.memctl("forget", "--match", "mulberry affair")
    assert "memory/a.md:3 still contains it; edit the file" in done.stderr
    assert vectors(hybrid) == 2, "the vector of the deleted note is gone at once"
    hybrid.assert_healthy()


def test_a_note_whose_disk_is_away_is_not_taken_for_deleted(daemon: Daemon) -> None:
    daemon.write("memory/a.md", "the mulberry affair\n")
    daemon.start().sync()
    away = daemon.folder / "away"
    daemon.workspace.rename(away)  # like a disk that is not mounted
    with daemon.client() as client, pytest.raises(UnavailableError, match="is unavailable"):
        client.forget(path="memory/a.md")
    away.rename(daemon.workspace)
    daemon.sync()
    assert daemon.paths("mulberry") == ["memory/a.md"]


def test_the_record_of_forgotten_messages_has_no_plain_hash(chats: Daemon) -> None:
    say(chats, "a.jsonl", "my pin is 4711", "an innocent fig")
    chats.start().sync()
    assert chats.memctl_json("forget", "--match", "4711")["messages"] == 1
    chats.sync()
    plain = [hashlib.sha256(text.encode()).hexdigest() for text in GUESSES]
    connection = sqlite3.connect(f"file:{chats.database}?mode=ro", uri=True)
    kept = {value for (value,) in connection.execute("SELECT value FROM forgotten")}
    connection.close()
    assert len(kept) >= 2
    assert not kept & set(plain)
    key = Path(f"{chats.database}.tombstone-key")
    assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o600, 32)
    with chats.client() as client:
        client.index(force=True)
    assert chunks(chats) == ["User: an innocent fig"], "a rebuilt index knows it too"
    assert chats.stop() == 0
    saved = key.read_bytes()
    key.unlink()
    chats.start().sync()
    with chats.client() as client:
        told = [line for line in client.status().degraded if str(key) in line]
    assert len(told) == 1
    assert "put the file back from a backup" in told[0]
    checked = chats.memctl("doctor", code=1)
    assert f"is missing: {key}" in checked.stdout
    with chats.client() as client, pytest.raises(UnavailableError, match="is missing"):
        client.index(force=True)
    assert chunks(chats) == ["User: an innocent fig"]
    assert chats.stop() == 0
    key.write_bytes(saved)
    chats.start().sync()
    with chats.client() as client:
        assert not any(str(key) in line for line in client.status().degraded)
        client.index(force=True)
    assert chunks(chats) == ["User: an innocent fig"]
    key.unlink()
    assert chats.stop() == 0
    chats.start()
    with chats.client() as client:
        assert client.forget(match="4711").messages == 0
        assert client.forget(match="innocent").messages == 1, "a new record begins"
        assert not any(str(key) in line for line in client.status().degraded)


GUESSES = ("my pin is 4711", "User: my pin is 4711", "User: my pin is 4711\nUser: an innocent fig")


EARLIER_KEY = bytes(range(32))
EARLIER_CHECK = "cd9f5de4220cfd5640f0b837efceb245fe68f6379f9dba961a9c3bd53e765aca"
EARLIER = [
    (
        "the deploy password: hunter2 of the pear",
        "e2cb784a45376d062b17444964368f5ea6ced9d1018e8b33abae2889fd80791e",
    ),
    (
        "my Slack key is " + "xox" + "b-1234567890-abcdef and my pass is set",
        "0cd15cfe46e85ba771a72e01120d7e88d2a177330bc52fdf1b8a5912951084ee",
    ),
]
"""Messages with the tombstones that the first version recorded with this key, of masked texts."""


def test_what_was_forgotten_under_the_first_rules_for_masking_stays_away(chats: Daemon) -> None:
    say(chats, "a.jsonl", "an innocent fig")
    chats.start().sync()
    assert chats.stop() == 0
    Path(f"{chats.database}.tombstone-key").write_bytes(EARLIER_KEY)
    connection = sqlite3.connect(chats.database)
    connection.executemany(
        "INSERT INTO forgotten VALUES ('message-hmac', ?)", [(name,) for _, name in EARLIER]
    )
    connection.execute("INSERT INTO meta VALUES ('tombstone key', ?)", (EARLIER_CHECK,))
    connection.commit()
    connection.close()
    say(chats, "a.jsonl", *(text for text, _ in EARLIER), "a plum")
    chats.start().sync()
    assert chunks(chats) == ["User: an innocent fig\nUser: a plum"]
    with chats.client() as client:
        client.index(force=True)
    assert chunks(chats) == ["User: an innocent fig\nUser: a plum"]
    assert chats.memctl_json("forget", "--match", "plum")["messages"] == 1
    chats.sync()
    assert chunks(chats) == ["User: an innocent fig"]


def test_a_new_pattern_for_masking_brings_no_message_back(chats: Daemon) -> None:
    say(chats, "a.jsonl", "the ticket is ACME-4711 and password: hunter2", "an innocent fig")
    chats.start().sync()
    assert chats.memctl_json("forget", "--match", "the ticket")["messages"] == 1
    for patterns in ("ACME-[0-9]+", "ticket"):
        assert chats.stop() == 0
        chats.settings = f'{SETTINGS}redact = {{ patterns = ["{patterns}"] }}\n'
        chats.start().sync()
        with chats.client() as client:
            client.index(force=True)
        assert chunks(chats) == ["User: an innocent fig"]
