"""`memctl` on a terminal: emphasis, wrapped snippets, aligned columns, escaped names."""

import re
from unicodedata import category

import msgspec
import pytest
from golden_bodies import golden
from hypothesis import given
from hypothesis import strategies as st

from memctl import json_output
from memctl.render import config
from memctl.render_search import MOST_MATCHES, search
from memctl.render_status import status
from memoryd_client.schema.memory import ConfigResult, ConfigValue
from memoryd_client.schema.search import SearchResult
from memoryd_client.schema.status import Failure, SkippedPath, StatusResult
from memoryd_client.shared.style import Style, printable, printable_name

FOUND = golden("search_result", SearchResult)
STATUS = golden("status_result", StatusResult)


def test_a_terminal_gets_emphasis() -> None:
    first_line, title, why, *_ = search(FOUND, Style(colour=True)).splitlines()
    assert title == "   Friday"
    assert why.startswith("   \x1b[2mkeywords: bm25 0.50, ")
    assert first_line == (
        "1. \x1b[1mmemory/2026-08-14.md:12-14\x1b[0m  0.88  \x1b[2m(vector 0.62, text 0.91)\x1b[0m"
    )
    assert search(FOUND, Style(colour=True)).splitlines()[5] == (
        "   \x1b[2m14 │\x1b[0m \x1b[1mDentist\x1b[0m — 3 pm, bring the card."
    )


def found(snippet: str, *words: str, **changed: object) -> SearchResult:
    """Return an answer of one result whose snippet has these words of the query."""
    places = [(m.start(), m.end()) for word in words for m in re.finditer(re.escape(word), snippet)]
    hit = msgspec.structs.replace(
        FOUND.results[1],
        snippet=snippet,
        highlights=sorted(places),
        snippet_start_line=1,
        snippet_end_line=snippet.count("\n") + 1,
    )
    return msgspec.structs.replace(FOUND, results=[hit], **changed)


def lines(result: SearchResult, *, full: bool = False, colour: bool = False) -> list[str]:
    return search(result, Style(colour=colour), full=full).splitlines()[1:]


NOTE = "\n".join(f"{n}: {'boiler' if n in (4, 9) else 'other'} things" for n in range(1, 13))


def test_the_lines_with_the_words_are_shown_with_a_line_around_each() -> None:
    note = NOTE.replace("9: boiler", "9: boiler valve")
    assert lines(found(note, "boiler", "valve")) == [
        "    8 │ 8: other things",
        "    9 │ 9: boiler valve things",
        "   10 │ 10: other things",
    ]
    assert len(lines(found(note, "boiler", "valve"), full=True)) == 12


def test_lines_with_further_words_are_shown_up_to_a_few() -> None:
    words = [f"word{n}" for n in range(5)]
    note = "\n".join(f"{word} here\n\nnothing\n\nnothing" for word in words)
    shown = [line for line in lines(found(note, *words)) if "word" in line]
    assert [line.split("│ ")[1] for line in shown] == [f"{w} here" for w in words[:MOST_MATCHES]]


def test_a_snippet_without_a_word_of_the_query_is_shown_whole() -> None:
    assert len(lines(found(NOTE))) == 12


def test_words_stay_marked_where_a_line_is_wrapped_or_cleaned() -> None:
    text = "a\x07b\tthe boiler is in the pantry behind a blue door, boiler valve"
    shown = search(found(text, "boiler", "valve", "behind a"), Style(colour=True, columns=36))
    assert shown.splitlines()[1:] == [
        "   \x1b[2m1 │\x1b[0m a\ufffdb the \x1b[1mboiler\x1b[0m is in the",
        "   \x1b[2m  │\x1b[0m pantry \x1b[1mbehind a\x1b[0m blue door,",
        "   \x1b[2m  │\x1b[0m \x1b[1mboiler\x1b[0m \x1b[1mvalve\x1b[0m",
    ]


@given(st.text(), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))))
def test_marks_change_no_text(text: str, spans: list[tuple[int, int]]) -> None:
    result = found(text)
    result.results[0].highlights = [(start, end) for start, end in spans if start < end]
    marked = search(result, Style(colour=True, columns=60), full=True)
    assert re.sub("\x1b\\[[0-9]m", "", marked) == search(
        result, Style(colour=False, columns=60), full=True
    )


@pytest.mark.parametrize(("rating", "is_said"), [("none", True), ("low", True), ("medium", False)])
def test_an_answer_that_is_not_clear_says_so(rating: str, is_said: bool) -> None:
    first = search(found("tea", confidence=rating), Style(colour=True)).splitlines()[0]
    assert (first == "No clear match; nearest:") is is_said


def test_title_and_date_are_shown_unless_the_path_or_the_title_has_them() -> None:
    def which(path: str, title: str, date: str) -> list[str]:
        result = found("tea")
        hit = msgspec.structs.replace(result.results[0], path=path, title=title, date=date)
        result.results = [hit]
        return lines(result)[:-1]

    assert which("memory/trip.md", "The trip", "2026-03-23") == ["   The trip · 2026-03-23"]
    assert which("memory/trip.md", "trip", "") == []
    assert which("memory/2026-03-23.md", "2026-03-23", "2026-03-23") == []
    assert which("memory/a.md", "2026-03-23, Rome", "2026-03-23") == ["   2026-03-23, Rome"]
    assert which("memory/a.md", "x\ny\x1b[2J", "") == ["   x\ufffdy\ufffd[2J"]


def test_a_snippet_whose_lines_are_not_the_files_has_no_numbers() -> None:
    hit = msgspec.structs.replace(FOUND.results[1], snippet="User: tea?\nAssistant: yes")
    text = search(msgspec.structs.replace(FOUND, results=[hit]), Style(colour=False))
    assert text.splitlines()[1:] == ["    │ User: tea?", "    │ Assistant: yes"]


