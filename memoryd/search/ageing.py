"""Age of results: an older one gives way to a newer one on the same subject. Pure."""

import datetime
import math
from collections.abc import Callable

from memoryd.messages import FileFacts, FileKey, FileStat
from memoryd.search.fuse import VERBATIM, Candidate, score_of
from memoryd.search.query import modified_on
from memoryd.text.periods import read_period

GIVES_WAY = 0.01
"""Share of its strength that an old chunk loses for each newer one on the same subject, so that the
oldest of three comes last."""
SAME_MEANING, SAME_STRING, NEARLY_AS_STRONG = 0.4, 0.1, 1.2
"""Conditions on a newer chunk that supersedes an older one: least share of its cosine, largest
loss in exactness of the verbatim string, and least ratio of the strengths, scaled by age."""


def ageing_date(
    key: FileKey, stat: FileStat, facts: FileFacts, *, notes: str
) -> datetime.date | None:
    """Return the day from which a file ages: its last one, or of a transcript its last change.

    A note without a date never ages.
    """
    if (own := read_period(facts.date)) is not None:
        return own.last
    return None if key.source == notes else modified_on(stat)


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
        return candidate._replace(score=candidate.unaged_score * decay, decay=decay)
    return candidate._replace(score=score_of(strength), decay=strength / candidate.strength)
