"""Distribution of an answer's places between notes and transcripts."""

from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.diversify import balance
from memoryd.search.fuse import Candidate


def candidates(scores: list[float], first_row: int) -> list[Candidate]:
    made = [Candidate(first_row + n, s, s, s, unaged_score=s) for n, s in enumerate(scores)]
    return sorted(made, key=lambda c: -c.score)


def rows(chosen: list[Candidate]) -> list[int]:
    return [candidate.row_id for candidate in chosen]


def test_many_transcripts_take_half_of_the_places() -> None:
    notes, sessions = candidates([0.6, 0.55, 0.5, 0.45], 0), candidates([0.9] * 20, 100)
    chosen = balance(notes, sessions, min_score=0.35, max_results=6)
    assert sorted(rows(chosen)) == [0, 1, 2, 100, 101, 102]
    assert [c.score for c in chosen] == sorted((c.score for c in chosen), reverse=True)


def test_places_that_no_note_wants_go_to_transcripts() -> None:
    notes, sessions = candidates([0.6], 0), candidates([0.9] * 20, 100)
    assert len(balance(notes, sessions, min_score=0.35, max_results=6)) == 6


def test_a_weaker_transcript_displaces_no_note() -> None:
    notes, sessions = candidates([0.9] * 8, 0), candidates([0.5] * 8, 100)
    assert rows(balance(notes, sessions, min_score=0.35, max_results=6)) == [0, 1, 2, 3, 4, 5]


SCORES = st.lists(st.floats(0, 1), max_size=12)


@given(SCORES, SCORES, st.integers(1, 10), st.floats(0, 1))
def test_all_places_are_filled_and_nothing_is_invented(
    one: list[float], other: list[float], max_results: int, min_score: float
) -> None:
    notes, sessions = candidates(one, 0), candidates(other, 100)
    chosen = balance(notes, sessions, min_score=min_score, max_results=max_results)
    assert len(chosen) == min(max_results, len(one) + len(other))
    assert len(set(rows(chosen))) == len(chosen)
    assert set(rows(chosen)) <= set(rows(notes + sessions))
    passed = [c for c in chosen if c.score >= min_score]
    assert chosen[: len(passed)] == passed
    assert [c.score for c in passed] == sorted((c.score for c in passed), reverse=True)


def test_without_filling_nothing_below_the_score_is_shown() -> None:
    notes, sessions = candidates([0.9, 0.1], 0), candidates([0.5, 0.2], 100)
    assert rows(balance(notes, sessions, min_score=0.35, max_results=6, fill=False)) == [0, 100]
