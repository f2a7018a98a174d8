"""Age of results: an older one gives way to a newer one on the same subject. Pure."""

import datetime
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from memoryd.search.fuse import VERBATIM, Candidate, score_of
from memoryd.text.periods import read_period

REMEMBERED_DATES = 256
"""Dates of files whose ages are kept, 90 KB: a search needs those of all its candidates."""
GIVES_WAY = 0.01
"""Share of its strength that an old chunk loses for each newer one on the same subject, so that the
oldest of three comes last."""
SAME_MEANING, SAME_STRING, NEARLY_AS_STRONG = 0.4, 0.1, 1.2
"""Conditions on a newer chunk that supersedes an older one: least share of its cosine, largest
loss in exactness of the verbatim string, and least ratio of the strengths, scaled by age."""


Age = tuple[datetime.date, float]
"""The day from which a file ages, its last one, and the share of its strength that it keeps."""


@lru_cache(maxsize=REMEMBERED_DATES)
def age_of(dates: str, today: datetime.date, half_life_days: float, floor: float) -> Age | None:
    """Return the age of a file by its day, or its first and last one; None if it has none."""
    if (own := read_period(dates)) is None:
        return None
    return own.last, age_factor(own.last, today, half_life_days, floor)


def age_factor(
    date: datetime.date, today: datetime.date, half_life_days: float, floor: float
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
    shares = {c.row_id: share for c in candidates if (share := retention(c.row_id)) is not None}
    strengths = _yielded(candidates, shares) if len(set(shares.values())) > 1 else {}
    scaled = [
        c
        if c.strength > 0 and c.row_id not in strengths
        else _with_age(c, shares.get(c.row_id), strengths.get(c.row_id, c.strength))
        for c in candidates
    ]
    scaled.sort(key=lambda c: (-c.score, -(c.text_score or 0.0), c.row_id))
    return scaled


def _yielded(candidates: list[Candidate], shares: Mapping[int, float]) -> dict[int, float]:
    """Return the strengths that are left of the chunks that yield to newer ones."""
    dated = [_dated(c, shares[c.row_id]) for c in candidates if c.row_id in shares]
    dated.sort(key=lambda each: -each.share)
    strengths: dict[int, float] = {}
    as_new = 0  # the first one that is as old
    for at, old in enumerate(dated):
        if dated[as_new].share != old.share:
            as_new = at
        if newer := _superseding(old, dated[:as_new]):
            best = max(strengths.get(new.row_id, new.strength) for new in newer)
            yielded = best * (1 - GIVES_WAY) ** len(newer)
            if yielded < old.strength:
                strengths[old.row_id] = yielded
    return strengths


class _Dated(NamedTuple):
    """A candidate with a date.

    `coverage` and `remaining` are what age leaves of its coverage and strength, and `least` is what
    must remain of the strength of a newer one that supersedes it.
    """

    row_id: int
    share: float
    strength: float
    string: float
    coverage: float
    remaining: float
    least: float
    cosine: float


def _dated(candidate: Candidate, share: float) -> _Dated:
    evidence, strength = candidate.evidence, _without_wording(candidate)
    return _Dated(
        candidate.row_id,
        share,
        candidate.strength,
        evidence.string,
        evidence.coverage * share,
        strength * share,
        NEARLY_AS_STRONG * strength * share,
        candidate.cosine or 0.0,
    )


def _superseding(old: _Dated, newer: list[_Dated]) -> list[_Dated]:
    """Return those of the newer chunks that cover the subject of an older one."""
    least, coverage, string = old.least, old.coverage, old.string
    nearest = SAME_MEANING * old.cosine
    return [
        new
        for new in newer
        if new.remaining >= least
        and new.coverage >= coverage
        and string <= new.string + SAME_STRING
        and new.cosine >= nearest
    ]


def _without_wording(candidate: Candidate) -> float:
    """Return the strength without the bonus for the exact wording of a short query."""
    evidence = candidate.evidence
    return candidate.strength - VERBATIM * (evidence.verbatim - evidence.string)


def _with_age(candidate: Candidate, share: float | None, strength: float) -> Candidate:
    if candidate.strength <= 0:  # the reference's formula
        decay = 1.0 if share is None else share
        return candidate._replace(score=candidate.unaged_score * decay, decay=decay)
    if strength == candidate.strength:
        return candidate
    return candidate._replace(score=score_of(strength), decay=strength / candidate.strength)
