"""Fusion of keyword evidence and cosines into one score; ageing. Pure.

`evidence`, the default, adds the evidence (see `evidence.py`) and the cosine, on a scale that is
the same for every query; docs/search.md has the measurements. `weighted` is the reference's
formula. The age of a file lowers the score in both.
"""

import datetime
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from memoryd.messages import FileKey, FileStat
from memoryd.search.evidence import NO_EVIDENCE, Evidence
from memoryd.search.query import date_in_name, modified_on

BM25, COVERAGE, ADJACENCY, VERBATIM = 1.6, 0.6, 0.7, 1.5
"""Weights of the evidence in the strength."""
TITLE = 2.0
"""Weight of a title that the question consists of: no other chunk comes before."""
VECTOR, BEND = 2.6, 0.4
"""Weight of the cosine; tanh flattens it from `BEND`: 0.7 says little more than 0.5."""
USUAL_LOW, USUAL_HIGH = 0.05, 0.35
"""Cosines of unrelated texts and of good answers with the bundled model, on which all constants
here were measured; the calibration of other models maps theirs to this scale."""
OTHER_SCRIPT = 2.2
"""Factor on the cosine if query and chunk are in different scripts, where keywords hardly help."""
TEXT_ALONE, VECTOR_ALONE = 2.0, 2.0
"""Factor on the strength if one retriever can't run, or a chunk has no vector yet."""
SURE_BY_TEXT, SURE_BY_VECTOR = 6.0, 1.4
"""The same for the relevance. Without vectors, a chunk that has one of a query's three words may be
the only answer."""
HALF = 0.7
"""The strength that maps to a score of 0.5."""
ENOUGH, ENOUGH_UNSPACED, STEEPNESS, SIGHT = 1.95, 1.4, 8, 2.0
"""If the best relevance is below `ENOUGH`, their ratio to the power of `STEEPNESS` scales all
scores: one in ten queries without an answer gets a score over 0.35, and 2 of 100 answers are lost.
The relevance counts cosines by `SIGHT` more than the strength. Scripts without spaces need less,
because half of a query's bigrams span two words, which need not be adjacent in an answer."""

GIVES_WAY = 0.01
"""Share of its strength that an old chunk loses for each newer one on the same subject, so that the
oldest of three comes last."""
SAME_MEANING, SAME_STRING, NEARLY_AS_STRONG = 0.4, 0.1, 1.2
"""Conditions on a newer chunk that supersedes an older one: least share of its cosine, largest
loss in exactness of the verbatim string, and least ratio of the strengths, scaled by age."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with its scores in [0, 1]; None for a retriever that did not find it.

    `strength` determines the order, `relevance` how certain the answer is. `unaged_score` is the
    score before age, to which the threshold applies; age scaled it by `decay`. `cosine` is on the
    scale of the bundled model.
    """

    row_id: int
    score: float
    vector_score: float | None
    text_score: float | None
    strength: float = 0.0
    relevance: float = 0.0
    unaged_score: float = 0.0
    decay: float = 1.0
    cosine: float | None = None
    evidence: Evidence = NO_EVIDENCE


def usual_scale(calibrated: float) -> float:
    """Map a calibrated cosine, 0 for unrelated and 1 for equal, to the bundled model's scale."""
    return USUAL_LOW + (USUAL_HIGH - USUAL_LOW) * calibrated


def by_evidence(
    row_id: int,
    evidence: Evidence | None,
    cosine: float | None,
    *,
    vector_score: float | None,
    other_script: bool,
) -> Candidate:
    """Return a chunk with its strength and relevance; `with_scores` adds the scores.

    `evidence` is None if the keyword retriever did not run, `cosine` if there is no vector.
    """
    words = NO_EVIDENCE if evidence is None else evidence
    by_words = (
        BM25 * words.bm25
        + COVERAGE * words.coverage
        + ADJACENCY * words.adjacency
        + VERBATIM * words.verbatim
        + TITLE * words.title
    )
    near = max(0.0, cosine or 0.0)
    boost = OTHER_SCRIPT if other_script and evidence is not None else 1.0
    by_vector = boost * VECTOR * BEND * math.tanh(near / BEND)
    strength = by_words + by_vector
    relevance = strength + boost * SIGHT * near
    factor = sure = 1.0
    if evidence is None:
        factor, sure = VECTOR_ALONE, SURE_BY_VECTOR
    elif cosine is None:
        factor, sure = TEXT_ALONE, SURE_BY_TEXT
    return Candidate(
        row_id=row_id,
        score=0.0,
        vector_score=vector_score,
        text_score=None if evidence is None or not words.coverage else by_words / (1.0 + by_words),
        strength=strength * factor,
        relevance=relevance * sure,
        cosine=cosine,
        evidence=words,
    )


