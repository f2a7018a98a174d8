"""Fits the constants of `memoryd/search/confidence.py` to the answers of all sets.

Each set weighs the same, and each question counts twice: with both retrievers, and with keywords
alone. Prints the constants, and for both halves of the questions what they are worth.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.quality.model import MissingSetError
from bench.quality.rating import Rated
from bench.quality.runner import WITHOUT_CUTS, Run
from bench.quality.scoring import area_under_roc, calibration_error, mean
from bench.quality.workspace import answering
from memoryd.search.confidence import (
    FITTED,
    MEDIUM,
    Constants,
    lead,
    odds,
    probability,
    probability_of_result,
)
from memoryd.search.fuse import strength_of

PARAPHRASED = frozenset({"paraphrase", "abstention"})
"""Sets that are left out: the bundled model gives their answers the cosines of noise."""
STEPS, STEP, TOLERANCE = 800, 0.05, 1e-4
"""Steps of the minimization (Adam: Kingma and Ba, 2015), their size, and that of a difference."""
Numbers = NDArray[np.float64]


class Example(NamedTuple):
    """One result of an answer: the figures that it was rated by, and whether it is right."""

    words: float
    cosine: float | None
    lead: float
    right: bool


class Answer(NamedTuple):
    """The results of a question. `weight`: the questions of a set weigh 1 together."""

    set_name: str
    weight: float
    found: bool
    across: bool
    answerable: bool
    hybrid: bool
    kept: bool
    results: tuple[Example, ...]


def calibrate(run: Run, names: Sequence[str]) -> None:
    """Ask all questions of these sets, fit the constants, and print them."""
    answers: list[Answer] = []
    for name in names:
        if name in PARAPHRASED:
            continue
        try:
            chosen = run.load(name)
        except MissingSetError as error:
            run.report.note(f"skipping {name}: {error}")
            continue
        run.report.note(f"{name} ...")
        cache = run.cache if chosen.lasting else None
        with answering(chosen.notes, run.settings | WITHOUT_CUTS, cache) as ask:
            hybrid = chosen.measure(ask).rated
            answers += _answers(name, hybrid, hybrid=True)
            keyword = chosen.measure(partial(ask, mode="keyword")).rated
            answers += _answers(name, keyword, hybrid=False)
    tuned = fit([answer for answer in answers if not answer.kept])
    print(f"FITTED = Constants({', '.join(f'{value:.2f}' for value in tuned)})")
    for title, constants in (("fitted", tuned), ("in use", FITTED)):
        print(f"\n{title}:")
        print("\n".join(_lines(answers, constants)))


def fit(answers: Sequence[Answer]) -> Constants:
    """Return the constants of the highest likelihood."""
    some = [answer for answer in answers if answer.results]
    weights = np.array([answer.weight for answer in some])
    found = np.array([answer.found for answer in some], dtype=float)
    figures = [[(e.words, e.cosine) for e in answer.results] for answer in some]

    def loss_of_answers(values: Numbers) -> float:
        constants = _of_answers(values)
        chances = [max(odds(w, c, constants) for w, c in of) for of in figures]
        return _loss(chances, found, weights)

    first = minimize(loss_of_answers, FITTED[:4])
    of_answers = _of_answers(first)
    examples = [(answer.weight, answer.results[0]) for answer in some]
    right = np.array([example.right for _, example in examples], dtype=float)
    sure = [odds(example.words, example.cosine, of_answers) for _, example in examples]

    def loss_of_results(values: Numbers) -> float:
        result_bias, answer, ahead = values
        constants = of_answers._replace(result_bias=result_bias, answer=answer, lead=ahead)
        chances = [
            probability_of_result(of, example.lead, constants)
            for of, (_, example) in zip(sure, examples, strict=True)
        ]
        return _loss([p / (1 - p) for p in chances], right, weights)

    result_bias, answer, ahead = minimize(loss_of_results, FITTED[4:])
    return of_answers._replace(result_bias=result_bias, answer=answer, lead=ahead)


def _of_answers(values: Sequence[float] | Numbers) -> Constants:
    words_bias, words, meaning_bias, cosine = values
    return Constants(words_bias, words, meaning_bias, cosine, 0.0, 0.0, 0.0)


def minimize(loss: Callable[[Numbers], float], start: Iterable[float]) -> tuple[float, ...]:
    """Return the values with the least loss, by gradient descent."""
    values = np.array(list(start))
    momentum, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(1, STEPS + 1):
        gradient = np.array(
            [
                (loss(values + by) - loss(values - by)) / (2 * TOLERANCE)
                for by in np.eye(len(values)) * TOLERANCE
            ]
        )
        momentum = 0.9 * momentum + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        size = STEP * (1.0 if step < STEPS / 2 else 0.1)
        change = momentum / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        values = values - size * change
    return tuple(float(value) for value in values)


def _loss(odds_of: Sequence[float], right: Numbers, weights: Numbers) -> float:
    chance = np.clip(np.array(odds_of) / (1 + np.array(odds_of)), 1e-9, 1 - 1e-9)
    surprise = right * np.log(chance) + (1 - right) * np.log(1 - chance)
    return float(-(weights * surprise).sum())


def _answers(name: str, rated: Sequence[Rated], *, hybrid: bool) -> list[Answer]:
    weight = 1.0 / len(rated)
    return [
        Answer(
            name,
            weight,
            one.found,
            one.across,
            one.answerable,
            hybrid,
            number % 2 == 1,
            tuple(_examples(one)),
        )
        for number, one in enumerate(rated)
        # Keywords alone can't answer across languages: no figure of words says so.
        if hybrid or not one.across
    ]


def _examples(one: Rated) -> list[Example]:
    figures = []
    for hit in one.hits:
        explained = hit.explanation
        if explained is None:
            raise ValueError("the daemon explains no results")
        words = explained.strength - strength_of(0.0, explained.cosine)
        figures.append((words, explained.cosine, explained.strength * explained.decay))
    strengths = [strength for _, _, strength in figures]
    best = sorted([*strengths, 0.0, 0.0], reverse=True)[:2]
    return [
        Example(words, cosine, lead(strength, best[1] if strength == best[0] else best[0]), right)
        for (words, cosine, strength), right in zip(figures, one.right, strict=False)
    ]


def _lines(answers: Sequence[Answer], constants: Constants) -> list[str]:
    lines = [f"{'set':28} rated, found   rated, none   hit@1  confidence   error   area"]
    for kept in (False, True):
        half = [answer for answer in answers if answer.kept is kept]
        lines.append("kept aside" if kept else "tuned")
        for hybrid in (True, False):
            of_mode = [answer for answer in half if answer.hybrid is hybrid]
            mode = "" if hybrid else ", keywords"
            names = list(dict.fromkeys(answer.set_name for answer in of_mode))
            lines += [
                _line(name + mode, [a for a in of_mode if a.set_name == name], constants)
                for name in names
            ]
            lines.append(_line(f"all{mode}", of_mode, constants))
    return lines


def _line(name: str, answers: Sequence[Answer], constants: Constants) -> str:
    def is_rated(answer: Answer) -> bool:
        each = [odds(e.words, e.cosine, constants) for e in answer.results]
        return probability(max(each, default=0.0)) >= MEDIUM

    def first(answer: Answer) -> float:
        if not answer.results:
            return 0.0
        best = answer.results[0]
        return probability_of_result(odds(best.words, best.cosine, constants), best.lead, constants)

    within = [is_rated(a) for a in answers if a.found and not a.across]
    across = [is_rated(a) for a in answers if a.found and a.across]
    without = [is_rated(a) for a in answers if not a.answerable]
    confidences = [first(answer) for answer in answers]
    right = [bool(answer.results) and answer.results[0].right for answer in answers]
    area = area_under_roc(confidences, right) if any(right) and not all(right) else math.nan
    shares = [f"{mean(map(float, each)):.3f}" if each else "–" for each in (within, across)]
    return (
        f"{name:28} {shares[0]:>5} / {shares[1]:>5}"
        f"  {f'{mean(map(float, without)):.3f}' if without else '–':>12}"
        f"  {mean(map(float, right)):>6.3f}  {mean(confidences):>10.3f}"
        f"  {calibration_error(confidences, right):>6.3f}  {area:>5.3f}"
    )
