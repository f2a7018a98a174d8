"""Typed queries: operators, and plain text without loss."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.query import MAX_GLOB_CHARS, MAX_GLOB_STARS, Filters, Query, parse

PIECES = st.lists(
    st.sampled_from(
        (
            *("boiler", "-old", "-e", "--force", "path:a", 'path:"my notes"', "path:", "since:x"),
            *("since:2026-01-05", "until:2026-02-30", "source:memory", "source:mail", '"', "-"),
            *(
                '"two words"',
                '"x -old y"',
                "a:b",
                "成语接龙",
                "-成语接龙",
                "x-y",
                "NEAR(a",
                "-a1b2",
            ),
        )
    )
    | st.text(st.characters(codec="utf-8"), max_size=12),
    max_size=8,
)


def filters(typed: str) -> Filters:
    return parse(typed).filters


def test_plain_text_is_the_question() -> None:
    assert parse("who is  the dentist\n of Mira?") == Query("who is the dentist of Mira?")
    assert parse("  ") == Query("")


def test_all_operators_at_once() -> None:
    query = parse(
        "boiler -serviced path:people source:memory since:2026-10-01 valve until:2026-10-31 -cold"
    )
    assert (query.text, query.without, query.required) == ("boiler valve", ("serviced", "cold"), ())
    assert query.filters == Filters(
        sources=frozenset({"memory"}),
        path_glob="**people**",
        since=datetime.date(2026, 10, 1),
        until=datetime.date(2026, 10, 31),
    )


def test_a_plain_name_stands_for_all_paths_that_have_it() -> None:
    assert filters("path:people x").path_glob == "**people**"
    assert filters("path:memory/*.md x").path_glob == "memory/*.md"
    assert filters("path:not?s x").path_glob == "not?s"
    assert filters('path:"my notes" x').path_glob == "**my notes**"


@pytest.mark.parametrize(
    "typed",
    [
        "since:yesterday x",
        "since:2026-13-01 x",
        "until:2026-02-30 x",
        "until:2026-1-1 x",
        "path: x",
        'path:"" x',
        'x path:"',
        f"path:{'*' * (MAX_GLOB_STARS + 1)} x",
        f"path:{'a' * (MAX_GLOB_CHARS + 1)} x",
        "origin:country x",
        "conversation:yesterday x",
        "SINCE:2026-01-01 x",
        "xpath:a",
        "(path:a)",
        "color:red x",
        "a:b c::d",
    ],
)
def test_what_is_no_operator_or_has_no_such_value_is_text(typed: str) -> None:
    assert parse(typed) == Query(typed)


def test_the_origin_and_the_conversation_of_notes() -> None:
    query = parse('origin:Agent pier "conversation:sessions/my chats/a.jsonl#L3-L7"')
    assert query.filters == Filters(origins=frozenset({"agent"}))
    query = parse('pier conversation:"sessions/my chats/a.jsonl#L3-L7"')
    assert query == Query("pier", filters=Filters(conversation="sessions/my chats/a.jsonl"))


def test_the_second_of_a_kind_is_text() -> None:
    query = parse("path:a path:b since:2026-01-01 since:2026-01-02 x")
    assert query.text == "path:b since:2026-01-02 x"
    assert query.filters == Filters(path_glob="**a**", since=datetime.date(2026, 1, 1))


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "grep -e x",
            "git push --force",
            "ls -la x",
            "rm -rf x",
            "x -",
            "x --",
            "x -1",
            "x -2026",
        ),
        *(
            "x -foo_bar",
            "x -foo.py",
            "x-old",
            "x (-old)",
            "x -old.",
            "x —old",
            "x -O'Brien",
            "5 -3",
        ),
    ],
)
def test_flags_and_dashes_are_text(typed: str) -> None:
    assert parse(typed) == Query(typed)


@pytest.mark.parametrize("word", ["old", "Old", "straße", "v1x", "成语接龙", "привет"])
def test_a_word_behind_a_dash_is_left_out(word: str) -> None:
    assert parse(f"boiler -{word}") == Query("boiler", without=(word,))
    assert parse(f"-{word} boiler") == Query("boiler", without=(word,))


@pytest.mark.parametrize("typed", ["-old", "-old -cold", " -old "])
def test_where_nothing_else_is_asked_there_is_nothing_to_leave_out(typed: str) -> None:
    assert parse(typed) == Query(typed.strip())
    assert parse(f"path:a {typed}").text == typed.strip()


def test_strings_in_quotes_alone_are_required() -> None:
    assert parse('"filling tap"').required == ("filling tap",)
    assert parse('"filling tap" "two"').required == ("filling tap", "two")
    query = parse('"filling tap" -old path:a')
    assert (query.required, query.without) == (("filling tap",), ("old",))
    assert query.filters.path_glob == "**a**"


@pytest.mark.parametrize(
    "typed", ['where is the "filling tap"', '"x', '"a"', '""', '" ', '"one" two', "“one two”"]
)
def test_in_a_question_quotes_are_text(typed: str) -> None:
    assert parse(typed) == Query(typed.strip())


@pytest.mark.parametrize(
    "quoted", ["git push -force now", "see path:a there", "x since:2026-01-01", "a -old"]
)
def test_in_quotes_there_are_no_operators(quoted: str) -> None:
    assert parse(f'"{quoted}"') == Query(f'"{quoted}"', required=(quoted,))
    assert parse(f'who wrote "{quoted}"').text == f'who wrote "{quoted}"'


def test_operators_alone_ask_nothing() -> None:
    query = parse("path:a since:2026-01-01")
    assert query.text == ""
    assert not query.filters.empty


@given(st.text(st.characters(codec="utf-8", exclude_characters=":-"), max_size=80))
def test_of_plain_text_nothing_is_lost(typed: str) -> None:
    query = parse(typed)
    assert query.text == " ".join(typed.split())
    assert (query.without, query.filters) == ((), Filters())


@given(PIECES)
def test_each_piece_is_text_or_an_operator_in_its_order(pieces: list[str]) -> None:
    typed = " ".join(pieces)
    query = parse(typed)
    left = iter(query.text.split())
    wanted = next(left, None)
    taken = []
    for piece in typed.split():
        if piece == wanted:
            wanted = next(left, None)
        else:
            taken.append(piece)
    assert wanted is None
    rest = iter(taken)
    for piece in rest:
        if piece.startswith("-"):
            assert piece[1:] in query.without
            continue
        name, _, value = piece.partition(":")
        assert name in ("path", "source", "since", "until"), piece
        if value.count('"') == 1:
            next(piece for piece in rest if piece.endswith('"'))


@pytest.mark.parametrize(
    ("typed", "text", "without"),
    [
        ('key -"brief mention"', "key", ("brief mention",)),
        ('-"brief mention" key -old', "key", ("brief mention", "old")),
        ('"spare key" -"brief mention"', '"spare key"', ("brief mention",)),
        ('-"brief mention"', '-"brief mention"', ()),
        ('a "quoted -"part', 'a "quoted -"part', ()),
        ('x-"no operator"', 'x-"no operator"', ()),
    ],
)
def test_a_phrase_behind_a_dash_is_excluded(
    typed: str, text: str, without: tuple[str, ...]
) -> None:
    query = parse(typed)
    assert (query.text, query.without) == (text, without)
