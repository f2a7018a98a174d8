"""Fusion of words and meaning, the score of an answer, and the effect of age on its order."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.evidence import NO_EVIDENCE, Evidence
from memoryd.search.fuse import (
    USUAL_HIGH,
    USUAL_LOW,
    Candidate,
    aged,
    by_evidence,
    usual_scale,
    weighted,
    with_scores,
)

SHARES = st.floats(0, 1)
COSINES = st.none() | st.floats(-1, 1)
EVIDENCE = st.builds(Evidence, SHARES, SHARES, SHARES, SHARES, SHARES, SHARES)
LEFT = st.none() | st.sampled_from((1.0, 0.9, 0.7, 0.5, 0.45))
STRONG = Evidence(0.6, 1.0, 0.8, 0.0)
WEAK = Evidence(0.1, 0.2, 0.0, 0.0)


def fused(
    row: int,
    evidence: Evidence | None,
    cosine: float | None,
    *,
    other_script: bool = False,
) -> Candidate:
    score = None if cosine is None else max(0.0, cosine)
    return by_evidence(row, evidence, cosine, vector_score=score, other_script=other_script)


CANDIDATES = st.lists(st.tuples(st.none() | EVIDENCE, COSINES, st.booleans()), max_size=8).map(
    lambda all_of_them: [
        fused(row, evidence, cosine, other_script=other)
        for row, (evidence, cosine, other) in enumerate(all_of_them)
    ]
)


def rows(candidates: list[Candidate]) -> list[int]:
    return [candidate.row_id for candidate in candidates]


def scores(candidates: list[Candidate]) -> dict[int, float]:
    return {candidate.row_id: candidate.score for candidate in candidates}


@given(CANDIDATES, st.booleans())
def test_scores_are_shares_in_the_order_of_strength(
    candidates: list[Candidate], unspaced: bool
) -> None:
    found = with_scores(candidates, unspaced=unspaced)
    assert sorted(rows(found)) == sorted(rows(candidates))
    assert all(0.0 <= c.score <= 1.0 and c.unaged_score == c.score for c in found)
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    sure = [c for c in found if c.score > 1e-12]
    strengths = [c.strength for c in sure]
    assert strengths == sorted(strengths, reverse=True)


@given(EVIDENCE, st.floats(-1, 1), st.integers(0, 4), SHARES, st.booleans(), st.booleans())
def test_more_of_anything_is_never_less(
    evidence: Evidence, cosine: float, which: int, by: float, other: bool, unspaced: bool
) -> None:
    rival = fused(9, STRONG, 0.2)
    less = fused(1, evidence, cosine, other_script=other)
    if which == 4:
        more = fused(1, evidence, cosine + by, other_script=other)
    else:
        figures = [*evidence]
        figures[which] += by
        more = fused(1, Evidence(*figures), cosine, other_script=other)
    assert more.strength >= less.strength
    assert more.relevance >= less.relevance
    before = scores(with_scores([less, rival], unspaced=unspaced))[1]
    after = scores(with_scores([more, rival], unspaced=unspaced))[1]
    assert after >= before - 1e-12


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


def test_without_vectors_an_exact_hit_passes_and_one_common_word_does_not() -> None:
    (exact,) = with_scores([fused(1, Evidence(0.4, 1.0, 1.0, 0.0), None)], unspaced=False)
    (common,) = with_scores([fused(1, Evidence(0.02, 0.05, 0.0, 0.0), None)], unspaced=False)
    assert exact.score > 0.5
    assert common.score < 0.1


def test_words_without_meaning_and_meaning_without_words_pass_too() -> None:
    (by_words,) = with_scores([fused(1, Evidence(0.6, 1.0, 1.0, 1.0), 0.0)], unspaced=False)
    (by_meaning,) = with_scores([fused(1, NO_EVIDENCE, 0.6)], unspaced=False)
    (nothing,) = with_scores([fused(1, Evidence(0.05, 0.1, 0.0, 0.0), 0.05)], unspaced=False)
    assert by_words.score > 0.5
    assert by_meaning.score > 0.35
    assert nothing.score < 0.05


def test_in_another_script_meaning_counts_for_both() -> None:
    same = fused(1, NO_EVIDENCE, 0.3)
    other = fused(1, NO_EVIDENCE, 0.3, other_script=True)
    assert other.strength > same.strength
    assert other.relevance > same.relevance
    alone = fused(1, None, 0.3, other_script=True)
    assert alone == fused(1, None, 0.3)


def test_the_text_score_is_for_chunks_with_a_word_of_the_question() -> None:
    assert fused(1, NO_EVIDENCE, 0.5).text_score is None
    text_score = fused(1, STRONG, 0.5).text_score
    assert text_score is not None
    assert 0 < text_score < 1
    assert text_score == fused(1, STRONG, -1.0).text_score


@given(CANDIDATES)
def test_the_best_says_how_sure_the_answer_is(candidates: list[Candidate]) -> None:
    """A better answer never lowers the score of another chunk."""
    before = scores(with_scores(candidates, unspaced=False))
    best = fused(99, Evidence(1.0, 1.0, 1.0, 1.0), 1.0)
    after = scores(with_scores([*candidates, best], unspaced=False))
    assert all(after[row] >= score - 1e-12 for row, score in before.items())


def test_where_there_are_no_spaces_less_is_enough() -> None:
    found = [fused(1, Evidence(0.3, 0.4, 0.3, 0.0), 0.2)]
    assert with_scores(found, unspaced=True)[0].score > with_scores(found, unspaced=False)[0].score


def test_ties_go_by_row_and_nothing_is_nothing() -> None:
    assert rows(with_scores([fused(row, STRONG, 0.2) for row in (3, 1, 2)], unspaced=False)) == [
        1,
        2,
        3,
    ]
    assert with_scores([], unspaced=False) == []


@given(SHARES, SHARES)
def test_the_usual_scale_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert usual_scale(low) <= usual_scale(high)
    assert usual_scale(0.0) == USUAL_LOW
    assert usual_scale(1.0) == pytest.approx(USUAL_HIGH)


def age(candidates: list[Candidate], left: dict[int, float]) -> list[Candidate]:
    return aged(with_scores(candidates, unspaced=False), left.get)


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
    before = with_scores([better_old_one(), fused(2, STRONG, 0.3)], unspaced=False)
    assert scores(aged(before, lambda _: 0.45)) == pytest.approx(scores(before))


@given(CANDIDATES, st.lists(LEFT, min_size=8, max_size=8))
def test_age_only_takes_and_only_from_what_has_a_date(
    candidates: list[Candidate], left: list[float | None]
) -> None:
    before = with_scores(candidates, unspaced=False)
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
    after = aged(with_scores(candidates, unspaced=False), left.__getitem__)
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
