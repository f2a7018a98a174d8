"""The common parts of all vendors' batch APIs: files, jobs, and their planned outcome."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from vendors.double import Answer, Double, RefusedError
from vendors.faults import BY_STATUS, Fault

Outcome = Literal["completed", "failed", "expired", "cancelled", "canceled", "stuck"]
MAX_LINES = 50_000
MAX_FILE_BYTES = 200 * 1024 * 1024


@dataclass(slots=True)
class StoredFile:
    """A file at the vendor. `texts` are the texts of its vectors, until it is fetched."""

    id: str
    name: str
    data: bytes
    purpose: str
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """A batch job: `request` is the body that created it, `lines` the parsed input.

    `status` is vendor-neutral: validating, in_progress, finalizing, cancelling, or an outcome.
    `problems` are the errors of the input.
    """

    id: str
    request: dict[str, Any]
    lines: list[dict[str, Any]]
    model: str
    status: str = "validating"
    polls: int = 0
    problems: list[dict[str, Any]] = field(default_factory=list)
    output: StoredFile | None = None
    errors: StoredFile | None = None
    failed: set[str] = field(default_factory=set)
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Return whether the job is in a final state."""
        return self.status in ("completed", "failed", "expired", "cancelled", "canceled")


class Batches:
    """The files and jobs of a double.

    A job ends at its `polls`-th GET, with `outcome`. Lines in `partial` fail. If a job expires or
    is cancelled, these are the unprocessed lines, and an empty `partial` means all. With
    `error_only` all lines fail and there is no output. `fail_create` is the error status for
    creating a job. `reorder` reverses the output.
    """

    def __init__(self, double: Double) -> None:
        self.double = double
        self.polls = 1
        self.outcome: Outcome = "completed"
        self.partial: set[str] = set()
        self.error_only = False
        self.fail_create: int | None = None
        self.reorder = False
        self.max_lines = MAX_LINES
        self.max_file_bytes = MAX_FILE_BYTES
        self.jobs: list[Job] = []
        self.files: dict[str, StoredFile] = {}
        self._made = 0

    def new_id(self, kind: str) -> str:
        """Return a unique id."""
        self._made += 1
        return f"{kind}{self._made:06d}"

    def stored(self, file: StoredFile) -> StoredFile:
        """Keep a file. Raises `RefusedError` if it is too large."""
        if len(file.data) > self.max_file_bytes:
            raise RefusedError(Fault.TOO_LARGE)
        self.files[file.id] = file
        return file

    def refuse_create(self) -> None:
        """Raise `RefusedError` if `fail_create` is set."""
        if self.fail_create is not None:
            raise RefusedError(BY_STATUS[self.fail_create])

    def advance(self, job: Job) -> bool:
        """Count a GET. Returns whether the job ends with it and its results are due."""
        if job.over:
            return False
        job.polls += 1
        if job.status == "cancelling":
            job.status = "cancelled"
            return True
        if self.outcome == "stuck" or job.polls < self.polls:
            last = job.polls == self.polls - 1 and job.polls > 1 and self.outcome != "stuck"
            job.status = "finalizing" if last else "in_progress"
            return False
        job.status = "failed" if job.problems else self.outcome
        return True

    def failing(self, job: Job, ids: Iterable[str]) -> set[str]:
        """Return the lines without a result."""
        every = set(ids)
        unfinished = job.status in ("expired", "cancelled", "canceled")
        if job.status == "failed" or self.error_only or (unfinished and not self.partial):
            return every
        return every & self.partial

    def content(self, file: StoredFile, content_type: str) -> Answer:
        """Return a file; after a complete download its texts count as embedded."""

        def sent() -> None:
            self.double.embedded.update(file.texts)
            file.texts = []

        return Answer(file.data, content_type=content_type, sent=sent)


def parts(content_type: str, body: bytes) -> list[tuple[dict[str, str], bytes]]:
    """Split a multipart body (RFC 2046, 5.1) into parts with headers, names in lower case."""
    boundary = re.search(r'boundary="?([^";]+)"?', content_type)
    if boundary is None or not content_type.startswith("multipart/"):
        raise RefusedError(Fault.BAD_REQUEST)
    found = []
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        lines = [line.partition(":") for line in head.decode().strip().split("\r\n")]
        found.append(({name.lower(): value.strip() for name, _, value in lines}, data))
    return found
