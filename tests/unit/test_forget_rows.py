"""Data derived from forgotten rows, which is removed with them."""

from pathlib import Path

import numpy as np
from identities import identity

from memoryd.index import schema, statements
from memoryd.index.driver import run_at_once, sqlite
from memoryd.index.forget import forget
from memoryd.index.tombstone_key import CHUNK, TombstoneKey
from memoryd.messages import Chunk, FileKey, FileStat, ParsedFile

IDENTITY = identity("openai", "m", dims=2, provider_key="")
VECTOR = np.array([1, 0], "<f4").tobytes()


def test_neither_vectors_of_earlier_chunks_nor_what_was_said_of_them_stays(tmp_path: Path) -> None:
    connection = sqlite.connect(":memory:", isolation_level=None)
    schema.prepare(connection, Path("/w"), IDENTITY)
    tables = statements.DerivedTables(IDENTITY, fts=False, vec=False)
    gone, kept = FileKey("sessions", "a"), FileKey("sessions", "b")
    for number, (key, text) in enumerate(((gone, "early"), (gone, "late"), (kept, "other"))):
        chunk = Chunk(1, 1, text, "")
        parsed = ParsedFile(key, FileStat(1, 1, 1), str(number), [chunk])
        run_at_once(statements.write_files(connection, tables, [parsed]))
    early, late, other = map(statements.text_hash, ("early", "late", "other"))
    refused = [(early, "it says 'early'"), (other, "it says 'other'")]
    statements.put_vectors(connection, tables, [(d, VECTOR) for d in (early, late, other)], refused)
    secret = TombstoneKey(tmp_path / "key")
    secret.create()
    forget(connection, tables, [gone], [(CHUNK, secret.hashed(late))], secret)
    cached = connection.execute("SELECT hash FROM embedding_cache").fetchall()
    aside = connection.execute("SELECT hash FROM set_aside").fetchall()
    assert (cached, aside) == ([(other,)], [(other,)])
    connection.close()
