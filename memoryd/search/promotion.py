"""Score by which an entry of a dated note is a candidate for MEMORY.md. Pure.

The weights and gates are the reference's, without its two phases of dreaming.
"""

import math
from datetime import date
from typing import NamedTuple

from memoryd.index.recalls import RecalledEntry
from memoryd.text.tokenize import query_terms

DAY_S = 86_400.0
HALF_LIFE_DAYS = 14.0
"""Days since the last recall after which half of the recency is left."""
MANY_RECALLS, MANY_CONTEXTS, MANY_CONCEPTS = 10, 5, 6
"""Recalls, questions or days, and words from which more say no more."""
DAYS_SHARE, SPAN_SHARE = 0.55, 0.45
"""Shares of the number of days and of their span in the consolidation."""
ONE_DAY, MANY_DAYS, WEEK_DAYS = 0.2, 5, 7
LEAST_SCORE, LEAST_RECALLS, LEAST_QUESTIONS = 0.75, 3, 3
"""The gates. Each must be met."""


class Components(NamedTuple):
    """Parts of a score, each 0 to 1."""

    relevance: float
    frequency: float
    diversity: float
    recency: float
    consolidation: float
    concepts: float


WEIGHTS = Components(0.30, 0.24, 0.15, 0.15, 0.10, 0.06)


def components(entry: RecalledEntry, text: str, now: float) -> Components:
    """Return the parts of the score of an entry with a text, at a Unix time."""
    contexts = max(len(entry.questions), len(entry.days))
    age_days = max(0.0, now - entry.last_at) / DAY_S
    return Components(
        relevance=_within(entry.total / max(1, entry.recalls)),
        frequency=_within(math.log1p(entry.recalls) / math.log1p(MANY_RECALLS)),
        diversity=_within(contexts / MANY_CONTEXTS),
        recency=math.pow(0.5, age_days / HALF_LIFE_DAYS),
        consolidation=consolidation(entry.days),
        concepts=_within(len({term.text for term in query_terms(text)}) / MANY_CONCEPTS),
    )


def consolidation(days: tuple[str, ...]) -> float:
    """Return how well recalls are spread over days, given as `YYYY-MM-DD` in order."""
    if len(days) < 2:
        return ONE_DAY if days else 0.0
    span = (date.fromisoformat(days[-1]) - date.fromisoformat(days[0])).days
    number = math.log1p(len(days) - 1) / math.log1p(MANY_DAYS - 1)
    return _within(DAYS_SHARE * number + SPAN_SHARE * min(1.0, span / WEEK_DAYS))


def score_of(parts: Components) -> float:
    """Return the weighted sum of the parts."""
    return sum(weight * part for weight, part in zip(WEIGHTS, parts, strict=True))


def missed_gates(entry: RecalledEntry, score: float) -> list[str]:
    """Return the gates that an entry does not meet, in words."""
    missed: list[str] = []
    if score < LEAST_SCORE:
        missed.append(f"score {score:.2f} is below {LEAST_SCORE}")
    if entry.recalls < LEAST_RECALLS:
        missed.append(f"recalled {entry.recalls} of {LEAST_RECALLS} times")
    if len(entry.questions) < LEAST_QUESTIONS:
        missed.append(f"by {len(entry.questions)} of {LEAST_QUESTIONS} questions")
    return missed


def _within(value: float) -> float:
    return max(0.0, min(1.0, value))
