"""Scores of a ranking, as pure functions; ranks count from 1."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Half = Literal["tuned", "kept", "all"]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Cost of one `min_score`, as shares in [0, 1].

    `noise`: unanswerable questions with any result; `lost`: answerable ones whose answer is not
    returned; `lost_by_threshold`: of those whose answer is returned at the lowest `min_score`.
    """

    min_score: float
    noise: float
    lost: float
    lost_by_threshold: float


def half_of(items: Sequence[Item], half: Half) -> list[Item]:
    """Return the first, third, … item (`tuned`), the others (`kept`) or all of them."""
    return list(items[{"tuned": 0, "kept": 1, "all": 0}[half] :: 1 if half == "all" else 2])


def hit_at(k: int, right: Sequence[bool]) -> float:
    """Return 1.0 if one of the first k results is right, else 0.0."""
    return float(any(right[:k]))


def reciprocal_rank(right: Sequence[bool]) -> float:
    """Return one divided by the rank of the first right result, 0.0 if there is none."""
    return next((1.0 / rank for rank, is_right in enumerate(right, 1) if is_right), 0.0)


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return the normalised discounted cumulative gain of the first k documents, in [0, 1].

    The gain is the grade itself, discounted by log2(rank + 1), as trec_eval has it (Järvelin and
    Kekäläinen, 2002). Documents without a grade count 0. Without any relevant document: 0.0.
    """
    ideal = _dcg(sorted(grades.values(), reverse=True)[:k])
    return _dcg([grades.get(document, 0) for document in ranking[:k]]) / ideal if ideal else 0.0


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean, 0.0 for no values."""
    held = list(values)
    return math.fsum(held) / len(held) if held else 0.0


def curve(
    answered: Mapping[float, Sequence[bool]], noisy: Mapping[float, Sequence[bool]]
) -> list[CurvePoint]:
    """Return the cost of every `min_score`, lowest first.

    `answered` has, for each, whether the answerable questions got their answer, in one order;
    `noisy` whether the unanswerable ones got any result.
    """
    base = answered[min(answered)]
    findable = [position for position, found in enumerate(base) if found]
    return [
        CurvePoint(
            min_score=threshold,
            noise=mean(map(float, noisy[threshold])),
            lost=mean(float(not found) for found in answered[threshold]),
            lost_by_threshold=mean(float(not answered[threshold][i]) for i in findable),
        )
        for threshold in sorted(answered)
    ]


def quietest(points: Sequence[CurvePoint], *, max_lost: float) -> CurvePoint | None:
    """Return the point with the least noise whose threshold loses at most `max_lost`.

    Among equals, return the lowest `min_score`; None if every point loses more.
    """
    allowed = [point for point in points if point.lost_by_threshold <= max_lost]
    return min(allowed, key=lambda point: (point.noise, point.min_score), default=None)


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
