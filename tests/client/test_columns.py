"""The width of text on a terminal, and the layout that depends on it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd_client.shared.text_width import column_width, cut, display_width, pad, table, wrap

NFD_HANGUL = unicodedata.normalize("NFD", "한글")

PRINTABLE = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("a 東 e\u0301👩\u200d💻🇵🇹️")
)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("tea", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("東京", 4),
        ("東京 tea", 8),
        ("ﾃｨｰ", 3),
        ("ＴＥＡ", 6),
        ("한글", 4),
        (NFD_HANGUL, 4),
        ("ไทย", 3),
        ("ที่นี่", 2),
        ("a\u200bb", 2),
        ("soft\u00adhyphen", 11),
        ("🙂", 2),
        ("👍🏽", 2),
        ("👩\u200d💻", 2),
        ("👩\u200d❤\ufe0f\u200d👨", 2),
        ("🏳\ufe0f\u200d🌈", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("1\ufe0f\u20e3", 2),
        ("🇵🇹", 2),
        ("🇵🇹🇯🇵", 4),
        ("क\u094d\u200dष", 2),
        ("—…α│", 4),
    ],
)
def test_display_width(text: str, width: int) -> None:
    assert display_width(text) == width


def test_pad_fills_up_on_either_side() -> None:
    assert pad("東京", 6) == "東京  "
    assert pad("東京", 6, right=True) == "  東京"
    assert pad("東京", 3) == "東京"


@pytest.mark.parametrize(
    ("text", "width", "beginning"),
    [
        ("tea time", 3, "tea"),
        ("tea", 9, "tea"),
        ("東京", 3, "東"),
        ("e\u0301e\u0301", 1, "e\u0301"),
        ("👩\u200d💻x", 2, "👩\u200d💻"),
        ("🇵🇹🇯🇵", 3, "🇵🇹"),
        ("東", 1, ""),
    ],
)
def test_cut_ends_between_characters(text: str, width: int, beginning: str) -> None:
    assert cut(text, width) == beginning


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("tea", 5, ["tea"]),
        ("green tea", 5, ["green", "tea"]),
        ("green tea", 6, ["green", "tea"]),
        ("green   tea", 5, ["green", "tea"]),
        ("green  tea time", 20, ["green  tea time"]),
        ("tea    ", 3, ["tea"]),
        ("marshmallow", 5, ["marsh", "mallo", "w"]),
        ("a marshmallow", 6, ["a", "marshm", "allow"]),
        ("  - tea time", 7, ["  - tea", "time"]),
        ("    marshmallow", 6, ["    ma", "rshmal", "low"]),
        ("東京の港区", 4, ["東京", "の港", "区"]),
        ("東京の港区", 5, ["東京", "の港", "区"]),
        ("東京", 1, ["東", "京"]),
        ("see 東京の港区", 9, ["see", "東京の港", "区"]),
        ("👩\u200d💻👩\u200d💻", 3, ["👩\u200d💻", "👩\u200d💻"]),
    ],
)
def test_wrap_breaks_at_spaces_else_between_characters(
    text: str, width: int, lines: list[str]
) -> None:
    assert wrap(text, width) == lines


@given(PRINTABLE, st.integers(2, 40))
def test_wrapped_text_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    if display_width(text) <= width:
        assert lines == [text]


@given(PRINTABLE, st.integers(0, 40))
def test_a_cut_line_is_as_much_as_fits(text: str, width: int) -> None:
    head = cut(text, width)
    assert text.startswith(head)
    assert display_width(head) <= width
    if head != text:
        assert display_width(cut(text, width + 1)) <= width + 1
        assert display_width(text) > width


@given(PRINTABLE, st.integers(0, 200))
def test_padded_text_has_the_width(text: str, width: int) -> None:
    assert display_width(pad(text, width)) == max(width, display_width(text))


def test_a_long_line_is_wrapped_in_little_time() -> None:
    # A quadratic algorithm would take minutes.
    lines = wrap("東" * 200_000, 80)
    assert len(lines) == 5_000


def test_table_aligns_columns() -> None:
    rows = [("id", "files", "where"), ("メモ", "3", "/a"), ("e\u0301", "120", "")]
    assert table(rows, right=frozenset({1})) == [
        "id    files  where",
        "メモ      3  /a",
        "e\u0301       120",
    ]


def test_a_very_wide_cell_pushes_only_its_own_row() -> None:
    wide = "x" * 100
    assert table([(wide, "a"), ("y", "b")]) == [f"{wide}  a", "y" + " " * 47 + "  b"]


def test_a_table_without_rows_is_empty() -> None:
    assert table([]) == []
    assert column_width([]) == 0
