"""Confidence: how probable it is that a result, or an answer as a whole, answers the query. Pure.

Logistic regression on the strength of the words and on the cosine; the higher value counts, so that
a vector that arrives never makes an answer less probable. `python -m bench quality calibrate` fits
the constants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memoryd.search.fuse import BEND, Candidate, strength_of_score
from memoryd_client.schema.search import Confidence


class Constants(NamedTuple):
    """Coefficients of the logits: by words, by the cosine, and of a result."""

    words_bias: float
    words: float
    cosine_bias: float
    cosine: float
    result_bias: float
    answer: float
    lead: float


FITTED = Constants(-7.13, 12.38, -5.99, 10.99, -2.11, 2.74, 2.97)
HIGH, MEDIUM, LOW = 0.85, 0.6, 0.3
"""Least probability, of an answer among the results, for each rating."""
LEAD_OFFSET = 0.3
"""Strength added to the divisor of the lead, so that weak evidence has no large lead."""
WIDE_LEAD = 0.2
"""Lead from which tanh flattens it."""
SURE_LOGIT = 2.0
"""Logit from which tanh flattens it."""


@dataclass(frozen=True, slots=True)
class Rating:
    """Confidence of an answer, and that of each of its results in order."""

    answer: Confidence
    results: tuple[float, ...]


def rate(shown: Sequence[Candidate], others: Sequence[Candidate] = ()) -> Rating:
    """Rate the results of an answer; `others` were found too, and some are not shown."""
    if not shown:
        return Rating(Confidence.NONE, ())
    logits = [logit_of_answer(c.words, c.cosine) for c in shown]
    rivals = shown if len(shown) > 1 else others
    ahead = leads([c.score for c in shown], [c.score for c in rivals if c.decay == 1.0])
    results = tuple(map(probability_of_result, logits, ahead))
    return Rating(level(probability(max(logits))), results)


def logit_of_answer(words: float, cosine: float | None, constants: Constants = FITTED) -> float:
    """Return the logit of the probability that evidence like this is that of an answer.

    `words` is the strength of the words, `cosine` on the bundled model's scale.
    """
    by_words = constants.words_bias + constants.words * math.tanh(words)
    if cosine is None:
        return by_words
    near = math.tanh(max(0.0, cosine) / BEND)
    return max(by_words, constants.cosine_bias + constants.cosine * near)


def probability(logit: float) -> float:
    """Return the probability of a logit."""
    return 1.0 / (1.0 + math.exp(-logit))


def leads(scores: Sequence[float], rivals: Sequence[float]) -> list[float]:
    """Return the lead of each score over the best rival that is not itself.

    An old result that gave way to a newer one is no rival of it, and not among `rivals`.
    """
    first, second = sorted([*map(strength_of_score, rivals), 0.0, 0.0], reverse=True)[:2]
    strengths = map(strength_of_score, scores)
    return [lead(own, second if own == first else first) for own in strengths]


def lead(strength: float, rival: float) -> float:
    """Return the lead of a result over the best other one, from -1 to 1."""
    return math.tanh((strength - rival) / (strength + LEAD_OFFSET) / WIDE_LEAD)


def probability_of_result(logit: float, lead: float, constants: Constants = FITTED) -> float:
    """Return the probability that this result answers, from the logit of its evidence."""
    sure = constants.answer * math.tanh(logit / SURE_LOGIT)
    return probability(constants.result_bias + sure + constants.lead * lead)


def level(probability: float) -> Confidence:
    """Return the rating for the probability of an answer among the results."""
    if probability >= HIGH:
        return Confidence.HIGH
    if probability >= MEDIUM:
        return Confidence.MEDIUM
    return Confidence.LOW if probability >= LOW else Confidence.NONE
