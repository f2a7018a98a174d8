"""Other forms of a question's words are found, in the language of the question only."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from memoryd.index import schema
from memoryd.index.driver import Connection, sqlite
from memoryd.search import vocabulary
from memoryd.search.evidence import Question
from memoryd.search.lexical import read_corpus, search
from memoryd.search.text_match import Finder
from memoryd.search.vocabulary import Vocabulary, words_with
from memoryd.search.word_forms import read_forms
from memoryd.text.fold import fold
from memoryd.text.tokenize import Term, fts_columns


@pytest.fixture
def index() -> Iterator[Connection]:
    connection: Connection = sqlite.connect(":memory:", isolation_level=None)
    schema.create(connection, Path("/workspace"))
    assert schema.ensure_fts(connection) is None
    yield connection
    connection.close()


def add(index: Connection, *texts: str) -> None:
    for text in texts:
        row = index.execute("SELECT coalesce(max(id), 0) + 1 FROM chunks_fts_docsize").fetchone()
        index.execute(
            "INSERT INTO chunks_fts (rowid, body, context) VALUES (?, ?, ?)",
            (*row, *fts_columns(text, "memory/a.md", "")),
        )


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Мы были на даче в июне.", "где дача"),
        ("Врачу надо позвонить.", "когда врач"),
        ("Ключі лежать у сусідки.", "де ключ"),
        ("Ключът е при съседа.", "къде е ключ"),
        ("الكتاب على الطاولة", "أين كتاب"),
        ("موعد مع طبيب", "متى الطبيب"),
        ("הבית נמכר", "איפה בית"),
        ("בית ישן", "מה הבית"),
        ("Die Häuser am Hang", "wem gehört das Haus"),
        ("Las canciones de la fiesta", "¿cuál es la canción?"),
        ("Kitapları rafa koydum", "kitap nerede ne zaman"),
        ("Του αυτοκινήτου τα λάστιχα", "που είναι το αυτοκίνητο"),
        ("Książkę ma Ania", "gdzie jest książka"),
        ("Zavolat lékaři", "kdy mám jít za lékařem"),
        ("A kulcsokat otthagytam", "hol van a kulcs"),
        ("Avaimet ovat naapurilla", "missä on avaimen koukku"),
        ("किताबें मेज पर हैं", "किताब कहाँ है"),
        ("Knjige su na polici", "gdje je moja knjiga"),
    ],
)
def test_another_form_of_a_word_is_found(index: Connection, text: str, question: str) -> None:
    add(index, text, "nothing to do with it")
    asked = Question.read(question)
    corpus = read_corpus(index, asked.terms, asked.language)
    assert [row for row, _ in search(index, corpus, 5)] == [1]
    places = Finder(asked.terms, corpus.forms).places(fold(text))
    assert [bool(found) for found in places] == [count > 0 for count in corpus.frequency.values()]
    assert any(places)


def test_what_has_any_form_is_counted_once(index: Connection) -> None:
    add(index, "дача и дачу", "дачи", "другое")
    (term,) = Question.read("где дача").terms
    assert read_corpus(index, [term], "ru").frequency == {term: 2}


@pytest.mark.parametrize("word", ["general", "canciones", "running", "hauser"])
def test_an_english_question_gets_no_forms_of_another_language(
    index: Connection, word: str
) -> None:
    add(index, "generous generales cancion canciones run runs haus hauser")
    assert read_forms(partial(words_with, index), Term(word), "en") == ()


def test_the_script_tells_the_language_of_a_lone_word(index: Connection) -> None:
    add(index, "дачу", "κλειδιά")
    assert read_forms(partial(words_with, index), Term("дача"), "en") == ("дачу",)
    assert read_forms(partial(words_with, index), Term("κλειδι"), "ru") == ("κλειδια",)


@pytest.mark.parametrize(
    "term", [Term("12345"), Term("龙", prefix=True), Term("成语"), Term("ab"), Term("")]
)
def test_numbers_short_words_and_pairs_of_characters_have_no_forms(
    index: Connection, term: Term
) -> None:
    add(index, "123456 成语接龙 abc")
    assert read_forms(partial(words_with, index), term, "de") == ()


def test_words_in_memory_are_found_as_in_the_index(
    index: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "MOST_FOUND", 3)
    add(
        index,
        "run runs runner running rung 12345 дача дачу 成语接龙 getUserById 𝒳𝒴 ﬁne zoo",
    )
    words = dict(index.execute("SELECT term, doc FROM chunks_fts_terms").fetchall())
    begins = sorted(
        {word[:end] for word in words for end in range(1, len(word) + 1)} | {"q", "zzz"}
    )
    kept = Vocabulary(0)
    assert kept.count("run") is None
    kept.words_with(index, "run")
    assert {word: kept.count(word) for word in words} == words
    assert kept.count("ru") == kept.count("zzz") == 0
    found = {begin: kept.words_with(index, begin) for begin in begins}
    assert found == {begin: words_with(index, begin) for begin in begins}
    index.execute("DROP TABLE chunks_fts_terms")
    assert kept.words_with(index, "run") == found["run"]


def test_more_words_than_memory_has_room_for_are_looked_up(
    index: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "_MOST_WORDS", 2)
    add(index, "one two three")
    kept = Vocabulary(0)
    assert [kept.words_with(index, begin) for begin in "tto"] == [["three", "two"]] * 2 + [["on"]]
