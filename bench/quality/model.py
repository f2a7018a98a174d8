"""What a set is: notes, questions with what answers them, and what came out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.quality.scoring import CurvePoint
from memoryd_client.schema.memory import Hit

QUICK_QUESTIONS = 40
EVIDENCE_CHARS = 120
"""A snippet that has so much of an evidence line counts as showing it."""


class MissingSetError(Exception):
    """The files of a set are not there; the message names them."""


class Ask(Protocol):
    """Asks the daemon; None leaves the number of results and the threshold as configured."""

    def __call__(
        self, query: str, *, max_results: int | None = None, min_score: float | None = None
    ) -> list[Hit]:
        """Return the hits, best first."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that answers: of which note, its number from 1, and its text."""

    path: str
    line: int
    text: str

    def is_covered(self, hit: Hit) -> bool:
        """Say whether the chunk of a hit has the line."""
        return hit.path == self.path and hit.start_line <= self.line <= hit.end_line

    def is_shown(self, hit: Hit) -> bool:
        """Say whether the snippet of a hit has the line, by its first 120 characters."""
        return hit.path == self.path and self.text[:EVIDENCE_CHARS] in hit.snippet


@dataclass(frozen=True, slots=True)
class Question:
    """A question and all lines that answer it; `kind` groups questions of one set."""

    text: str
    evidence: tuple[Evidence, ...]
    kind: str = ""

    def right(self, hits: Sequence[Hit]) -> list[bool]:
        """Say of every hit whether its chunk has a line that answers."""
        return [any(line.is_covered(hit) for line in self.evidence) for hit in hits]


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of a set; `at_least` or `at_most` is what it should reach."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "of 1"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a set gave. `misses` are lines for people: questions that went wrong, in order."""

    figures: list[Measured]
    curve: list[CurvePoint] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QualitySet:
    """Notes by their path in the workspace, and how to measure a daemon that has them.

    `lasting` is false when the notes depend on the day: their index is not kept.
    """

    name: str
    notes: dict[str, str]
    measure: Callable[[Ask], Outcome]
    lasting: bool = True


def existing(file: Path) -> Path:
    """Return a file of a set. Raises `MissingSetError` when it isn't there."""
    if not file.is_file():
        raise MissingSetError(f"there is no {file}")
    return file
