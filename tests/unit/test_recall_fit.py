"""Evidence that an entry fits a message, the kind of a message, and the part of it that counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.search.evidence import Question
from memoryd.search.lexical import Corpus
from memoryd.search.message_kind import learn, samples
from memoryd.search.overlap import NO_OVERLAP, Comparer, Overlap
from memoryd.search.recall import SHOWN, fit
from memoryd.text.message import MAX_CHARS, essence, has_phrase


def compare(message: str, text: str, title: str = "") -> Overlap:
    question = Question.read(message)
    corpus = Corpus(100, 20.0, dict.fromkeys(question.terms, 1))
    return Comparer(message, question, corpus).compare(text, title)


def test_rare_words_and_names_count() -> None:
    found = compare("Book a table, Ana is coming too", "- Ana can't eat hazelnuts.")
    assert found.words == pytest.approx(1.0)
    assert found.names == pytest.approx(1.0)
    assert compare("the database is slow", "- The database listens on 5433.").names == 0.0
    assert compare("Book a table", "- Ana can't eat hazelnuts.") == NO_OVERLAP
    both = compare("Tell Wout about the tiles", "Wout wants calls. The tiles are ours.")
    assert both.words == pytest.approx(2.0)
    assert both.names == pytest.approx(1.0)


def test_a_capital_at_the_start_of_both_is_no_name() -> None:
    assert compare("Database is slow", "- Database listens on 5433.").names == 0.0
    assert compare("Ana is coming", "- Dinner with Ana").names == pytest.approx(1.0)


def test_headings_count_half_and_pairs_of_characters_less() -> None:
    assert compare("the boiler", "- F28 means low pressure", "Boiler").words == pytest.approx(0.5)
    assert compare("兰花", "阳台的兰花").words == pytest.approx(0.8)
    assert 0.0 < compare("two boiler words", "boiler").share < 1.0


def test_what_is_shown() -> None:
    fits = Overlap(2.0, 1.0, 0.4)
    assert fit(fits, 0.4, -0.5) > 0.9 > SHOWN
    assert fit(fits, 0.4, -0.5) > fit(fits, 0.4, 0.5)
    assert fit(fits, 0.4, -0.5) > fit(fits, 0.1, -0.5)
    assert fit(NO_OVERLAP, 0.3, -0.6) < SHOWN
    assert fit(Overlap(1.0, 0.0, 0.3), None, None) < SHOWN < fit(Overlap(3.0, 1.0, 0.6), None, None)
    assert fit(fits, None, -0.5) == fit(fits, 0.4, None)


def test_the_kind_of_a_message_is_learnt_from_samples() -> None:
    own, other = samples()
    assert len(own) > 50
    assert len(other) > 50
    assert not set(own) & set(other)
    random = np.random.default_rng(7)
    towards = random.standard_normal(32)
    vectors = random.standard_normal((200, 32)).astype(np.float32)
    vectors[:100] += towards.astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kind = learn(list(vectors[:90]), list(vectors[100:190]))
    assert np.mean([kind.of(vector) for vector in vectors[90:100]]) < -0.2
    assert np.mean([kind.of(vector) for vector in vectors[190:]]) > 0.2


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (" a \n\n b  c ", "a\nb c"),
        ("look:\n```py\nx = 1\n```\nwhy?", "look:\nwhy?"),
        ("look:\n~~~\nnever closed", "look:"),
        ("> quoted\nmine", "mine"),
        ("", ""),
    ],
)
def test_the_part_of_a_message_that_counts(message: str, kept: str) -> None:
    assert essence(message) == kept


@given(st.text(max_size=3_000))
def test_it_is_short_and_encodable(message: str) -> None:
    kept = essence(message)
    assert len(kept) <= MAX_CHARS + 1
    kept.encode()
    assert "\n\n" not in kept


def test_both_ends_of_a_long_message_count() -> None:
    words = [f"w{n}" for n in range(1_000)]
    kept = essence(" ".join(words)).split()
    assert kept[0] == "w0"
    assert kept[-1] == "w999"
    assert set(kept) < set(words)


@pytest.mark.parametrize(
    ("message", "phrase", "has"),
    [
        ("We plan dinner parties.", "dinner party", True),
        ("a party after dinner", "dinner party", False),
        ("Wir gehen ins Restaurant!", "restaurant", True),
        ("Хочу съездить на дачу", "дача", True),
        ("周末去吃火锅", "火锅", True),
        ("restaurants", "rest", False),
        ("anything", "", False),
        ("anything", "!?", False),
    ],
)
def test_a_trigger_matches_words_in_any_form(message: str, phrase: str, has: bool) -> None:
    assert has_phrase(message, phrase) is has