def test_a_snippet_is_wrapped_to_the_terminal_behind_its_gutter() -> None:
    hit = msgspec.structs.replace(
        FOUND.results[1],
        snippet="The boiler shows F28 when\tthe pressure is too low.\n\n東京の港区",
    )
    hit.snippet_start_line, hit.snippet_end_line = 99, 101
    text = search(msgspec.structs.replace(FOUND, results=[hit]), Style(colour=False, columns=32))
    assert text.splitlines()[1:] == [
        "    99 │ The boiler shows F28",
        "       │ when   the pressure is",
        "       │ too low.",
        "   100 │",
        "   101 │ 東京の港区",
    ]


def test_a_snippet_is_wrapped_between_wide_characters() -> None:
    hit = msgspec.structs.replace(FOUND.results[1], snippet="一二三四五六七八九十一二三")
    text = search(msgspec.structs.replace(FOUND, results=[hit]), Style(colour=False, columns=29))
    assert text.splitlines()[1:] == ["   3 │ 一二三四五六七八九十一", "     │ 二三"]


@pytest.mark.parametrize("columns", [None, 10])
def test_a_snippet_is_not_wrapped_into_nothing(columns: int | None) -> None:
    text = search(FOUND, Style(colour=False, columns=columns))
    assert "   14 │ Dentist — 3 pm, bring the card." in text.splitlines()


def test_a_note_can_not_play_with_the_terminal() -> None:
    assert printable("a\x1b[2Jb\rc\x9bd\te\r\nf") == "a\ufffd[2Jb\ufffdc\ufffdd\te\nf"


def test_a_note_can_not_turn_its_text_around() -> None:
    isolate, override, pop = "\u2066", "\u202e", "\u202c"
    hit = msgspec.structs.replace(FOUND.results[1], snippet=f"a{isolate}b{override}c{pop}\u200fd")
    text = search(msgspec.structs.replace(FOUND, results=[hit]), Style(colour=False))
    assert text.splitlines()[1] == "   3 │ a\ufffdb\ufffdc\ufffdd"
    assert printable("שלום\u200f, \u061cعالم\u200e!") == "שלום, عالم!", "marks are not missed"
    assert printable_name("a\u200fb\u061c.md") == "a\ufffdb\ufffd.md", "but names stay different"


UNSAFE = {*map(chr, (*range(32), *range(127, 160), *range(0x202A, 0x202F)))} | {
    *map(chr, (*range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029))
}


@given(st.text() | st.text(st.sampled_from(sorted(UNSAFE))))
def test_json_has_the_same_value_without_unsafe_characters(text: str) -> None:
    value = {"snippet": text, text: [text]}
    for shown in (json_output.line(value), json_output.text(value)):
        assert msgspec.json.decode(shown) == value
        assert not UNSAFE & set(shown.replace("\n", ""))


@given(st.text() | st.text(st.sampled_from(sorted(UNSAFE))))
def test_no_text_or_name_controls_a_terminal(text: str) -> None:
    assert set(printable(text)) & UNSAFE <= {"\t", "\n", "\u2028", "\u2029"}
    assert not set(printable_name(text)) & UNSAFE


@given(st.text())
def test_a_name_stays_on_its_line(name: str) -> None:
    shown = printable_name(name)
    assert len(f"{shown}.".splitlines()) == 1
    assert not any(category(character) == "Cc" for character in shown)


def test_a_name_that_is_no_trouble_is_shown_as_it_is() -> None:
    assert printable_name("memory/Übung 'α' \"b\" 100%_東京 👩\u200d💻.md") == (
        "memory/Übung 'α' \"b\" 100%_東京 👩\u200d💻.md"
    )


HOSTILE = "memory/a\nb\t\x1b[31m\u202ered.md"
SHOWN = "memory/a\ufffdb\ufffd\ufffd[31m\ufffdred.md"


def test_a_hostile_name_heads_its_hit_on_one_line() -> None:
    hit = msgspec.structs.replace(FOUND.results[1], path=HOSTILE)
    text = search(msgspec.structs.replace(FOUND, results=[hit]), Style(colour=False))
    assert text == f"1. {SHOWN}:3  0.50  (text 0.50)\n   3 │ Dentist: Dr. Nakamura\n"


def test_names_in_a_status_stay_on_their_lines() -> None:
    fields = msgspec.structs.replace(
        STATUS,
        workspace_dir="/home/a\nb",
        skipped_paths=[SkippedPath(HOSTILE, "not UTF-8")],
        skipped_count=1,
        remarks=[Failure("memory/x.md", "3 bytes are not UTF-8")],
        remark_count=4,
    )
    lines = status(fields, Style(colour=False)).splitlines()
    assert "Workspace         /home/a\ufffdb" in lines
    assert lines[-4:] == [
        f"Skipped           {SHOWN} (not UTF-8)",
        "Hidden            7 by the rule: names that begin with a dot",
        "Remark            memory/x.md: 3 bytes are not UTF-8",
        "                  and 3 more",
    ]


def test_config_is_aligned_with_wide_characters() -> None:
    values = [
        ConfigValue("workspace", "/home/ada/メモ", "--workspace"),
        ConfigValue("model", "m", "default"),
        ConfigValue("store.path", "/" + "x" * 60, "config.toml"),
    ]
    text = config(ConfigResult("main", [], values), Style(colour=False))
    assert text.splitlines()[2:] == [
        'workspace  = "/home/ada/メモ"                                  --workspace',
        'model      = "m"                                               default',
        f'store.path = "/{"x" * 60}"  config.toml',
    ]
