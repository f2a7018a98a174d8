"""`memoryd doctor`: nothing to find in what is well, and each thing that is broken is found.

Everything is broken for real: modes changed, bytes flipped, rows deleted behind memoryd's back.
"""

import contextlib
import io
import json
import logging
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon, eventually

from memoryd.__main__ import main
from memoryd.doctor.examine import Options, examine
from memoryd.index.driver import bundled_extension, load_extension, sqlite

Findings = list[tuple[str, str, str]]
SETTINGS = "sync = { watch_debounce_ms = 20 }"
NOTE = "# Boiler\n\nThe pressure is 1.5 bar.\n"


def bad(found: Any) -> Findings:
    """Return (check, level, message) of all that is not ok."""
    return [
        (finding["check"], finding["level"], finding["message"])
        for finding in found["findings"]
        if finding["level"] != "ok"
    ]


def errors(found: Any) -> Findings:
    return [finding for finding in bad(found) if finding[1] == "error"]


class Patient(Daemon):
    """An index that was built in good order; each test gets it as it was then."""

    def build(self) -> None:
        self.write("MEMORY.md", NOTE)
        self.write("memory/garden.md", "# Garden\n\nThe apple tree was planted in 2019.\n")
        self.start()
        self.sync()
        assert self.stop() == 0
        shutil.copytree(self.folder / "state", self.folder / "kept", copy_function=shutil.copy2)
        shutil.copytree(self.workspace, self.folder / "notes", copy_function=shutil.copy2)

    def restore(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for name, kept in (("state", "kept"), ("workspace", "notes")):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.folder / kept, self.folder / name, copy_function=shutil.copy2)
        for file in (self.socket, self.config):
            file.unlink(missing_ok=True)
        for name in (*self.agents, "added", "chats"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.agents.clear()
        self.variables.clear()
        self.settings = SETTINGS
        self.write_config()

    def doctor(self, *options: str, code: int | None = None) -> Any:
        """Run the command in this process, which takes a tenth of the time."""
        command = ["doctor", "--json", "--config", str(self.config), *options]
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            for name, value in self.environment.items():
                patch.setenv(name, value)
            try:
                status = main(command)
            finally:
                logging.disable(logging.NOTSET)
        found = json.loads(printed.getvalue())
        assert code is None or status == code, (status, bad(found))
        return found

    def sql(self, *statements: str, vec: bool = False) -> list[Any]:
        """Change the index behind memoryd's back; return the rows of the last statement."""
        connection = sqlite.connect(str(self.database), isolation_level=None)
        try:
            if vec:
                load_extension(connection, bundled_extension())
            *_, rows = [connection.execute(statement).fetchall() for statement in statements]
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return list(rows)
        finally:
            connection.close()


@pytest.fixture(scope="module")
def built() -> Iterator[Patient]:
    patient = Patient(provider="local", settings=SETTINGS)
    try:
        patient.build()
        yield patient
    finally:
        patient.__exit__(None, None, None)


@pytest.fixture
def patient(built: Patient) -> Patient:
    built.restore()
    return built


# Well


def test_nothing_is_found_in_what_is_well(patient: Patient) -> None:
    assert bad(patient.doctor(code=0)) == []
    patient.start()
    assert bad(patient.doctor(code=0)) == []
    patient.kill()
    assert bad(patient.doctor(code=0)) == [
        ("socket", "warning", f"{patient.socket} is stale: the memoryd that made it was killed")
    ]


def test_the_doctor_leaves_no_file_behind(patient: Patient) -> None:
    def files() -> dict[str, int]:
        return {
            str(path.relative_to(patient.folder)): path.stat().st_mtime_ns
            for path in patient.folder.rglob("*")
            if path.name not in ("__pycache__",) and path.suffix != ".pyc"
        }

    before = files()
    patient.doctor(code=0)
    assert files() == before
    # A log that was left without the file that SQLite shares among processes, as in a backup.
    patient.start()
    patient.write("MEMORY.md", NOTE + "It was 1.4 in May.\n")
    patient.sync()
    patient.kill()
    Path(f"{patient.database}-shm").unlink()
    assert Path(f"{patient.database}-wal").stat().st_size
    before = files()
    patient.doctor(code=0)
    assert files().keys() == before.keys()


def test_an_index_that_is_not_there_yet_is_no_error(patient: Patient) -> None:
    shutil.rmtree(patient.folder / "state")
    assert bad(patient.doctor(code=0)) == [
        ("index", "warning", f"there is no index {patient.database} yet")
    ]
    assert not (patient.folder / "state").exists()


# Permissions


@pytest.mark.parametrize("name", ["main.sqlite", "main.sqlite.lock"])
def test_files_that_others_can_read(patient: Patient, name: str) -> None:
    file = patient.database.with_name(name)
    file.chmod(0o644)
    found = patient.doctor(code=1)
    message = f"others can get at {file}: its mode is 0644"
    assert bad(found) == [("permissions", "error", message)]
    (fix,) = [finding["fix"] for finding in found["findings"] if finding["fix"]]
    assert fix == f"chmod 600 {file}"
    os.system(fix)
    assert bad(patient.doctor(code=0)) == []


def test_files_that_others_can_read_while_a_daemon_runs(patient: Patient) -> None:
    patient.start()
    wal = Path(f"{patient.database}-wal")
    for file in (wal, patient.socket):
        file.chmod(0o666)
    assert bad(patient.doctor(code=1)) == [
        ("socket", "error", f"others can get at {patient.socket}: its mode is 0666"),
        ("permissions", "error", f"others can get at {wal}: its mode is 0666"),
    ]


def test_folders_that_others_can_use(patient: Patient) -> None:
    state = patient.database.parent
    state.chmod(0o755)
    looks = ("permissions", "warning", f"others can look into {state}: its mode is 0755")
    assert bad(patient.doctor(code=0)) == [looks]
    state.chmod(0o777)
    message = f"others can replace what is in {state}: its mode is 0777"
    assert bad(patient.doctor(code=1)) == [("permissions", "error", message)]


def test_a_key_file_that_others_can_read(patient: Patient) -> None:
    key = patient.folder / "key"
    key.write_text("sk-secret-that-is-in-no-output")
    key.chmod(0o644)
    patient.variables["OPENAI_API_KEY_FILE"] = str(key)
    found = patient.doctor(code=0)
    message = f"others can read the key file {key}: its mode is 0644"
    assert bad(found) == [("permissions", "warning", message)]
    assert "secret-that" not in str(found)


def test_what_belongs_to_somebody_else(patient: Patient) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a file is given to another user")
    os.chown(patient.database, 12345, 12345)
    message = f"{patient.database} belongs to the user 12345, not to 0"
    assert bad(patient.doctor(code=1)) == [("permissions", "error", message)]


# Configuration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[defaults]\nprovidr = 'local'\n[agents.main]\nworkspace = '.'", "unknown key providr"),
        ("[defaults", "not valid TOML"),
        ("[agents.main]\nworkspace = '.'\nchunking = { tokens = 'many' }", "chunking.tokens"),
    ],
)
def test_a_configuration_that_cannot_be_used(patient: Patient, text: str, message: str) -> None:
    patient.config.write_text(text)
    found = patient.doctor(code=78)
    ((check, level, said),) = bad(found)
    assert (check, level) == ("configuration", "error")
    assert message in said
    assert not found["ok"]


