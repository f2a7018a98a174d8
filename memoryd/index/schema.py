"""Tables of an index, their migrations, and their repair on opening.

`meta`, `files`, `chunks`, `embedding_cache`, `set_aside`, `forgotten`, `batch_jobs` and `recalls`
are the source of truth. `chunks_fts` (FTS5) and `chunks_vec` (sqlite-vec) are derived from them and
refilled if rows are missing, as after a time without FTS5 or without the extension.

Row ids are never reused: a search that holds one finds its chunk or nothing.
"""

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from memoryd.errors import IndexRefusedError
from memoryd.identity import Choice, Identity
from memoryd.index import recalls, words
from memoryd.index.cache import add_conversions, with_known_dims
from memoryd.index.driver import (
    Connection,
    CorruptIndexError,
    Error,
    has_module,
    one_value,
    transaction,
)
from memoryd.index.vec_table import drop_vec, raise_unless_missing
from memoryd.messages import MountPoints

VERSION = 8
APPLICATION_ID = int.from_bytes(b"memd", "big")
"""Number in the header that tells an index from other databases, even if only its begin is left."""
_FLOAT32_UNTIL = 6
"""The last version whose embeddings were float32."""
AUTOMERGE = 8
"""FTS5 segments of one size before a commit merges them. With FTS5's default of 4, a first indexing
takes a sixth longer. `merge_segments` merges the rest when the writer is idle."""
ERASED = "erased"
"""Note: "0" if no trace of a deleted text remains in words and log. Indexes from before lack it."""
REWRITE_AT = "rewrite at"
"""Note: Unix time from which the file is rewritten, "" if there is no need. Indexes from before
secure deletion lack it: their free pages hold deleted texts."""
WORDS = "words"
"""Note: the stamp of the words in FTS5's table, "" if they may be wrong."""
_MERGE_ALL_S = 2.0
"""Maximum seconds for the last merge before a stop."""
_MERGE_PAGES = 64
"""Pages written by one merge: at most 10 ms."""

