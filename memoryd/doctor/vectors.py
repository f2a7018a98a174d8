"""The vectors of an index: of its model, whole, and the same wherever they are kept."""

from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.rows import read
from memoryd.doctor.structure import MOVED_ASIDE, REBUILD
from memoryd.identity import Identity
from memoryd.index.driver import Connection, Error
from memoryd.index.queries import count_pending, count_set_aside
from memoryd.index.repair.checks import is_embedding, is_same
from memoryd_client.shared.humanize import counted

_OF_MODEL = "provider = ? AND model = ? AND provider_key = ?"


def check_cache(connection: Connection, topic: Topic, identity: Identity) -> None:
    """Check every embedding: its length, its numbers, and that chunks have those of the model."""
    wrong: dict[str, Tally] = {}
    rows = read(
        connection,
        f"SELECT hash, dims, embedding, {_OF_MODEL} FROM embedding_cache",
        *_model(identity),
    )
    for digest, dims, embedding, is_current in rows:
        problem = None if is_embedding(embedding, dims) else "are damaged"
        if problem is None and is_current and identity.dims not in (None, dims):
            problem = f"have {dims} dimensions, not {identity.dims}"
        if problem is not None:
            wrong.setdefault(problem, Tally()).add(digest[:12])
    for problem, texts in wrong.items():
        topic.error(f"vectors that {problem}: of the texts {texts}", MOVED_ASIDE)
    (foreign,) = connection.execute(
        "SELECT count(*) FROM chunks JOIN embedding_cache USING (vector_id)"
        " WHERE NOT (provider = ? AND embedding_cache.model = ? AND provider_key = ?)",
        _model(identity),
    ).fetchone()
    if foreign:
        topic.error(f"chunks with a vector of another model: {foreign}", REBUILD)


def check_table(connection: Connection, topic: Topic, identity: Identity) -> None:
    """Check that sqlite-vec's table holds the vectors in use; their numbers too, if it loads."""
    if identity.dims is None:
        return
    declared = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE name = 'chunks_vec'"
    ).fetchone()
    if declared is None:
        topic.error("there is no table of sqlite-vec", "`memctl restart` makes and fills it")
        return
    if f"float[{identity.dims}]" not in declared[0]:
        topic.error(
            "the table of sqlite-vec has other dimensions", "`memctl restart` makes it anew"
        )
        return
    counts = (
        (
            "SELECT count(DISTINCT vector_id) FROM chunks WHERE vector_id IS NOT NULL"
            " AND vector_id NOT IN (SELECT rowid FROM chunks_vec_rowids)",
            "vectors that sqlite-vec lacks",
        ),
        (
            "SELECT count(*) FROM chunks_vec_rowids WHERE rowid NOT IN"
            " (SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL)",
            "vectors of sqlite-vec that no chunk has",
        ),
    )
    for statement, what in counts:
        if number := connection.execute(statement).fetchone()[0]:
            topic.error(f"{what}: {number}", "`memctl restart` puts it right")
    if _is_loaded(connection):
        _compare(connection, topic, identity.dims)


def check_waiting(
    connection: Connection, topic: Topic, identity: Identity, *, embeds: bool
) -> None:
    """Say what has no vector yet, and what never gets one."""
    waiting = count_pending(connection) if embeds else 0
    if waiting:
        topic.warning(
            f"{counted(waiting, 'text')} without a vector yet; keywords find them",
            "a running memoryd embeds them; `memctl status` says what holds it up",
        )
    needless = connection.execute(
        "SELECT count(*) FROM chunks c JOIN embedding_cache e ON e.hash = c.hash"
        " WHERE c.vector_id IS NULL AND e.provider = ? AND e.model = ? AND e.provider_key = ?"
        " AND e.dims = ?",
        (*_model(identity), identity.dims),
    ).fetchone()[0]
    if needless:
        topic.warning(
            f"chunks without the vector that the cache has for them: {needless}",
            "a running memoryd gives it to them",
        )
    if embeds and (aside := count_set_aside(connection)):
        topic.warning(
            f"{counted(aside, 'chunk')} with a text that the provider can't embed",
            "keywords find them; `memctl status` names them",
        )


def _compare(connection: Connection, topic: Topic, dims: int) -> None:
    wrong = Tally()
    rows = read(
        connection,
        "SELECT hash, c.embedding, v.embedding FROM chunks_vec v"
        " JOIN embedding_cache c ON c.vector_id = v.rowid",
    )
    try:
        for digest, kept, indexed in rows:
            # One that is damaged is told of above.
            if is_embedding(kept, dims) and not is_same(kept, dims, indexed):
                wrong.add(digest[:12])
    except Error as error:
        topic.error(f"sqlite-vec can't read its table: {error}", REBUILD)
    if wrong:
        topic.error(f"sqlite-vec has other vectors than the cache: of the texts {wrong}", REBUILD)


def _is_loaded(connection: Connection) -> bool:
    found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'vec0'").fetchone()
    return found is not None


def _model(identity: Identity) -> tuple[str, str, str]:
    return identity.provider, identity.model, identity.provider_key
