"""Fusion of keyword evidence and cosines into one score. Pure.

`evidence`, the default, adds the evidence (see `evidence.py`) and the cosine, on a scale that is
the same for every query; docs/search.md has the measurements. `weighted` is the reference's
formula.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from memoryd.search.evidence import NO_EVIDENCE, Evidence

BM25, COVERAGE, ADJACENCY, VERBATIM = 1.6, 0.6, 0.7, 1.5
"""Weights of the evidence in the strength."""
TITLE = 2.0
"""Weight of a title that the question consists of: no other chunk comes before."""
VECTOR, BEND = 2.6, 0.4
"""Weight of the cosine; tanh flattens it from `BEND`: 0.7 says little more than 0.5."""
USUAL_LOW, USUAL_HIGH = 0.05, 0.35
"""Cosines of unrelated texts and of good answers with the bundled model, on which all constants
here were measured; the calibration of other models maps theirs to this scale."""
SHARED = 0.4
"""Share of the query's words, by weight, that keeps a result however strong the best one is."""
HALF = 0.7
"""The strength that maps to a score of 0.5."""


class Candidate(NamedTuple):
    """A chunk with its scores in [0, 1]; None for a retriever that did not find it.

    `strength` determines the order; `words` is the words' part of it. `unaged_score` is the score
    before age, to which the threshold applies; age scaled it by `decay`. `cosine` is on the scale
    of the bundled model.
    """

    row_id: int
    score: float
    vector_score: float | None
    text_score: float | None
    strength: float = 0.0
    words: float = 0.0
    unaged_score: float = 0.0
    decay: float = 1.0
    cosine: float | None = None
    evidence: Evidence = NO_EVIDENCE


_candidate = partial(tuple.__new__, Candidate)
"""Makes a candidate of a tuple, in half the time."""


def usual_scale(calibrated: float) -> float:
    """Map a calibrated cosine, 0 for unrelated and 1 for equal, to the bundled model's scale."""
    return USUAL_LOW + (USUAL_HIGH - USUAL_LOW) * calibrated


def strength_of_words(evidence: Evidence) -> float:
    """Return the words' part of the strength."""
    bm25, coverage, adjacency, verbatim, _, title = evidence
    return (
        BM25 * bm25
        + COVERAGE * coverage
        + ADJACENCY * adjacency
        + VERBATIM * verbatim
        + TITLE * title
    )


def strength_of(words: float, cosine: float | None) -> float:
    """Return the strength of a chunk; a cosine never lowers it, None counts as 0."""
    if cosine is None or cosine <= 0.0:
        return words
    return words + VECTOR * BEND * math.tanh(cosine / BEND)


def promised_strength(bm25: float, cosine: float | None) -> float:
    """Return about the strength of a chunk before its evidence is known.

    `bm25` is SQLite's, as a share of that of a chunk with all words.
    """
    words = (BM25 + COVERAGE) * bm25
    if cosine is None or cosine <= 0.0:
        return words
    return words + VECTOR * BEND * math.tanh(cosine / BEND)


def by_evidence(
    row_id: int, evidence: Evidence | None, cosine: float | None, *, vector_score: float | None
) -> Candidate:
    """Return a chunk with its strength and score.

    `evidence` is None if the keyword retriever did not run, `cosine` if there is no vector.
    """
    found = NO_EVIDENCE if evidence is None else evidence
    words = strength_of_words(found)
    strength = strength_of(words, cosine)
    score = score_of(strength)
    text_score = words / (1.0 + words) if found.coverage else None
    return _candidate(
        (row_id, score, vector_score, text_score, strength, words, score, 1.0, cosine, found)
    )


def score_of(strength: float) -> float:
    """Map a strength to [0, 1)."""
    return strength / (strength + HALF)


def strength_of_score(score: float) -> float:
    """Return the strength that `score_of` maps to a score; one of 1 counts as 0.99."""
    score = min(score, 0.99)
    return HALF * score / (1.0 - score)


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates, best first; the row decides ties."""
    return sorted(candidates, key=lambda c: (-c.score, c.row_id))


def without_weak(candidates: list[Candidate], share: float) -> list[Candidate]:
    """Return those with at least this share of the highest strength, or `SHARED` of the words."""
    least = share * max((c.strength for c in candidates), default=0.0)
    return [
        c
        for c in candidates
        if c.strength > 0 and (c.strength >= least or c.evidence.coverage >= SHARED)
    ]


def text_score(bm25: float) -> float:
    """Map SQLite's bm25(), which is negative and lower for better, monotonically to [0, 1)."""
    relevance = max(0.0, -bm25)
    return relevance / (1.0 + relevance)


def weighted(
    vector: dict[int, float], text: dict[int, float], *, vector_weight: float, text_weight: float
) -> list[Candidate]:
    """Return all candidates by the reference's formula, best first.

    `vector` and `text` map row ids to scores in [0, 1]. The score is their weighted mean; a missing
    one counts 0. Weights are clamped to [0, 1] and normalized to a sum of 1 (0.7 and 0.3 if both
    are 0). The text score, then the row, decides ties, so the order is deterministic.
    """
    vector_weight, text_weight = _normalised(vector_weight, text_weight)
    candidates = [
        Candidate(
            row_id=row,
            score=score,
            vector_score=vector.get(row),
            text_score=text.get(row),
            unaged_score=score,
        )
        for row in vector.keys() | text.keys()
        for score in (vector_weight * vector.get(row, 0.0) + text_weight * text.get(row, 0.0),)
    ]
    candidates.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return candidates


def select(candidates: list[Candidate], *, min_score: float, max_results: int) -> list[Candidate]:
    """Return results with at least `min_score`, then keyword results below it in free places.

    For the reference's formula: a result that only has the query's words scores 0.3 at most, and
    would never pass. It never takes the place of a better result.
    """
    passed = [c for c in candidates if c.unaged_score >= min_score]
    below = [c for c in candidates if c.unaged_score < min_score and c.text_score is not None]
    below.sort(key=lambda c: (-(c.text_score or 0.0), c.row_id))
    return (passed + below)[:max_results]


def _normalised(vector_weight: float, text_weight: float) -> tuple[float, float]:
    vector_weight = min(1.0, max(0.0, vector_weight))
    text_weight = min(1.0, max(0.0, text_weight))
    total = vector_weight + text_weight
    return (vector_weight / total, text_weight / total) if total > 0 else (0.7, 0.3)