def test_a_configuration_that_is_not_there(patient: Patient) -> None:
    patient.config.unlink()
    message = f"{patient.config}: no such configuration file"
    assert bad(patient.doctor(code=78)) == [("configuration", "error", message)]


def test_a_configuration_that_others_can_change_or_read(patient: Patient) -> None:
    patient.config.chmod(0o666)
    message = f"others can change the configuration {patient.config}: its mode is 0666"
    assert bad(patient.doctor(code=1)) == [("configuration", "error", message)]
    patient.config.write_text(
        patient.config.read_text().replace(
            "[agents.main]\n", '[agents.main]\nremote = { headers = { X-Token = "hush" } }\n'
        )
    )
    patient.config.chmod(0o644)
    message = f"others can read the configuration {patient.config}: its mode is 0644"
    found = patient.doctor(code=0)
    assert bad(found) == [("configuration", "warning", message)]
    assert "hush" not in str(found)


def test_a_workspace_that_is_gone(patient: Patient) -> None:
    patient.workspace.rename(patient.folder / "elsewhere")
    found = patient.doctor(code=78)
    (patient.folder / "elsewhere").rename(patient.workspace)
    ((check, level, message),) = errors(found)
    assert (check, level) == ("configuration", "error")
    assert "is not a folder" in message
    # Nothing is said of notes that are gone: nothing is known of them.
    assert not any("not on disk" in message for _, _, message in bad(found))