_BATCH_JOBS = """
CREATE TABLE batch_jobs (
    key TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    provider_key TEXT NOT NULL,
    created_at REAL NOT NULL,
    attempts INTEGER NOT NULL,
    remote_id TEXT,
    hashes TEXT NOT NULL
) STRICT;
"""
_CHUNKS_PLACE = "CREATE INDEX IF NOT EXISTS chunks_place ON chunks (file_id, start_line)"
"""Finds the last chunks of a transcript without reading the others."""
_CHUNKS_VECTOR = (
    "CREATE INDEX chunks_vector ON chunks (vector_id, file_id) WHERE vector_id IS NOT NULL"
)
"""All that is read of the chunks when the vectors are loaded."""
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE files (
    file_id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    source TEXT NOT NULL,
    hash TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    remarks TEXT NOT NULL DEFAULT '[]',
    transcript TEXT,
    title TEXT NOT NULL DEFAULT '',
    date TEXT NOT NULL DEFAULT '',
    properties TEXT NOT NULL DEFAULT '{{}}',
    ctime_ns INTEGER NOT NULL DEFAULT 0,
    UNIQUE (path, source)
) STRICT;
CREATE TABLE embedding_cache (
    vector_id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    provider_key TEXT NOT NULL,
    hash TEXT NOT NULL,
    dims INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    UNIQUE (provider, model, provider_key, hash)
) STRICT;
CREATE TABLE chunks (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    file_id INTEGER NOT NULL REFERENCES files (file_id),
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    hash TEXT NOT NULL,
    model TEXT NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    vector_id INTEGER REFERENCES embedding_cache (vector_id),
    updated_at INTEGER NOT NULL,
    line_map TEXT NOT NULL DEFAULT '',
    origin TEXT NOT NULL DEFAULT 'owner',
    voices TEXT NOT NULL DEFAULT '',
    words_crc INTEGER NOT NULL DEFAULT 0
) STRICT;
{_CHUNKS_PLACE};
CREATE INDEX chunks_hash ON chunks (hash);
{_CHUNKS_VECTOR};
CREATE INDEX chunks_pending ON chunks (row_id) WHERE vector_id IS NULL;
CREATE INDEX chunks_untrusted ON chunks (row_id) WHERE origin = 'untrusted';
CREATE TABLE set_aside (hash TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE forgotten (
    kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;
{_BATCH_JOBS}"""

_MIGRATIONS = {
    # Every file is read again for its remarks; unchanged chunks keep their rows and vectors.
    1: """
ALTER TABLE files ADD COLUMN remarks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE files ADD COLUMN transcript TEXT;
ALTER TABLE chunks ADD COLUMN line_map TEXT NOT NULL DEFAULT '';
CREATE TABLE forgotten (
    kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;
UPDATE files SET hash = '', mtime_ns = -1;
""",
    2: _BATCH_JOBS,
    # Who speaks is known once the transcripts, and notes that quote marked content, are read again.
    # Until then, no transcript is trusted. Unchanged chunks keep their rows and vectors.
    3: """
ALTER TABLE chunks ADD COLUMN origin TEXT NOT NULL DEFAULT 'owner';
ALTER TABLE chunks ADD COLUMN voices TEXT NOT NULL DEFAULT '';
CREATE INDEX chunks_untrusted ON chunks (row_id) WHERE origin = 'untrusted';
UPDATE chunks SET origin = 'untrusted' WHERE file_id IN
    (SELECT file_id FROM files WHERE source = 'sessions')
    OR text LIKE '%<<<EXTERNAL_UNTRUSTED_CONTENT%';
UPDATE files SET hash = '', mtime_ns = -1 WHERE file_id IN
    (SELECT file_id FROM chunks WHERE origin = 'untrusted');
""",
    # Titles, dates and properties are known once every file is read again. Unchanged chunks keep
    # their rows and vectors.
    4: """
ALTER TABLE files ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE files ADD COLUMN date TEXT NOT NULL DEFAULT '';
ALTER TABLE files ADD COLUMN properties TEXT NOT NULL DEFAULT '{}';
UPDATE files SET hash = '', mtime_ns = -1;
""",
    # With a `ctime_ns` that no file has, every note is read again, and kept if it is unchanged.
    5: "ALTER TABLE files ADD COLUMN ctime_ns INTEGER NOT NULL DEFAULT 0;",
    # Nothing is embedded again. The file is rewritten when the writer is idle, unless it is large;
    # until then, new rows use the pages that become free.
    6: f"""
UPDATE embedding_cache SET embedding = from_float32(embedding, dims, hash);
DROP INDEX IF EXISTS chunks_vector;
{_CHUNKS_VECTOR};
INSERT OR REPLACE INTO meta VALUES ('{REWRITE_AT}', '0');
""",
    # Without a stamp of its words, FTS5's table is filled anew, without a copy of the texts.
    7: f"""
ALTER TABLE chunks ADD COLUMN words_crc INTEGER NOT NULL DEFAULT 0;
INSERT OR REPLACE INTO meta VALUES ('{REWRITE_AT}', '0');
""",
}
"""SQL that migrates each version to the next one."""


def prepare(connection: Connection, workspace: Path, identity: Identity) -> Identity:
    """Create the tables of a new index, or check and migrate an old one; return its identity.

    Raises `IndexRefusedError` for another workspace's index, a newer schema or a foreign file.
    """
    with transaction(connection):
        version = version_of(connection)
        tables = one_value(connection, "SELECT count(*) FROM sqlite_schema")
        if version == 0 and tables == 0:
            create(connection, workspace)
        elif version > VERSION:
            raise newer(version)
        elif version != VERSION and version not in _MIGRATIONS:
            raise IndexRefusedError(
                f"the index has schema version {version} and this memoryd knows {VERSION};"
                " it is not an index of memoryd"
            )
        built = check(connection, workspace, identity)
        if not (built.mixed_chunks or built.same_chunks(identity)):
            # Changed files are cut by the settings of the rebuild, which may not come to an end.
            built = msgspec.structs.replace(built, mixed_chunks=True)
            put_identity(connection, built)
        # Not before the file is known to be ours.
        add_conversions(connection)
        if 0 < version <= _FLOAT32_UNTIL:
            drop_vec(connection)  # its vectors are not rounded like the others
        for old in range(version or VERSION, VERSION):
            _execute_all(connection, _MIGRATIONS[old])
            connection.execute(f"PRAGMA user_version = {old + 1}")
        # Any memoryd reads an index with the one or the other, so the version stays.
        connection.execute(_CHUNKS_PLACE)
        connection.execute("DROP INDEX IF EXISTS chunks_file")
        connection.execute(recalls.TABLE)
        if one_value(connection, "PRAGMA application_id") != APPLICATION_ID:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    # This is written into the file too.
    connection.execute("PRAGMA journal_mode = WAL")
    return built


def version_of(connection: Connection) -> int:
    """Return the schema version, 0 for a new file."""
    return int(one_value(connection, "PRAGMA user_version"))


def check(connection: Connection, workspace: Path, identity: Identity | None = None) -> Identity:
    """Return the identity of an index; an empty index gets `identity`.

    Raises `IndexRefusedError` if it is not ours, `CorruptIndexError` if its identity is unreadable.
    """
    if not one_value(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"):
        raise IndexRefusedError("it is not an index of memoryd", "set store.path to another file")
    owner = get_note(connection, "workspace")
    if owner != str(workspace):
        raise of_another(owner, workspace)
    begun = "SELECT 1 FROM meta WHERE key = 'identity' UNION ALL SELECT 1 FROM files"
    if identity is not None and not one_value(connection, begun):
        put_identity(connection, with_known_dims(connection, identity))
    try:
        return get_identity(connection)
    except msgspec.MsgspecError as error:
        raise CorruptIndexError(f"the identity of the index is unreadable ({error})") from error


def create(connection: Connection, workspace: Path) -> None:
    """Create the tables of a new index, whose identity is recorded later."""
    _execute_all(connection, _TABLES)
    connection.execute(recalls.TABLE)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    put_note(connection, "workspace", str(workspace))
    put_note(connection, ERASED, "0")
    put_note(connection, REWRITE_AT, "")


def newer(version: int) -> IndexRefusedError:
    """Return the error for an index that a newer memoryd has made."""
    return IndexRefusedError(
        f"the index has schema version {version} and this memoryd knows {VERSION}",
        "upgrade memoryd",
    )


def of_another(owner: str | None, workspace: Path) -> IndexRefusedError:
    """Return the error for an index of another workspace."""
    return IndexRefusedError(
        f"the index belongs to the workspace {owner}",
        f"set store.path to another file for {workspace}, or move this one away",
    )


def _execute_all(connection: Connection, statements: str) -> None:
    for statement in statements.split(";"):
        # SQLite keeps the blanks, and a corrupt page of the schema costs everything: one page does.
        connection.execute(" ".join(statement.split()).replace(", ", ","))


def put_identity(connection: Connection, identity: Identity) -> None:
    """Record the identity of the rows."""
    put_note(connection, "identity", msgspec.json.encode(identity).decode())


def get_identity(connection: Connection) -> Identity:
    """Return the identity of the rows. Raises `MsgspecError` if it is unreadable."""
    try:
        return msgspec.json.decode(get_note(connection, "identity") or "{}", type=Identity)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def put_note(connection: Connection, key: str, value: str) -> None:
    """Record a fact about the index as a whole."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def get_note(connection: Connection, key: str) -> str | None:
    """Return a fact that `put_note` recorded, or None."""
    value = one_value(connection, "SELECT value FROM meta WHERE key = ?", key)
    return None if value is None else str(value)


def put_choice(connection: Connection, choice: Choice) -> None:
    """Record who chose the provider."""
    put_note(connection, "choice", msgspec.json.encode(choice).decode())


def get_choice(connection: Connection) -> Choice | None:
    """Return who chose the provider; None if the configuration did, or if it is unreadable."""
    try:
        return msgspec.json.decode(get_note(connection, "choice") or "", type=Choice)
    except (msgspec.MsgspecError, RecursionError):
        return None


def put_places(connection: Connection, places: MountPoints) -> None:
    """Record the (device, inode) of the folder at each place of a source."""
    encoded = msgspec.json.encode(places.folders).decode()
    put_note(connection, f"places of {places.source}", encoded)


def get_places(connection: Connection, source: str) -> dict[str, tuple[int, int]]:
    """Return the recorded (device, inode) at each place of a source; empty if unknown."""
    try:
        found = get_note(connection, f"places of {source}") or "{}"
        return msgspec.json.decode(found, type=dict[str, tuple[int, int]])
    except msgspec.MsgspecError:
        return {}


def ensure_fts(connection: Connection) -> str | None:
    """Make `chunks_fts` agree with `chunks`. Return why keyword search is unavailable, or None.

    Raises the driver's error if the disk fails.
    """
    if not has_module(connection, "fts5"):
        _note_stale_words(connection)
        return "this SQLite was built without FTS5"
    try:
        with transaction(connection):
            anew = not has_present_words(connection)
            words.prepare_table(connection, anew=anew)
            if anew:
                put_note(connection, WORDS, words.STAMP)
            config = "SELECT v FROM chunks_fts_config WHERE k = 'automerge'"
            if one_value(connection, config) != AUTOMERGE:
                connection.execute(
                    "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('automerge', ?)",
                    (AUTOMERGE,),
                )
    except Error as error:
        raise_unless_missing(error, "chunks_fts")
        _note_stale_words(connection)
        return str(error)
    return None


def has_present_words(connection: Connection) -> bool:
    """Return whether FTS5's words are those that this memoryd computes of the texts.

    They may not be in an index that could not be written since it was opened.
    """
    return get_note(connection, WORDS) == words.STAMP


def _note_stale_words(connection: Connection) -> None:
    """Record that words of deleted chunks will stay, and be replaced once FTS5 is back."""
    if get_note(connection, WORDS) != "":
        with suppress(Error):
            put_note(connection, WORDS, "")


def merge_segments(connection: Connection, *, begin_all: bool = False) -> bool:
    """Merge some FTS5 segments, which speeds up searches. Return whether any may be left.

    `begin_all` begins a merge of all segments into one, which later calls continue; at its end no
    deleted word is left. Test and merge: https://sqlite.org/fts5.html#the_merge_command.
    """
    before = connection.total_changes
    pages = -_MERGE_PAGES if begin_all else _MERGE_PAGES
    connection.execute("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= 2


def merge_all_quickly(connection: Connection) -> None:
    """Merge all FTS5 segments, as far as a stop has time for it; the next start goes on."""
    end_s = time.monotonic() + _MERGE_ALL_S
    more = merge_segments(connection, begin_all=True)
    while more and time.monotonic() < end_s:
        more = merge_segments(connection)
