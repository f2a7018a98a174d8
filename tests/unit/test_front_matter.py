"""Front matter as people and programs write it, well or badly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.front_matter import (
    MOST_NAMED_CHARS,
    MOST_VALUE_CHARS,
    Properties,
    names,
    read_front_matter,
    searched,
    tags,
)


def read(*lines: str) -> Properties:
    found = read_front_matter(["---", *lines, "---", "Text."])
    assert (found.lines, found.remark) == (len(lines) + 2, None)
    return found.properties


@pytest.mark.parametrize(
    ("lines", "properties"),
    [
        (["title: Paleys Watch"], {"title": ("Paleys Watch",)}),
        (['title: "Paley\'s: \\"Watch\\""'], {"title": ('Paley\'s: "Watch"',)}),
        (["title: 'It''s late' # a comment"], {"title": ("It's late",)}),
        (["title: Issue #12 # a comment"], {"title": ("Issue #12",)}),
        (["title: Dune: Part Two"], {"title": ("Dune: Part Two",)}),
        (["Title:\tTabs"], {"title": ("Tabs",)}),
        (["aliases: [the watch, 'a, b', [[Other]]]"], {"aliases": ("the watch", "a, b", "Other")}),
        (["aliases:", "  - the watch", '  - "b"'], {"aliases": ("the watch", "b")}),
        (["aliases:", "- the watch", "-", "- b"], {"aliases": ("the watch", "b")}),
        (["aliases:", "\t- tabs"], {"aliases": ("tabs",)}),
        (["alias: one, two"], {"alias": ("one", "two")}),
        (["aliases:"], {"aliases": ()}),
        (["tags: essay nature/birds, old"], {"tags": ("essay", "nature/birds", "old")}),
        (["tags: #essay"], {"tags": ("essay",)}),
        (["tags: [", "  essay,", "  old", "]"], {"tags": ("essay", "old")}),
        (["tags:", "  - machine learning"], {"tags": ("machine learning",)}),
        (["up: [[Projects|All]]"], {"up": ("Projects|All",)}),
        (["up: [[A]], [[B]]"], {"up": ("[[A]], [[B]]",)}),
        (
            ["summary: >-", "  One", "  two.", "", "done: yes"],
            {"summary": ("One two.",), "done": ("yes",)},
        ),
        (["summary: one", "  two"], {"summary": ("one two",)}),
        (["author:", "  name: Ana", "  mail: a@b"], {"author": ("name: Ana", "mail: a@b")}),
        (
            ["time: 12:30", "date: 2026-03-23", "n: ~"],
            {"time": ("12:30",), "date": ("2026-03-23",), "n": ()},
        ),
        (
            ["# a comment", "", '"quoted name": 1', "名前: 犬"],
            {"quoted name": ("1",), "名前": ("犬",)},
        ),
        (["a: 1", "A: 2"], {"a": ("1", "2")}),
        ([], {}),
    ],
)
def test_values_are_texts_by_name(lines: list[str], properties: Properties) -> None:
    assert read(*lines) == properties


def test_toml_is_read_too() -> None:
    lines = ["+++", 'title = "X"', "date = 2026-03-23", "[taxonomies]", 'tags = ["a", "b"]', "+++"]
    properties = {"title": ("X",), "date": ("2026-03-23",), "tags": ("a", "b")}
    assert read_front_matter(lines) == (properties, 6, None)
    found = read_front_matter(["+++", "title = X", "+++"])
    assert (found.properties, found.lines) == ({}, 0)
    assert "no TOML" in (found.remark or "")


def test_page_properties_of_logseq_stay_text() -> None:
    found = read_front_matter(["title:: The watch", "alias:: Paley, clock", "", "- Text, a:: b"])
    assert found == ({"title": ("The watch",), "alias": ("Paley", "clock")}, 0, None)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Text."],
        ["---"],
        ["---", "title: never closed"],
        ["---", "Text between two rules.", "---"],
        ["---", "- an item", "---"],
        [" ---", "title: indented", "---"],
        ["", "---", "title: below", "---"],
        ["----", "title: a longer rule", "----"],
    ],
)
def test_what_is_no_front_matter_is_text(lines: list[str]) -> None:
    assert read_front_matter(lines) == ({}, 0, None)


def test_unreadable_front_matter_is_text_and_says_where() -> None:
    found = read_front_matter(["---", "title: X", "some text", "---"])
    assert (found.properties, found.lines) == ({}, 0)
    assert found.remark is not None
    assert "line 3" in found.remark


def test_names_and_tags_of_a_note() -> None:
    properties = read("title: T", "alias: b", "aliases: [a]", "tag: x", "tags: [y]")
    assert list(names(properties)) == ["T", "a", "b"]
    assert list(tags(properties)) == ["y", "x"]


def test_what_is_searched_begins_with_names_and_lacks_truth_values() -> None:
    properties = read("status: done", "publish: true", "tags: [x]", "title: T", "alias: T")
    assert searched(properties) == "T\nx\ndone"


PIECES = st.sampled_from(
    [
        "---",
        "+++",
        "title: ",
        "a:",
        "- ",
        "[",
        "]",
        '"',
        "'",
        "|",
        ">",
        "#",
        ":",
        "::",
        "\t",
        " ",
        "\n",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8)).map("".join))
def test_nothing_fails_and_all_is_bounded(text: str) -> None:
    lines = ["---", *text.split("\n"), "---"]
    found = read_front_matter(lines)
    assert 0 <= found.lines <= len(lines)
    for name, values in found.properties.items():
        assert name.strip()
        assert all(0 < len(value) <= MOST_VALUE_CHARS for value in values)
        assert "".join((name, *values)).encode()
    assert len(searched(found.properties)) <= MOST_NAMED_CHARS