def with_scores(candidates: Iterable[Candidate], *, unspaced: bool) -> list[Candidate]:
    """Return the candidates of one answer with their scores, best first.

    The certainty of the answer is that of its best chunk, so the strength determines the order.
    `unspaced`: the query is in a script without spaces.
    """
    enough = ENOUGH_UNSPACED if unspaced else ENOUGH
    found = list(candidates)
    best = max((c.relevance for c in found), default=0.0)
    sure = min(1.0, (max(0.0, best) / enough) ** STEEPNESS)
    scores = [c.strength / (c.strength + HALF) * sure for c in found]
    scored = [replace(c, score=s, unaged_score=s) for c, s in zip(found, scores, strict=True)]
    scored.sort(key=lambda c: (-c.score, c.row_id))
    return scored


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


def ageing_date(key: FileKey, stat: FileStat, *, notes: str) -> datetime.date | None:
    """Return the date from which a file ages: in a note's name, or a transcript's last change."""
    if key.source == notes:
        return date_in_name(key.path)
    return modified_on(stat)


def age_factor(
    date: datetime.date, today: datetime.date, *, half_life_days: float, floor: float
) -> float:
    """Return the share of its strength that a file of this date keeps; 1 for future dates."""
    age_days = max(0, (today - date).days)
    return max(floor, math.pow(0.5, age_days / half_life_days))


def aged(candidates: list[Candidate], retention: Callable[[int], float | None]) -> list[Candidate]:
    """Return the candidates with their scores after age, best first.

    `retention` returns the share of a row's strength that age leaves; None: no date. In the
    reference's formula it scales the score. Otherwise an older chunk yields to a newer one on the
    same subject that matches the query as well when both are scaled by age; an exact old answer
    stays above newer notes that match fewer of the query's words, or not its verbatim string.
    """
    retained = {c.row_id: retention(c.row_id) for c in candidates}
    dated = [(share, c) for c in candidates if (share := retained[c.row_id]) is not None]
    dated.sort(key=lambda pair: -pair[0])
    strengths: dict[int, float] = {}
    for place, (share, candidate) in enumerate(dated):
        newer = [
            c
            for newer_share, c in dated[:place]
            if newer_share > share and _is_superseded_by(candidate, share, c, newer_share)
        ]
        best = max((strengths[c.row_id] for c in newer), default=candidate.strength)
        yielded = best * (1 - GIVES_WAY) ** len(newer)
        strengths[candidate.row_id] = min(candidate.strength, yielded)
    scaled = [
        _with_age(c, retained[c.row_id], strengths.get(c.row_id, c.strength)) for c in candidates
    ]
    scaled.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return scaled


def _is_superseded_by(old: Candidate, old_share: float, new: Candidate, new_share: float) -> bool:
    """Return whether a newer chunk covers the subject of an older one."""
    if old.evidence.string > new.evidence.string + SAME_STRING:
        return False
    words = new.evidence.coverage * new_share >= old.evidence.coverage * old_share
    least = NEARLY_AS_STRONG * _without_wording(old) * old_share
    strong = _without_wording(new) * new_share >= least
    return words and strong and (new.cosine or 0.0) >= SAME_MEANING * (old.cosine or 0.0)


def _without_wording(candidate: Candidate) -> float:
    """Return the strength without the bonus for the exact wording of a short query."""
    evidence = candidate.evidence
    return candidate.strength - VERBATIM * (evidence.verbatim - evidence.string)


def _with_age(candidate: Candidate, share: float | None, strength: float) -> Candidate:
    if candidate.strength <= 0:  # the reference's formula
        decay = 1.0 if share is None else share
        return replace(candidate, score=candidate.unaged_score * decay, decay=decay)
    # The factor before the fraction, `sure` of `with_scores`, is not affected by age.
    sure = candidate.unaged_score * (candidate.strength + HALF) / candidate.strength
    decay = strength / candidate.strength
    return replace(candidate, score=sure * strength / (strength + HALF), decay=decay)
