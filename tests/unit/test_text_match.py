"""Terms are located where FTS5 finds them with the tokenizer of the index."""

import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryd.index.driver import Connection, sqlite
from memoryd.search.text_match import Finder, FoldedText, TermPosition, terms_of_lines
from memoryd.text.fold import fold
from memoryd.text.stem import stem
from memoryd.text.tokenize import FTS5_TOKENIZE, Term, index_text, phrases, query_terms

ENGLISH = (
    *("deploy", "run", "relat", "generaliz", "happ", "fl", "d", "agre", "hop", "fizz", "sk", "cr"),
    *("possib", "capab", "probab", "biolog", "technolog", "terrib", "assemb", "trek", "rev", "ey"),
    *("oscillat", "condition", "electric", "valen", "hesitan", "formal", "sensitiv", "hope", "o"),
    *("e", "be", "ti", "control", "adopt", "argu", "caress", "pon", "trouble", "siz", "decis"),
)
ENDINGS = (
    *("", "e", "s", "es", "ed", "ing", "ly", "er", "y", "ies", "ied", "ness", "ment", "ation"),
    *("ility", "le", "ly", "ical", "ist", "ize", "izer", "ful", "fulness", "ance", "ancy", "ence"),
    *("king", "ked", "ving", "ved", "ping", "ality", "ity", "ive", "iveness", "ion", "ators", "'s"),
)
LATIN = ("Zürich", "café", "naïve", "Łódź", "Straße", "İstanbul", "Møller", "Việt", "ﬁle", "ＡＢＣ")
UNSPACED = (
    *("成语接龙", "怀孕", "龙", "しりとり", "カフェ", "ｶﾌｪ", "がぎ", "かき", "ガイド", "회의록"),
    *("여행", "พรุ่งนี้", "เชียงใหม่", "ระ", "รุ", "𠀀𠀁", "重跑gen-itgc后"),
)
CODES = ("2026.4.10", "E1234", "snake_case", "camelCase", "O'Brien", "x²", "½", "a/b-c")
OTHERS = ("привет", "हिन्दी", "தமிழ்", "Αθήνα", "ёлка", "שָׁלוֹם", "שלום", "مُحَمَّد", "محمد")
FORMS = st.builds(str.__add__, st.sampled_from(ENGLISH), st.sampled_from(ENDINGS)).filter(
    lambda form: form not in ("eed", "eeds", "ies", "sses")  # implementations of Porter differ
)
CHANGES = st.sampled_from(
    (str, str.upper, str.title, lambda word: unicodedata.normalize("NFD", word))
)
GAPS = st.sampled_from(("", " ", " ", "-", "_", ".", "\n", "’", "/", "，"))


def words(*kinds: tuple[str, ...]) -> st.SearchStrategy[str]:
    known = st.sampled_from([word for kind in kinds for word in kind])
    return st.builds(lambda change, word: change(word), CHANGES, known | FORMS)


def texts(word: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(word, GAPS).map("".join), min_size=1, max_size=5).map("".join)


class Fts5:
    """An FTS5 table of one text, with the index's tokenizer."""

    def __init__(self) -> None:
        self.connection: Connection = sqlite.connect(":memory:", isolation_level=None)
        for table in (
            f'fts5(body, tokenize = "{FTS5_TOKENIZE}")',
            "fts5vocab(t0, instance)",
        ):
            count = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            self.connection.execute(f"CREATE VIRTUAL TABLE t{1 if count else 0} USING {table}")

    def put(self, text: str) -> None:
        self.connection.execute("DELETE FROM t0")
        self.connection.execute("INSERT INTO t0 VALUES (?)", (index_text(text),))

    def tokens(self, text: str) -> list[str]:
        self.put(text)
        found = self.connection.execute("SELECT term FROM t1 ORDER BY offset").fetchall()
        return [str(term) for (term,) in found]

    def has(self, term: Term) -> bool:
        found = self.connection.execute(
            "SELECT count(*) FROM t0 WHERE t0 MATCH ?", tuple(phrases(term))
        )
        return bool(found.fetchone()[0])


@pytest.fixture(scope="module")
def fts5() -> Iterator[Fts5]:
    table = Fts5()
    yield table
    table.connection.close()


def spans(places: list[TermPosition]) -> list[tuple[int, int]]:
    return [(place.start, place.end) for place in places]


