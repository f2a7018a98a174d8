"""Model of a set that a program makes."""

from dataclasses import dataclass

from bench.quality.model import Question


@dataclass(frozen=True, slots=True)
class Made:
    """Notes by path, and questions about them.

    Questions of one kind follow each other, an even number of each, so that halves have as many.
    """

    notes: dict[str, str]
    questions: list[Question]
