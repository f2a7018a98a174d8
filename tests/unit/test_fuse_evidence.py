"""Fusion of words and meaning, the score of an answer, and the effect of age on its order."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.ageing import aged
from memoryd.search.evidence import NO_EVIDENCE, Evidence
from memoryd.search.fuse import (
    SHARED,
    USUAL_HIGH,
    USUAL_LOW,
    Candidate,
    by_evidence,
    ranked,
    usual_scale,
    weighted,
    without_weak,
)

SHARES = st.floats(0, 1)
COSINES = st.none() | st.floats(-1, 1)
EVIDENCE = st.builds(Evidence, SHARES, SHARES, SHARES, SHARES, SHARES, SHARES)
LEFT = st.none() | st.sampled_from((1.0, 0.9, 0.7, 0.5, 0.45))
STRONG = Evidence(0.6, 1.0, 0.8, 0.0)
WEAK = Evidence(0.1, 0.2, 0.0, 0.0)


def fused(row: int, evidence: Evidence | None, cosine: float | None) -> Candidate:
    score = None if cosine is None else max(0.0, cosine)
    return by_evidence(row, evidence, cosine, vector_score=score)


CANDIDATES = st.lists(st.tuples(st.none() | EVIDENCE, COSINES), max_size=8).map(
    lambda all_of_them: [
        fused(row, evidence, cosine) for row, (evidence, cosine) in enumerate(all_of_them)
    ]
)


def rows(candidates: list[Candidate]) -> list[int]:
    return [candidate.row_id for candidate in candidates]


def scores(candidates: list[Candidate]) -> dict[int, float]:
    return {candidate.row_id: candidate.score for candidate in candidates}


@given(CANDIDATES)
def test_scores_are_shares_in_the_order_of_strength(candidates: list[Candidate]) -> None:
    found = ranked(candidates)
    assert sorted(rows(found)) == sorted(rows(candidates))
    assert all(0.0 <= c.score < 1.0 and c.unaged_score == c.score for c in found)
    strengths = [c.strength for c in found]
    assert strengths == sorted(strengths, reverse=True)


@given(EVIDENCE, COSINES, st.integers(0, 4), SHARES)
def test_more_of_anything_is_never_less(
    evidence: Evidence, cosine: float | None, which: int, by: float
) -> None:
    less = fused(1, evidence, cosine)
    if which == 4:
        more = fused(1, evidence, (cosine or 0.0) + by)
    else:
        figures = [*evidence]
        figures[which] += by
        more = fused(1, Evidence(*figures), cosine)
    assert more.strength >= less.strength
    assert more.score >= less.score


@given(EVIDENCE, st.floats(-1, 1))
def test_a_vector_that_arrives_never_weakens_a_result(evidence: Evidence, cosine: float) -> None:
    assert fused(1, evidence, cosine).score >= fused(1, evidence, None).score


def test_a_string_alone_is_a_part_of_what_is_verbatim() -> None:
    with_string, without = (fused(1, Evidence(0.1, 0.1, 0.1, 0.5, s), 0.1) for s in (0.5, 0.0))
    assert with_string.strength == without.strength


@given(st.floats(-1, 1))
def test_each_leg_alone_can_answer(cosine: float) -> None:
    by_words = fused(1, STRONG, None)
    by_meaning = fused(2, None, cosine)
    assert by_words.strength > 0
    assert (by_words.vector_score, by_words.cosine) == (None, None)
    assert (by_meaning.strength > 0) is (cosine > 0)
    assert by_meaning.text_score is None
    assert by_meaning.evidence == NO_EVIDENCE


def test_the_text_score_is_for_chunks_with_a_word_of_the_question() -> None:
    assert fused(1, NO_EVIDENCE, 0.5).text_score is None
    text_score = fused(1, STRONG, 0.5).text_score
    assert text_score is not None
    assert 0 < text_score < 1
    assert text_score == fused(1, STRONG, -1.0).text_score


@given(CANDIDATES, SHARES)
def test_only_what_is_far_weaker_than_the_best_is_left_out(
    candidates: list[Candidate], share: float
) -> None:
    best = max((c.strength for c in candidates), default=0.0)
    kept = without_weak(candidates, share)
    strong = [c for c in candidates if c.strength > 0 and c.strength >= share * best]
    shared = [c for c in candidates if c.evidence.coverage >= SHARED and c.strength > 0]
    assert kept == [c for c in candidates if c in strong or c in shared]


def test_ties_go_by_row_and_nothing_is_nothing() -> None:
    assert rows(ranked([fused(row, STRONG, 0.2) for row in (3, 1, 2)])) == [1, 2, 3]
    assert ranked([]) == []
    assert without_weak([], 0.35) == []


@given(SHARES, SHARES)
def test_the_usual_scale_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert usual_scale(low) <= usual_scale(high)
    assert usual_scale(0.0) == USUAL_LOW
    assert usual_scale(1.0) == pytest.approx(USUAL_HIGH)


def age(candidates: list[Candidate], left: dict[int, float]) -> list[Candidate]:
    return aged(ranked(candidates), left.get)


def better_old_one() -> Candidate:
    return fused(1, Evidence(0.65, 1.0, 0.8, 0.0), 0.3)


def test_a_newer_note_that_says_the_same_goes_first() -> None:
    found = age([better_old_one(), fused(2, STRONG, 0.3)], {1: 0.5, 2: 1.0})
    assert rows(found) == [2, 1]
    new, old = found
    assert (new.decay, new.score) == (1.0, new.unaged_score)
    assert old.decay < 1.0
    assert old.score < new.score < old.unaged_score
    assert old.strength == better_old_one().strength


BETTER = {1: 0.06, 2: 0.05, 3: 0.0}


def test_the_newest_of_three_goes_first_and_the_oldest_last() -> None:
    three = [fused(row, Evidence(0.6 + by, 1.0, 0.8, 0.0), 0.3) for row, by in BETTER.items()]
    assert rows(age(three, {1: 0.45, 2: 0.6, 3: 1.0})) == [3, 2, 1]


@pytest.mark.parametrize(
    "recent",
    [
        fused(2, WEAK, 0.3),
        fused(2, Evidence(0.6, 0.4, 0.8, 0.0), 0.3),
        fused(2, Evidence(0.1, 1.0, 0.0, 0.0), 0.1),
        fused(2, STRONG, 0.05),
    ],
    ids=["weak", "fewer words", "no strength", "another meaning"],
)
def test_a_recent_note_beside_the_point_does_not(recent: Candidate) -> None:
    found = age([better_old_one(), recent], {1: 0.5, 2: 1.0})
    assert rows(found) == [1, 2]
    assert [c.decay for c in found] == [1.0, 1.0]


def test_the_string_that_was_asked_for_protects_its_note() -> None:
    old = fused(1, Evidence(0.65, 1.0, 0.8, 0.9, 0.9), 0.3)
    without = fused(2, Evidence(0.65, 1.0, 0.8, 0.9, 0.0), 0.3)
    having = fused(2, Evidence(0.6, 1.0, 0.8, 0.9, 0.9), 0.3)
    assert rows(age([old, without], {1: 0.45, 2: 1.0})) == [1, 2]
    assert rows(age([old, having], {1: 0.45, 2: 1.0})) == [2, 1]


def test_how_a_note_is_worded_is_no_news() -> None:
    """An old note that contains a short question literally does not keep the first place."""
    old = fused(1, Evidence(0.6, 1.0, 0.8, 1.0), 0.3)
    found = age([old, fused(2, STRONG, 0.3)], {1: 0.5, 2: 1.0})
    assert rows(found) == [2, 1]


@pytest.mark.parametrize("left", [{}, {2: 1.0}, {1: 0.45}], ids=["both", "old", "new"])
def test_what_has_no_date_never_ages_and_makes_nothing_old(left: dict[int, float]) -> None:
    found = age([better_old_one(), fused(2, STRONG, 0.3)], left)
    assert rows(found) == [1, 2]
    assert [c.decay for c in found] == [1.0, 1.0]


def test_of_one_day_nothing_changes() -> None:
    before = ranked([better_old_one(), fused(2, STRONG, 0.3)])
    assert scores(aged(before, lambda _: 0.45)) == pytest.approx(scores(before))


@given(CANDIDATES, st.lists(LEFT, min_size=8, max_size=8))
def test_age_only_takes_and_only_from_what_has_a_date(
    candidates: list[Candidate], left: list[float | None]
) -> None:
    before = ranked(candidates)
    after = aged(before, left.__getitem__)
    assert sorted(rows(after)) == sorted(rows(before))
    assert [c.score for c in after] == sorted((c.score for c in after), reverse=True)
    was = {c.row_id: c for c in before}
    for candidate in after:
        old = was[candidate.row_id]
        assert 0.0 <= candidate.score <= old.score + 1e-12
        assert 0.0 <= candidate.decay <= 1.0
        assert (candidate.unaged_score, candidate.strength) == (old.unaged_score, old.strength)
        if left[candidate.row_id] is None:
            assert candidate.score == pytest.approx(old.score)


@given(CANDIDATES, st.lists(LEFT, min_size=8, max_size=8))
def test_the_newest_never_ages(candidates: list[Candidate], left: list[float | None]) -> None:
    after = aged(ranked(candidates), left.__getitem__)
    newest = max((by for c in after if (by := left[c.row_id]) is not None), default=None)
    assert all(c.decay == 1.0 for c in after if c.strength > 0 and left[c.row_id] == newest)


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({}.get, [0.7, 0.63, 0.3]),
        ({1: 0.5, 2: 1.0, 3: 1.0}.get, [0.63, 0.35, 0.3]),
        ({1: 0.25, 2: 0.5}.get, [0.315, 0.3, 0.175]),
    ],
)
def test_the_references_formula_scales_the_score(
    left: Callable[[int], float | None], expected: list[float]
) -> None:
    found = weighted({1: 1.0, 2: 0.9}, {3: 1.0}, vector_weight=0.7, text_weight=0.3)
    after = aged(found, left)
    assert [c.score for c in after] == pytest.approx(expected)
    assert {c.row_id: c.unaged_score for c in after} == {c.row_id: c.score for c in found}
    assert all(c.score == pytest.approx(c.unaged_score * c.decay) for c in after)