def test_one_agent_of_several_can_be_looked_at_alone(patient: Patient) -> None:
    patient.add_agent("other")
    patient.write_config()
    agents = {finding["agent"] for finding in patient.doctor()["findings"]}
    assert agents == {None, "main", "other"}
    agents = {finding["agent"] for finding in patient.doctor("--agent", "main")["findings"]}
    assert agents == {None, "main"}
    found = patient.doctor("--agent", "nobody", code=78)
    assert bad(found) == [("configuration", "error", "there is no agent nobody")]


# Socket


def test_what_is_at_the_place_of_the_socket(patient: Patient) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(patient.socket))
        patient.socket.chmod(0o600)
    message = f"{patient.socket} is stale: the memoryd that made it was killed"
    assert bad(patient.doctor(code=0)) == [("socket", "warning", message)]
    patient.socket.unlink()
    patient.socket.write_text("")
    message = f"{patient.socket} is there and is not a socket"
    assert bad(patient.doctor(code=1)) == [("socket", "error", message)]


def test_a_daemon_that_hangs(patient: Patient) -> None:
    patient.start()
    assert patient.process is not None
    os.kill(patient.process.pid, 19)
    try:
        found = patient.doctor(code=1)
    finally:
        os.kill(patient.process.pid, 18)
    assert errors(found)[0][0] == "socket"
    assert "does not answer" in errors(found)[0][2]


# The index by itself


def flip(path: Path, page: int) -> None:
    """Flip all bits of a page, counted from 1, but those of what may be the file's header."""
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 100)
        data = file.read(3996)
        file.seek((page - 1) * 4096 + 100)
        file.write(bytes(byte ^ 0xFF for byte in data))


def test_flipped_bits(patient: Patient) -> None:
    tables = ("files", "chunks", "embedding_cache", "meta", "sqlite_sequence")
    indexes = ("chunks_file", "chunks_hash", "chunks_vector", "sqlite_autoindex_chunks_1")
    derived = ("chunks_fts_data", "chunks_fts_content", "chunks_fts_docsize", "chunks_vec_rowids")
    for name in (*tables, *indexes, *derived):
        patient.restore()
        ((page,),) = patient.sql(f"SELECT rootpage FROM sqlite_schema WHERE name = '{name}'")
        flip(patient.database, page)
        found = errors(patient.doctor(code=1))
        assert {check for check, _, _ in found} <= {"index", "vectors", "disk"}, (name, found)


