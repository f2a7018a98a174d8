"""Conversion of text to search terms: bigrams, stop words, and no operators of users."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.tokenize import MAX_QUERY_TERMS, Term, index_text, phrases, query_terms

WORDS = st.text(st.characters(codec="utf-8"), max_size=60)


def texts(query: str) -> list[str]:
    return [term.text for term in query_terms(query)]


def test_ascii_text_goes_into_the_index_as_it_is() -> None:
    assert index_text("GET /a_b?c=1 -- x\n") == "GET /a_b?c=1 -- x\n"


def test_a_run_without_spaces_becomes_overlapping_bigrams_and_its_last_character() -> None:
    assert index_text("成语接").split() == ["成语", "语接", "接"]


def test_words_around_such_a_run_stay_apart() -> None:
    assert index_text("重跑gen-itgc后").split() == ["重跑", "跑", "gen-itgc", "后"]


def test_wide_and_half_width_letters_are_folded() -> None:
    assert index_text("ＡＢＣ ｶﾞｲﾄﾞ") == index_text("ABC ガイド")
    assert texts("ＡＢＣ") == texts("ABC") == ["abc"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("成语接龙", [Term("成语"), Term("语接"), Term("接龙")]),
        ("怀孕", [Term("怀孕")]),
        ("龙", [Term("龙", prefix=True)]),
        ("itgc", [Term("itgc")]),
        ("重跑gen-itgc后", [Term("重跑"), Term("gen"), Term("itgc"), Term("后", prefix=True)]),
        ("しりとり", [Term("しり"), Term("りと"), Term("とり")]),
        ("회의록", [Term("회의"), Term("의록")]),
    ],
)
def test_unspaced_scripts_are_asked_for_in_bigrams(query: str, expected: list[Term]) -> None:
    assert query_terms(query) == expected


def test_stop_words_are_left_out() -> None:
    assert texts("What is the name of the boiler?") == ["name", "boiler"]


def test_a_query_of_stop_words_alone_keeps_them() -> None:
    assert texts("who is it") == ["who", "is", "it"]


def test_stop_words_beside_an_unspaced_run_are_left_out() -> None:
    assert texts("the 怀孕") == ["怀孕"]


def test_the_stop_words_are_those_of_one_language() -> None:
    assert "die" in texts("did the plant die in the war")
    assert texts("wo ist die Heizung") == ["heizung"]


@pytest.mark.parametrize("possessive", ["user's", "user’s"])
def test_what_follows_an_english_apostrophe_is_no_term(possessive: str) -> None:
    assert texts(f"{possessive} boiler") == ["user", "boiler"]


@pytest.mark.parametrize(
    ("query", "word"),
    [("O'Brien", "brien"), ("l'école", "ecole"), ("dell’acqua", "acqua")],
)
def test_a_word_behind_an_elision_or_in_a_name_is_looked_for(query: str, word: str) -> None:
    assert word in texts(query)


@pytest.mark.parametrize("query", ["'itgc'重跑", "foo’重跑"])
def test_an_apostrophe_swallows_no_unspaced_run(query: str) -> None:
    assert "重跑" in texts(query)


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "తెలుగు"])
def test_marks_stay_inside_a_word(word: str) -> None:
    """The index keeps them (`M*`); a query that splits at them finds nothing."""
    assert texts(word) == [word]


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "???", '""', "-", "_", "\0"])
def test_a_query_without_words_has_no_terms(query: str) -> None:
    assert query_terms(query) == []


@pytest.mark.parametrize(
    "query",
    [
        'boiler AND "valve"',
        "boiler NEAR(valve, 2)",
        "body:boiler -valve",
        "boiler* + ^valve",
        "{body context}: boiler; valve",
    ],
)
def test_operators_are_plain_text(query: str) -> None:
    assert {"boiler", "valve"} <= set(texts(query))
    assert all(re.fullmatch(r'"\w+"', phrases(term)[0]) for term in query_terms(query))


def test_terms_are_distinct_in_their_order() -> None:
    assert texts("valve boiler valve BOILER") == ["valve", "boiler"]


def test_an_enormous_query_has_a_bounded_number_of_terms() -> None:
    query = " ".join(f"word{n}" for n in range(10_000))
    assert texts(query) == [f"word{n}" for n in range(MAX_QUERY_TERMS)]


def test_a_term_and_its_forms_are_phrases() -> None:
    assert phrases(Term("boiler"), ["kettl"]) == ['"boiler"', '"kettl"']
    assert phrases(Term("龙", prefix=True)) == ['"龙"*']


@given(WORDS)
def test_any_query_gives_distinct_terms_without_quotes(query: str) -> None:
    terms = query_terms(query)
    assert len(terms) == len(set(terms)) <= MAX_QUERY_TERMS
    assert all(term.text and '"' not in term.text for term in terms)


@given(st.text("成语接龙がハ한글", min_size=1, max_size=12))
def test_a_query_asks_for_pieces_that_the_index_has(run: str) -> None:
    indexed = index_text(run).split()
    for term in query_terms(run):
        assert any(
            piece.startswith(term.text) if term.prefix else piece == term.text for piece in indexed
        )
