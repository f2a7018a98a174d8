"""Parts of names and numbers, beginnings of ids, and emoji."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index import schema
from memoryd.index.driver import Connection, sqlite
from memoryd.search.evidence import ChunkText, Question, Weigher
from memoryd.search.lexical import read_corpus, search
from memoryd.text.parts import PART, emoji_word, is_emoji, parts_of
from memoryd.text.tokenize import Term, fts_columns, query_terms


@pytest.fixture
def index() -> Iterator[Connection]:
    connection: Connection = sqlite.connect(":memory:", isolation_level=None)
    schema.create(connection, Path("/workspace"))
    assert schema.ensure_fts(connection) is None
    yield connection
    connection.close()


def add(index: Connection, *texts: str) -> None:
    for row, text in enumerate(texts, start=1):
        columns = fts_columns(text, "memory/a.md", "")
        index.execute(
            "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, ?)", (row, *columns)
        )


def coverage(index: Connection, query: str, *texts: str) -> list[float]:
    asked = Question.read(query)
    corpus = read_corpus(index, asked.terms, asked.language)
    return [
        one.evidence.coverage
        for one in Weigher(asked, corpus).weigh([ChunkText.of(t, "", 8) for t in texts])
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("getUserById", ["userbyid", "byid"]),
        ("an XMLHttpRequest", ["httprequest", "request"]),
        ("+351 912 345 678", ["351912345678", "912345678", "345678"]),
        ("(030) 1234 5678", ["03012345678", "12345678"]),
        ("+351912345678", ["51912345678", "1912345678", "912345678"]),
        ("DE89 3704 0044", ["de8937040044", "37040044"]),
        ("1 250 000 CZK", ["1250000", "250000"]),
        ("2026-03-23 14:05", []),
        ("23.03.2026", []),
        ("plain words, 42 of them", []),
        ("snake_case and kebab-case", []),
        ("A" * 40 + "b" * 40 + "C", []),
    ],
)
def test_names_and_numbers_have_parts(text: str, parts: list[str]) -> None:
    assert parts_of(text) == [PART + part for part in parts]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Deployed commit 362acf8967b7e1f0 on Monday", "362acf8"),
        ("The parcel is JD014600003RU", "JD0146"),
        ("Fernanda: +351 912 345 678", "912345678"),
        ("Fernanda: +351 912 345 678", "+351912345678"),
        ("Pedro: +351917654321", "917 654 321"),
        ("Rent: DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("getUserById is slow", "getUser"),
        ("getUserById is slow", "userById"),
        ("getUserById is slow", "GETUSERBYID"),
        ("Wir wohnen in der Heinestraße 12", "Heine"),
        ("Release party 🎉!", "🎉"),
        ("Coffee order:☕flat white", "☕"),
        ("Trip 🇵🇹 in May", "🇵🇹"),
        ("Mira: 👍🏽 for the plan", "👍🏿"),
    ],
)
def test_a_part_finds_the_whole(index: Connection, text: str, query: str) -> None:
    add(index, "nothing to do with it, 1234 times 👎 🇪🇸", text)
    asked = Question.read(query)
    corpus = read_corpus(index, asked.terms, asked.language)
    assert [row for row, _ in search(index, corpus, 5)] == [2]
    assert coverage(index, query, text)[0] > 0.2


def test_a_whole_word_comes_before_a_part(index: Connection) -> None:
    texts = ("Heinestraße 12", "Heine wrote it", "nothing")
    add(index, *texts)
    corpus = read_corpus(index, query_terms("Heine"))
    assert [row for row, _ in search(index, corpus, 5)] == [2, 1]
    part, whole, nothing = coverage(index, "Heine", *texts)
    assert whole == pytest.approx(1.0)
    assert 0.5 < part < whole
    assert nothing == 0.0


def test_a_word_that_many_chunks_have_has_no_parts(index: Connection) -> None:
    add(index, *["a boiler"] * 24, "boilerplate")
    corpus = read_corpus(index, query_terms("boiler"))
    assert corpus.parts == {}


def test_a_short_word_of_a_question_begins_nothing_else(index: Connection) -> None:
    add(index, "the market", "marketing plan")
    assert read_corpus(index, query_terms("who gave Tom a mark yesterday")).parts == {}
    assert Term("mark") in read_corpus(index, query_terms("mark")).parts


def test_emoji_are_terms() -> None:
    assert query_terms("🎉") == [Term("🎉")]
    assert [term.text for term in query_terms("party🎉 🇵🇹👍🏽")] == ["party", "🎉", "🇵🇹", "👍"]


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_parts_are_words_of_the_index(text: str) -> None:
    for part in parts_of(text):
        assert part[0] == PART
        assert part[1:].isalnum()
        assert part == part.lower()


@given(st.text(min_size=1, max_size=2))
def test_an_emoji_has_a_word(text: str) -> None:
    if is_emoji(text):
        assert emoji_word(text)[1:].isalnum()
