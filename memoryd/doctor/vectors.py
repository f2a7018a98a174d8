"""Checks of an index's vectors: the cache, sqlite-vec's table and missing vectors."""

from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.structure import MOVED_ASIDE, REBUILD
from memoryd.identity import Identity
from memoryd.index.driver import Connection, Error, Fault, fault_of
from memoryd.index.queries import count_pending, count_set_aside
from memoryd.index.repair.checks import (
    CORRUPT_VECTOR,
    OTHER_COPY,
    read_vectors,
    vector_problems,
)
from memoryd_client.shared.humanize import counted


def check_vectors(connection: Connection, topic: Topic, identity: Identity, *, vec: bool) -> None:
    """Check every embedding; with `vec`, the table of sqlite-vec too."""
    compares = vec and _check_table(connection, topic, identity)
    try:
        wrong = _wrong(connection, identity, vec=compares)
    except Error as error:
        if not compares or fault_of(error) is Fault.DAMAGED:
            raise
        topic.error(f"sqlite-vec can't read its table: {error}", REBUILD)
        wrong = _wrong(connection, identity, vec=False)
    for kind, texts in wrong.items():
        topic.error(f"{kind}: of the texts {texts}", REBUILD if kind == OTHER_COPY else MOVED_ASIDE)
    (foreign,) = connection.execute(
        "SELECT count(*) FROM chunks JOIN embedding_cache USING (vector_id)"
        " WHERE NOT (provider = ? AND embedding_cache.model = ? AND provider_key = ?)",
        _model(identity),
    ).fetchone()
    if foreign:
        topic.error(f"chunks with a vector of another model: {foreign}", REBUILD)


def _wrong(connection: Connection, identity: Identity, *, vec: bool) -> dict[str, Tally]:
    """Return the hashes of the texts with an invalid vector, by kind."""
    wrong: dict[str, Tally] = {}
    for vector in read_vectors(connection, vec=vec):
        kinds = [problem.kind for problem in vector_problems(vector)]
        is_current = (vector.provider, vector.model, vector.provider_key) == _model(identity)
        if CORRUPT_VECTOR not in kinds and is_current and identity.dims not in (None, vector.dims):
            kinds = [f"vectors with {vector.dims} dimensions, not {identity.dims}"]
        for kind in kinds:
            wrong.setdefault(kind, Tally()).add(vector.hash[:12])
    return wrong


def _check_table(connection: Connection, topic: Topic, identity: Identity) -> bool:
    """Check that sqlite-vec's table holds the vectors in use. Returns whether it can be read."""
    if identity.dims is None:
        return False
    declared = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE name = 'chunks_vec'"
    ).fetchone()
    if declared is None:
        topic.error("the table of sqlite-vec is missing", "`memctl restart` creates and fills it")
        return False
    if f"float[{identity.dims}]" not in declared[0]:
        topic.error("the table of sqlite-vec has other dimensions", "`memctl restart` recreates it")
        return False
    counts = (
        (
            "SELECT count(DISTINCT vector_id) FROM chunks WHERE vector_id IS NOT NULL"
            " AND vector_id NOT IN (SELECT rowid FROM chunks_vec_rowids)",
            "vectors missing in sqlite-vec",
        ),
        (
            "SELECT count(*) FROM chunks_vec_rowids WHERE rowid NOT IN"
            " (SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL)",
            "vectors of sqlite-vec without a chunk",
        ),
    )
    for statement, problem in counts:
        if number := connection.execute(statement).fetchone()[0]:
            topic.error(f"{problem}: {number}", "`memctl restart` fixes it")
    return _is_loaded(connection)


def check_waiting(
    connection: Connection, topic: Topic, identity: Identity, *, embeds: bool
) -> None:
    """Report texts that have no vector yet and texts that never get one."""
    waiting = count_pending(connection) if embeds else 0
    if waiting:
        topic.warning(
            f"{counted(waiting, 'text')} without a vector yet; keywords find them",
            "a running memoryd embeds them; `memctl status` shows the reason for a delay",
        )
    needless = connection.execute(
        "SELECT count(*) FROM chunks c JOIN embedding_cache e ON e.hash = c.hash"
        " WHERE c.vector_id IS NULL AND e.provider = ? AND e.model = ? AND e.provider_key = ?"
        " AND e.dims = ?",
        (*_model(identity), identity.dims),
    ).fetchone()[0]
    if needless:
        topic.warning(
            f"chunks without their cached vector: {needless}",
            "a running memoryd assigns it",
        )
    if embeds and (aside := count_set_aside(connection)):
        topic.warning(
            f"{counted(aside, 'chunk')} with a text that the provider can't embed",
            "keywords find them; `memctl status` names them",
        )


def _is_loaded(connection: Connection) -> bool:
    found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'vec0'").fetchone()
    return found is not None


def _model(identity: Identity) -> tuple[str, str, str]:
    return identity.provider, identity.model, identity.provider_key
