"""Text between private tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.source.notes.read import MAX_ATTRIBUTES, NOT_CLOSED, mask_private


def masked(text: str) -> str:
    lines, remark = mask_private(text.split("\n"))
    assert remark is None
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>x</private> b", "a  b"),
        ("<private>x</private>", ""),
        ("a\n<private>\nx\ny\n</private>\nb", "a\n\n\n\n\nb"),
        ("a <private>x\ny\nz</private> b", "a \n\n b"),
        ("<PRIVATE>x</Private>y", "y"),
        ('<private reason="mine">x</private>y', "y"),
        ("<private\tx>x</private >y", "y"),
        ("<private>x<private>y</private>z</private>w", "w"),
        ("<private>x</private>a<private>y</private>", "a"),
        ("<private/>a<private />b<private x=y/>c", "abc"),
        ("<private>x<private/>y</private>z", "z"),
        ("```\n<private>x</private>\n```", "```\n\n```"),
        ("<private\nreason=x>\ny</private>z", "\n\nz"),
        ("<private a b\n>y</private>z", "\nz"),
        ('<private reason="a < b">y</private>z', "z"),
        ("<private x <b>y</b></private>z", "z"),
        (f"<private {'x' * MAX_ATTRIBUTES}x>y</private>z", "z"),
        ("<private>`</private>`x</private>z", "z"),
        ("<private>`<private>`</private>x</private>z", "z"),
        ("<<private>x</private>>", "<>"),
        ("<privat<private>x</private>e>", "<private>"),
    ],
)
def test_what_is_private_is_taken_out_and_lines_stay(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing here",
        "a < b, <b>bold</b>, <https://example.org>",
        "write `<private>` and `</private>` around it",
        "</private> alone",
        "<privately>x</privately>",
        "<private-note>x",
        "< private>x</ private>",
        "&lt;private&gt;x",
        "a private matter",
    ],
)
def test_what_has_no_tags_is_left_alone(text: str) -> None:
    lines = text.split("\n")
    result, remark = mask_private(lines)
    assert (result, remark) == (lines, None)
    assert result is lines


def test_one_that_is_not_closed_hides_to_the_end_and_is_told() -> None:
    lines = ["a", "b <private>x", "y</private><private", "z", ""]
    assert mask_private(lines) == (["a", "b ", "", "", ""], NOT_CLOSED)
    assert NOT_CLOSED == "a <private> block is not closed: hidden to the end"
    assert mask_private(["<private>", "<private>", "x</private>", "y"])[1] == NOT_CLOSED


def test_a_placeholder_stands_once_on_each_line_that_is_private() -> None:
    lines = ["a <private>x</private> b", "<private>", "x", "", "y</private> c", "<private/>", "d"]
    shown, remark = mask_private(lines, placeholder="[private]")
    assert remark is None
    assert shown == [
        "a [private] b",
        "[private]",
        "[private]",
        "[private]",
        "[private] c",
        "[private]",
        "d",
    ]


def test_openings_without_an_end_count_each() -> None:
    many = 20_000
    line = "<private " * many + ">x" + "</private>" * many + "y"
    assert mask_private([line]) == (["y"], None)


OPEN = st.sampled_from(["<private>", "<PRIVATE>", '<private a="b">', "<Private x>"])
CLOSE = st.sampled_from(["</private>", "</PRIVATE >", "</Private>"])
PUBLIC = st.text("ab <>/\n", max_size=8)
SECRET = st.text("XY <>/\n`", max_size=8)
BLOCK = st.recursive(
    st.tuples(OPEN, SECRET, CLOSE),
    lambda inner: st.tuples(OPEN, SECRET, inner, SECRET, CLOSE),
    max_leaves=4,
)


def flat(block: object) -> str:
    return block if isinstance(block, str) else "".join(map(flat, block))  # type: ignore[call-overload]


@given(st.lists(st.tuples(PUBLIC, BLOCK), max_size=4), PUBLIC, st.sampled_from(["", "[private]"]))
def test_nothing_between_tags_survives(
    parts: list[tuple[str, object]], tail: str, placeholder: str
) -> None:
    text = "".join(public + flat(block) for public, block in parts) + tail
    lines = text.split("\n")
    shown, remark = mask_private(lines, placeholder=placeholder)
    assert len(shown) == len(lines)
    assert not set("XY") & set("\n".join(shown))
    if remark is None and not placeholder:
        kept = "".join(public for public, _ in parts) + tail
        assert "".join(shown).replace("\n", "") == kept.replace("\n", "")


@given(st.lists(st.text("ab<private>/` ", max_size=30), max_size=6))
def test_lines_stay_as_many_as_they_were(lines: list[str]) -> None:
    shown, _ = mask_private(lines)
    assert len(shown) == len(lines)
    assert all(len(a) <= len(b) for a, b in zip(shown, lines, strict=True))


@given(st.lists(st.text(st.characters(exclude_characters="<")), max_size=6))
def test_a_text_without_tags_is_unchanged(lines: list[str]) -> None:
    assert mask_private(lines) == (lines, None)
