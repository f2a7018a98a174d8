"""The index by itself: whether the file is whole and ours, and its tables go together."""

from pathlib import Path

import msgspec

from memoryd.doctor.finding import Topic
from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.driver import Connection, has_fts5, sqlite

REBUILD = "`memctl index --force` builds the index anew"
MOVED_ASIDE = "`memctl restart`: a damaged index is found, moved aside and built anew"
PROBLEMS = 5
"""Of what SQLite finds, as many lines are told."""
_FTS5 = "FTS5"
_COUNTS = (
    (
        "SELECT count(*) FROM chunks WHERE file_id NOT IN (SELECT file_id FROM files)",
        "chunks of no file",
    ),
    (
        "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL"
        " AND vector_id NOT IN (SELECT vector_id FROM embedding_cache)",
        "chunks whose vector is not there",
    ),
    (
        "SELECT count(*) FROM chunks JOIN embedding_cache USING (vector_id)"
        " WHERE chunks.hash <> embedding_cache.hash",
        "chunks with the vector of another text",
    ),
    (
        "SELECT count(*) FROM batch_jobs WHERE NOT json_valid(hashes)",
        "batch jobs whose texts are not known",
    ),
)
_FTS_COUNTS = (
    (
        "SELECT count(*) FROM chunks WHERE row_id NOT IN (SELECT id FROM chunks_fts_docsize)",
        "chunks that keywords don't find",
    ),
    (
        "SELECT count(*) FROM chunks_fts_docsize WHERE id NOT IN (SELECT row_id FROM chunks)",
        "keyword entries of no chunk",
    ),
)
_NUMBERED = (("files", "file_id"), ("chunks", "row_id"), ("embedding_cache", "vector_id"))


def check_file(connection: Connection, topic: Topic) -> bool:
    """Have SQLite and FTS5 look at every page. Returns whether its rows can be relied on."""
    found = connection.execute(f"PRAGMA integrity_check({PROBLEMS})").fetchall()
    lines = [line for (text,) in found for line in str(text).splitlines() if line != "ok"]
    # FTS5 tells of its own tables, since SQLite 3.44; they are derived.
    words = [line for line in lines if _FTS5 in line]
    pages = [line for line in lines if line not in words and not line.startswith("***")]
    if words:
        topic.error(f"the keyword table is damaged: {words[0]}", REBUILD)
    if pages:
        topic.error(f"the file is damaged: {'; '.join(pages)}", MOVED_ASIDE)
    return not pages


def check_schema(connection: Connection, topic: Topic, workspace: Path) -> Identity | None:
    """Check whose the index is and what it was built with; None if its rows can't be judged."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = _names(connection, "table")
    if not tables and version == 0:
        topic.warning("the index is empty", "the next start fills it")
        return None
    if version > schema.VERSION:
        topic.error(
            f"its schema version is {version} and this memoryd knows {schema.VERSION}",
            "upgrade memoryd",
        )
        return None
    if "meta" not in tables or version < 1:
        topic.error("it is not an index of memoryd", "set store.path to another file")
        return None
    if version < schema.VERSION:
        topic.warning(f"its schema version is {version}", "the next start brings it up to date")
        return None
    _check_owner(connection, topic, workspace)
    try:
        identity = schema.get_identity(connection)
    except msgspec.MsgspecError as error:
        topic.error(f"the identity of the index is unreadable: {error}", "move the file away")
        return None
    missing = _missing(connection, identity)
    if missing:
        topic.error(f"the file lacks {', '.join(missing)}", MOVED_ASIDE)
        return None
    return identity


def check_relations(connection: Connection, topic: Topic) -> None:
    """Check that every row has what it refers to, and that no row id can be given twice."""
    counts = list(_COUNTS)
    if has_fts5(connection):
        if "chunks_fts" in _names(connection, "table"):
            counts += _FTS_COUNTS
        else:
            topic.error("there is no keyword table", "`memctl restart` makes and fills it")
    for statement, what in counts:
        if number := connection.execute(statement).fetchone()[0]:
            topic.error(f"{what}: {number}", REBUILD)
    for table, column in _NUMBERED:
        last, given = connection.execute(
            f"SELECT max({column}), (SELECT seq FROM sqlite_sequence WHERE name = ?) FROM {table}",
            (table,),
        ).fetchone()
        if last is not None and (given is None or given < last):
            topic.error(f"row ids of {table} would be given a second time", REBUILD)


def _check_owner(connection: Connection, topic: Topic, workspace: Path) -> None:
    row = connection.execute("SELECT value FROM meta WHERE key = 'workspace'").fetchone()
    if row is None or row[0] != str(workspace):
        owner = "no workspace" if row is None else f"the workspace {row[0]}"
        topic.error(
            f"it belongs to {owner}, not to {workspace}",
            "set store.path to another file, or move this one away",
        )


def _missing(connection: Connection, identity: Identity) -> list[str]:
    """Return the tables, columns and indexes that every index has and this one has not."""
    pattern = sqlite.connect(":memory:", isolation_level=None)
    try:
        schema.prepare(pattern, Path("/"), identity)
        wanted = _parts(pattern)
    finally:
        pattern.close()
    return sorted(wanted - _parts(connection))


def _parts(connection: Connection) -> set[str]:
    columns = connection.execute(
        "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND t.sql NOT LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    return {name for (name,) in columns} | _names(connection, "index")


def _names(connection: Connection, kind: str) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = ?", (kind,))
    return {name for (name,) in found.fetchall()}
