"""Combines what both legs say about a chunk into one score. Pure.

Two ways. `evidence`, the default, adds up what the words say (see `evidence`) and the cosine, on a
scale that is the same for every question: chosen by measurement, see docs/search.md. `weighted` is
the reference's formula.
"""

import datetime
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from memoryd.messages import FileKey, FileStat
from memoryd.search.evidence import NO_EVIDENCE, Evidence
from memoryd.search.query import date_in_name, modified_on


def dated(key: FileKey, stat: FileStat, *, notes: str) -> datetime.date | None:
    """Return the date that a file ages from: a note's own, a transcript's last change, or None."""
    if key.source == notes:
        return date_in_name(key.path)
    return modified_on(stat)


def factor(
    date: datetime.date, today: datetime.date, *, half_life_days: float, floor: float
) -> float:
    """Return what age leaves of something of this date; of tomorrow, all."""
    age_days = max(0, (today - date).days)
    return max(floor, math.pow(0.5, age_days / half_life_days))


BM25, COVERAGE, ADJACENCY, VERBATIM = 1.6, 0.6, 0.7, 1.5
VECTOR, BEND = 2.6, 0.4
"""A cosine counts up to `BEND`, as tanh: one of 0.7 says little more than one of 0.5."""
USUAL_LOW, USUAL_HIGH = 0.05, 0.35
"""Cosines of the bundled model, which all constants here were measured with, for unrelated texts
and for good answers: another model's are read on this scale, by its calibration."""
OTHER_SCRIPT = 2.2
"""Where question and chunk are in different scripts words hardly help: vectors count for both."""
TEXT_ALONE, VECTOR_ALONE = 2.0, 2.0
"""Likewise where only one leg can run, or a chunk has no vector yet."""
SURE_BY_TEXT, SURE_BY_VECTOR = 6.0, 1.4
"""By these for how sure the answer is. Without vectors, a chunk with one of a question's three
words may be all there is."""
HALF = 0.7
"""Of this strength, a score is ½."""
ENOUGH, ENOUGH_UNSPACED, STEEPNESS, SIGHT = 1.95, 1.4, 8, 2.0
"""An answer whose best chunk is weaker than `ENOUGH` is scaled down by that power: of questions
about nothing in the memory one in ten gets an answer over 0.35, and 2 in 100 answers are lost. For
that, cosines count by `SIGHT` more than for the order. In scripts without spaces less is enough:
half of a question's bigrams span two words, which an answer need not have in a row."""

GIVES_WAY = 0.01
"""For each newer note that says the same, so that of three the oldest is the last."""
SAME_MEANING, SAME_STRING, NEARLY_AS_STRONG = 0.4, 0.1, 1.2
"""What takes an older note's place has so much of its cosine, a string nearly as exactly, and still
more strength by that factor, when age has scaled both."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk with its scores in [0, 1]; a leg that did not find it gives None.

    `strength` orders; `relevance` says how sure the answer is. `decay` is what age has scaled the
    score by, and `settled` the score before, which the threshold looks at. `cosine` is on the usual
    scale.
    """

    row_id: int
    score: float
    vector_score: float | None
    text_score: float | None
    strength: float = 0.0
    relevance: float = 0.0
    settled: float = 0.0
    decay: float = 1.0
    cosine: float | None = None
    evidence: Evidence = NO_EVIDENCE


def by_evidence(
    row_id: int,
    evidence: Evidence | None,
    cosine: float | None,
    *,
    vector_score: float | None,
    other_script: bool,
) -> Candidate:
    """Return a chunk with its strength and relevance; `settled` makes scores of them.

    `evidence` is None where the keyword leg did not run, `cosine` where there is no vector.
    """
    words = NO_EVIDENCE if evidence is None else evidence
    said = (
        BM25 * words.bm25
        + COVERAGE * words.coverage
        + ADJACENCY * words.adjacency
        + VERBATIM * words.verbatim
    )
    seen = max(0.0, cosine or 0.0)
    by_meaning = OTHER_SCRIPT if other_script and evidence is not None else 1.0
    meaning = by_meaning * VECTOR * BEND * math.tanh(seen / BEND)
    strength = said + meaning
    relevance = strength + by_meaning * SIGHT * seen
    factor = sure = 1.0
    if evidence is None:
        factor, sure = VECTOR_ALONE, SURE_BY_VECTOR
    elif cosine is None:
        factor, sure = TEXT_ALONE, SURE_BY_TEXT
    return Candidate(
        row_id=row_id,
        score=0.0,
        vector_score=vector_score,
        text_score=None if evidence is None or not words.coverage else said / (1.0 + said),
        strength=strength * factor,
        relevance=relevance * sure,
        cosine=cosine,
        evidence=words,
    )


