"""Protocol of a vendor's batch API, and the state of its jobs."""

from collections.abc import AsyncGenerator
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_REQUESTS = 50_000
MAX_BYTES = 190 * 1024 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024
UPLOAD_S = 600.0
ASK_S = 60.0


def at(answer: Any, *names: str) -> Any:
    """Return the value in an answer under these nested names, or None."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def text_at(answer: Any, *names: str) -> str | None:
    """Return the value there as a text; None if it is empty or no text."""
    found = at(answer, *names)
    return str(found) if isinstance(found, str | int) and found else None


def list_at(answer: Any, *names: str) -> list[Any]:
    """Return the list there; an empty one for anything else."""
    found = at(answer, *names)
    return found if isinstance(found, list) else []


class JobState(NamedTuple):
    """State of a job, `shown` in the vendor's words, and the ids of its files, if any."""

    state: Literal["running", "done", "failed"]
    shown: str
    output: str | None = None
    errors: str | None = None
    message: str | None = None
    input: str | None = None


class Line(NamedTuple):
    """One line of a job's output: number of the text; its vector, shape (dims,), or an error."""

    number: int
    vector: NDArray[np.float32] | None
    error: str | None
    tokens: int = 0


class BatchApi(Protocol):
    """Embedding of many texts at a later time. All coroutines raise `ProviderError`."""

    max_requests: int
    max_bytes: int

    def line(self, number: int, text: str) -> bytes:
        """Return the line of a job's input that requests one text's vector, with its line end."""

    def renumbered(self, line: bytes, number: int) -> bytes:
        """Return a line, renumbered, with its line end."""

    async def submit(self, lines: BinaryIO, key: str) -> str:
        """Upload the lines and create a job from them. Returns the vendor's id of the job.

        The job carries `key`, our name. Raises `BatchTooLargeError` if it must be halved.
        """

    async def find(self, key: str) -> str | None:
        """Return the id of the job that carries our name, if there is one."""

    async def state(self, job_id: str) -> JobState:
        """Return the state of a job."""

    async def cancel(self, job_id: str) -> None:
        """Cancel a job; its results so far stay available."""

    async def delete_files(self, job_id: str | None, key: str) -> None:
        """Delete all files of an ended job, which carries our name `key`; missing ones are fine.

        `job_id` None: the job may not exist. Raises `RetryableError` while the job is running.
        """

    def lines(self, file_id: str, max_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file. Raises `RetryableError` if it is larger than `max_bytes`."""

    def read(self, line: bytes) -> Line:
        """Read a line of an output or error file. Raises ValueError if it is invalid."""

    async def check(self) -> None:
        """Return normally if the vendor's batch API answers."""
