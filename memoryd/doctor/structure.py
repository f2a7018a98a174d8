"""Checks of the index file: its pages, its schema and owner, and references between tables."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from memoryd.agent.recovery import columns_of
from memoryd.doctor.finding import Topic
from memoryd.identity import Identity
from memoryd.index import schema
from memoryd.index.driver import Connection, has_module, one_value, sqlite

REBUILD = "`memctl index --force` rebuilds the index"
MOVED_ASIDE = "`memctl restart` moves the corrupt index aside and rebuilds it"
PROBLEMS = 5
"""Maximum lines of SQLite's integrity check to report."""
_JOBS = {"batch jobs with unreadable texts": "FROM batch_jobs WHERE NOT json_valid(hashes)"}
_WORDS = {
    "chunks without keywords": (
        "FROM chunks WHERE row_id NOT IN (SELECT id FROM chunks_fts_docsize)"
    ),
    "keywords without a chunk": (
        "FROM chunks_fts_docsize WHERE id NOT IN (SELECT row_id FROM chunks)"
    ),
}
_NUMBERED = (("files", "file_id"), ("chunks", "row_id"), ("embedding_cache", "vector_id"))


def check_file(connection: Connection, topic: Topic) -> bool:
    """Have SQLite and FTS5 check every page. Returns whether the rows are reliable."""
    found = connection.execute(f"PRAGMA integrity_check({PROBLEMS})").fetchall()
    lines = [line for (text,) in found for line in str(text).splitlines() if line != "ok"]
    # Since SQLite 3.44, FTS5 reports its own tables, which are derived.
    words = [line for line in lines if "FTS5" in line]
    pages = [line for line in lines if line not in words and not line.startswith("***")]
    if words:
        topic.error(f"the keyword table is corrupt: {words[0]}", REBUILD)
    if pages:
        topic.error(f"the index is corrupt: {'; '.join(pages)}", MOVED_ASIDE)
    return not pages


def check_schema(connection: Connection, topic: Topic, workspace: Path) -> Identity | None:
    """Check the index's owner and schema; return its identity, None if it is unusable."""
    version = schema.version_of(connection)
    tables = names(connection, "table")
    if not tables and version == 0:
        topic.warning("the index is empty", "the next start fills it")
        return None
    if version > schema.VERSION:
        topic.error(
            f"the index has schema version {version}, and this memoryd knows {schema.VERSION}",
            "upgrade memoryd",
        )
        return None
    if "meta" not in tables or version < 1:
        topic.error("the file is not an index of memoryd", "set store.path to another file")
        return None
    if version < schema.VERSION:
        topic.warning(f"the index has schema version {version}", "the next start upgrades it")
        return None
    _check_owner(connection, topic, workspace)
    try:
        identity = schema.get_identity(connection)
    except msgspec.MsgspecError as error:
        topic.error(f"the index's identity can't be read: {error}", "move the file away")
        return None
    if schema.get_note(connection, schema.REWRITE_AT) is None:
        topic.warning(
            "the index is from an earlier version: its free pages may hold texts that were deleted",
            "an idle daemon rewrites an index of up to 256 MiB by itself; `memctl index --force`"
            " rebuilds a larger one",
        )
    missing = _missing(connection, identity)
    if missing:
        topic.error(f"the index lacks {', '.join(missing)}", MOVED_ASIDE)
        return None
    return identity


def check_relations(connection: Connection, topic: Topic) -> None:
    """Check references between tables, and that no row id can be used twice."""
    wrong = _JOBS
    if has_module(connection, "fts5"):
        if "chunks_fts" in names(connection, "table"):
            wrong = _JOBS | _WORDS
        else:
            topic.error("the keyword table is missing", "`memctl restart` creates and fills it")
    report_counts(connection, topic, wrong, REBUILD)
    for table, column in _NUMBERED:
        last, given = connection.execute(
            f"SELECT max({column}), (SELECT seq FROM sqlite_sequence WHERE name = ?) FROM {table}",
            (table,),
        ).fetchone()
        if last is not None and (given is None or given < last):
            topic.error(f"row ids of {table} would be used twice", REBUILD)


def report_counts(connection: Connection, topic: Topic, wrong: Mapping[str, str], fix: str) -> None:
    """Count the rows of each problem, given as the end of a SELECT, and report those there are."""
    for problem, rows in wrong.items():
        if number := one_value(connection, f"SELECT count(*) {rows}"):
            topic.error(f"{problem}: {number}", fix)


def _check_owner(connection: Connection, topic: Topic, workspace: Path) -> None:
    owner = schema.get_note(connection, "workspace")
    if owner != str(workspace):
        of = "no workspace" if owner is None else f"the workspace {owner}"
        topic.error(
            f"the index belongs to {of}, not to {workspace}",
            "set store.path to another file, or move this one away",
        )


def _missing(connection: Connection, identity: Identity) -> list[str]:
    """Return the tables, columns and indexes that are missing."""
    model = sqlite.connect(":memory:", isolation_level=None)
    try:
        schema.prepare(model, Path("/"), identity)
        expected = _parts(model)
    finally:
        model.close()
    return sorted(expected - _parts(connection))


def _parts(connection: Connection) -> set[str]:
    return columns_of(connection) | names(connection, "index")


def names(connection: Connection, kind: str) -> set[str]:
    """Return the names of all tables or indexes, by `kind`."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = ?", (kind,))
    return {name for (name,) in found.fetchall()}
