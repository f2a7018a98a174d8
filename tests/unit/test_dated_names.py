"""Dates of notes, from their names, folders and front matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.chunk.facts import date_of_note
from memoryd.text.dated_names import period_of_name, period_of_properties
from memoryd.text.front_matter import Properties


@pytest.mark.parametrize(
    "path",
    [
        *("memory/2026-03-23.md", "2026-03-23-dentist.md", "memory/a/b/2026-03-23 notes.md"),
        *("journals/2026_03_23.md", "2026.03.23.md", "daily.2026.03.23.md", "20260323.md"),
        *("2026/03/23.md", "memory/2026/03/23 Meeting.md", "2026/03-March/23.md", "2026-03/23.md"),
        *("2026/03/23/standup.md", "memory/2026-03-23/standup.md", "Meeting 2026-03-23.md"),
        *("23-03-2026.md", "23.03.2026 Zahnarzt.md", "03-23-2026.md", "202603231430 Idea.md"),
        *("20260323T143000.md", "23 March 2026.md", "March 23, 2026.md", "2026年3月23日.md"),
        *("23. März 2026.md", "/home/ana/vault/2026-03-23.md", "x2026-03-23.md", "2026-3-23.md"),
        "2026-W13-1.md",
    ],
)
def test_a_day_is_found_wherever_it_stands_in_the_name(path: str) -> None:
    assert str(period_of_name(path)) == "2026-03-23"


@pytest.mark.parametrize(
    ("path", "days"),
    [
        ("2026-W13.md", "2026-03-23/2026-03-29"),
        ("weekly/Week 2026W13.md", "2026-03-23/2026-03-29"),
        ("2026-03.md", "2026-03-01/2026-03-31"),
        ("memory/2026/2026-03 review.md", "2026-03-01/2026-03-31"),
    ],
)
def test_a_week_and_a_month_are_periods(path: str, days: str) -> None:
    assert str(period_of_name(path)) == days


@pytest.mark.parametrize(
    "path",
    [
        *("MEMORY.md", "memory/people.md", "memory/2026-13-45.md", "memory/2026-02-30.md"),
        *("v1.2.3.md", "100 ideas.md", "2026.md", "project-2026/plan 12.md", "roadmap 2026 Q1.md"),
        *("phone 912345678.md", "Top 10 of May.md", "2026-W99.md", "backup-2026-03-23/a/b.md"),
    ],
)
def test_any_other_name_has_none(path: str) -> None:
    assert period_of_name(path) is None


@pytest.mark.parametrize(
    "value",
    [
        *("2026-03-23", "2026-03-23T10:00:00+02:00", "2026/03/23", "23 March 2026", "23.3.2026"),
        *("March 23rd 2026, 10:20:11 am", "Mon, 23 Mar 2026 10:00:00 GMT", "20260323"),
    ],
)
def test_front_matter_has_a_date(value: str) -> None:
    assert str(period_of_properties({"created": (value,)})) == "2026-03-23"


@pytest.mark.parametrize("value", ["", "yesterday", "2026", "soon", "March"])
def test_what_is_no_day_with_a_year_is_no_date(value: str) -> None:
    assert period_of_properties({"date": (value,)}) is None


def test_the_name_comes_before_front_matter_and_date_before_created_and_updated() -> None:
    properties: Properties = {"updated": ("2026-03-25",), "created": ("2026-03-24",)}
    assert date_of_note("2026-03-23.md", properties) == "2026-03-23"
    assert date_of_note("a.md", properties) == "2026-03-24"
    assert date_of_note("a.md", {**properties, "date": ("2026-03-26",)}) == "2026-03-26"
    assert date_of_note("a.md", {"title": ("2026-03-26",)}) == ""


@given(st.text(max_size=60))
def test_any_name_is_read(path: str) -> None:
    found = period_of_name(path)
    assert found is None or found.first <= found.last