def found(text: str, query: str) -> list[str]:
    """Return the parts of a folded text that match the terms of a query."""
    folded = fold(text)
    places = Finder(query_terms(query)).places(folded)
    return [folded[place.start : place.end] for each in places for place in each]


@settings(max_examples=400)
@given(st.data())
def test_what_is_found_is_what_fts5_matches(fts5: Fts5, data: st.DataObject) -> None:
    word = words(LATIN, UNSPACED, CODES)
    text = data.draw(texts(word))
    fts5.put(text)
    for term in query_terms(data.draw(word | st.just(text))):
        (places,) = Finder([term]).places(fold(text))
        assert bool(places) is fts5.has(term), term


@settings(max_examples=200)
@given(st.data())
def test_in_other_scripts_nothing_is_missed(fts5: Fts5, data: st.DataObject) -> None:
    """FTS5 folds the diacritics of Latin only, so the finder may find more than it matches."""
    word = words(OTHERS, UNSPACED)
    text = data.draw(texts(word))
    fts5.put(text)
    for term in query_terms(data.draw(word | st.just(text))):
        (places,) = Finder([term]).places(fold(text))
        assert places or not fts5.has(term), term


@settings(max_examples=400)
@given(form=FORMS.filter(str.isalpha))
@example("technologie")
@example("yes")
@example("eed")
@example("sses")
def test_stems_are_those_of_fts5(fts5: Fts5, form: str) -> None:
    assert [stem(form)] == fts5.tokens(form)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("there is a possibility", "possible"),
        ("possibly", "possibility"),
        ("the capability", "capabilities"),
        ("technology", "technologies"),
        ("archaeologically", "archaeology"),
        ("an apology", "apologize"),
        ("we went trekking", "trek"),
        ("revving", "revs"),
        ("assembly", "assembled"),
        ("eyed", "eyed"),
        ("agreed", "agree"),
        ("generalizations", "general"),
        ("deployed", "deploying"),
        ("happiness", "happy"),
        ("flies", "flied"),
        ("dying", "dying"),
        ("hopping", "hop"),
    ],
)
def test_forms_of_an_english_word_are_one(fts5: Fts5, text: str, query: str) -> None:
    fts5.put(text)
    (term,) = query_terms(query)
    assert fts5.has(term)
    assert found(text, query) == [text.split()[-1]]


def test_words_that_only_begin_alike_are_not() -> None:
    assert found("universe unify", "unit") == []
    assert found("sky skies", "ski") == ["skies"]
    assert found("hoping", "hop") == []


@settings(max_examples=200)
@given(st.data())
def test_places_are_whole_words_in_their_order(data: st.DataObject) -> None:
    word = words(LATIN, CODES)
    text = fold(data.draw(texts(word)))
    for term, places in zip(
        terms := query_terms(data.draw(word)), Finder(terms).places(text), strict=True
    ):
        assert places == sorted(places)
        for start, end in spans(places):
            piece = text[start:end]
            assert piece.isalnum()
            assert stem(piece) == stem(fold(term.text))
            assert not text[max(0, start - 1) : start].isalnum()
            assert not text[end : end + 1].isalnum()


@settings(max_examples=50)
@given(st.data())
def test_searching_texts_together_finds_the_same(data: st.DataObject) -> None:
    word = words(LATIN, UNSPACED, OTHERS)
    read = [FoldedText(fold(text)) for text in data.draw(st.lists(texts(word), max_size=4))]
    finder = Finder(query_terms(data.draw(texts(word))))
    assert finder.places_in_each(read) == {text: finder.places_in(text) for text in read}


def test_places_are_where_the_words_stand() -> None:
    folded = fold("Das Café. Die Cafés?")
    cafe, die = Finder([Term("cafe"), Term("die")]).places(folded)
    assert spans(cafe) == [(4, 8), (14, 19)]
    assert spans(die) == [(10, 13)]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("重跑gen-itgc后", "itgc", ["itgc"]),
        ("重跑gen-itgc后", "gen", ["gen"]),
        ("重跑itgc后", "itgc", ["itgc"]),
        ("重跑gen-itgc后", "重跑", ["重跑"]),
        ("重跑gen-itgc后", "后", ["后"]),
        ("xitgc后", "itgc", []),
        ("itgcx后", "itgc", []),
    ],
)
def test_a_word_ends_where_a_script_without_spaces_begins(
    text: str, query: str, expected: list[str]
) -> None:
    assert found(text, query) == expected


