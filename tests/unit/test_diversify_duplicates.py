"""An answer shows nothing twice: what makes a shown text a near copy of a better one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.diversify import (
    COPY,
    LEAST_WORDS,
    in_common,
    is_copy,
    line_runs,
    runs_of,
    spread,
)
from memoryd.search.fuse import Candidate

WORDS = [f"word{n}" for n in range(400)]
CHINESE = "今天玩成语接龙游戏明天下午三点开项目评审会议她怀孕八周了医生说要多休息记得买牛奶"


def candidates(count: int) -> list[Candidate]:
    scores = [1.0 - n / 100 for n in range(count)]
    return [Candidate(row, s, s, s, unaged_score=s) for row, s in enumerate(scores)]


def copies(one: str, other: str) -> bool:
    runs, others = set(runs_of(one).tolist()), set(runs_of(other).tolist())
    found = is_copy(runs, others)
    assert found == is_copy(others, runs)
    return found


def prose(first: int, count: int) -> str:
    return " ".join(WORDS[first : first + count])


def test_a_copy_that_is_laid_out_anew_is_a_copy() -> None:
    text = prose(0, 60)
    assert copies(text, text)
    assert copies(text, "# " + text.replace("word7 ", "word7,\n- ").upper() + ".")
    assert not copies(text, prose(100, 60))


def test_what_quotes_a_text_is_a_copy_of_it() -> None:
    assert copies(f"{prose(200, 80)}\n> {prose(0, 40)}\n{prose(300, 80)}", prose(0, 40))


def test_texts_that_overlap_a_little_are_two_and_mostly_one() -> None:
    assert not copies(prose(0, 100), prose(50, 100))
    assert copies(prose(0, 100), prose(30, 100))


def test_a_block_between_other_lines_is_a_copy() -> None:
    block = prose(0, 60)
    assert copies(f"{prose(100, 20)}\n{block}\n{prose(120, 15)}", f"{block}\n{prose(200, 30)}")


def test_short_texts_are_never_copies() -> None:
    short = prose(0, LEAST_WORDS - 1)
    assert not copies(short, short)
    assert copies(f"{short} more", f"{short} more")


def test_a_text_that_differs_in_every_third_word_is_another_one() -> None:
    words = WORDS[:60]
    changed = [f"x{word}" if n % 3 == 0 else word for n, word in enumerate(words)]
    assert not copies(" ".join(words), " ".join(changed))


@pytest.mark.parametrize("layout", ["{}", "另外，{}。", "- {} [link](a.md)"])
def test_scripts_without_spaces_are_compared_by_characters(layout: str) -> None:
    assert copies(CHINESE, layout.format(CHINESE))
    assert copies(CHINESE, "\n".join(CHINESE[at : at + 6] for at in range(0, len(CHINESE), 6)))
    assert not copies(CHINESE, layout.format(CHINESE[::-1]))
    assert not copies(CHINESE[:38], CHINESE[:38])


@given(*[st.tuples(st.integers(0, 60), st.integers(0, 60))] * 2)
def test_copies_share_runs_of_words(one: tuple[int, int], other: tuple[int, int]) -> None:
    def runs(first: int, count: int) -> set[int]:
        return set(range(first, first + count - 2)) if count >= LEAST_WORDS else set()

    a, b = runs(*one), runs(*other)
    expected = bool(a and b) and len(a & b) >= COPY * min(len(a), len(b))
    assert copies(prose(*one), prose(*other)) == expected
    common, different = in_common([runs_of(prose(*one)), runs_of(prose(*other))])
    assert not expected or (min(common) >= COPY * min(different) and different == [len(a), len(b)])


def test_texts_without_much_in_common_are_told_without_comparing_each_two() -> None:
    texts = [prose(0, 60), prose(100, 60), prose(40, 60), "word1 word2 word3 " * 10, "too short"]
    runs = [runs_of(text) for text in texts]
    common, different = in_common(runs)
    assert different == [58, 58, 58, 3, 0]
    assert common[:3] == [18 + 1, 0, 18]  # one is `word1 word2 word3`
    assert common[4] == 0
    assert in_common([]) == ([], [])
    one, other, third = (runs_of(prose(first, 60)) for first in (0, 100, 50))
    assert in_common([one, runs_of("short"), third]) == ([0, 0, 0], [0, 0, 0])  # 8 of 58 runs
    assert in_common([one, other, runs_of(prose(10, 60))]) == ([48, 0, 48], [58, 58, 58])
    assert in_common([runs_of("short"), runs_of("")]) == ([0, 0], [0, 0])
    assert in_common([runs_of("word1 word2 word3 " * 10), runs_of("short")]) == ([0, 0], [0, 0])


def test_the_runs_of_some_lines_are_those_of_their_text() -> None:
    lines = ["", prose(0, 30), CHINESE, "çà " + prose(5, 9), "- " + prose(40, 30), ""]
    for text in (lines, lines[:2] + lines[4:]):
        of_text = line_runs("\n".join(text))
        for first in range(len(text)):
            for last in range(first, len(text)):
                shown = "\n".join(text[first : last + 1])
                assert of_text.between(first, last).tolist() == runs_of(shown).tolist()


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
