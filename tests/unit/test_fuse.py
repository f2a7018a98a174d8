"""Fusion of two retrievers into one ranking."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.fuse import Candidate, select, text_score, weighted

SCORES = st.dictionaries(st.integers(1, 20), st.floats(0, 1), max_size=20)
WEIGHTS = st.floats(allow_nan=False)


def rows(candidates: list[Candidate]) -> list[int]:
    return [candidate.row_id for candidate in candidates]


def test_bm25_scores_are_strictly_ordered() -> None:
    scores = [text_score(bm25) for bm25 in (-4.2, -2.1, -0.5)]
    assert [round(score, 2) for score in scores] == [0.81, 0.68, 0.33]


@given(st.floats(-1000, 0), st.floats(-1000, 0))
def test_a_better_bm25_never_scores_less(first: float, second: float) -> None:
    low, high = sorted((text_score(first), text_score(second)))
    assert 0 <= low <= high < 1
    assert (text_score(first) < text_score(second)) <= (first > second)


@given(st.integers(-10_000, -1))
def test_distinct_bm25_have_distinct_scores(hundredths: int) -> None:
    assert text_score((hundredths - 1) / 100) > text_score(hundredths / 100)


def test_the_score_is_the_weighted_mean_and_a_missing_leg_counts_nothing() -> None:
    found = weighted({1: 0.5, 2: 0.9}, {1: 1.0, 3: 0.8}, vector_weight=0.7, text_weight=0.3)
    assert {c.row_id: pytest.approx(c.score) for c in found} == {1: 0.65, 2: 0.63, 3: 0.24}
    assert [(c.vector_score, c.text_score) for c in found] == [(0.5, 1.0), (0.9, None), (None, 0.8)]


def test_weights_are_normalised() -> None:
    (found,) = weighted({1: 0.5}, {1: 1.0}, vector_weight=0.2, text_weight=0.2)
    assert found.score == pytest.approx(0.75)


@pytest.mark.parametrize(("vector", "text"), [(0.0, 0.0), (-1.0, 0.0), (math.nan, math.nan)])
def test_weights_that_say_nothing_are_the_default_ones(vector: float, text: float) -> None:
    (found,) = weighted({1: 1.0}, {}, vector_weight=vector, text_weight=text)
    assert found.score == pytest.approx(0.7)


def test_ties_go_by_text_score_and_then_by_row() -> None:
    tied = weighted({1: 0.5, 2: 0.5, 3: 0.0}, {3: 0.5}, vector_weight=0.5, text_weight=0.5)
    assert rows(tied) == [3, 1, 2]


@given(SCORES, SCORES, WEIGHTS, WEIGHTS)
def test_every_candidate_is_there_once_best_first_within_bounds(
    vector: dict[int, float], text: dict[int, float], vector_weight: float, text_weight: float
) -> None:
    found = weighted(vector, text, vector_weight=vector_weight, text_weight=text_weight)
    assert sorted(rows(found)) == sorted(vector.keys() | text.keys())
    scores = [candidate.score for candidate in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)


@given(SCORES, SCORES)
def test_the_order_does_not_depend_on_the_order_of_the_legs(
    vector: dict[int, float], text: dict[int, float]
) -> None:
    shuffled = dict(reversed(vector.items())), dict(reversed(text.items()))
    assert weighted(vector, text, vector_weight=0.7, text_weight=0.3) == weighted(
        *shuffled, vector_weight=0.7, text_weight=0.3
    )


def test_an_exact_word_survives_the_minimum_score() -> None:
    """A score of 0.3 × text alone could never exceed 0.35."""
    found = weighted({}, {7: 0.99}, vector_weight=0.7, text_weight=0.3)
    assert rows(select(found, min_score=0.35, max_results=6)) == [7]


def test_a_word_below_the_minimum_comes_after_what_passed() -> None:
    found = weighted({1: 0.9, 2: 0.1}, {7: 0.99}, vector_weight=0.7, text_weight=0.3)
    assert rows(select(found, min_score=0.35, max_results=6)) == [1, 7]


def test_a_word_below_the_minimum_never_takes_a_better_place() -> None:
    vector = dict.fromkeys(range(1, 7), 0.9)
    found = weighted(vector, {7: 0.99}, vector_weight=0.7, text_weight=0.3)
    assert rows(select(found, min_score=0.35, max_results=6)) == [1, 2, 3, 4, 5, 6]


def test_nothing_relevant_is_nothing() -> None:
    found = weighted({1: 0.2, 2: 0.1}, {}, vector_weight=0.7, text_weight=0.3)
    assert select(found, min_score=0.35, max_results=6) == []


@given(SCORES, SCORES, st.floats(0, 1), st.integers(1, 10))
def test_what_passed_is_a_prefix_of_the_choice(
    vector: dict[int, float], text: dict[int, float], min_score: float, max_results: int
) -> None:
    found = weighted(vector, text, vector_weight=0.7, text_weight=0.3)
    passed = [candidate for candidate in found if candidate.score >= min_score]
    chosen = select(found, min_score=min_score, max_results=max_results)
    assert len(chosen) <= max_results
    assert chosen[: len(passed)] == passed[:max_results]
    assert all(candidate.text_score is not None for candidate in chosen[len(passed) :])
