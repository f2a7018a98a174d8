"""`memoryd doctor` on an index that was changed externally, and compared with the disk."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patient import NOTE, Patient, bad, errors

from memoryd.index.driver import sqlite

# The index alone


def flip(path: Path, page: int) -> None:
    """Flip all bits of a page, counted from 1, except for those of a possible file header."""
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 100)
        data = file.read(3996)
        file.seek((page - 1) * 4096 + 100)
        file.write(bytes(byte ^ 0xFF for byte in data))


def test_flipped_bits(patient: Patient) -> None:
    tables = ("files", "chunks", "embedding_cache", "meta", "sqlite_sequence")
    indexes = ("chunks_place", "chunks_hash", "chunks_vector", "sqlite_autoindex_chunks_1")
    derived = ("chunks_fts_data", "chunks_fts_docsize")
    for name in (*tables, *indexes, *derived):
        patient.restore()
        ((page,),) = patient.sql(f"SELECT rootpage FROM sqlite_schema WHERE name = '{name}'")
        flip(patient.database, page)
        found = errors(patient.doctor(code=1))
        # The doctor does not report on the rows of a corrupt file.
        assert [check for check, _, _ in found] == ["index"], (name, found)
        assert found[0][2].startswith("the index is corrupt: "), (name, found)


def test_a_file_that_was_cut_short(patient: Patient) -> None:
    os.truncate(patient.database, patient.database.stat().st_size // 2)
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert check == "index"
    assert message.startswith("the index is corrupt: ")


def test_a_file_that_is_no_database(patient: Patient) -> None:
    patient.database.write_bytes(b"no database at all " * 1000)
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert (check, message) == ("index", "the index is corrupt: file is not a database")
    patient.database.unlink()
    patient.database.mkdir()
    found = bad(patient.doctor(code=1))
    assert found == [("index", "error", f"{patient.database} is not a file")]


def test_another_schema_or_owner(patient: Patient) -> None:
    patient.sql("PRAGMA user_version = 99")
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert (check, message[:26]) == ("index", "the index has schema versi")
    patient.restore()
    patient.sql("UPDATE meta SET value = '/elsewhere' WHERE key = 'workspace'")
    message = f"the index belongs to the workspace /elsewhere, not to {patient.workspace}"
    assert bad(patient.doctor(code=1)) == [("index", "error", message)]
    patient.restore()
    patient.sql("DROP INDEX chunks_hash")
    assert errors(patient.doctor(code=1)) == [("index", "error", "the index lacks chunks_hash")]


def test_an_index_of_an_older_version_is_for_the_next_start(patient: Patient) -> None:
    patient.database.unlink()
    fixture = Path(__file__).parents[1] / "unit/index_version_1.sql"
    connection = sqlite.connect(str(patient.database))
    connection.executescript(fixture.read_text())
    connection.close()
    patient.database.chmod(0o600)
    assert bad(patient.doctor(code=0)) == [("index", "warning", "the index has schema version 1")]


GARDEN = "memory/garden.md:1-3"
BROKEN = {
    "a batch job's texts": (
        "INSERT INTO batch_jobs VALUES ('k', 'openai', 'm', 'p', 0, 1, NULL, '[\"cut')",
        [("index", "batch jobs with unreadable texts: 1")],
    ),
    "a vector is not given to its chunk": (
        "UPDATE chunks SET vector_id = NULL WHERE vector_id = 1",
        [
            ("vectors", "1 text without a vector yet"),
            ("vectors", "chunks without their cached vector: 1"),
        ],
    ),
    "a chunk is deleted": (
        "DELETE FROM chunks WHERE text LIKE '%apple%'",
        [
            ("index", "keywords without a chunk: 1"),
            (
                "disk",
                "1 note with chunks in the index that do not match the text: memory/garden.md",
            ),
        ],
    ),
    "words are deleted": (
        "DELETE FROM chunks_fts_docsize WHERE id IN"
        " (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'apple')",
        [("index", "chunks without keywords: 1")],
    ),
    "words are others": (
        "INSERT INTO chunks_fts (rowid, body)"
        " SELECT row_id, 'pear' FROM chunks WHERE text LIKE '%apple%'",
        [("index", "the keywords are not those of the texts: ")],
    ),
    "words of a damaged table": (
        "UPDATE chunks_fts_data SET block = unhex(replace(hex(block), hex('ppl'), hex('ppm')))",
        [("index", "the keywords are not those of the texts: ")],
    ),
    "a heading is another": (
        "UPDATE chunks SET heading = 'Orchard' WHERE text LIKE '%apple%'",
        [("index", f"chunks with a changed heading: {GARDEN}"), ("disk", "1 note with chunks")],
    ),
    "a text is another": (
        "UPDATE chunks SET text = 'pear' WHERE text LIKE '%apple%'",
        [("index", f"chunks with a changed text: {GARDEN}")],
    ),
    "lines are others": (
        "UPDATE chunks SET end_line = 4 WHERE text LIKE '%apple%'",
        [("index", "chunks with an id of another place: memory/garden.md:1-4")],
    ),
    "a file's remarks": (
        "UPDATE files SET remarks = '[' WHERE path = 'MEMORY.md'",
        [("index", "files with unreadable remarks: MEMORY.md")],
    ),
    "a file's hash is another": (
        "UPDATE files SET hash = 'x' WHERE path = 'MEMORY.md'",
        [("disk", "1 note different from the index: MEMORY.md")],
    ),
    "a file is no more": (
        "DELETE FROM files WHERE path = 'MEMORY.md'",
        [("index", "chunks with no file: "), ("disk", "1 note not in the index")],
    ),
    "a vector is missing": (
        "DELETE FROM embedding_cache WHERE vector_id = 1",
        [("index", "chunks with no vector: ")],
    ),
    "a vector is another": (
        "UPDATE embedding_cache SET embedding = (SELECT embedding FROM embedding_cache"
        " WHERE vector_id = 2) WHERE vector_id = 1",
        [("vectors", "corrupt vectors: of the texts ")],
    ),
    "a vector is of no length": (
        "UPDATE embedding_cache SET embedding = zeroblob(length(embedding)) WHERE vector_id = 1",
        [("vectors", "corrupt vectors: of the texts ")],
    ),
    "a vector has other dimensions": (
        # Length 1: the first number is 1.0, all others are 0.
        "UPDATE embedding_cache SET dims = 2, embedding = encode(x'0000803f00000000', 2, hash)",
        [("vectors", "vectors with 2 dimensions, not 512")],
    ),
    "a vector is cut": (
        "UPDATE embedding_cache SET embedding = substr(embedding, 2) WHERE vector_id = 1",
        [("vectors", "corrupt vectors: of the texts ")],
    ),
    "a vector is of another model": (
        "UPDATE embedding_cache SET model = 'x' WHERE vector_id = 1",
        [("vectors", "chunks with a vector of another model: 1")],
    ),
    "vectors are exchanged": (
        "UPDATE chunks SET vector_id = 3 - vector_id",
        [("index", "chunks with the vector of another text: ")],
    ),
    "ids would be given again": (
        "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'chunks'",
        [("index", "row ids of chunks would be used twice")],
    ),
    "what it was built with": (
        """UPDATE meta SET value = '{"provider": 1}' WHERE key = 'identity'""",
        [("index", "the index's identity can't be read")],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rows_that_were_changed_behind_memoryd(patient: Patient, name: str) -> None:
    statement, expected = BROKEN[name]
    patient.sql(statement)
    found = bad(patient.doctor())
    assert [check for check, _, _ in found] == [check for check, _ in expected], found
    for (_, _, message), (_, said) in zip(found, expected, strict=True):
        assert said in message, found


def test_a_chunk_of_another_model(patient: Patient) -> None:
    ((path, start, end, digest),) = patient.sql(
        "SELECT path, start_line, end_line, chunks.hash FROM chunks JOIN files USING (file_id)"
        " WHERE path = 'MEMORY.md'"
    )
    id_ = hashlib.sha256(f"memory:{path}:{start}:{end}:{digest}:other".encode()).hexdigest()
    patient.sql(f"UPDATE chunks SET model = 'other', id = '{id_}' WHERE hash = '{digest}'")
    found = errors(patient.doctor(code=1))
    message = "chunks with another model than use-multilingual-v3: MEMORY.md:1-3"
    assert ("index", "error", message) in found
    assert [check for check, _, _ in found] == ["index", "disk"]


def test_texts_that_cannot_be_embedded(patient: Patient) -> None:
    patient.sql(
        "INSERT INTO set_aside SELECT hash, 'too odd' FROM chunks WHERE vector_id = 1",
        "UPDATE chunks SET vector_id = NULL WHERE vector_id = 1",
        "DELETE FROM embedding_cache WHERE vector_id = 1",
    )
    message = "1 chunk with a text that the provider can't embed"
    assert bad(patient.doctor(code=0)) == [("vectors", "warning", message)]


def with_table(patient: Patient) -> None:
    """Have a daemon make the table of sqlite-vec."""
    patient.restore()
    patient.settings += "\nstore = { vector = { enabled = true } }"
    patient.write_config()
    patient.start().sync()
    assert patient.stop() == 0


def test_sqlite_vec_against_the_cache(patient: Patient) -> None:
    with_table(patient)
    patient.sql("DELETE FROM chunks_vec WHERE rowid = 1", vec=True)
    message = "vectors missing in sqlite-vec: 1"
    assert bad(patient.doctor(code=1)) == [("vectors", "error", message)]
    with_table(patient)
    patient.sql(
        "UPDATE chunks_vec SET embedding = (SELECT embedding FROM chunks_vec WHERE rowid = 2)"
        " WHERE rowid = 1",
        vec=True,
    )
    ((check, level, message),) = bad(patient.doctor(code=1))
    assert (check, level) == ("vectors", "error")
    assert message.startswith("vectors that differ from their copies in sqlite-vec: of the texts ")
    with_table(patient)
    patient.sql("DROP TABLE chunks_vec", vec=True)
    message = "the table of sqlite-vec is missing"
    assert bad(patient.doctor(code=1)) == [("vectors", "error", message)]
    patient.sql("CREATE VIRTUAL TABLE chunks_vec USING vec0(embedding float[8])", vec=True)
    message = "the table of sqlite-vec has other dimensions"
    assert bad(patient.doctor(code=1)) == [("vectors", "error", message)]


# Disk against index


def test_what_changed_while_no_daemon_ran_is_for_the_next_start(patient: Patient) -> None:
    patient.write("MEMORY.md", NOTE.replace("1.5", "2.5"))
    patient.write("memory/new.md", "new\n")
    (patient.workspace / "memory/garden.md").unlink()
    assert bad(patient.doctor(code=0)) == [
        ("disk", "warning", "1 note different from the index: MEMORY.md"),
        ("disk", "warning", "1 note not in the index: memory/new.md"),
        ("disk", "warning", "1 note in the index but not on disk: memory/garden.md"),
    ]
    patient.start()
    patient.sync()
    assert bad(patient.doctor(code=0)) == []


def test_what_a_daemon_does_not_see_is_an_error(patient: Patient) -> None:
    patient.start()
    patient.sync()
    # The daemon's scans compare times and sizes; this simulates a bug in them.
    patient.sql("UPDATE files SET hash = 'x' WHERE path = 'MEMORY.md'")
    assert bad(patient.doctor(code=1)) == [
        ("disk", "error", "1 note different from the index: MEMORY.md")
    ]


def test_changes_on_their_way_are_no_error(patient: Patient) -> None:
    patient.start()
    for number in range(200):
        patient.write(f"memory/{number}.md", f"# Number {number}\n\nwords of {number}\n")
    assert errors(patient.doctor(code=0)) == []


def test_notes_whose_disk_is_not_there_are_not_gone(patient: Patient) -> None:
    memory = patient.workspace / "memory"
    shutil.rmtree(memory)
    memory.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(memory)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("needs root: mounts a small file system")
    try:
        patient.write("memory/far.md", "a note on another disk\n")
        patient.start()
        patient.sync()
        assert patient.stop() == 0
        assert bad(patient.doctor(code=0)) == []
    finally:
        subprocess.run(["umount", str(memory)], check=True)
    ((check, level, message),) = bad(patient.doctor(code=0))
    assert (check, level) == ("disk", "warning")
    assert message.startswith(f"{memory} is empty and not the folder that was indexed")


NO_OVERRIDE = "-dac_override,-dac_read_search"


def test_what_cannot_be_looked_into_is_not_gone(patient: Patient) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv: drops root's right to read all files")
    patient.write("memory/locked/mole.md", "a mole\n")
    patient.start()
    patient.sync()
    assert patient.stop() == 0
    (patient.workspace / "memory/locked").chmod(0)
    patient.database.chmod(0o400)
    command = ["setpriv", "--bounding-set", NO_OVERRIDE, "--inh-caps", NO_OVERRIDE]
    command += patient.command("doctor", "--json", "--config", str(patient.config))
    done = subprocess.run(command, env=patient.environment, capture_output=True, text=True)
    (patient.workspace / "memory/locked").chmod(0o700)
    assert bad(json.loads(done.stdout)) == [
        ("permissions", "error", f"{patient.database} is not readable and writable"),
        (
            "disk",
            "warning",
            f"{patient.workspace}/memory/locked can't be read: Permission denied;"
            " its indexed text is kept",
        ),
    ]


def test_a_note_that_cannot_be_read(patient: Patient) -> None:
    patient.write("memory/binary.md", b"\x00\x01\x02" * 100)
    message = "1 note unreadable: memory/binary.md (not text)"
    assert bad(patient.doctor(code=0)) == [("disk", "warning", message)]
    patient.start()
    assert bad(patient.doctor(code=0)) == [
        ("disk", "warning", message),
        ("daemon", "warning", "memory/binary.md: not text"),
    ]


# Transcripts


def say(patient: Patient, *texts: str) -> None:
    chats = patient.folder / "chats"
    chats.mkdir(exist_ok=True)
    with (chats / "a.jsonl").open("a") as chat:
        chat.writelines(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)


@pytest.fixture
def talking(patient: Patient) -> Patient:
    """A stopped daemon that has read a transcript in several steps."""
    patient.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    say(patient, *(f"the ferry of {hour} o'clock is late " * 20 for hour in range(8)))
    patient.start()
    patient.sync()
    for hour in range(8, 24):
        say(patient, f"the ferry of {hour} o'clock is late " * 20)
        if hour % 5 == 0:
            patient.sync()
    patient.sync()
    assert patient.stop() == 0
    return patient


def test_transcripts(talking: Patient) -> None:
    found = talking.doctor(code=0)
    assert bad(found) == []
    assert any(finding["check"] == "transcripts" for finding in found["findings"])
    say(talking, "all others were on time")
    assert bad(talking.doctor(code=0)) == [
        ("transcripts", "warning", "1 transcript different from the index: sessions/chats/a.jsonl")
    ]
    talking.start()
    assert errors(talking.doctor(code=0)) == []
    assert talking.stop() == 0
    talking.sql(
        "DELETE FROM chunks WHERE row_id = (SELECT max(row_id) FROM chunks)",
    )
    found = errors(talking.doctor(code=1))
    name = "sessions/chats/a.jsonl"
    message = f"1 transcript with chunks in the index that do not match the text: {name}"
    assert ("transcripts", "error", message) in found
    (talking.folder / "chats/a.jsonl").unlink()
    message = f"1 transcript in the index but not on disk: {name}"
    assert ("transcripts", "warning", message) in bad(talking.doctor())


def test_transcripts_that_are_not_there_now_or_are_forgotten(talking: Patient) -> None:
    chats, elsewhere = talking.folder / "chats", talking.folder / "elsewhere"
    chats.rename(elsewhere)
    assert bad(talking.doctor(code=0)) == []
    elsewhere.rename(chats)
    talking.start()
    talking.memctl("forget", "--match", "ferry of 5 o'clock")
    talking.sync()
    assert talking.stop() == 0
    assert bad(talking.doctor(code=0)) == []


def test_a_chat_that_is_one_document(patient: Patient) -> None:
    patient.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    chat = patient.folder / "chats/g1.json5"
    chat.parent.mkdir()
    chat.write_text("{ id: 'g1', messages: [{ role: 'user', content: 'the ferry is late' }] }")
    patient.start()
    patient.sync()
    assert patient.stop() == 0
    assert bad(patient.doctor(code=0)) == []
    chat.write_text(chat.read_text().replace("late", "full"))
    message = "1 transcript different from the index: sessions/chats/g1.json5"
    assert bad(patient.doctor(code=0)) == [("transcripts", "warning", message)]


def test_a_transcript_whose_line_map_is_wrong(talking: Patient) -> None:
    talking.sql("UPDATE chunks SET line_map = '1' WHERE line_map LIKE '%,%'")
    found = errors(talking.doctor(code=1))
    assert [check for check, _, _ in found] == ["index"], found
    assert found[0][2].startswith("chunks with impossible lines: sessions/chats/a.jsonl")


@pytest.mark.parametrize(
    "change",
    [
        "voices = replace(voices, 'owner', 'king')",
        'voices = \'[[1,"user","owner","",""]]\'',
        "origin = 'agent'",
    ],
)
def test_a_transcript_whose_speakers_are_wrong(talking: Patient, change: str) -> None:
    talking.sql(f"UPDATE chunks SET {change} WHERE line_map LIKE '%,%'")
    found = errors(talking.doctor(code=1))
    assert [check for check, _, _ in found] == ["index", "transcripts"], found
    assert found[0][2].startswith("chunks with an impossible origin: sessions/chats/a.jsonl")


def test_words_of_a_stranger_that_pass_for_the_owners(talking: Patient) -> None:
    said = {"role": "user", "content": "[WhatsApp Family id:1@g.us 2026-01-05 10:00] Eve: pay me"}
    (talking.folder / "chats" / "b.jsonl").write_text(json.dumps(said) + "\n")
    talking.start()
    talking.sync()
    assert talking.stop() == 0
    assert bad(talking.doctor(code=0)) == []
    talking.sql(
        "UPDATE chunks SET origin = 'owner', voices = replace(voices, 'untrusted', 'owner')"
        " WHERE text LIKE 'Eve (Family)%'"
    )
    message = "1 transcript with chunks in the index that do not match the text:"
    ((check, _, found),) = bad(talking.doctor(code=1))
    assert (check, found.startswith(message)) == ("transcripts", True)
