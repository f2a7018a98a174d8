"""Measurement of questions with evidence lines, or without an answer, by kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.quality.model import Ask, Measured, Outcome, QualitySet, Question
from bench.quality.rating import (
    MOST_SURE_WITHOUT_ANSWER,
    Rated,
    rated,
    rated_without_answer,
    rating_figures,
)
from bench.quality.scoring import mean


@dataclass(frozen=True, slots=True)
class Goals:
    """Least shares of questions with a right first result, or one among six; None: no goal.

    `first_of_each` holds for each kind. `paraphrased`: nobody asks the daemon to be sure.
    """

    first: float | None = None
    among_six: float | None = None
    first_of_each: float | None = None
    paraphrased: bool = False


NO_GOALS = Goals()


def asked(
    name: str,
    notes: dict[str, str],
    questions: Sequence[Question],
    goals: Goals = NO_GOALS,
    *,
    lasting: bool = True,
) -> QualitySet:
    """Return a set of questions about notes; some have no answer."""
    return QualitySet(name, notes, lambda ask: _measure(ask, questions, goals), lasting)


def _measure(ask: Ask, questions: Sequence[Question], goals: Goals) -> Outcome:
    answers: list[Rated] = []
    misses = []
    for question in questions:
        result = ask(question.text)
        if not question.is_answerable:
            answer = rated_without_answer(result)
            if answer.is_sure:
                misses.append(f"{answer.rating}: {question.text} → {result.results[0].citation}")
        else:
            answer = rated(result, question.right(result.results), across=question.across)
            if not answer.found or (goals.among_six is None and not answer.first):
                got = ", ".join(hit.citation for hit in result.results[:2]) or "nothing"
                misses.append(f"{question.kind}: {question.text} → {got}")
        answers.append(answer)
    by_kind: dict[str, list[Rated]] = {}
    for question, answer in zip(questions, answers, strict=True):
        by_kind.setdefault(question.kind, []).append(answer)
    figures = [
        *_found(answers, by_kind, goals),
        *_sure_without_answer(by_kind),
        *rating_figures(answers, paraphrased=goals.paraphrased),
        Measured("questions", len(questions), unit=""),
    ]
    return Outcome(figures, answers, misses)


def _found(
    answers: Sequence[Rated], by_kind: Mapping[str, Sequence[Rated]], goals: Goals
) -> list[Measured]:
    answerable = [answer for answer in answers if answer.answerable]
    if not answerable:
        return []
    figures = [
        Measured("hit@1", mean(a.first for a in answerable), at_least=goals.first),
        Measured("hit@6", mean(a.found for a in answerable), at_least=goals.among_six),
    ]
    for kind, of_kind in by_kind.items():
        held = [answer for answer in of_kind if answer.answerable]
        if not held or len(by_kind) == 1:
            continue
        if goals.among_six is None or goals.first is not None:
            value = mean(a.first for a in held)
            figures.append(Measured(f"hit@1, {kind}", value, at_least=goals.first_of_each))
        if goals.among_six is not None:
            figures.append(Measured(f"hit@6, {kind}", mean(a.found for a in held)))
    return figures


def _sure_without_answer(by_kind: Mapping[str, Sequence[Rated]]) -> list[Measured]:
    """Return how often the daemon is sure where nothing answers, by kind, if it tells."""
    return [
        Measured(
            f"rated high or medium, {kind}",
            mean(answer.is_sure for answer in of_kind),
            at_most=MOST_SURE_WITHOUT_ANSWER,
        )
        for kind, of_kind in by_kind.items()
        if kind and not any(answer.answerable or not answer.rating for answer in of_kind)
    ]
