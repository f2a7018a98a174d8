"""Questions without an answer in the notes: how many get results, and the cost of silence."""

from bench.quality.model import Ask, Measured, Outcome, QualitySet, Question
from bench.quality.scoring import CurvePoint, curve, mean, quietest

THRESHOLDS = tuple(step / 20 for step in range(19))
"""Values of `min_score`: 0.0, 0.05 … 0.9."""
MAX_LOST = 0.03
MAX_NOISE = 0.1


def abstention(
    name: str, notes: dict[str, str], answerable: list[Question], unanswerable: list[str]
) -> QualitySet:
    """Return a set of questions that its notes answer and questions that they don't."""
    return QualitySet(name, notes, lambda ask: _measure(ask, answerable, unanswerable))


def _measure(ask: Ask, answerable: list[Question], unanswerable: list[str]) -> Outcome:
    found = [any(question.right(ask(question.text))) for question in answerable]
    noisy = [bool(ask(text)) for text in unanswerable]
    answered_at = {
        threshold: [
            any(question.right(ask(question.text, min_score=threshold))) for question in answerable
        ]
        for threshold in THRESHOLDS
    }
    noisy_at = {
        threshold: [bool(ask(text, min_score=threshold)) for text in unanswerable]
        for threshold in THRESHOLDS
    }
    points = curve(answered_at, noisy_at)
    findable = answered_at[THRESHOLDS[0]]
    lost = mean(float(not now) for now, ever in zip(found, findable, strict=True) if ever)
    figures = [
        Measured("noise returned", mean(map(float, noisy)), at_most=MAX_NOISE),
        Measured("answers lost to the threshold", lost, at_most=MAX_LOST),
        Measured("answers lost in all", mean(float(not each) for each in found)),
        *_best(quietest(points, max_lost=MAX_LOST)),
        Measured("questions", len(answerable) + len(unanswerable), unit=""),
    ]
    return Outcome(figures, points, _misses(answerable, found, unanswerable, noisy))


def _best(point: CurvePoint | None) -> list[Measured]:
    if point is None:
        return []
    return [
        Measured("least noise with ≤ 3% lost to the threshold", point.noise, at_most=MAX_NOISE),
        Measured("the min_score of that", point.min_score, unit=""),
    ]


def _misses(
    answerable: list[Question], found: list[bool], unanswerable: list[str], noisy: list[bool]
) -> list[str]:
    lost = [f"lost: {q.text}" for q, ok in zip(answerable, found, strict=True) if not ok]
    return lost + [f"noise: {t}" for t, any_hit in zip(unanswerable, noisy, strict=True) if any_hit]
