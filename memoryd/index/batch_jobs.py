"""Batch jobs of an index, recorded before they are awaited so that none is paid for twice."""

import msgspec

from memoryd.identity import DIMS_SIGN, Identity
from memoryd.index.driver import Connection, CorruptIndexError
from memoryd.messages import BatchJobRow, JobChange

_HASHES = msgspec.json.Decoder(list[str])


def write_job(connection: Connection, change: JobChange) -> None:
    """Record a job, replacing one with the same key, or remove it."""
    job = change.job
    if change.over:
        connection.execute("DELETE FROM batch_jobs WHERE key = ?", (job.key,))
        return
    connection.execute(
        "INSERT OR REPLACE INTO batch_jobs (key, provider, model, provider_key, created_at,"
        " attempts, remote_id, hashes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job.key,
            job.provider,
            job.model,
            job.provider_key,
            job.created_at,
            job.attempts,
            job.remote_id,
            msgspec.json.encode(job.hashes).decode(),
        ),
    )


def load_jobs(connection: Connection, identity: Identity) -> list[BatchJobRow]:
    """Return the jobs whose vectors are of this identity, oldest first.

    Raises `CorruptIndexError` for a job whose texts are unreadable.
    """
    found = connection.execute(
        "SELECT key, provider, model, provider_key, created_at, hashes, attempts, remote_id"
        " FROM batch_jobs WHERE provider = ?1 AND model = ?2"
        " AND (provider_key = ?3 OR provider_key LIKE ?3 || ?4 || '%') ORDER BY created_at",
        (identity.provider, identity.model, identity.first_key, DIMS_SIGN),
    )
    return [
        BatchJobRow(key, provider, model, provider_key, created_at, _texts(hashes), *progress)
        for key, provider, model, provider_key, created_at, hashes, *progress in found
    ]


def _texts(hashes: str) -> list[str]:
    try:
        return _HASHES.decode(hashes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptIndexError(f"the texts of a batch job are unreadable: {error}") from error
