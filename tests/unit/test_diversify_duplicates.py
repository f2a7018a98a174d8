"""An answer contains no near-duplicates."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.diversify import LEAST_WORDS, SAME, spread, without_duplicates
from memoryd.search.fuse import Candidate

WORDS = [f"word{n}" for n in range(400)]


def candidates(count: int) -> list[Candidate]:
    scores = [1.0 - n / 100 for n in range(count)]
    return [Candidate(row, s, s, s, unaged_score=s) for row, s in enumerate(scores)]


def kept(*texts: str, most: int = 10) -> list[int]:
    found = without_duplicates(candidates(len(texts)), dict(enumerate(texts)), most=most)
    return [candidate.row_id for candidate in found]


def prose(first: int, count: int) -> str:
    return " ".join(WORDS[first : first + count])


def test_of_a_copied_note_the_better_is_shown() -> None:
    assert kept(prose(0, 60), prose(100, 60), prose(0, 60)) == [0, 1]


def test_a_copy_that_is_laid_out_anew_is_a_copy() -> None:
    text = prose(0, 60)
    again = "# " + text.replace("word7 ", "word7,\n- ").upper() + "."
    assert kept(text, again) == [0]


def test_what_quotes_a_note_is_a_copy_of_it_whichever_is_the_better() -> None:
    quoted = f"{prose(200, 80)}\n> {prose(0, 40)}\n{prose(300, 80)}"
    assert kept(quoted, prose(0, 40)) == [0]
    assert kept(prose(0, 40), quoted) == [0]


def test_chunks_that_overlap_a_little_are_two_and_almost_wholly_one() -> None:
    assert kept(prose(0, 100), prose(80, 100)) == [0, 1]
    assert kept(prose(0, 100), prose(50, 100)) == [0, 1]
    assert kept(prose(0, 100), prose(5, 100)) == [0]


def test_short_texts_that_differ_by_a_word_are_two() -> None:
    assert kept("The door code of the shed is 4711.", "The door code of the barn is 4711.") == [
        0,
        1,
    ]


def test_even_the_same_short_text_in_two_files_is_two() -> None:
    short = prose(0, LEAST_WORDS - 1)
    assert kept(short, short) == [0, 1]
    assert kept(f"{short} more", f"{short} more") == [0]


def test_a_long_text_that_differs_in_every_fifth_word_is_two() -> None:
    words = WORDS[:60]
    changed = [f"x{word}" if n % 5 == 0 else word for n, word in enumerate(words)]
    assert kept(" ".join(words), " ".join(changed)) == [0, 1]


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    text = "今天玩成语接龙游戏明天下午三点开项目评审会议她怀孕八周了医生说要多休息"
    assert kept(text, f"另外，{text}。") == [0]
    assert kept(text, text[::-1]) == [0, 1]
    assert kept(text[:12], text[:12]) == [0, 1]


def test_a_chain_is_held_against_what_is_shown_only() -> None:
    """The third resembles the second, which is not shown, and differs from the first."""
    first, second, third = prose(0, 100), prose(8, 100), prose(16, 100)
    assert kept(first, second, third) == [0, 2]


def test_only_as_many_are_kept_as_can_be_shown() -> None:
    texts = [prose(0, 50), prose(0, 50), prose(60, 50), prose(120, 50), prose(180, 50)]
    assert kept(*texts, most=3) == [0, 2, 3]
    assert kept(*texts, most=1) == [0]
    assert kept(most=3) == []


def test_a_candidate_without_a_text_is_kept() -> None:
    assert len(without_duplicates(candidates(2), {}, most=5)) == 2


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_no_two_of_what_is_kept_are_duplicates_and_the_rest_is(
    cuts: list[tuple[int, int]],
) -> None:
    texts = [prose(first, count) for first, count in cuts]
    shown = kept(*texts)
    assert shown == sorted(shown)

    def runs(row: int) -> set[int]:
        first, count = cuts[row]
        return set(range(first, first + count - 2)) if count >= LEAST_WORDS else set()

    def same(one: int, other: int) -> bool:
        a, b = runs(one), runs(other)
        return bool(a and b) and len(a & b) >= SAME * min(len(a), len(b))

    for row in range(len(texts)):
        assert (row in shown) is not any(same(row, better) for better in shown if better < row)


def brute_force(scores: list[float], bags: list[set[str]], balance: float, most: int) -> list[int]:
    """Maximal marginal relevance by its definition, over all pairs in each step."""
    low, span = min(scores), (max(scores) - min(scores)) or 1.0
    taken: list[int] = []
    while len(taken) < min(most, len(scores)):
        values = {
            row: balance * (scores[row] - low) / span
            - (1 - balance)
            * max(
                (len(bags[row] & bags[t]) / max(1, len(bags[row] | bags[t])) for t in taken),
                default=0.0,
            )
            for row in range(len(scores))
            if row not in taken
        }
        taken.append(max(values, key=lambda row: values[row]))
    return taken


@given(st.integers(0, 10_000), st.floats(0, 1), st.integers(1, 8))
def test_marginal_relevance_is_as_defined(seed: int, balance: float, most: int) -> None:
    draw = random.Random(seed)
    scores = sorted((draw.random() for _ in range(draw.randint(1, 10))), reverse=True)
    bags = [set(draw.choices(WORDS[:12], k=draw.randint(0, 8))) for _ in scores]
    found = spread(
        [Candidate(row, score, score, score) for row, score in enumerate(scores)],
        {row: " ".join(sorted(bag)) for row, bag in enumerate(bags)},
        balance=balance,
        most=most,
    )
    assert [c.row_id for c in found] == brute_force(scores, bags, balance, most)


def test_with_all_weight_on_the_score_the_order_stays() -> None:
    texts = dict.fromkeys(range(5), "the same words")
    found = spread(candidates(5), texts, balance=1.0, most=5)
    assert [c.row_id for c in found] == [0, 1, 2, 3, 4]


def test_another_thing_comes_before_the_same_again() -> None:
    texts = {0: "boiler valve code", 1: "boiler valve code", 2: "dentist on monday"}
    found = spread(candidates(3), texts, balance=0.3, most=3)
    assert [c.row_id for c in found] == [0, 2, 1]


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [("怀孕八周", "怀孕九周", "会议评审"), ("Ab cd", "ab CD", "ef gh")],
)
def test_case_does_not_count_and_characters_do(one: str, other: str, apart: str) -> None:
    found = spread(candidates(3), {0: one, 1: other, 2: apart}, balance=0.3, most=3)
    assert [c.row_id for c in found] == [0, 2, 1]


def test_nothing_spreads_to_nothing() -> None:
    assert spread([], {}, balance=0.7, most=6) == []
