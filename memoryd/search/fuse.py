"""Combines the two legs into one ranking. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with its scores in [0, 1]; a leg that did not find it gives None."""

    row_id: int
    score: float
    vector_score: float | None
    text_score: float | None


def text_score(bm25: float) -> float:
    """Map SQLite's bm25(), which is negative and lower for better, monotonically to [0, 1)."""
    relevance = max(0.0, -bm25)
    return relevance / (1.0 + relevance)


def weighted(
    vector: dict[int, float], text: dict[int, float], *, vector_weight: float, text_weight: float
) -> list[Candidate]:
    """Return all candidates by the reference's formula, best first.

    `vector` and `text` map row ids to scores in [0, 1]. The score is the weighted mean, a missing
    leg counting 0; weights are clamped to [0, 1] and normalised to a sum of 1 (0.7 and 0.3 if both
    are 0). Ties go by text score and then by row, so that the order is always the same.
    """
    vector_weight, text_weight = _normalised(vector_weight, text_weight)
    candidates = [
        Candidate(
            row_id=row,
            score=vector_weight * vector.get(row, 0.0) + text_weight * text.get(row, 0.0),
            vector_score=vector.get(row),
            text_score=text.get(row),
        )
        for row in vector.keys() | text.keys()
    ]
    candidates.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return candidates


def select(candidates: list[Candidate], *, min_score: float, max_results: int) -> list[Candidate]:
    """Keep what passes `min_score`, and fill free places with keyword hits below it.

    A word that stands in a note is a reason to show it, though its weighted score alone (0.3 at
    most, when vectors see nothing) would never pass. It never takes a better hit's place.
    """
    passed = [c for c in candidates if c.score >= min_score]
    below = [c for c in candidates if c.score < min_score and c.text_score is not None]
    below.sort(key=lambda c: (-(c.text_score or 0.0), c.row_id))
    return (passed + below)[:max_results]


def _normalised(vector_weight: float, text_weight: float) -> tuple[float, float]:
    vector_weight = min(1.0, max(0.0, vector_weight))
    text_weight = min(1.0, max(0.0, text_weight))
    total = vector_weight + text_weight
    return (vector_weight / total, text_weight / total) if total > 0 else (0.7, 0.3)
