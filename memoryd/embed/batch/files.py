"""Input and output files of batch jobs, within the provider's limits."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, BinaryIO, cast

from memoryd.embed.answer_limit import max_output_bytes
from memoryd.embed.batch.api import BatchApi, JobState
from memoryd.embed.budget import estimated_tokens
from memoryd.embed.provider import RetryableError, unit_rows
from memoryd.identity import Identity
from memoryd.messages import BatchJobRow, Embedded, Text, ToWriter

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
"""Errors that invalid lines of an output file raise."""


@dataclass(slots=True)
class Output:
    """Result of a job: hashes of texts with a vector, reported tokens, and the first error."""

    good: set[str] = field(default_factory=set)
    tokens: int = 0
    error: str | None = None


async def download_output(
    api: BatchApi,
    job: BatchJobRow,
    state: JobState,
    *,
    writer: asyncio.Queue[ToWriter],
    identity: Callable[[], Identity | None],
) -> Output:
    """Download a job's vectors and pass them to the writer. Raises `ProviderError`."""
    output = Output()
    vectors: list[tuple[str, bytes]] = []
    dims: int | None = None

    async def store() -> None:
        now = identity()
        if now is None:
            raise RetryableError("the index is being rebuilt")
        message = Embedded(now, vectors.copy(), [], dims)
        await writer.put(message)
        await message.committed
        if now.dims in (None, dims):
            output.good.update(digest for digest, _ in vectors)
        else:  # they are cached, but useless to this index: the provider is asked for its dims now
            output.error = output.error or f"its vectors have {dims} dimensions, not {now.dims}"
        vectors.clear()

    built = identity()
    max_bytes = max_output_bytes(len(job.hashes), None if built is None else built.dims)
    for file in (state.output, state.errors):
        if file is None:
            continue
        async with aclosing(api.lines(file, max_bytes)) as lines:
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


@dataclass(slots=True, eq=False)
class BatchFile:
    """Lines on disk, in an unnamed file, so that nothing outlives the process.

    `tokens` estimates those of the texts.
    """

    file: IO[bytes]
    hashes: list[str]
    tokens: int = 0

    def opened(self) -> BinaryIO:
        """Return the file at its beginning; the reader may close it."""
        self.file.flush()
        again = os.fdopen(os.dup(self.file.fileno()), "rb")
        again.seek(0)
        return cast(BinaryIO, again)

    def close(self) -> None:
        """Free the disk space."""
        with suppress(OSError):  # of unwritten data, which is not needed
            self.file.close()


async def collect(
    pages: AsyncIterator[list[Text]],
    api: BatchApi,
    *,
    ready: Callable[[str], str],
    folder: Path,
    max_tokens: int | None = None,
) -> AsyncIterator[BatchFile]:
    """Yield files of lines for texts, each within the provider's limits. The caller closes them.

    `max_tokens` bounds a file of more than one text. Raises `OSError` if they can't be written.
    """
    current: BatchFile | None = None
    try:
        async for page in pages:
            texts = await asyncio.to_thread(list, map(ready, [text for _, text in page]))
            for (digest, _), text in zip(page, texts, strict=True):
                tokens = estimated_tokens([text])
                full = current is not None and (
                    _is_full(current, api, len(text))
                    or (max_tokens is not None and current.tokens + tokens > max_tokens)
                )
                if current is not None and full:
                    current.file.flush()
                    yield current
                    current = None
                if current is None:
                    current = BatchFile(_unnamed(folder), [])
                current.file.write(api.line(len(current.hashes), text))
                current.hashes.append(digest)
                current.tokens += tokens
        if current is not None:
            current.file.flush()
            yield current
            current = None
    except OSError:
        if current is not None:
            current.close()
        raise


def halves(file: BatchFile, api: BatchApi, folder: Path) -> list[BatchFile]:
    """Return a file's lines in two files, renumbered. Closes the file."""
    with file.opened() as opened:
        lines = opened.read().splitlines()
    middle = (len(lines) + 1) // 2
    made: list[BatchFile] = []
    for start, end in ((0, middle), (middle, len(lines))):
        half = BatchFile(_unnamed(folder), file.hashes[start:end])
        half.file.writelines(map(api.renumbered, lines[start:end], count()))
        made.append(half)
    file.close()
    return made


def _unnamed(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)


def _is_full(file: BatchFile, api: BatchApi, chars: int) -> bool:
    # A character takes at most six bytes in JSON, and each text some hundred more around it.
    room = api.max_bytes - file.file.tell()
    return len(file.hashes) >= api.max_requests or room < 6 * chars + 1_000
