"""A modified or corrupt index file, which the daemon opens and the doctor examines."""

import asyncio
import shutil
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import numpy as np
from identities import identity

from fuzz.scratch import folder
from memoryd.agent.recovery import Recovery
from memoryd.api.status import read_index_stats
from memoryd.config.load import AgentConfig, load
from memoryd.doctor.index import IndexDoctor
from memoryd.errors import IndexRefusedError
from memoryd.identity import Choice
from memoryd.index import batch_jobs, schema, statements
from memoryd.index.driver import (
    Connection,
    CorruptIndexError,
    Error,
    Fault,
    fault_of,
    run_at_once,
    sqlite,
)
from memoryd.index.forget import load_tombstones, message_hash
from memoryd.index.queries import find_text, peek
from memoryd.index.repair.recover import FailingDiskError
from memoryd.index.schema import get_places
from memoryd.index.store import Store, StoreOptions
from memoryd.messages import (
    BatchJobRow,
    Chunk,
    FileKey,
    FileStat,
    JobChange,
    MountPoints,
    ParsedFile,
)

COLUMNS = (
    ("meta", "value"),
    ("meta", "key"),
    ("files", "path"),
    ("files", "remarks"),
    ("files", "transcript"),
    ("files", "size"),
    ("chunks", "text"),
    ("chunks", "line_map"),
    ("chunks", "heading"),
    ("chunks", "hash"),
    ("chunks", "start_line"),
    ("chunks", "end_line"),
    ("embedding_cache", "embedding"),
    ("embedding_cache", "dims"),
    ("embedding_cache", "hash"),
    ("embedding_cache", "used_at"),
    ("set_aside", "reason"),
    ("forgotten", "kind"),
    ("forgotten", "value"),
    ("batch_jobs", "hashes"),
    ("batch_jobs", "created_at"),
    ("batch_jobs", "remote_id"),
    ("chunks", "origin"),
    ("chunks", "voices"),
)
_NUMBERS = {"size", "start_line", "end_line", "dims", "used_at", "created_at"}
SEEDS = [
    b"\x00" + bytes((0, 0, 18, 9)),
    b"\x00" + b"\x00\x10\x00\xff" * 3,
    b"\x00" + bytes((0, 16, 3, 0, 0, 32, 1, 255)),
    b"\x01\x00[1,2",
    b"\x01\x04{}\xff\x07,,-1,99999999999999999999\xff\x06\xed\xa0\x80\0",
    b"\x01\x0c" + bytes(7) + b"\xff\x0d" + b"\x7f" * 8,
    b"\x01\x13[[[[null]]]]\xff\x11path",
    *(b"\x01" + bytes([column]) + b"[" * 2_000 for column in (0, 3, 4, 19)),
    b"\x02SQLite format 3\0" + bytes(100),
    b"\x02no database CREATE TABLE embedding_cache",
    b"\x03",
]
DICTIONARY = [b"\xff" + bytes([number]) for number in range(len(COLUMNS))]
DICTIONARY += [
    b'{"provider":',
    b'"dims":',
    b"null",
    b"[[[",
    b"-1",
    b"1e999",
    b"\0",
    b"\xed\xa0\x80",
]
MAX_BYTES = 2_048
VECTOR = np.array([0.6, 0.8], "<f4").tobytes()
IDENTITY = identity("none", "fts-only", dims=2, provider_key="")


def check(data: bytes) -> None:
    """Modify an index: the doctor reports on it, and the daemon opens, repairs or refuses it.

    The first byte selects the change: single bytes of the file, values of single columns, another
    file, or a truncated file.
    """
    path, config = _config()
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    shutil.copyfile(_whole(), path)
    _change(path, data[0] % 4 if data else 3, data[1:])
    for finding in IndexDoctor(config, None).run():
        assert finding.message
        finding.message.encode()
    _loop.run_until_complete(_open(path, config.workspace))


_loop = asyncio.new_event_loop()


