"""Process of one LanceDB table of facts; the library takes 130 MB, which the daemon must not.

It reads requests from standard input and writes a reply to each. The table has the columns of
OpenClaw's plugin memory-lancedb, and `origin`, which such a plugin's own table lacks.
"""

import os
import re
import struct
import sys
from datetime import timedelta
from importlib import import_module
from typing import Any, BinaryIO, Literal, get_args

import msgspec
from msgspec import Struct, field

from memoryd_client.schema.facts import Fact, FactCategory
from memoryd_client.schema.search import Origin

FRAME_HEADER = struct.Struct(">I")
_COLUMNS = ["id", "text", "importance", "category", "createdAt", "agentId"]
_OWNER = "agentId"
_ORIGIN = "origin"
_CREATE_TRIES = 3
_SOURCES = re.compile(r",? ?\S+\.rs:\d+(?::\d+)?")


class LanceRequest(Struct, omit_defaults=True):
    """One request. Vectors are little-endian float32."""

    op: Literal["put", "all", "get", "nearest", "remove", "missing", "embed", "clean"]
    fact: Fact | None = None
    fact_id: str = ""
    owner: str = ""
    vector: bytes | None = None
    vectors: dict[str, bytes] = field(default_factory=dict)
    limit: int = 0
    retention_s: float = 0.0


class LanceReply(Struct, omit_defaults=True):
    """The reply: an `error` with its `hint`, or facts, their cosines, and a number."""

    error: str = ""
    hint: str = ""
    facts: list[Fact] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    count: int = 0