def test_runs_are_found_in_bigrams_which_may_overlap() -> None:
    assert found("成语接龙", "成语接") == ["成语", "语接"]
    (places,) = Finder([Term("哈哈")]).places("哈哈哈")
    assert spans(places) == [(0, 2), (1, 3)]


def test_one_character_is_the_beginning_of_what_follows() -> None:
    """The index has the character as a prefix: every position matches, the last of a run too."""
    (places,) = Finder([Term("龙", prefix=True)]).places("接龙，龙舟，龙")
    assert spans(places) == [(1, 2), (3, 4), (6, 7)]


def test_a_prefix_stands_anywhere() -> None:
    (places,) = Finder([Term("bo", prefix=True)]).places("boiler")
    assert spans(places) == [(0, 2)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("cafe\u0301", "café"),
        ("CAFÉ", "cafe"),
        ("Ａｂｃ", "abc"),
        ("𝕬𝖇𝖈", "abc"),
        ("zürich", "Zu\u0308rich"),
    ],
)
def test_case_width_and_latin_diacritics_do_not_count(text: str, query: str) -> None:
    assert len(found(text, query)) == 1


@pytest.mark.parametrize(
    ("text", "query"), [("かき", "がぎ"), ("ハス", "バス"), ("ระ", "รุ"), ("นา", "น้ำ")]
)
def test_marks_of_scripts_without_spaces_make_another_letter(text: str, query: str) -> None:
    assert found(text, query) == []


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "שָׁלוֹם", "مُحَمَّد"])
def test_marks_do_not_end_a_word(word: str) -> None:
    assert found(f"x {word} y", word) == [fold(word)]
    (place,) = Finder(query_terms(word)).places(fold(f"{word}।"))[0]
    assert spans([place]) == [(0, len(fold(word)))]


def test_the_lines_of_the_words_are_known() -> None:
    text = FoldedText("tap and valve\n\nnothing\nvalve, valves; tap\nboiler")
    finder = Finder(map(Term, ("tap", "valve", "boiler", "code")))
    tap, valve, boiler, code = finder.places_in(text)
    assert code is None
    assert tap
    assert valve
    assert boiler
    assert (valve.starts, valve.ends, valve.frequency) == ((8, 23, 30), (13, 28, 36), 3)
    assert (tap.lines, valve.lines, boiler.lines) == ((0, 3), (0, 3), (4,))
    assert (tap.line_bits, boiler.line_bits) == (0b1001, 0b10000)
    assert terms_of_lines([tap, valve, boiler, code]) == {0: 0b11, 3: 0b11, 4: 0b100}
    assert finder.places_in(text)[1] is valve
    assert finder.places_in(FoldedText("something else")) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\nit's a_b, 12.5\nend", ["it", "s", "a", "b", "12", "5"]),
        ("eins\nüber – 2\nend", ["über", "2"]),
        ("一\n用 gorum 端口\nend", ["gorum"]),
        ("x\nהַבַּיִת 3\nend", ["ה", "ב", "י", "ת", "3"]),
    ],
)
def test_a_line_has_its_words(text: str, words: list[str]) -> None:
    assert FoldedText(text).words_of_line(1) == words
    assert FoldedText(text).words_of_line(2) == ["end"]


def test_nothing_is_found_in_nothing() -> None:
    assert Finder([]).places("text") == []
    assert Finder([Term("word")]).places("") == [[]]


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    once = fold(text)
    assert fold(once) == once


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.text(max_size=10))
def test_no_text_is_too_odd(text: str, query: str) -> None:
    folded = fold(text)
    for places in Finder(query_terms(query)).places(folded):
        assert all(0 <= start < end <= len(folded) for start, end in spans(places))


def test_searches_that_stem_at_the_same_time_do_not_disturb_each_other() -> None:
    forms = [f"{start}{ending}{ending}" for start in ENGLISH for ending in ENDINGS]
    stem.cache_clear()
    alone = [stem(form) for form in forms]
    stem.cache_clear()
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            # Each thread starts at a different form, so that none only reads cached results.
            shares = [forms[start::4] + forms for start in range(4)]
            together = list(threads.map(lambda share: [stem(form) for form in share], shares))
    finally:
        sys.setswitchinterval(interval_s)
    assert [found[-len(forms) :] for found in together] == [alone] * 4
