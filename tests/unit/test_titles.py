"""Titles that a question may consist of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.catalog import Catalog, FileRow
from memoryd.messages import FileFacts, FileKey, FileStat
from memoryd.text.titles import asked_titles, file_key, title_key


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Paley's Watch", "paleys_watch"),
        ("Paley’s  Watch", "PALEYS-WATCH"),
        ("Über uns", "uber uns"),
        ("Straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("Ёлка", "елка"),
        ("café", "cafe\u0301"),
        ("C++ (notes)", "c++ notes"),
        ("🎉", "🎉"),
    ],
)
def test_titles_that_are_the_same(left: str, right: str) -> None:
    assert title_key(left) == title_key(right) != ""


@pytest.mark.parametrize(
    ("left", "right"), [("C", "C++"), ("C#", "C"), ("か", "が"), ("a b", "ab"), ("🎉", "🎈")]
)
def test_titles_that_differ(left: str, right: str) -> None:
    assert title_key(left) != title_key(right)


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Smart Contract", "Smart Contract"),
        ("what is a smart contract?", "Smart Contract"),
        ("tell me about the art of war", "The Art of War"),
        ("tell me about the art of war", "Art of War"),
        ("smart-contract.md", "Smart Contract"),
        ("[[Smart Contract]]", "Smart Contract"),
        ("[[Smart Contract#Use|contracts]]", "Smart Contract"),
        ("“Smart Contract”", "Smart Contract"),
        ("what is C++?", "C++"),
        ("Was ist der Kalender?", "Kalender"),
        ("Qu'est-ce que la montre ?", "Montre"),
        ("Akıllı sözleşme nedir?", "Akıllı sözleşme"),
        ("什么是仪表盘？", "仪表盘"),
        ("Obsidian URI 是什么", "Obsidian URI"),
        ("プラグインとは何ですか？", "プラグイン"),
        ("グラフビューは何ですか", "グラフビュー"),
        ("플러그인이 뭐야?", "플러그인"),
        ("그래프 뷰란 무엇인가요?", "그래프 뷰"),
        ("who is it", "who is it"),
    ],
)
def test_a_question_about_a_title_asks_for_it(question: str, title: str) -> None:
    assert title_key(title) in asked_titles(question)


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("smart contract deadline", "Smart Contract"),
        ("what did Ana say about the smart contract", "Smart Contract"),
        ("플러그인 설정", "플러그인"),
        ("仪表盘设置", "仪表盘"),
    ],
)
def test_a_question_with_more_words_asks_for_more(question: str, title: str) -> None:
    assert title_key(title) not in asked_titles(question)


def test_the_longest_title_comes_first() -> None:
    asked = asked_titles("what is the art of war")
    assert asked.index("the art of war") < asked.index("art of war")


@given(st.text(max_size=60))
def test_every_title_asks_for_itself(title: str) -> None:
    key = title_key(title)
    assert title_key(key) == key
    assert not key or key in asked_titles(title)
    assert not file_key(title) or file_key(title) in asked_titles(f"{file_key(title)}.md")


@given(st.text(max_size=300))
def test_no_question_asks_for_many_titles(question: str) -> None:
    assert len(asked_titles(question)) <= 100


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("필터 뜻이 뭐야?", "필터"),
        ("필터의 의미는 무엇인가요?", "필터"),
        ("过滤器的意思是什么？", "过滤器"),
        ("フィルターの意味は何ですか", "フィルター"),
    ],
)
def test_a_question_for_a_meaning_asks_for_the_title(question: str, title: str) -> None:
    assert title_key(title) in asked_titles(question)


def test_the_catalog_finds_all_files_of_a_title() -> None:
    def row(number: int) -> FileRow:
        return FileRow(number, "", FileStat(0, 0, 0), 0, facts=FileFacts("Boiler"))

    a, b, c = (FileKey("memory", f"{name}.md") for name in "abc")
    catalog = Catalog({a: row(1), b: row(2)})
    catalog.put(b, row(2))
    catalog.put(c, row(3))
    found = [catalog.titled("boiler")]
    for key in (b, a, c):
        catalog.remove(key)
        found.append(catalog.titled("boiler"))
    assert found == [[a, b, c], [a, c], [c], []]
    assert catalog.titled("b") == []
