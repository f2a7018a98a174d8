"""Batch jobs in the index."""

from pathlib import Path

import pytest
from identities import identity

from memoryd.index import batch_jobs, schema
from memoryd.index.driver import CorruptIndexError, sqlite
from memoryd.messages import BatchJobRow, JobChange

IDENTITY = identity("openai", "m", dims=2)


@pytest.mark.parametrize("hashes", ["", "[[]]", '["x', "null", "[" * 100_000])
async def test_a_job_whose_texts_are_lost_is_damage(hashes: str) -> None:
    connection = sqlite.connect(":memory:", isolation_level=None)
    schema.prepare(connection, Path("/w"), IDENTITY)
    job = BatchJobRow("ours", "openai", "m", "k", 0.0, ["one"])
    batch_jobs.write_job(connection, JobChange(job))
    assert batch_jobs.load_jobs(connection, IDENTITY) == [job]
    connection.execute("UPDATE batch_jobs SET hashes = ?", (hashes,))
    with pytest.raises(CorruptIndexError, match="texts of a batch job"):
        batch_jobs.load_jobs(connection, IDENTITY)
    connection.close()
