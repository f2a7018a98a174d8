"""Scores of a ranking, as pure functions; ranks count from 1."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeVar

Half = Literal["tuned", "kept", "all"]
Item = TypeVar("Item")


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


def area_under_roc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """Return the probability that a right item has a higher score than a wrong one.

    Equal scores count half (Mann and Whitney, 1947). Raises `ValueError` if all items are right, or
    none is.
    """
    positives = sum(right)
    negatives = len(right) - positives
    if not positives or not negatives:
        raise ValueError("the area needs right and wrong items")
    rank_sum, before = 0.0, 0
    ranked = sorted(zip(scores, right, strict=True), key=itemgetter(0))
    for _, group in groupby(ranked, key=itemgetter(0)):
        equal = [is_right for _, is_right in group]
        rank_sum += sum(equal) * (before + (len(equal) + 1) / 2)
        before += len(equal)
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def calibration_error(
    probabilities: Sequence[float], right: Sequence[bool], *, bins: int = 5
) -> float:
    """Return how far the probabilities are from the share that is right, on average, in [0, 1].

    The items, by probability, are cut into bins of equal size; each bin's mean probability is
    compared with its share of right items (Nguyen and O'Connor, 2015). No items: 0.0.
    """
    ranked = sorted(zip(probabilities, right, strict=True), key=itemgetter(0))
    count = len(ranked)
    total = 0.0
    for number in range(bins):
        held = ranked[number * count // bins : (number + 1) * count // bins]
        total += abs(math.fsum(p for p, _ in held) - sum(r for _, r in held))
    return total / count if count else 0.0


def _dcg(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