class TableError(Exception):
    """The table can't be used as it is."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def pack(message: LanceRequest | LanceReply) -> bytes:
    """Return a frame."""
    body = msgspec.msgpack.encode(message)
    return FRAME_HEADER.pack(len(body)) + body


class FactTable:
    """The table, opened or made by the first request that needs it."""

    def __init__(self, uri: str, name: str) -> None:
        self._uri = uri
        self._name = name
        self._opened: Any = None

    def answer(self, request: LanceRequest) -> LanceReply:
        """Carry out a request. Raises `TableError` or an error of the library."""
        reply = LanceReply()
        match request.op:
            case "put":
                assert request.fact is not None  # noqa: S101
                self._put(request.fact, request.vector)
            case "all":
                reply.facts = self._facts(f"{_OWNER} = {_quoted(request.owner)}")
            case "get":
                reply.facts = self._facts(_one(request))
            case "nearest":
                assert request.vector is not None  # noqa: S101
                found = self._nearest(request.vector, request.owner, request.limit)
                reply.facts, reply.cosines = [f for f, _ in found], [c for _, c in found]
            case "remove":
                self._remove(request.fact_id, _one(request))
            case "missing":
                reply.facts = self._facts("vector IS NULL", request.limit) if request.limit else []
                table = self._table()
                reply.count = 0 if table is None else table.count_rows("vector IS NULL")
            case "embed":
                self._embed(request.vectors)
            case "clean":
                self._clean(timedelta(seconds=request.retention_s))
        return reply

    def _table(self, dims: int | None = None) -> Any:
        """Return the table at its latest version. Without `dims`, a missing one is None."""
        if self._opened is None:
            lancedb = import_module("lancedb")
            # Without an interval, a connection would not see the commits of others.
            database = lancedb.connect(self._uri, read_consistency_interval=timedelta(0))
            for attempt in range(_CREATE_TRIES):
                try:
                    self._opened = database.open_table(self._name)
                    break
                except (ValueError, OSError, RuntimeError) as error:
                    if not _is_missing(error):
                        raise
                if dims is None:
                    return None
                try:
                    self._opened = database.create_table(self._name, schema=_schema(dims))
                    break
                except (ValueError, OSError, RuntimeError):
                    if attempt == _CREATE_TRIES - 1:  # else another daemon may have made it
                        raise
        self._check(dims)
        return self._opened

    def _check(self, dims: int | None) -> None:
        schema = self._opened.schema
        if missing := {*_COLUMNS, "vector"} - set(schema.names):
            self._opened = None
            hint = "choose another table, or let `openclaw doctor --fix` migrate it"
            raise TableError(f"the table {self._name} lacks {', '.join(sorted(missing))}", hint)
        has = schema.field("vector").type.list_size
        if dims not in (None, has):
            raise TableError(
                f"the vectors of the table have {has} dimensions, and this model's {dims}",
                "use the model that the table was made with, or another table",
            )

    def _facts(self, condition: str, limit: int | None = None) -> list[Fact]:
        if (table := self._table()) is None:
            return []
        query = table.search().where(condition).select(self._shown(table))
        # Without a limit, the library returns ten rows.
        rows = query.limit(table.count_rows() + 1 if limit is None else limit).to_list()
        return sorted(map(_fact, rows), key=lambda fact: (fact.created_at, fact.id))

    def _nearest(self, vector: bytes, owner: str, limit: int) -> list[tuple[Fact, float]]:
        numbers = _numbers(vector)
        if (table := self._table()) is None:
            return []
        self._check(len(numbers))
        rows = (
            table.search(numbers, vector_column_name="vector")
            .distance_type("cosine")
            .bypass_vector_index()
            .where(f"{_OWNER} = {_quoted(owner)}", prefilter=True)
            .select([*self._shown(table), "_distance"])
            .limit(limit)
            .to_list()
        )
        found = [(_fact(row), 1.0 - row["_distance"]) for row in rows]
        return [(fact, cosine) for fact, cosine in found if cosine == cosine]

    def _put(self, fact: Fact, vector: bytes | None) -> None:
        numbers = None if vector is None else _numbers(vector)
        table = self._table(None if numbers is None else len(numbers))
        if table is None:
            raise TableError(
                "the first fact of a table needs a vector, which gives the table its dimensions",
                "configure an embedding provider, or try again when it answers",
            )
        if _ORIGIN not in table.schema.names and fact.origin == Origin.UNTRUSTED:
            raise TableError(
                "this table has no column that could mark a fact as a stranger's",
                "store only facts of your own there",
            )
        rows = self._rows(table, [_row(fact, numbers)])
        insert = table.merge_insert("id").when_not_matched_insert_all()
        insert.execute(rows, on_bad_vectors="null")

    def _embed(self, vectors: dict[str, bytes]) -> None:
        table = self._table()
        if table is None or not vectors:
            return
        named = ", ".join(map(_quoted, vectors))
        rows = table.search().where(f"id IN ({named})").limit(len(vectors)).to_list()
        for row in rows:
            row["vector"] = _numbers(vectors[row["id"]])
            self._check(len(row["vector"]))
        if rows:
            update = table.merge_insert("id").when_matched_update_all()
            update.execute(self._rows(table, rows), on_bad_vectors="null")

    def _remove(self, fact_id: str, condition: str) -> None:
        if (table := self._table()) is None:
            return
        # A deletion only marks the row in its file, so that all files are written again without it:
        # in one commit, or a process that is killed between two would leave its bytes.
        others = table.search().where(f"({condition}) IS NOT TRUE")
        rows = others.limit(table.count_rows() + 1).to_arrow()
        ids = rows["id"].to_pylist()
        if len({*ids, fact_id}) > len(ids):
            rewrite = table.merge_insert("id").when_matched_update_all()
            rewrite = rewrite.when_not_matched_by_source_delete(condition)
            rewrite.execute(rows, on_bad_vectors="null")
        else:  # somebody else has given two facts one id, which can't be merged
            table.delete(condition)
            table.update(values_sql={"importance": "importance"})

    def _clean(self, retention: timedelta) -> None:
        if (table := self._table()) is not None:
            table.optimize(cleanup_older_than=retention)

    def _shown(self, table: Any) -> list[str]:
        return [*_COLUMNS, *([_ORIGIN] if _ORIGIN in table.schema.names else [])]

    def _rows(self, table: Any, rows: list[dict[str, Any]]) -> Any:
        return import_module("pyarrow").Table.from_pylist(rows, schema=table.schema)


def _schema(dims: int) -> Any:
    pa = import_module("pyarrow")
    kinds = {"importance": pa.float64(), "createdAt": pa.float64()}
    kinds["vector"] = pa.list_(pa.float32(), dims)
    names = ("id", "text", "vector", "importance", "category", "createdAt", _OWNER, _ORIGIN)
    return pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in names])


def _row(fact: Fact, vector: list[float] | None) -> dict[str, Any]:
    return {
        "id": fact.id,
        "text": fact.text,
        "vector": vector,
        "importance": fact.importance,
        "category": fact.category,
        "createdAt": round(fact.created_at * 1000),
        _OWNER: fact.owner,
        _ORIGIN: str(fact.origin),
        "scope": "",
    }


def _fact(row: dict[str, Any]) -> Fact:
    categories: tuple[FactCategory, ...] = get_args(FactCategory)
    return Fact(
        row["id"],
        row["text"],
        float(row["importance"] or 0),
        next((known for known in categories if known == row["category"]), "other"),
        float(row["createdAt"] or 0) / 1000,
        next((known for known in Origin if known == row.get(_ORIGIN)), Origin.AGENT),
        row[_OWNER],
    )


def _one(request: LanceRequest) -> str:
    return f"id = {_quoted(request.fact_id)} AND {_OWNER} = {_quoted(request.owner)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _numbers(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def _is_missing(error: Exception) -> bool:
    return "not found" in str(error).lower() or isinstance(error, FileNotFoundError)


def _in_words(error: Exception) -> str:
    """Return the message of an error of the library, without the places in its sources."""
    text = _SOURCES.sub("", " ".join(str(error).split()))
    return text.removeprefix("lance error: ")[:300]


def _reply(table: FactTable, request: LanceRequest) -> LanceReply:
    try:
        return table.answer(request)
    except TableError as error:
        return LanceReply(error=str(error), hint=error.hint)
    except ModuleNotFoundError as error:
        hint = "install requirements/lancedb.txt, as docs/facts.md shows"
        return LanceReply(error=f"the package {error.name} is not installed", hint=hint)
    except Exception as error:
        hint = "check facts.lancedb.path, and the storage and its credentials for memoryd"
        return LanceReply(error=_in_words(error), hint=hint)


def _serve(table: FactTable, requests: BinaryIO, replies: BinaryIO) -> None:
    decoder = msgspec.msgpack.Decoder(LanceRequest)
    while len(header := requests.read(FRAME_HEADER.size)) == FRAME_HEADER.size:
        (size,) = FRAME_HEADER.unpack(header)
        replies.write(pack(_reply(table, decoder.decode(requests.read(size)))))
        replies.flush()


def main() -> None:
    """Serve the table named by the arguments until standard input ends."""
    uri, name = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the library prints
    _serve(FactTable(uri, name), sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