def settled(candidates: Iterable[Candidate], *, unspaced: bool) -> list[Candidate]:
    """Return the candidates of one answer with their scores, best first.

    How sure the answer is depends on its best chunk, so that the order is that of the strength.
    `unspaced`: the question is in a script without spaces.
    """
    enough = ENOUGH_UNSPACED if unspaced else ENOUGH
    found = list(candidates)
    best = max((c.relevance for c in found), default=0.0)
    sure = min(1.0, (max(0.0, best) / enough) ** STEEPNESS)
    scores = [c.strength / (c.strength + HALF) * sure for c in found]
    scored = [replace(c, score=s, settled=s) for c, s in zip(found, scores, strict=True)]
    scored.sort(key=lambda c: (-c.score, c.row_id))
    return scored


def usual_scale(calibrated: float) -> float:
    """Return a cosine as the bundled model would have given it; 0 is unrelated, 1 the same."""
    return USUAL_LOW + (USUAL_HIGH - USUAL_LOW) * calibrated


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
            score=score,
            vector_score=vector.get(row),
            text_score=text.get(row),
            settled=score,
        )
        for row in vector.keys() | text.keys()
        for score in (vector_weight * vector.get(row, 0.0) + text_weight * text.get(row, 0.0),)
    ]
    candidates.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return candidates


def aged(candidates: list[Candidate], left: Callable[[int], float | None]) -> list[Candidate]:
    """Return the candidates as age leaves them, best first.

    `left` returns what age leaves of something, by row; None for what has no date. With the
    reference's formula that scales the score. Else what is older gives way to what is newer and
    speaks of the same: to a note that still has more of the question's words when both shares are
    scaled by age. An old answer stays above new notes that have fewer of them, or not the string
    that was asked for.
    """
    fresh = {c.row_id: left(c.row_id) for c in candidates}
    dated = [(by, c) for c in candidates if (by := fresh[c.row_id]) is not None]
    dated.sort(key=lambda pair: -pair[0])
    now: dict[int, float] = {}
    for place, (by, candidate) in enumerate(dated):
        newer = [
            c
            for others, c in dated[:place]
            if others > by and _is_said_by(candidate, by, c, others)
        ]
        best = max((now[c.row_id] for c in newer), default=candidate.strength)
        now[candidate.row_id] = min(candidate.strength, best * (1 - GIVES_WAY) ** len(newer))
    scaled = [_with_age(c, fresh[c.row_id], now.get(c.row_id, c.strength)) for c in candidates]
    scaled.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return scaled


def _is_said_by(old: Candidate, left: float, new: Candidate, left_of_new: float) -> bool:
    """Say whether something newer speaks of what something older speaks of."""
    if old.evidence.string > new.evidence.string + SAME_STRING:
        return False
    words = new.evidence.coverage * left_of_new >= old.evidence.coverage * left
    strong = _without_luck(new) * left_of_new >= NEARLY_AS_STRONG * _without_luck(old) * left
    return words and strong and (new.cosine or 0.0) >= SAME_MEANING * (old.cosine or 0.0)


def _without_luck(candidate: Candidate) -> float:
    """Return the strength without what a short question's very words give: wording is no news."""
    evidence = candidate.evidence
    return candidate.strength - VERBATIM * (evidence.verbatim - evidence.string)


def _with_age(candidate: Candidate, left: float | None, strength: float) -> Candidate:
    if candidate.strength <= 0:  # by the reference's formula
        by = 1.0 if left is None else left
        return replace(candidate, score=candidate.settled * by, decay=by)
    # What stands before the fraction is how sure the answer is.
    sure = candidate.settled * (candidate.strength + HALF) / candidate.strength
    decay = strength / candidate.strength
    return replace(candidate, score=sure * strength / (strength + HALF), decay=decay)


def select(candidates: list[Candidate], *, min_score: float, max_results: int) -> list[Candidate]:
    """Keep what passes `min_score`, and fill free places with keyword hits below it.

    With the reference's formula, that is: a word that stands in a note is a reason to show it,
    though its score alone (0.3 at most, when vectors see nothing) would never pass. It never takes
    a better hit's place.
    """
    passed = [c for c in candidates if c.settled >= min_score]
    below = [c for c in candidates if c.settled < min_score and c.text_score is not None]
    below.sort(key=lambda c: (-(c.text_score or 0.0), c.row_id))
    return (passed + below)[:max_results]


def _normalised(vector_weight: float, text_weight: float) -> tuple[float, float]:
    vector_weight = min(1.0, max(0.0, vector_weight))
    text_weight = min(1.0, max(0.0, text_weight))
    total = vector_weight + text_weight
    return (vector_weight / total, text_weight / total) if total > 0 else (0.7, 0.3)