def test_a_file_that_was_cut_short(patient: Patient) -> None:
    os.truncate(patient.database, patient.database.stat().st_size // 2)
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert check == "index"
    assert message.startswith("the file is damaged: ")


def test_a_file_that_is_no_database(patient: Patient) -> None:
    patient.database.write_bytes(b"no database at all " * 1000)
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert (check, message) == ("index", "the file is damaged: file is not a database")
    patient.database.unlink()
    patient.database.mkdir()
    found = bad(patient.doctor(code=1))
    assert found == [("index", "error", f"{patient.database} is not a file")]


def test_another_schema_or_owner(patient: Patient) -> None:
    patient.sql("PRAGMA user_version = 99")
    ((check, _, message),) = bad(patient.doctor(code=1))
    assert (check, message[:26]) == ("index", "its schema version is 99 a")
    patient.restore()
    patient.sql("UPDATE meta SET value = '/elsewhere' WHERE key = 'workspace'")
    message = f"it belongs to the workspace /elsewhere, not to {patient.workspace}"
    assert bad(patient.doctor(code=1)) == [("index", "error", message)]
    patient.restore()
    patient.sql("DROP INDEX chunks_hash")
    assert errors(patient.doctor(code=1)) == [("index", "error", "the file lacks chunks_hash")]


GARDEN = "memory/garden.md:1-3"
BROKEN = {
    "a batch job's texts": (
        "INSERT INTO batch_jobs VALUES ('k', 'openai', 'm', 'p', 0, 1, NULL, '[\"cut')",
        [("index", "batch jobs whose texts are not known: 1")],
    ),
    "a vector is not given to its chunk": (
        "UPDATE chunks SET vector_id = NULL WHERE vector_id = 1",
        [
            ("vectors", "vectors of sqlite-vec that no chunk has: 1"),
            ("vectors", "1 text without a vector yet"),
            ("vectors", "chunks without the vector that the cache has for them: 1"),
        ],
    ),
    "a chunk is deleted": (
        "DELETE FROM chunks WHERE text LIKE '%apple%'",
        [
            ("index", "keyword entries of no chunk: 1"),
            ("vectors", "vectors of sqlite-vec that no chunk has: 1"),
            ("disk", "1 note with other chunks in the index than the text gives: memory/garden.md"),
        ],
    ),
    "words are deleted": (
        "DELETE FROM chunks_fts WHERE chunks_fts MATCH 'apple'",
        [("index", "chunks that keywords don't find: 1")],
    ),
    "words are others": (
        "UPDATE chunks_fts SET body = 'pear' WHERE chunks_fts MATCH 'apple'",
        [("index", f"chunks whose words are not those of its text: {GARDEN}")],
    ),
    "words on disk differ from their index": (
        "UPDATE chunks_fts_content SET c0 = 'pear' WHERE c0 LIKE '%apple%'",
        [("index", "the keyword table is damaged"), ("index", "chunks whose words")],
    ),
    "a text is another": (
        "UPDATE chunks SET text = 'pear' WHERE text LIKE '%apple%'",
        [("index", f"chunks whose text is not the one that was written: {GARDEN}")],
    ),
    "lines are others": (
        "UPDATE chunks SET end_line = 4 WHERE text LIKE '%apple%'",
        [("index", "chunks whose id does not fit: memory/garden.md:1-4")],
    ),
    "a file's hash is another": (
        "UPDATE files SET hash = 'x' WHERE path = 'MEMORY.md'",
        [("disk", "1 note other than in the index: MEMORY.md")],
    ),
    "a file is no more": (
        "DELETE FROM files WHERE path = 'MEMORY.md'",
        [("index", "chunks of no file: 1"), ("disk", "1 note not in the index")],
    ),
    "a vector is missing": (
        "DELETE FROM embedding_cache WHERE vector_id = 1",
        [("index", "chunks whose vector is not there: 1")],
    ),
    "a vector is another": (
        "UPDATE embedding_cache SET embedding = zeroblob(2048) WHERE vector_id = 1",
        [("vectors", "vectors that are not of length 1"), ("vectors", "sqlite-vec has other")],
    ),
    "a vector is cut": (
        "UPDATE embedding_cache SET embedding = substr(embedding, 1, 2047) WHERE vector_id = 1",
        [("vectors", "vectors that are not whole")],
    ),
    "a vector is of another model": (
        "UPDATE embedding_cache SET model = 'x' WHERE vector_id = 1",
        [("vectors", "chunks with a vector of another model: 1")],
    ),
    "vectors are exchanged": (
        "UPDATE chunks SET vector_id = 3 - vector_id",
        [("index", "chunks with the vector of another text: 2")],
    ),
    "ids would be given again": (
        "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'chunks'",
        [("index", "row ids of chunks would be given a second time")],
    ),
    "what it was built with": (
        """UPDATE meta SET value = '{"provider": 1}' WHERE key = 'identity'""",
        [("index", "what it was built with can't be read")],
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


def test_sqlite_vec_against_the_cache(patient: Patient) -> None:
    patient.sql("DELETE FROM chunks_vec WHERE rowid = 1", vec=True)
    message = "vectors that sqlite-vec lacks: 1"
    assert bad(patient.doctor(code=1)) == [("vectors", "error", message)]
    patient.restore()
    patient.sql(
        "UPDATE chunks_vec SET embedding = (SELECT embedding FROM embedding_cache"
        " WHERE vector_id = 2) WHERE rowid = 1",
        vec=True,
    )
    ((check, level, message),) = bad(patient.doctor(code=1))
    assert (check, level) == ("vectors", "error")
    assert message.startswith("sqlite-vec has other vectors than the cache: of the texts ")


# Disk against index


def test_what_changed_while_no_daemon_ran_is_for_the_next_start(patient: Patient) -> None:
    patient.write("MEMORY.md", NOTE.replace("1.5", "2.5"))
    patient.write("memory/new.md", "new\n")
    (patient.workspace / "memory/garden.md").unlink()
    assert bad(patient.doctor(code=0)) == [
        ("disk", "warning", "1 note other than in the index: MEMORY.md"),
        ("disk", "warning", "1 note not in the index: memory/new.md"),
        ("disk", "warning", "1 note in the index, but not on disk: memory/garden.md"),
    ]
    patient.start()
    patient.sync()
    assert bad(patient.doctor(code=0)) == []


def test_what_a_daemon_does_not_see_is_an_error(patient: Patient) -> None:
    patient.start()
    patient.sync()
    # Its own scans go by times and sizes; this is what a bug in them would look like.
    note = patient.workspace / "MEMORY.md"
    known = note.stat()
    note.write_text(NOTE.replace("1.5", "2.5"))
    os.utime(note, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert bad(patient.doctor(code=1)) == [
        ("disk", "error", "1 note other than in the index: MEMORY.md")
    ]


def test_changes_on_their_way_are_no_error(patient: Patient) -> None:
    patient.start()
    for number in range(200):
        patient.write(f"memory/{number}.md", f"# Number {number}\n\nwords of {number}\n")
    assert errors(patient.doctor(code=0)) == []


def test_a_note_that_cannot_be_read(patient: Patient) -> None:
    patient.write("memory/binary.md", b"\x00\x01\x02" * 100)
    message = "1 note that can't be read: memory/binary.md (not text)"
    assert bad(patient.doctor(code=0)) == [("disk", "warning", message)]


# Transcripts


def say(patient: Patient, *texts: str) -> None:
    chats = patient.folder / "chats"
    chats.mkdir(exist_ok=True)
    with (chats / "a.jsonl").open("a") as chat:
        chat.writelines(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)


@pytest.fixture
def talking(patient: Patient) -> Patient:
    """One whose daemon has read a transcript in several goes, and was stopped."""
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
        ("transcripts", "warning", "1 transcript other than in the index: sessions/chats/a.jsonl")
    ]
    talking.start()
    assert errors(talking.doctor(code=0)) == []
    assert talking.stop() == 0
    talking.sql(
        "DELETE FROM chunks WHERE row_id = (SELECT max(row_id) FROM chunks)",
    )
    found = errors(talking.doctor(code=1))
    name = "sessions/chats/a.jsonl"
    message = f"1 transcript with other chunks in the index than the text gives: {name}"
    assert ("transcripts", "error", message) in found
    (talking.folder / "chats/a.jsonl").unlink()
    message = f"1 transcript in the index, but not on disk: {name}"
    assert ("transcripts", "warning", message) in bad(talking.doctor())


def test_a_transcript_whose_line_map_is_wrong(talking: Patient) -> None:
    talking.sql("UPDATE chunks SET line_map = '1' WHERE line_map LIKE '%,%'")
    found = errors(talking.doctor(code=1))
    assert [check for check, _, _ in found] == ["index"], found
    assert found[0][2].startswith("chunks whose lines can't be: sessions/chats/a.jsonl")


# Beside a daemon at work


def test_a_daemon_at_work_is_healthy_at_every_moment(patient: Patient) -> None:
    patient.start()
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            file = patient.write(f"memory/{number % 40}.md", f"# {number}\n\nwords {number}\n")
            if number % 7 == 0:
                file.rename(file.with_name(f"moved-{number % 9}.md"))
            if number % 50 == 0:
                shutil.rmtree(patient.workspace / "memory")
            stop.wait(0.002)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for force in (False, True, False):
            rebuild = contextlib.ExitStack()
            with rebuild:
                if force:
                    client = rebuild.enter_context(patient.client())
                    forced = threading.Thread(target=client.index, kwargs={"force": True})
                    forced.start()
                    rebuild.callback(forced.join)
                assert errors(patient.doctor(code=0)) == []
    finally:
        stop.set()
        worker.join()
    patient.sync()
    assert bad(patient.doctor(code=0)) == []
    assert patient.stop() == 0


def test_it_goes_by_what_the_daemon_was_started_with(patient: Patient) -> None:
    added = patient.new_folder("added")
    patient.start()
    with patient.client() as client:
        client.add(str(added))
        client.agent = client.agents().agents[1].agent
        client.sync()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in patient.environment.items():
            patch.setenv(name, value)
        found = examine(Options(patient.socket))
    agents = {finding.agent for finding in found.findings}
    assert len(agents) == 3
    assert {None, "main"} < agents
    assert [finding for finding in found.findings if finding.level != "ok"] == []


def test_an_agent_that_memoryd_cannot_serve(patient: Patient) -> None:
    patient.add_agent("other", f'store = {{ path = "{patient.config}/other.sqlite" }}')
    patient.start()
    found = bad(patient.doctor(code=1))
    assert [finding for finding in found if finding[0] == "permissions"] == [
        ("permissions", "error", f"{patient.config} is not a folder")
    ]
    (message,) = [message for check, _, message in found if check == "daemon"]
    assert message.startswith("memoryd can't serve it: ")


# Leftovers, and what the daemon says


def test_what_rebuilds_and_damage_leave_behind(patient: Patient) -> None:
    left = patient.database.with_name("main.sqlite.rebuild-4711")
    shutil.copy(patient.database, left)
    aside = patient.database.with_name("main.sqlite.damaged-20261128")
    aside.touch(0o600)
    found = patient.doctor(code=0)
    assert [(check, level) for check, level, _ in bad(found)] == 2 * [("daemon", "warning")]
    assert left.name in bad(found)[0][2]
    assert aside.name in bad(found)[1][2]
    patient.start()
    eventually(lambda: not left.exists())
    assert [level for _, level, _ in bad(patient.doctor(code=0))] == ["warning"]
    shutil.copy(patient.database, left)
    ((check, _, message),) = errors(patient.doctor(code=1))
    assert (check, message) == ("daemon", f"no rebuild is under way that {left.name} is of")


def test_another_file_in_the_place_of_an_open_index(patient: Patient) -> None:
    patient.start()
    patient.sync()
    copy = patient.folder / "copy"
    shutil.copy(patient.database, copy)
    copy.replace(patient.database)
    message = f"memoryd has another file open than {patient.database}"
    assert ("daemon", "error", message) in errors(patient.doctor(code=1))


def test_a_deleted_index_under_a_running_daemon(patient: Patient) -> None:
    patient.start()
    patient.database.unlink()
    message = f"the index {patient.database} is gone from under memoryd"
    assert ("index", "error", message) in errors(patient.doctor(code=1))


# What it prints


def test_people_get_a_line_for_each_finding_and_what_to_do(patient: Patient) -> None:
    patient.database.chmod(0o644)
    printed = patient.memctl("doctor", "--config", str(patient.config), code=1).stdout
    lines = printed.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("✗"))
    assert " ".join(lines[at].split()) == (
        f"✗ permissions main others can get at {patient.database}: its mode is 0644"
    )
    assert lines[at + 1] == f"   fix: chmod 600 {patient.database}"
    assert lines[-1] == "1 error, 0 warnings"
    assert sum(line.startswith("✓") for line in lines) == len(lines) - 3


def test_programs_get_one_document(patient: Patient) -> None:
    found = patient.memctl_json("doctor", "--config", str(patient.config))
    assert found["ok"] is True
    assert found["findings"][0] == {
        "check": "socket",
        "level": "ok",
        "agent": None,
        "message": f"no memoryd runs at {patient.socket}",
        "fix": None,
    }
    checks = [(finding["check"], finding["agent"]) for finding in found["findings"]]
    assert checks == [
        ("socket", None),
        ("configuration", None),
        ("permissions", None),
        ("driver", None),
        ("configuration", "main"),
        ("permissions", "main"),
        ("index", "main"),
        ("model", "main"),
        ("vectors", "main"),
        ("disk", "main"),
        ("limits", "main"),
        ("daemon", "main"),
        ("limits", None),
    ]
