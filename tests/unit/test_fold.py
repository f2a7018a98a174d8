"""Folding: what people take for the same letters becomes the same characters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.fold import fold, unspaced_share


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Heinestraße", "HEINESTRASSE"),
        ("αυτοκίνητο", "ΑΥΤΟΚΙΝΗΤΟ"),
        ("λόγος", "λογοσ"),
        ("ёлочные", "елочные"),
        ("Đà Nẵng", "da nang"),
        ("Ægir Sørensen", "aegir sorensen"),
        ("Łódź", "lodz"),
        ("ılık İzmir", "ilik izmir"),
        ("Zahn\u00adarzt\u200btermin", "zahnarzttermin"),
        ("مُحَمَّد", "محمد"),
        ("الأُولى", "الاولي"),
        ("کتاب ی", "كتاب ي"),
        ("מִלָּה", "מלה"),
        ("٣٤ ۳۴ ३४", "34 34 34"),
        ("ＡＢＣ ﬁle", "abc file"),
        ("❤\ufe0f", "❤"),
    ],
)
def test_letters_that_people_type_for_one_another_are_one(text: str, typed: str) -> None:
    assert fold(text) == fold(typed)


@pytest.mark.parametrize(
    ("one", "other"),
    [("мой", "мои"), ("かき", "がき"), ("นา", "น้ำ"), ("தமிழ்", "தமிழ"), ("का", "की")],
)
def test_letters_that_differ_for_every_reader_stay_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(st.text())
def test_both_ways_to_write_a_letter_fold_to_one(text: str) -> None:
    composed = fold(unicodedata.normalize("NFC", text))
    assert composed == fold(unicodedata.normalize("NFD", text))
    assert fold(composed) == composed


@pytest.mark.parametrize(
    ("text", "share"), [("", 0.0), ("plain", 0.0), ("가나ab", 0.5), ("猫", 1.0)]
)
def test_the_share_of_scripts_without_spaces(text: str, share: float) -> None:
    assert unspaced_share(text) == share
