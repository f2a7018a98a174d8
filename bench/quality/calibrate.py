"""Fits the constants of `memoryd/search/confidence.py` to the answers of all sets.

Each set weighs the same, except for those in `WEIGHTS`. Each question counts twice: with both
retrievers, and with keywords alone. Prints the constants, and for both halves of the questions what
they are worth.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.quality import vault
from bench.quality.model import MissingSetError
from bench.quality.rating import Rated
from bench.quality.runner import WITHOUT_CUTS, Run
from bench.quality.scoring import area_under_roc, calibration_error, mean
from bench.quality.workspace import answering
from memoryd.search.confidence import (
    FITTED,
    MEDIUM,
    SURE_LOGIT,
    Constants,
    leads,
    logit_of_answer,
    probability,
    probability_of_result,
)
from memoryd.search.fuse import BEND, strength_of

PARAPHRASED = frozenset({"paraphrase", "abstention"})
"""Sets that are left out: the bundled model gives their answers the cosines of noise."""
WEIGHTS = {"unanswerable": 3.0, **dict.fromkeys(vault.TITLES, 1 / len(vault.TITLES))}
"""Weights of sets: questions without an answer are few, and all titles are one kind."""
BY_WORDS = 4.0
"""Factor on the weight of a question without an answer, asked with keywords alone: such words are
seldom an answer, and they must not outvote a cosine that says so."""
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
    """The results of a question and its weight."""

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
    results = [example for answer in some for example in answer.results]
    words = np.tanh([example.words for example in results])
    near = np.tanh([max(0.0, example.cosine or 0.0) / BEND for example in results])
    with_vector = np.array([example.cosine is not None for example in results])
    starts = np.cumsum([0, *(len(answer.results) for answer in some)])[:-1]

    def logits(values: Numbers) -> Numbers:
        by_words = values[0] + values[1] * words
        by_cosine = np.where(with_vector, values[2] + values[3] * near, by_words)
        higher: Numbers = np.maximum(by_words, by_cosine)
        return higher

    def loss_of_answers(values: Numbers) -> float:
        return _loss(np.maximum.reduceat(logits(values), starts), found, weights)

    answer = minimize(loss_of_answers, FITTED[:4])
    sure = np.tanh(logits(answer)[starts] / SURE_LOGIT)
    leads = np.array([one.results[0].lead for one in some])
    right = np.array([one.results[0].right for one in some], dtype=float)

    def loss_of_results(values: Numbers) -> float:
        return _loss(values[0] + values[1] * sure + values[2] * leads, right, weights)

    result = minimize(loss_of_results, FITTED[4:])
    return Constants(*(float(value) for value in (*answer, *result)))


def minimize(loss: Callable[[Numbers], float], start: Iterable[float]) -> Numbers:
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
    return values


def _loss(logits: Numbers, right: Numbers, weights: Numbers) -> float:
    """Return the weighted negative logarithm of the likelihood."""
    surprise = np.logaddexp(0.0, np.where(right > 0, -logits, logits))
    return float((weights * surprise).sum())


def _answers(name: str, rated: Sequence[Rated], *, hybrid: bool) -> list[Answer]:
    weight = WEIGHTS.get(name, 1.0) / len(rated)
    return [
        Answer(
            name,
            weight * (1.0 if hybrid or one.answerable else BY_WORDS),
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
    figures = [(hit.score, hit.explanation) for hit in one.hits if hit.explanation is not None]
    if len(figures) < len(one.hits):
        raise ValueError("the daemon explains no results")
    rivals = [score for score, explained in figures if explained.decay == 1.0]
    ahead = leads([score for score, _ in figures], rivals)
    return [
        Example(
            explained.strength - strength_of(0.0, explained.cosine), explained.cosine, by, right
        )
        for (_, explained), by, right in zip(figures, ahead, one.right, strict=False)
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
        each = [logit_of_answer(e.words, e.cosine, constants) for e in answer.results]
        return bool(each) and probability(max(each)) >= MEDIUM

    def first(answer: Answer) -> float:
        if not answer.results:
            return 0.0
        best = answer.results[0]
        logit = logit_of_answer(best.words, best.cosine, constants)
        return probability_of_result(logit, best.lead, constants)

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
