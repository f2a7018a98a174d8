"""What a vendor's batch API is, and how its jobs stand."""

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
    """Return what stands in an answer under these names, one inside the other; None if nothing."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def text_at(answer: Any, *names: str) -> str | None:
    """Return what stands there as a text; None for an empty one, and for what is none."""
    found = at(answer, *names)
    return str(found) if isinstance(found, str | int) and found else None


def list_at(answer: Any, *names: str) -> list[Any]:
    """Return the list that stands there; an empty one for anything else."""
    found = at(answer, *names)
    return found if isinstance(found, list) else []


class JobState(NamedTuple):
    """How a job stands; `shown` in the vendor's words. Files are named where there are any."""

    state: Literal["running", "done", "failed"]
    shown: str
    output: str | None = None
    errors: str | None = None
    message: str | None = None


class Line(NamedTuple):
    """One line of a job's output: which text, and its vector, shape (dims,), or what is wrong."""

    number: int
    vector: NDArray[np.float32] | None
    error: str | None
    tokens: int = 0


class BatchApi(Protocol):
    """A vendor's way to embed many texts later. All that awaits raises `ProviderError`."""

    max_requests: int
    max_bytes: int

    def line(self, number: int, text: str) -> bytes:
        """Return the line of a job's input that asks for one text's vector, with its line end."""

    def renumbered(self, line: bytes, number: int) -> bytes:
        """Return a line with another number, with its line end."""

    async def submit(self, lines: BinaryIO, key: str) -> str:
        """Upload the lines and create a job of them. Returns the vendor's id of it.

        `key` is our name, which the job carries. Raises `BatchTooLargeError` to be halved.
        """

    async def find(self, key: str) -> str | None:
        """Return the id of the job that carries our name, if there is one."""

    async def look(self, job_id: str) -> JobState:
        """Return how a job stands."""

    async def cancel(self, job_id: str) -> None:
        """Give a job up; what it has done by then can be had."""

    def lines(self, file_id: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a file."""

    def read(self, line: bytes) -> Line:
        """Read a line of an output or error file. Raises ValueError if it can't be one."""

    async def check(self) -> None:
        """Return if the vendor's batch API answers."""
