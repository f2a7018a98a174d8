"""Checks of an index's vectors: the cache, sqlite-vec's table and missing vectors."""

from memoryd.doctor.finding import Tally, Topic
from memoryd.doctor.structure import MOVED_ASIDE, REBUILD, report_counts
from memoryd.identity import Identity
from memoryd.index.cache import model_key
from memoryd.index.driver import Connection, Error, Fault, fault_of, has_module, one_value
from memoryd.index.queries import count_pending, count_set_aside
from memoryd.index.repair.checks import CORRUPT_VECTOR, OTHER_COPY, read_vectors, vector_problems
from memoryd.index.vec_table import VEC_TABLE
from memoryd_client.shared.humanize import counted

_IN_USE = "(SELECT vector_id FROM chunks WHERE vector_id IS NOT NULL)"
_DIFFERENT = {
    "vectors missing in sqlite-vec": (
        f"FROM (SELECT DISTINCT vector_id FROM {_IN_USE})"
        " WHERE vector_id NOT IN (SELECT rowid FROM chunks_vec_rowids)"
    ),
    "vectors of sqlite-vec without a chunk": (
        f"FROM chunks_vec_rowids WHERE rowid NOT IN {_IN_USE}"
    ),
}


def check_vectors(connection: Connection, topic: Topic, identity: Identity, *, vec: bool) -> None:
    """Check every embedding; with `vec`, the table of sqlite-vec too."""
    compares = vec and _check_table(connection, topic, identity)
    try:
        wrong = _wrong(connection, identity, vec=compares)
    except Error as error:
        if not compares or fault_of(error) is Fault.CORRUPT:
            raise
        topic.error(f"sqlite-vec can't read its table: {error}", REBUILD)
        wrong = _wrong(connection, identity, vec=False)
    for kind, texts in wrong.items():
        topic.error(f"{kind}: of the texts {texts}", REBUILD if kind == OTHER_COPY else MOVED_ASIDE)
    foreign = one_value(
        connection,
        "SELECT count(*) FROM chunks JOIN embedding_cache AS e USING (vector_id)"
        " WHERE NOT (e.provider = ? AND e.model = ? AND e.provider_key = ?)",
        *model_key(identity),
    )
    if foreign:
        topic.error(f"chunks with a vector of another model: {foreign}", REBUILD)


def _wrong(connection: Connection, identity: Identity, *, vec: bool) -> dict[str, Tally]:
    """Return the hashes of the texts with an invalid vector, by kind."""
    wrong: dict[str, Tally] = {}
    for vector in read_vectors(connection, vec=vec):
        kinds = [problem.kind for problem in vector_problems(vector)]
        is_current = (vector.provider, vector.model, vector.provider_key) == model_key(identity)
        if CORRUPT_VECTOR not in kinds and is_current and identity.dims not in (None, vector.dims):
            kinds = [f"vectors with {vector.dims} dimensions, not {identity.dims}"]
        for kind in kinds:
            wrong.setdefault(kind, Tally()).add(vector.hash[:12])
    return wrong


def _check_table(connection: Connection, topic: Topic, identity: Identity) -> bool:
    """Check that sqlite-vec's table holds the vectors in use. Returns whether it can be read."""
    if identity.dims is None:
        return False
    declared = one_value(connection, VEC_TABLE)
    if declared is None:
        topic.error("the table of sqlite-vec is missing", "`memctl restart` creates and fills it")
        return False
    if f"float[{identity.dims}]" not in declared:
        topic.error("the table of sqlite-vec has other dimensions", "`memctl restart` recreates it")
        return False
    report_counts(connection, topic, _DIFFERENT, "`memctl restart` fixes it")
    return has_module(connection, "vec0")


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
    needless = one_value(
        connection,
        "SELECT count(*) FROM chunks c JOIN embedding_cache e ON e.hash = c.hash"
        " WHERE c.vector_id IS NULL AND e.provider = ? AND e.model = ? AND e.provider_key = ?"
        " AND e.dims = ?",
        *model_key(identity),
        identity.dims,
    )
    if needless:
        problem = f"chunks without their cached vector: {needless}"
        topic.warning(problem, "a running memoryd assigns it")
    if embeds and (aside := count_set_aside(connection)):
        topic.warning(
            f"{counted(aside, 'chunk')} with a text that the provider can't embed",
            "keywords find them; `memctl status` names them",
        )
