"""Pairs of characters with parts of function words weigh little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.pairs import BOTH, ONE_OF_TWO, language_of_runs, pair_weights
from memoryd.text.tokenize import Term, query_terms


def weighed(question: str, weight: float) -> set[str]:
    return {term.text for term in query_terms(question) if term.weight == weight}


@pytest.mark.parametrize(
    ("question", "full", "least"),
    [
        ("训练的主题是什么", {"训练", "主题"}, {"是什", "什么"}),
        ("請問預算怎麼辦", {"預算"}, {"請問", "怎麼", "麼辦"}),
        ("練習の記録はどこですか", {"練習", "記録"}, {"どこ", "です", "すか"}),
        ("りんごを食べました", {"りん", "んご", "食べ"}, {"まし", "した"}),
        ("회의록은 어디에 있나요", {"회의", "의록"}, {"어디", "디에", "있나", "나요"}),
    ],
)
def test_the_words_that_say_what_is_asked_for_keep_their_weight(
    question: str, full: set[str], least: set[str]
) -> None:
    assert weighed(question, 1.0) == full
    assert least <= weighed(question, BOTH)


def test_a_pair_of_two_words_is_between() -> None:
    assert {"练的", "的主", "题是"} <= weighed("训练的主题是什么", ONE_OF_TWO)
    assert "록은" in weighed("회의록은", ONE_OF_TWO)


def test_kana_inside_a_word_is_no_particle() -> None:
    assert weighed("さかなです", 1.0) == {"さか", "かな"}


def test_a_pair_has_its_highest_weight_wherever_it_stands() -> None:
    terms = query_terms("的主题的主题")
    assert len({term.text for term in terms}) == len(terms)


def test_a_lone_function_character_weighs_little_too() -> None:
    assert query_terms("龙 的") == [
        Term("龙", prefix=True),
        Term("的", prefix=True, weight=BOTH),
    ]


@pytest.mark.parametrize(
    ("question", "language"), [("训练", "zh"), ("練習は", "ja"), ("회의", "ko"), ("", "zh")]
)
def test_the_script_tells_whose_function_words_count(question: str, language: str) -> None:
    assert language_of_runs(question) == language


@given(st.text("的主题是什么はのです은는회의がを", min_size=1), st.sampled_from(["zh", "ja", "ko"]))
def test_there_is_a_weight_for_each_pair(run: str, language: str) -> None:
    weights = pair_weights(run, language)
    assert len(weights) == max(1, len(run) - 1)
    assert set(weights) <= {1.0, ONE_OF_TWO, BOTH}
