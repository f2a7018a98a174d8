"""Probability that a result, or an answer as a whole, answers the query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.confidence import lead, level, logit_of_answer, probability_of_result, rate
from memoryd.search.evidence import Evidence
from memoryd.search.fuse import Candidate, by_evidence, score_of, strength_of
from memoryd_client.schema.search import Confidence

WORDS = st.floats(0, 5)
COSINES = st.none() | st.floats(-1, 1)
RATINGS = [Confidence.NONE, Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH]


def found(row: int, words: float, cosine: float | None) -> Candidate:
    strength = strength_of(words, cosine)
    score = score_of(strength)
    made = by_evidence(row, None, cosine, vector_score=None)
    return made._replace(words=words, strength=strength, score=score)


ANSWERS = st.lists(st.tuples(WORDS, COSINES), max_size=8).map(
    lambda each: [found(row, *figures) for row, figures in enumerate(each)]
)


@given(ANSWERS)
def test_every_result_has_a_probability(shown: list[Candidate]) -> None:
    rating = rate(shown)
    assert len(rating.results) == len(shown)
    assert all(0.0 < one < 1.0 for one in rating.results)


@given(WORDS, st.floats(-1, 1))
def test_a_vector_that_arrives_makes_nothing_less_probable(words: float, cosine: float) -> None:
    assert logit_of_answer(words, cosine) >= logit_of_answer(words, None)
    before, after = rate([found(1, words, None)]), rate([found(1, words, cosine)])
    assert RATINGS.index(after.answer) >= RATINGS.index(before.answer)
    assert after.results[0] >= before.results[0]


@given(ANSWERS, WORDS, COSINES)
def test_another_result_never_lowers_the_rating_of_the_answer(
    shown: list[Candidate], words: float, cosine: float | None
) -> None:
    more = rate([*shown, found(99, words, cosine)])
    assert RATINGS.index(more.answer) >= RATINGS.index(rate(shown).answer)


@given(st.floats(-10, 10), st.floats(-1, 1), st.floats(0, 1))
def test_a_larger_lead_is_never_less_probable(logit: float, ahead: float, by: float) -> None:
    assert probability_of_result(logit, ahead + by) >= probability_of_result(logit, ahead)


@given(st.floats(0, 5), st.floats(0, 5))
def test_a_lead_is_positive_for_the_stronger_one(one: float, other: float) -> None:
    assert -1.0 <= lead(one, other) <= 1.0
    assert (lead(one, other) > 0) <= (one > other)


def test_an_exact_match_is_sure_by_words_alone() -> None:
    exact = by_evidence(1, Evidence(0.6, 1.0, 1.0, 1.0), None, vector_score=None)
    assert rate([exact]).answer is Confidence.HIGH
    assert rate([exact]).results[0] > 0.7


def test_a_meaning_alone_can_be_sure() -> None:
    assert rate([found(1, 0.0, 0.6)]).answer is Confidence.HIGH
    assert rate([found(1, 0.0, 0.05)]).answer is Confidence.NONE


def test_one_common_word_is_no_answer() -> None:
    common = by_evidence(1, Evidence(0.02, 0.05, 0.0, 0.0), 0.05, vector_score=None)
    assert rate([common]).answer is Confidence.NONE


def test_of_two_equal_results_neither_is_sure() -> None:
    alone = rate([found(1, 2.0, 0.4), found(2, 0.2, 0.1)]).results[0]
    twins = rate([found(1, 2.0, 0.4), found(2, 2.0, 0.4)]).results
    assert twins[0] == twins[1] < alone


def test_a_result_alone_is_compared_with_what_is_not_shown() -> None:
    hidden = found(2, 1.9, 0.4)
    assert rate([found(1, 2.0, 0.4)], [hidden]).results < rate([found(1, 2.0, 0.4)]).results


def test_an_old_result_that_gave_way_is_no_rival() -> None:
    new = found(1, 2.0, 0.4)
    old = found(2, 2.0, 0.4)._replace(decay=0.9, score=0.99 * new.score)
    alone, both = rate([new]).results, rate([new, old]).results
    assert both[0] == alone[0] > both[1]


def test_no_result_is_no_answer() -> None:
    assert rate([]).answer is Confidence.NONE
    assert rate([]).results == ()


@pytest.mark.parametrize(
    ("probability", "rating"), [(0.0, "none"), (0.3, "low"), (0.6, "medium"), (0.85, "high")]
)
def test_ratings_begin_at_their_thresholds(probability: float, rating: str) -> None:
    assert level(probability) == rating
