"""Literal strings in a question, and the exactness of their matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.verbatim import exactness, verbatim_strings, verbatim_units

WORDS = st.text(st.characters(codec="utf-8"), max_size=30)


@pytest.mark.parametrize(
    ("query", "string"),
    [
        ("upgrade to 2026.4.10 tonight?", "2026.4.10"),
        ("what is MAN-2184", "MAN-2184"),
        ("error E1234, again", "E1234"),
        ("see ~/src/app.py:12 please", "~/src/app.py:12"),
        ("(http://a.example/c?d=e).", "http://a.example/c?d=e"),
        ("mail mira@northmoss.example, now", "mira@northmoss.example"),
        ("where is snake_case_name set", "snake_case_name"),
        ("is _private used", "_private"),
        ("getUserName broke", "getUserName"),
        ("call parse_query() here", "parse_query"),
        ("node.js or not", "node.js"),
        ("it costs $5.99", "$5.99"),
        ("be there at 10:30", "10:30"),
        ("the well-known bug", "well-known"),
        ("ＭＡＮ－２１８４", "MAN-2184"),
        ("请问MAN-2184的状态是什么？", "MAN-2184"),
        ("重跑gen-itgc后要看什么", "gen-itgc"),
        ("版本2026.4.10の変更", "2026.4.10"),
    ],
)
def test_words_that_are_no_prose_are_strings(query: str, string: str) -> None:
    assert verbatim_strings(query) == [string]
    assert string in verbatim_units(query)


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ('say "hello world" aloud', "hello world"),
        ("“curly words” here", "curly words"),
        ("„guten Tag“ sagte sie", "guten Tag"),
        ("er sagte »guten Tag«", "guten Tag"),
        ("hon sade ”god dag”", "god dag"),
        ("«bon jour»", "bon jour"),
        ("「こんにちは」と言った", "こんにちは"),
        ("『本の名前』は何", "本の名前"),
        ('say " spaced " aloud', "spaced"),
        ('an "open quote', None),
        ('"" nothing', None),
        ('"  " blank', None),
    ],
)
def test_what_is_quoted_is_a_string(query: str, quoted: str | None) -> None:
    assert verbatim_strings(query) == ([] if quoted is None else [quoted])


@pytest.mark.parametrize(
    "query",
    [
        "who is the dentist of Mira?",
        "don't go, l'école is O’Brien's",
        "Sentences. With, marks; and (brackets)!",
        "成语接龙，怀孕。",
        "約束は何ですか？",
        "约翰·史密斯",
        "2010年1月3日",
        "",
    ],
)
def test_prose_has_no_strings(query: str) -> None:
    assert verbatim_strings(query) == []


def test_several_strings_stay_apart() -> None:
    assert verbatim_strings("«un mot» et «deux mots» et “trois”") == [
        "un mot",
        "deux mots",
        "trois",
    ]


def test_a_string_counts_once() -> None:
    assert verbatim_strings('"a_b" and a_b') == ["a_b"]
    assert verbatim_strings("a.b c/d a.b") == ["a.b", "c/d"]


@pytest.mark.parametrize("query", ["boiler code", "filling tap pressure", "成语接龙", "C++", "#42"])
def test_a_short_query_is_a_unit_as_a_whole(query: str) -> None:
    assert verbatim_units(query) == [query]


@pytest.mark.parametrize("query", ["boiler", "怀", "x", "", "1"])
def test_one_word_is_no_unit(query: str) -> None:
    assert verbatim_units(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "what is the code?",
        "成语接龙？",
        "这是什么。",
        "one two three four five six seven",
        "ab " * 21,
    ],
)
def test_a_question_and_a_long_query_are_no_unit(query: str) -> None:
    assert verbatim_units(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "git log --oneline -n 5 --graph --all main",
        "for i in range(10): print(i) and then it stops",
        "std::vector of what is in the code there",
        "if a = b then c is what it should be",
        "what does foo() do?",
    ],
)
def test_code_is_a_unit_however_long(query: str) -> None:
    assert query in verbatim_units(query)
    assert query not in verbatim_strings(query)


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("2026.4.1", "from 2026.4.1 on", 1.0),
        ("2026.4.1", "from 2026.4.1.", 1.0),
        ("2026.4.1", "(2026.4.1)", 1.0),
        ("2026.4.1", "2026.4.10", 0.2),
        ("2026.4.10", "2026.4.1", 0.0),
        ("2026.4", "2026.4.10", 0.6),
        ("2026.4.1", "2026.4.10, then 2026.4.1", 1.0),
        ("2026.4.10", "v2026.4.10", 0.7),
        ("2026.4.10", "rev2026.4.10", 0.2),
        ("MAN-2184", "MAN-2184", 1.0),
        ("MAN-2184", "man-2184", 0.93),
        ("MAN-2184", "MAN-21845", 0.2),
        ("MAN-2184", "OLD-MAN-2184", 0.6),
        ("getUserName", "getusername", 0.93),
        ("getUserName", "forgetUserName", 0.2),
        ("app.py", "src/app.py", 0.6),
        ("app.py", "app.py.", 1.0),
        ("a_b", "a_b_c", 0.6),
        ("café noir", "cafe noir", 0.93),
        ("cafe noir", "CAFÉ NOIR", 0.93),
        ("İstanbul-1", "istanbul-1", 0.93),
        ("成语", "玩成语接龙", 1.0),
        ("gen-itgc", "重跑gen-itgc后", 1.0),
        ("MAN-2184", "nothing of it", 0.0),
        ("MAN-2184", "", 0.0),
        ("MAN-2184", "MAN- 2184", 0.0),
    ],
)
def test_how_exactly_a_text_has_a_string(unit: str, text: str, expected: float) -> None:
    assert exactness(unit, text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("the spare **key** is", "the `spare` key", "spare _key_", "__spare__ ~~key~~"),
        *("[spare](https://example.org/a_b?c=d) key", 'the spare [key](keys.md "all keys")'),
        *("spare [key][1]", "the [[keys|spare]] key", "spare ![[key]]", "[[spare|key]]"),
        *("a spare\nkey", "spare <b>key</b>", "a ==spare== **key**"),
    ],
)
def test_a_phrase_matches_across_marks(text: str) -> None:
    assert exactness("spare key", text) == pytest.approx(0.97)


@pytest.mark.parametrize(
    "text", ["- spare\n- key", "spare\n\nkey", "# spare\n# key", "spare, key", "**spare** no key"]
)
def test_what_divides_a_sentence_divides_a_phrase(text: str) -> None:
    assert exactness("spare key", text) == 0.0


def test_the_ladder() -> None:
    """Exact, in another case, with a v, as a part, inside a word, not at all."""
    texts = ("A-1b", "a-1B", "x/A-1b", "A-1bc", "A-2b")
    levels = [exactness("A-1b", text) for text in texts]
    assert levels == sorted(set(levels), reverse=True)
    assert (levels[0], levels[-1]) == (1.0, 0.0)
    assert exactness("1.2", "V1.2") > exactness("1.2", "1.2.3") > exactness("1.2", "11.2")


@pytest.mark.parametrize("unit", ["\u0301\u0300", "\u0301"])
def test_marks_alone_stand_nowhere_but_in_themselves(unit: str) -> None:
    assert exactness(unit, "é and e") == 0.0


@given(WORDS, WORDS)
def test_a_level_is_a_share(unit: str, text: str) -> None:
    assert 0.0 <= exactness(unit, text) <= 1.0


@given(WORDS.filter(str.strip), WORDS, WORDS)
def test_a_string_between_spaces_is_there_just_so(unit: str, before: str, after: str) -> None:
    assert exactness(unit, f"{before} {unit} {after}") == 1.0


@given(WORDS, WORDS, WORDS)
def test_more_text_never_takes_a_string_away(unit: str, text: str, more: str) -> None:
    assert exactness(unit, f"{text}\n{more}") >= exactness(unit, text)


@given(WORDS)
def test_strings_are_among_the_units_and_no_unit_is_empty(query: str) -> None:
    found = verbatim_units(query)
    assert set(verbatim_strings(query)) <= set(found)
    assert len(found) == len(set(found))
    assert all(unit.strip() for unit in found)


@pytest.mark.parametrize("text", ["备用**钥匙**在家", "备用`钥匙`在家", "备用[钥匙](a.md)在家"])
def test_a_phrase_without_spaces_matches_across_marks(text: str) -> None:
    assert exactness("备用钥匙", text) >= 0.9
    assert exactness("备用梯子", text) == 0.0
