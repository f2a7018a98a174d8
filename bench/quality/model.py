"""Model of a set: notes, questions with their evidence, and the outcome."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memoryd_client.schema.search import Hit, SearchResult

if TYPE_CHECKING:
    from bench.quality.rating import Rated

QUICK_QUESTIONS = 40
EVIDENCE_CHARS = 120
"""Length of the start of an evidence line that a snippet must contain to show it."""


class MissingSetError(Exception):
    """The files of a set are missing; the message names them."""


class Ask(Protocol):
    """Function that asks the daemon; None keeps the configured value."""

    def __call__(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
    ) -> SearchResult:
        """Return the explained answer, without warnings. Raises `MemorydError`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that answers a question: its note, its number from 1, and its text."""

    path: str
    line: int
    text: str

    def is_covered(self, hit: Hit) -> bool:
        """Return whether the chunk of a hit contains the line."""
        return hit.path == self.path and hit.start_line <= self.line <= hit.end_line

    def is_shown(self, hit: Hit) -> bool:
        """Return whether the snippet of a hit contains the line's first 120 characters."""
        return hit.path == self.path and self.text[:EVIDENCE_CHARS] in hit.snippet


@dataclass(frozen=True, slots=True)
class Question:
    """A question and all that answers it: lines (`evidence`), and notes as a whole, by path.

    `kind` groups questions of one set; `across`: no line that answers is in the language of the
    question. If a result is of a note in `never`, no result is right.
    """

    text: str
    evidence: tuple[Evidence, ...] = ()
    kind: str = ""
    across: bool = False
    notes: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()

    @property
    def is_answerable(self) -> bool:
        """Return whether anything answers it."""
        return bool(self.evidence or self.notes)

    def right(self, hits: Sequence[Hit]) -> list[bool]:
        """Return for every hit whether it is of a note, or contains a line, that answers."""
        if any(hit.path in self.never for hit in hits):
            return [False] * len(hits)
        return [
            hit.path in self.notes or any(line.is_covered(hit) for line in self.evidence)
            for hit in hits
        ]


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of a set; `at_least` or `at_most` is its target."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "of 1"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a set: its figures, and its answers in the order of the questions.

    `misses` describes the questions that failed, in order, for people.
    """

    figures: list[Measured]
    rated: "list[Rated]" = field(default_factory=list)
    misses: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QualitySet:
    """Notes by their path in the workspace, and the function that measures a daemon with them.

    `lasting` is false if the notes depend on the day; then their index is not kept.
    """

    name: str
    notes: dict[str, str]
    measure: Callable[[Ask], Outcome]
    lasting: bool = True


def existing(file: Path) -> Path:
    """Return a file of a set. Raises `MissingSetError` if there is none."""
    if not file.is_file():
        raise MissingSetError(f"no such file: {file}")
    return file
