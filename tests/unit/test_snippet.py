"""The part of a chunk that answers the query."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.snippet import LineReader, cut_snippet, highlights, read_lines
from memoryd.text.tokenize import Term, query_terms


class Cut(NamedTuple):
    """A snippet apart from its likeliest line."""

    text: str
    start_line: int
    end_line: int


def cut(text: str, start: int, end: int, terms: list[Term], max_chars: int) -> Cut:
    reader = LineReader(dict.fromkeys(terms, 1.0))
    found = cut_snippet(text, start, end, reader, max_chars)
    return Cut(*found[:3])


LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=40),
    min_size=1,
    max_size=12,
)


def shown(text: str, query: str, max_chars: int = 40) -> str:
    return cut(text, 1, text.count("\n") + 1, query_terms(query), max_chars).text


def test_a_chunk_that_fits_is_shown_whole() -> None:
    assert cut("one\ntwo\nthree", 5, 7, query_terms("two"), 700) == ("one\ntwo\nthree", 5, 7)


def test_the_lines_with_the_terms_are_shown_with_their_own_range() -> None:
    text = "\n".join([*(f"filler number {n}" for n in range(8)), "the boiler code is 4711", "end"])
    assert cut(text, 21, 30, query_terms("boiler code"), 30) == (
        "the boiler code is 4711\nend",
        29,
        30,
    )


def test_without_any_term_it_is_the_beginning() -> None:
    assert cut("one\ntwo\nthree\nfour", 1, 4, query_terms("boiler"), 8) == ("one\ntwo", 1, 2)
    assert cut("one\ntwo\nthree\nfour", 1, 4, [], 8) == ("one\ntwo", 1, 2)


def test_lines_with_all_words_beat_many_lines_with_one() -> None:
    common = [f"the boiler in flat {n} was cleaned" for n in range(18)]
    answer = ["the boiler stands in the pantry", "a valve is behind it"]
    text = "\n".join([*common, *["nothing of note"] * 5, *answer, "one more", "the last"])
    near = [0.5] * 18 + [0.35] * 9  # the cosines are in favour of the many lines
    reader = LineReader(dict.fromkeys(query_terms("boiler valve"), 1.0))
    assert "\n".join(answer) in cut_snippet(text, 1, 27, reader, 400, near).text


def test_the_longest_runs_of_lines_end_where_the_next_line_does_not_fit() -> None:
    lines = read_lines("aaa\nbb\n\nand a long line\nc?\n")
    assert list(lines.starts) == [0, 4, 7, 8, 24, 27, 28]
    assert (lines.blank, lines.asking) == ((2, 5), (4,))
    assert lines.run_ends(6) == (1, 2, 2, 3, 5)
    assert lines.run_ends(1) == (0, 1, 2, 3, 4, 5)
    assert lines.run_ends(100) == (5,)


def test_more_distinct_terms_beat_more_of_one() -> None:
    text = "boiler boiler\nboiler\nboiler\n\n\n\n\n\nthe valve of the boiler\nend"
    assert shown(text, "boiler valve", 25) == "the valve of the boiler"


def test_blank_lines_at_the_edges_are_left_out() -> None:
    assert cut("\n\nboiler\n\n", 3, 7, query_terms("boiler"), 700) == ("boiler", 5, 5)


def test_another_form_of_a_word_counts() -> None:
    assert shown("aaaa aaaa\nbbbb bbbb\nwe deployed it", "deploying", 15) == "we deployed it"


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("Zürich im Juni", "zurich"),
        ("das war in zurich", "Zürich"),
        ("今天玩成语接龙游戏", "成语接龙"),
        ("今天玩成语接龙游戏", "龙"),
        ("がぎぐげご です", "がぎ"),
        ("デプロイガイドを読む", "ガイド"),
        ("내일 회의록 정리", "회의록"),
        ("यहाँ हिन्दी लिखा है", "हिन्दी"),
        ("İstanbul'a gittik", "istanbul"),
    ],
)
def test_the_line_is_found_in_any_script(line: str, query: str) -> None:
    text = f"{'x' * 30}\n{'y' * 30}\n{line}\n{'z' * 30}"
    assert line in shown(text, query, 30)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("boiler", "boiler"),
        ("deployments", "deployment"),
        ("zurich", "Zürich"),
        ("がぎ", "がぎ"),
    ],
)
def test_one_long_line_is_cut_around_its_first_term(query: str, word: str) -> None:
    text = f"{'filler ' * 200}{word} {'filler ' * 200}"
    snippet = shown(text, query, 100)
    assert word in snippet
    assert len(snippet) <= 100


def test_letters_that_grow_when_folded_do_not_move_the_cut() -> None:
    text = f"{'İ' * 400} boiler {'x ' * 400}"
    assert "boiler" in shown(text, "boiler", 100)


def test_a_cut_line_keeps_its_one_line() -> None:
    snippet = cut("filler " * 300 + "boiler", 9, 9, query_terms("boiler"), 100)
    assert (snippet.start_line, snippet.end_line) == (9, 9)


@given(
    LINES,
    st.integers(1, 1000),
    st.sampled_from(["boiler", "a b c", "成语", ""]),
    st.integers(40, 200),
)
def test_a_snippet_is_lines_of_the_chunk_with_their_numbers(
    lines: list[str], start: int, query: str, max_chars: int
) -> None:
    end = start + len(lines) - 1
    snippet = cut("\n".join(lines), start, end, query_terms(query), max_chars)
    assert len(snippet.text) <= max_chars
    assert start <= snippet.start_line <= snippet.end_line <= end
    named = lines[snippet.start_line - start : snippet.end_line - start + 1]
    assert snippet.text.split("\n") == named


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=1, max_size=300),
    st.text(max_size=10),
    st.integers(40, 80),
)
def test_any_one_line_is_cut_to_a_piece_of_it(line: str, query: str, max_chars: int) -> None:
    snippet = cut(line, 3, 3, query_terms(query), max_chars)
    assert snippet.text in line
    assert len(snippet.text) <= max_chars
    assert (snippet.start_line, snippet.end_line) == (3, 3)


def test_highlights_are_where_the_words_stand() -> None:
    text = "The boilers leak.\nNo boiler.\nÄrger im Bad, boiler 漢字"
    reader = LineReader(dict.fromkeys(query_terms("boiler ärger 漢字"), 1.0))
    found = [text[start:end] for start, end in highlights(text, reader)]
    assert found == ["boilers", "boiler", "Ärger", "boiler", "漢字"]
    assert highlights("", reader) == []


def test_a_line_that_folding_makes_longer_is_not_marked() -> None:
    reader = LineReader(dict.fromkeys(query_terms("boiler"), 1.0))
    assert highlights("ﬁne boiler\nboiler", reader) == [(11, 17)]


def test_the_likeliest_line_of_a_snippet_is_known() -> None:
    text = "User: hello\nAssistant: the boiler is in the pantry\nUser: thanks"
    reader = LineReader(dict.fromkeys(query_terms("boiler pantry"), 1.0))
    assert cut_snippet(text, 5, 7, reader, 700).best == 1
    assert cut_snippet(text, 5, 7, reader, 45).best == 1
