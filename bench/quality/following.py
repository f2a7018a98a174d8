"""Sets about the results that follow the first one: copies of a better one, and unrelated ones."""

import re
from collections.abc import Callable, Sequence

from bench.quality.model import Ask, Measured, Outcome, QualitySet, Question
from bench.quality.rating import Rated, rated, rating_figures
from bench.quality.scoring import mean
from memoryd_client.schema.search import Hit

RUN_WORDS = 3
COPY = 0.6
"""Share of the shorter snippet's runs of three words that a near copy has in common."""
MOST_COPIES = 0.05
MOST_UNRELATED = 0.05
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
"""A word, or a character of a script without spaces."""

Judge = Callable[[Question, Sequence[Hit]], list[bool]]
"""Function that returns for each result after the first whether it should not be there."""


def near_copies(_: Question, hits: Sequence[Hit]) -> list[bool]:
    """Return for each result after the first whether a better one shows nearly the same."""
    runs = [_runs(hit.snippet) for hit in hits]
    return [any(_is_copy(runs[at], other) for other in runs[:at]) for at in range(1, len(runs))]


def unrelated(question: Question, hits: Sequence[Hit]) -> list[bool]:
    """Return for each result after the first whether it is of another folder than the answer."""
    folders = {_folder(line.path) for line in question.evidence}
    return [_folder(hit.path) not in folders for hit in hits[1:]]


def following(
    name: str,
    notes: dict[str, str],
    questions: Sequence[Question],
    *,
    judge: Judge,
    figure: str,
    most: float,
) -> QualitySet:
    """Return a set that measures the share of the results that should not be there."""
    return QualitySet(name, notes, lambda ask: _measure(ask, questions, judge, figure, most))


def _measure(
    ask: Ask, questions: Sequence[Question], judge: Judge, figure: str, most: float
) -> Outcome:
    answers: list[Rated] = []
    count = wrong = 0
    misses = []
    for question in questions:
        result = ask(question.text)
        answers.append(rated(result, question.right(result.results)))
        judged = judge(question, result.results)
        count += len(result.results)
        wrong += sum(judged)
        if any(judged):
            misses.append(f"{sum(judged)} of {len(judged) + 1}: {question.text}")
    figures = [
        Measured(figure, wrong / count if count else 0.0, at_most=most),
        Measured("hit@1", mean(answer.first for answer in answers)),
        Measured("results a question", count / len(answers), unit=""),
        *rating_figures(answers),
        Measured("questions", len(answers), unit=""),
    ]
    return Outcome(figures, answers, misses)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return frozenset(zip(*(words[at:] for at in range(RUN_WORDS)), strict=False))


def _is_copy(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    return bool(one and other) and len(one & other) >= COPY * min(len(one), len(other))