@cache
def _config() -> tuple[Path, AgentConfig]:
    workspace, path = folder() / "notes", folder() / "index" / "main.sqlite"
    workspace.mkdir()
    path.parent.mkdir(mode=0o700)
    (workspace / "MEMORY.md").write_text("a walrus\n")
    file = folder() / "config.toml"
    file.write_text(
        f'[defaults]\nprovider = "none"\n[agents.main]\nworkspace = "{workspace}"\n'
        f'[agents.main.store]\npath = "{path}"\n[agents.main.sessions]\nenabled = true\n'
        f'paths = ["{workspace}/chats"]\n'
    )
    return path, load(file)[0]


@cache
def _whole() -> Path:
    """Return an intact index with a row in each table."""
    path = folder() / "whole.sqlite"
    connection: Connection = sqlite.connect(path, isolation_level=None)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    schema.prepare(connection, _config()[1].workspace.resolve(), IDENTITY)
    schema.ensure_fts(connection)
    legs = statements.DerivedTables(IDENTITY, fts=True, vec=False)
    for number, (source, name) in enumerate((("memory", "MEMORY.md"), ("sessions", "sessions/a"))):
        chunks = [Chunk(1, 1, f"a walrus{number}", "", "1"), Chunk(2, 2, "a seal", "Head", "2")]
        key = FileKey(source, name)
        parsed = ParsedFile(key, FileStat(1, 1, 1), str(number), chunks, ("a remark",))
        run_at_once(statements.write_files(connection, legs, [parsed]))
    seal = statements.text_hash("a seal")
    statements.put_vectors(connection, legs, [(seal, VECTOR)], [(message_hash("x"), "it says no")])
    job = BatchJobRow("ours", "none", "fts-only", "", 0.0, [seal])
    connection.execute("INSERT INTO forgotten VALUES ('message', ?)", (message_hash("y"),))
    batch_jobs.write_job(connection, JobChange(job, done=_loop.create_future()))
    schema.put_choice(connection, Choice("none", "found", "x", "auto"))
    schema.put_places(connection, MountPoints("memory", {"/x": (1, 2)}))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return path


def _change(path: Path, how: int, data: bytes) -> None:
    if how == 0:
        changed = bytearray(path.read_bytes())
        for at in range(0, len(data) - 3, 4):
            changed[int.from_bytes(data[at : at + 3], "big") % len(changed)] = data[at + 3]
        path.write_bytes(changed)
    elif how == 1:
        with closing(sqlite.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for part in data.split(b"\xff"):
                if part:
                    _put(connection, *COLUMNS[part[0] % len(COLUMNS)], part[1:])
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    elif how == 2:
        path.write_bytes(data)
    else:
        content = path.read_bytes()
        path.write_bytes(content[: int.from_bytes(data[:3], "big") % len(content)])


def _put(connection: Connection, table: str, column: str, value: bytes) -> None:
    """Write a value into all rows of a table, where its constraints allow it."""
    number = int.from_bytes(value[:8].ljust(8, b"\0"), "big", signed=True)
    new: int | bytes = number if column in _NUMBERS else value
    cast = "?" if column in _NUMBERS or column == "embedding" else "CAST(? AS TEXT)"
    with suppress(Error):
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {cast}", (new,))


async def _open(path: Path, workspace: Path) -> None:
    """Open the index as the daemon does, and read the same tables."""
    options = StoreOptions(path, workspace, None, "not wanted", 100)
    recovery = Recovery(options, {}, lambda: None)
    store = Store(options, IDENTITY)
    try:
        await recovery.check()
        await peek(path)
        await recovery.open(store)
    except (IndexRefusedError, FailingDiskError):
        return
    try:
        await _read(store)
    except (Error, CorruptIndexError) as error:
        if fault_of(error) is not Fault.CORRUPT:  # the agent repairs a corrupt index
            raise
    finally:
        with suppress(Error):
            await store.close()


async def _read(store: Store) -> None:
    await store.load_matrix()
    await read_index_stats(store)
    for kind, value in await store.readers.read(load_tombstones):
        assert isinstance(kind, str)
        assert isinstance(value, str)
    await store.readers.read(lambda c: batch_jobs.load_jobs(c, IDENTITY))
    await store.readers.read(lambda c: get_places(c, "memory"))
    await store.readers.read(lambda c: find_text(c, "walrus"))
