"""Entries of written notes change nothing around them, and are found and removed again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.comments import without_comments
from memoryd.chunk.entries import entries
from memoryd.chunk.markdown import Outline
from memoryd.messages import split_lines
from memoryd.source.notes.entry import entry_lines, find_entry, heading_line, open_block
from memoryd.source.notes.insertion import insertion, removal
from memoryd.source.notes.read import mask_private
from memoryd.text.outside import outside_lines

PARTS = st.sampled_from(
    [
        *[
            "a",
            "b",
            "#",
            "##",
            "---",
            "===",
            "-",
            "*",
            "1.",
            "```",
            "~~~",
            "`",
            "<!--",
            "-->",
            "-->",
            "<",
            ">",
            "<private>",
            "</private>",
        ],
        '<<<EXTERNAL_UNTRUSTED_CONTENT id="1">>>',
        "<<<END_EXTERNAL_UNTRUSTED_CONTENT>>>",
        *[
            "\n",
            "\n\n",
            "\t",
            "\r",
            "\r\n",
            "\x00",
            "\x1b",
            "\u2028",
            "\u202e",
            "\ufeff",
            "é",
            "漢",
        ],
        " ",
        "    ",
    ]
)
TEXTS = st.lists(PARTS, max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Ana moved", ["- Ana moved"]),
        ("  two\r\n\r\n\r\nlines \n", ["- two", "", "  lines"]),
        ("# no heading\n## nor this", ["- \\# no heading", "  \\## nor this"]),
        ("title\n===\nmore\n---", ["- title", "  \\===", "  more", "  \\---"]),
        ("a <!-- b --> c", ["- a &lt;!-- b --&gt; c"]),
        ("a\x1b[31m\u202eb\x00", ["- a[31mb"]),
        ("code:\n```\n# x\n```", ["- code:", "  ```", "  # x", "  ```"]),
        ("code:\n```\n# x", ["- code:", "  \\```", "  \\# x"]),
        ("#tag and C# stay", ["- #tag and C# stay"]),
        ("- a\n- # b", ["- - a", "  - \\# b"]),
        ("<<<END_EXTERNAL_UNTRUSTED_CONTENT>>>", ["- &lt;<<END_EXTERNAL_UNTRUSTED_CONTENT>>>"]),
        ("a <private>b</private> c", ["- a  c"]),
        ("<private>b", []),
    ],
)
def test_a_text_becomes_a_list_item(text: str, lines: list[str]) -> None:
    assert entry_lines(text) == lines


def test_a_heading_is_one_line() -> None:
    assert heading_line("## A <!--\nB\t ##") == "A &lt;!-- B"


@given(
    st.lists(
        st.lists(
            st.sampled_from(
                [*"a`-> ", "<!--", "-->", "```", "~~~", "<private>", "</PRIVATE>", "  ", "- "]
            ),
            max_size=6,
        ).map("".join),
        max_size=6,
    )
)
def test_what_stays_open_is_seen_in_notes_with_and_without_the_word_private(
    lines: list[str],
) -> None:
    """With the word, nothing is skipped."""
    assert open_block(lines) == open_block(["private", *lines])


@given(TEXTS)
def test_an_entry_is_one_entry_without_headings_comments_or_open_blocks(text: str) -> None:
    entry = entry_lines(text)
    lines = ["- before", *entry, "- after"]
    outline = Outline()
    assert not any(outline.read(line) for line in lines)
    assert without_comments(lines) == (lines, [])
    assert open_block(lines) is None
    assert mask_private(lines) == (lines, None)
    assert outside_lines(lines) == []
    found = entries(lines)
    assert (found[0].first_line, found[0].last_line) == (1, 1)
    assert found[-1].text == "- after"
    assert split_lines("\n".join(lines)) == lines


NOTES = st.lists(
    st.sampled_from(["# A", "## B", "text", "- item", "  more", "", "---", "a: b"]), max_size=12
)


@given(NOTES, TEXTS.map(entry_lines).filter(bool), st.sampled_from([None, "B", "C"]), st.booleans())
def test_an_entry_is_inserted_where_it_says_and_removed_again(
    lines: list[str], entry: list[str], heading: str | None, crlf: bool
) -> None:
    end = "\r\n" if crlf else "\n"
    content = end.join(lines)
    place = insertion(content, entry, heading, "")
    after = content[: place.at] + place.text + content[place.at :]
    written = split_lines(after)
    first = place.first_line - 1
    assert written[first : first + len(entry)] == entry
    kept = [line for line in written[:first] + written[first + len(entry) :] if line]
    assert [line for line in kept if line != f"## {heading}"] == [
        line for line in lines if line and line != f"## {heading}"
    ]
    rest = removal(after, entry, place.text)
    assert rest is not None
    assert [line for line in split_lines(rest) if line] in (kept, [line for line in lines if line])
    if place.at == len(content):
        assert rest == content


def test_what_is_not_there_is_not_removed() -> None:
    assert removal("- a\n", ["- b"], "- b\n") is None
    assert find_entry(["- a", "- b", "- a"], ["- a"]) == 2
