"""Entries and sections of notes, and their comments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.comments import without_comments
from memoryd.chunk.entries import IMPORTANCE, Entry, entries
from memoryd.chunk.sections import MAX_CHARS, sections

LINES = st.lists(
    st.sampled_from(
        [
            "# One",
            "## Two",
            "- item",
            "  - nested",
            "1. first",
            "text",
            "",
            "```",
            "<!--",
            "-->",
            "a <!-- trigger: b --> c",
            "<!-- importance: 9 -->",
            "  more",
            "`<!-- code -->`",
            "\t- tab",
        ]
    )
    | st.text(alphabet="ab #-<!>`\t", max_size=12),
    max_size=30,
)

NOTE = """\
# Memory
An opening paragraph
of two lines.

## People
- Ana can't eat hazelnuts. <!-- trigger: dinner party, Restaurant --> <!-- importance: 9 -->
  - her doctor is Okafor

  and a paragraph of hers
- Ben
<!-- importance: 2.5 -->
* Cleo
1) Dora

```
- no entry
# no heading
```
### Empty
## Work
last <!-- a thought --> words
""".splitlines()


def test_entries_are_items_and_paragraphs() -> None:
    found = entries(NOTE)
    assert [(e.first_line, e.last_line, e.title) for e in found] == [
        (2, 3, "Memory"),
        (6, 9, "Memory > People"),
        (10, 10, "Memory > People"),
        (12, 12, "Memory > People"),
        (13, 18, "Memory > People"),
        (21, 21, "Memory > Work"),
    ]
    ana, ben = found[1], found[2]
    assert ana.text.startswith("- Ana can't eat hazelnuts.\n  - her doctor is Okafor\n")
    assert (ana.triggers, ana.importance) == (("dinner party", "Restaurant"), 9.0)
    assert (ben.text, ben.triggers, ben.importance) == ("- Ben", (), 2.5)
    assert found[-1].text == "last  words"
    assert found[0].importance == IMPORTANCE


def test_a_part_of_a_note_has_its_own_lines_and_headings() -> None:
    found = entries(["- one", "## Two", "- two"], first_line=40, title="Above")
    assert found == [Entry(40, 40, "- one", "Above"), Entry(42, 42, "- two", "Two")]


@pytest.mark.parametrize(
    ("line", "triggers", "importance"),
    [
        ("- a <!-- triggers: x; y、z -->", ("x", "y", "z"), 5.0),
        ("- a <!--TRIGGER:  two   words  -->", ("two words",), 5.0),
        ("- a <!-- trigger: -->", (), 5.0),
        ("- a <!-- importance: 99 -->", (), 10.0),
        ("- a <!-- importance: high -->", (), 5.0),
        ("- a <!-- trigger: x", ("x",), 5.0),
        ("- a `<!-- trigger: x -->`", (), 5.0),
        (f"- a <!-- trigger: {'y' * 300} -->", ("y" * 100,), 5.0),
    ],
)
def test_what_comments_say(line: str, triggers: tuple[str, ...], importance: float) -> None:
    (entry,) = entries([line])
    assert (entry.triggers, entry.importance) == (triggers, importance)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["a <!-- b --> c"], ["a  c"]),
        (["a <!-- b", "c", "d --> e"], ["a", None, " e"]),
        (["<!-- b -->"], [None]),
        (["a", "<!-- never closed", "b"], ["a", None, None]),
        (["```", "<!-- code -->", "```", "<!-- x -->y"], ["```", "<!-- code -->", "```", "y"]),
        (["`<!--` a <!-- b --> `-->`"], ["`<!--` a  `-->`"]),
        (["a <!-- ``` -->", "b"], ["a", "b"]),
    ],
)
def test_comments_are_hidden(lines: list[str], shown: list[str | None]) -> None:
    assert without_comments(lines).lines == shown


def test_sections_are_headings_with_text() -> None:
    assert [(s.first_line, s.last_line, s.title) for s in sections(NOTE)] == [
        (1, 3, "Memory"),
        (5, 18, "Memory > People"),
        (20, 21, "Memory > Work"),
    ]
    assert sections(["# A", "", "## B", ""]) == []


def test_a_long_section_is_divided_at_blank_lines() -> None:
    lines = ["# A", *(f"{n}{'x' * 300}" if n % 3 else "" for n in range(40))]
    found = sections(lines)
    assert len(found) > 2
    assert {s.title for s in found} == {"A"}
    assert all(len(s.text) <= MAX_CHARS for s in found)
    assert all(lines[s.last_line] == "" for s in found[:-1])
    assert [s.first_line for s in found[1:]] == [s.last_line + 2 for s in found[:-1]]


@given(LINES)
def test_every_word_is_in_one_entry_and_one_section(lines: list[str]) -> None:
    shown, comments = without_comments(lines)
    assert len(shown) == len(lines)
    assert all(0 <= number < len(lines) for number, _ in comments)
    for parts in (entries(lines), sections(lines)):
        covered: set[int] = set()
        for part in parts:
            own = set(range(part.first_line, part.last_line + 1))
            assert 1 <= part.first_line <= part.last_line <= len(lines)
            assert not own & covered
            assert part.text.strip()
            covered |= own
