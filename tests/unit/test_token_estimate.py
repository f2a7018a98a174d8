"""Sizes in quarter tokens, and cutting a long line without splitting a grapheme."""

import unicodedata
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.token_estimate import pieces, weigh, well_formed

FAMILY = "👨‍👩‍👧‍👦"
CHARACTERS = [
    *(
        "a",
        "é",
        "ж",
        "क",
        "ก",
        "汉",
        "한",
        "。",
        "—",
        "😀",
        "┌",
        "\ufffd",
        "e\u0301",
        "a\u0323\u0300",
    ),
    *(
        "❤️",
        "👍🏽",
        FAMILY,
        "🇩🇪",
        "น้ำ",
        "ﾊﾞ",
        unicodedata.normalize("NFD", "각"),
        "Z" + "\u0335" * 40,
    ),
    *(" ", ". ", "! ", ", ", "word "),
]
EXTENDING = {"\u200c", "\u200d", "\u0e33", "\uff9e", *map(chr, range(0x1F3FB, 0x1F400))}


def graphemes(text: str) -> list[str]:
    """Graphemes, composed from left to right."""
    found: list[str] = []
    for char in text:
        extends = (
            char in EXTENDING
            or unicodedata.category(char).startswith("M")
            or 0x1160 <= ord(char) <= 0x11FF
        )
        flag = "🇦" <= char <= "🇿"
        before = found[-1] if found else ""
        half_flag = len(before) == 1 and "🇦" <= before <= "🇿"
        if before and (extends or before.endswith("\u200d") or (flag and half_flag)):
            found[-1] += char
        else:
            found.append(char)
    return found


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", 0),
        ("plain, old ASCII\t", 17),
        ("naïve", 5),
        ("ȿ", 1),
        ("ɐ", 3),
        ("жукӿ", 8),
        ("Ԁ", 3),
        ("ελλ", 9),
        ("ไทย", 9),
        ("हिन्दी", 18),
        ("汉字", 8),
        ("かな", 8),
        ("한글", 8),
        (unicodedata.normalize("NFD", "한"), 12),
        ("ქართ", 16),
        ("ＡＢ！", 12),
        ("ｱｲ", 8),
        ("、。", 8),
        ("┌──█", 16),
        ("→★☐", 12),
        ("😀", 4),
        (FAMILY, 28),
        ("ab汉", 6),
        ("\ud800", 4),
        ("\ud83d\ude00", 8),
    ],
)
def test_a_text_weighs(text: str, units: int) -> None:
    assert weigh(text) == units


@given(st.text(st.characters()), st.text(st.characters()))
def test_the_weight_of_a_whole_is_that_of_its_parts(left: str, right: str) -> None:
    assert weigh(left + right) == weigh(left) + weigh(right)


@given(st.characters())
def test_a_character_weighs_a_quarter_token_to_a_token(char: str) -> None:
    assert 1 <= weigh(char) <= 4


@given(st.text(st.characters()))
def test_well_formed_text_can_be_encoded_and_weighs_the_same(text: str) -> None:
    formed = well_formed(text)
    assert formed.encode().decode() == formed
    assert len(formed) == len(text)
    assert weigh(formed) == weigh(text)


def test_only_lone_surrogates_are_replaced() -> None:
    assert well_formed("a\ud800b\udfff汉😀") == "a\ufffdb\ufffd汉😀"


@given(st.lists(st.sampled_from(CHARACTERS), max_size=300), st.integers(4, 120))
def test_pieces_keep_to_the_weight_and_break_no_character(parts: list[str], units: int) -> None:
    text = "".join(parts)
    cut = list(pieces(text, units=units, max_bytes=8000))
    assert "".join(cut) == text
    assert all(weigh(piece) <= units or len(graphemes(piece)) == 1 for piece in cut)
    assert [char for piece in cut for char in graphemes(piece)] == graphemes(text)


@given(st.text(), st.integers(4, 50), st.integers(4, 50))
def test_pieces_keep_to_the_bytes(text: str, units: int, max_bytes: int) -> None:
    cut = list(pieces(text, units=units, max_bytes=max_bytes))
    assert "".join(cut) == text
    assert all(0 < len(piece.encode()) <= max_bytes for piece in cut)


@given(
    st.lists(st.sampled_from([*CHARACTERS, "\ud800"]), max_size=300),
    st.integers(4, 120),
    st.integers(4, 60),
    st.integers(1, 500),
)
def test_it_makes_no_difference_how_much_is_looked_at_at_once(
    parts: list[str], units: int, max_bytes: int, window: int
) -> None:
    text = "".join(parts)
    whole = list(pieces(text, units=units, max_bytes=max_bytes))
    with patch("memoryd.text.token_estimate._WINDOW_CHARS", window):
        assert list(pieces(text, units=units, max_bytes=max_bytes)) == whole


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One is here. Two is there, somewhere", "One is here. "),
        ("One is here! Two is there, somewhere", "One is here! "),
        ('They say "so." And on it went', 'They say "so." '),
        ("No sentence ends near here or there", "No sentence ends "),
        ("version 1.2.3.4.5.6.7.8.9.10.11.12", "version 1.2.3.4.5.6."),
        ("https://example.org/" + "x" * 40, "https://example.org/"),
        ("天气好。我们去公园", "天气好。"),
        ("今天，天气很好", "今天，"),
        ("अब। फिर कभी नहीं", "अब। फिर "),
        ("汉字测试文本内容", "汉字测试文"),
    ],
)
def test_a_piece_ends_at_a_sentence_or_else_a_word(text: str, first: str) -> None:
    assert next(pieces(text, units=20, max_bytes=8000)) == first


def test_a_closing_quote_stays_with_its_sentence() -> None:
    assert next(pieces("他说「好。」然后走了", units=28, max_bytes=8000)) == "他说「好。」"


def test_a_break_in_the_first_half_is_too_early() -> None:
    assert next(pieces("Oh. " + "x" * 40, units=20, max_bytes=8000)) == "Oh. " + "x" * 16


@pytest.mark.parametrize("character", ["e\u0301", "👍🏽", "❤️", FAMILY, "🇩🇪", "ﾊﾞ", "กำ"])
def test_a_character_on_the_limit_goes_to_the_next_piece(character: str) -> None:
    for before in range(40 - weigh(character) + 1, 40):
        text = "x" * before + character + "y" * 9
        assert next(pieces(text, units=40, max_bytes=8000)) == "x" * before


def test_flags_are_paired_from_the_left() -> None:
    cut = list(pieces("🇩🇪🇫🇷🇯🇵🇰🇪", units=12, max_bytes=8000))
    assert cut == ["🇩🇪", "🇫🇷", "🇯🇵", "🇰🇪"]


def test_a_character_larger_than_the_limit_is_one_piece() -> None:
    stacked = "Z" + "\u0335" * 100
    assert list(pieces("ab" + stacked + "cd", units=10, max_bytes=8000)) == ["ab", stacked, "cd"]


def test_only_bytes_cut_a_character() -> None:
    assert list(pieces("Z" + "\u0335" * 5, units=100, max_bytes=5)) == [
        "Z\u0335\u0335",
        "\u0335\u0335",
        "\u0335",
    ]
