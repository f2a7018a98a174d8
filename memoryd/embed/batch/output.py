"""Brings the vectors of a batch job home, a few at a time, and tells which texts have none."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from memoryd.embed.batch.api import BatchApi, JobState
from memoryd.embed.provider import RetryableError, unit_rows
from memoryd.identity import Identity
from memoryd.messages import BatchJob, Embedded, ToWriter

STORED_AT_ONCE = 64
_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    StopIteration,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What comes of lines that are no answer."""


@dataclass(slots=True)
class Output:
    """What came of a job: hashes of texts with a vector, and the first reason of one without.

    `tokens` are those that its lines tell of.
    """

    good: set[str] = field(default_factory=set)
    tokens: int = 0
    error: str | None = None


async def bring_home(
    api: BatchApi,
    job: BatchJob,
    state: JobState,
    *,
    writer: asyncio.Queue[ToWriter],
    identity: Callable[[], Identity | None],
) -> Output:
    """Download what a job has made and hand it to the writer. Raises `ProviderError`."""
    output = Output()
    vectors: list[tuple[str, bytes]] = []
    dims: int | None = None

    async def store() -> None:
        now = identity()
        if now is None:
            raise RetryableError("the index is being built anew")
        message = Embedded(now, vectors.copy(), [], dims)
        await writer.put(message)
        await message.committed
        if now.dims in (None, dims):
            output.good.update(digest for digest, _ in vectors)
        else:  # they are kept, but of no use to this index: the provider is asked what it gives now
            output.error = output.error or f"its vectors have {dims} dimensions, not {now.dims}"
        vectors.clear()

    for file in (state.output, state.errors):
        if file is None:
            continue
        async with aclosing(api.lines(file)) as lines:
            async for line in lines:
                try:
                    number, vector, error, tokens = api.read(line)
                    if number < 0:
                        raise IndexError(number)
                    digest = job.hashes[number]
                except _UNREADABLE:
                    output.error = output.error or "a line of its answer can't be read"
                    continue
                output.tokens += tokens
                if vector is not None:
                    units, fine = unit_rows(vector[None], count=1, dims=None)
                    if vectors and units.shape[1] != dims:
                        await store()
                    dims = units.shape[1]
                    if fine[0]:
                        vectors.append((digest, units[0].astype("<f4").tobytes()))
                    else:
                        error = "its vector is zero or not finite"
                output.error = output.error or error
                if len(vectors) >= STORED_AT_ONCE:
                    await store()
    if vectors:
        await store()
    return output
