"""Confidence: how probable it is that a result, or an answer as a whole, answers the query. Pure.

Words and meaning are two kinds of evidence whose odds add up, so that a vector that arrives never
makes an answer less probable. `python -m bench quality calibrate` fits the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.search.fuse import BEND, Candidate, strength_of
from memoryd_client.schema.memory import Confidence


class Constants(NamedTuple):
    """Logarithms of odds. `words` and `cosine` multiply figures from 0 to 1, see `odds`."""

    words_bias: float
    words: float
    meaning_bias: float
    cosine: float
    result_bias: float
    answer: float
    lead: float


FITTED = Constants(-4.53, 9.87, -9.7, 17.0, -1.96, 2.08, 4.14)
HIGH, MEDIUM, LOW = 0.8, 0.4, 0.1
"""Least probability, of an answer among the results, for each rating."""
LEAD_OFFSET = 0.3
"""Strength added to the divisor of the lead, so that weak evidence has no large lead."""
WIDE_LEAD = 0.2
"""Lead from which tanh flattens it."""
SURE_LOG_ODDS = 2.0
"""Logarithm of odds from which tanh flattens it."""


@dataclass(frozen=True, slots=True)
class Rating:
    """Confidence of an answer, and that of each of its results in order."""

    answer: Confidence
    results: tuple[float, ...]


def rate(shown: Sequence[Candidate], others: Sequence[Candidate] = ()) -> Rating:
    """Rate the results of an answer; `others` were found and are not shown."""
    if not shown:
        return Rating(Confidence.NONE, ())
    each = [odds(c.words, c.cosine) for c in shown]
    strengths = [_standing(c) for c in shown]
    rivals = strengths if len(shown) > 1 else [*strengths, *(_standing(c) for c in others)]
    first, second = sorted([*rivals, 0.0], reverse=True)[:2]
    leads = [lead(s, second if s == first else first) for s in strengths]
    return Rating(level(probability(max(each))), tuple(map(probability_of_result, each, leads)))


def odds(words: float, cosine: float | None, constants: Constants = FITTED) -> float:
    """Return the odds that a result's own evidence is that of an answer.

    `words` is its strength of words, `cosine` that on the bundled model's scale.
    """
    by_words = math.exp(constants.words_bias + constants.words * math.tanh(words))
    near = math.tanh(max(0.0, cosine or 0.0) / BEND)
    by_meaning = math.exp(constants.meaning_bias + constants.cosine * near) if near else 0.0
    return by_words + by_meaning


def probability(of: float) -> float:
    """Return the probability for odds."""
    return of / (1.0 + of)


def lead(strength: float, rival: float) -> float:
    """Return the lead of a result over the best other one, from -1 to 1."""
    return math.tanh((strength - rival) / (strength + LEAD_OFFSET) / WIDE_LEAD)


def probability_of_result(of: float, lead: float, constants: Constants = FITTED) -> float:
    """Return the probability that this result answers, from its odds and its lead."""
    sure = math.tanh(math.log(of) / SURE_LOG_ODDS)
    logit = constants.result_bias + constants.answer * sure + constants.lead * lead
    return 1.0 / (1.0 + math.exp(-logit))


def level(probability: float) -> Confidence:
    """Return the rating for the probability of an answer among the results."""
    if probability >= HIGH:
        return Confidence.HIGH
    if probability >= MEDIUM:
        return Confidence.MEDIUM
    return Confidence.LOW if probability >= LOW else Confidence.NONE


def _standing(candidate: Candidate) -> float:
    return strength_of(candidate.words, candidate.cosine) * candidate.decay
