"""Ratings and probabilities of answers against what is right.

The daemon gives each result a probability (`Hit.confidence`) and the answer as a whole a word
(`SearchResult.confidence`). A daemon without them leaves these figures out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.quality.model import Measured
from bench.quality.scoring import area_under_roc, calibration_error, hit_at, mean
from memoryd_client.schema.search import Hit, SearchResult

MOST_SURE_WITHOUT_ANSWER = 0.05
LEAST_SURE_WITH_ANSWER, LEAST_SURE_ACROSS = 0.90, 0.80
"""Least shares of found answers that are rated `high` or `medium`, in one language and across."""
LEAST_AREA = 0.90
MOST_ERROR, MOST_ERROR_OF_ALL = 0.10, 0.06
ENOUGH_QUESTIONS = 200
"""Sets with fewer questions have no target for their calibration error."""
_SURE = ("high", "medium")


@dataclass(frozen=True, slots=True)
class Rated:
    """One answer: whether it is right, and how sure the daemon is.

    `first`: the first result is right; `found`: one of the first six is. `confidence` is that of
    the first result, 0.0 without any; None: the daemon does not tell. `across`: question and answer
    are in different languages. `hits` are all results, and `right` whether each is right.
    """

    answerable: bool
    first: bool
    found: bool
    rating: str
    confidence: float | None
    across: bool = False
    hits: tuple[Hit, ...] = ()
    right: tuple[bool, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Return whether the answer is rated `high` or `medium`."""
        return self.rating in _SURE


def rated(result: SearchResult, right: Sequence[bool], *, across: bool = False) -> Rated:
    """Return the rating of the answer to a question that has one; `right` has its results."""
    return Rated(
        answerable=True,
        first=bool(hit_at(1, right)),
        found=bool(hit_at(6, right)),
        rating=result.confidence,
        confidence=_confidence(result),
        across=across,
        hits=tuple(result.results),
        right=tuple(right),
    )


def rated_without_answer(result: SearchResult) -> Rated:
    """Return the rating of the answer to a question that has none."""
    return Rated(
        answerable=False,
        first=False,
        found=False,
        rating=result.confidence,
        confidence=_confidence(result),
        hits=tuple(result.results),
        right=(False,) * len(result.results),
    )


def rating_figures(answers: Sequence[Rated], *, paraphrased: bool = False) -> list[Measured]:
    """Return the figures of one set. Of paraphrased questions nobody asks that they are sure."""
    if not _is_told(answers):
        return []
    within = [a.is_sure for a in answers if a.found and not a.across]
    across = [a.is_sure for a in answers if a.found and a.across]
    unanswerable = [a.is_sure for a in answers if not a.answerable]
    figures: list[Measured] = []
    if within:
        least = None if paraphrased else LEAST_SURE_WITH_ANSWER
        figures.append(Measured("found, rated high or medium", mean(within), at_least=least))
    if across:
        least = None if paraphrased else LEAST_SURE_ACROSS
        name = "found across languages, rated high or medium"
        figures.append(Measured(name, mean(across), at_least=least))
    if unanswerable:
        figures.append(Measured("without an answer, rated high or medium", mean(unanswerable)))
    large = len(answers) >= ENOUGH_QUESTIONS
    return figures + _of_the_first(answers, None, MOST_ERROR if large else None)


def figures_of_all(answers: Sequence[Rated]) -> list[Measured]:
    """Return the figures of all sets together, a question weighing as much as any other."""
    return _of_the_first(answers, LEAST_AREA, MOST_ERROR_OF_ALL) if _is_told(answers) else []


def lost(answers: Sequence[Rated], without_cuts: Sequence[Rated]) -> float:
    """Return the share of the answers found without any cut that are not found with them."""
    pairs = zip(answers, without_cuts, strict=True)
    return mean(not one.found for one, other in pairs if other.found)


def _of_the_first(
    answers: Sequence[Rated], area: float | None, error: float | None
) -> list[Measured]:
    confidences = [answer.confidence or 0.0 for answer in answers]
    right = [answer.first for answer in answers]
    figures = []
    if any(right) and not all(right):
        value = area_under_roc(confidences, right)
        figures.append(Measured("area under the ROC curve", value, at_least=area))
    value = calibration_error(confidences, right)
    return [*figures, Measured("calibration error", value, at_most=error)]


def _is_told(answers: Sequence[Rated]) -> bool:
    return any(answer.rating for answer in answers)


def _confidence(result: SearchResult) -> float | None:
    return result.results[0].confidence if result.results else 0.0
