"""The decay of notes with age."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import FileKey, FileStat
from memoryd.search.ageing import age_factor, ageing_date
from memoryd.search.query import date_in_name

TODAY = datetime.date(2026, 11, 28)
DATES = st.dates(datetime.date(1990, 1, 1), datetime.date(2040, 1, 1))
SHARES = st.floats(0, 1)
HALF_LIVES_DAYS = st.floats(0.1, 10_000)


def left(days: int, *, floor: float = 0.0) -> float:
    return age_factor(TODAY - datetime.timedelta(days=days), TODAY, half_life_days=30, floor=floor)


def test_after_a_half_life_half_is_left() -> None:
    assert [left(days) for days in (0, 30, 60, 90)] == pytest.approx([1, 0.5, 0.25, 0.125])


def test_the_floor_holds() -> None:
    assert left(30, floor=0.45) == pytest.approx(0.5)
    assert left(36, floor=0.45) == 0.45
    assert left(10_000, floor=0.45) == 0.45
    assert left(10_000, floor=1.0) == 1.0


def test_tomorrow_is_not_older_than_today() -> None:
    assert left(-1) == left(-400) == 1.0


@given(DATES, DATES, HALF_LIVES_DAYS, SHARES)
def test_it_is_a_share_between_the_floor_and_all(
    date: datetime.date, today: datetime.date, half_life_days: float, floor: float
) -> None:
    assert floor <= age_factor(date, today, half_life_days=half_life_days, floor=floor) <= 1.0


@given(DATES, DATES, DATES, HALF_LIVES_DAYS, SHARES)
def test_of_the_newer_never_less_is_left(
    one: datetime.date,
    other: datetime.date,
    today: datetime.date,
    half_life_days: float,
    floor: float,
) -> None:
    older, newer = (
        age_factor(date, today, half_life_days=half_life_days, floor=floor)
        for date in sorted((one, other))
    )
    assert older <= newer


@pytest.mark.parametrize(
    "path",
    ["memory/2026-03-09.md", "2026-03-09-dentist.md", "memory/a/b/2026-03-09 notes.md"],
)
def test_a_note_has_the_date_that_its_name_begins_with(path: str) -> None:
    assert date_in_name(path) == datetime.date(2026, 3, 9)


@pytest.mark.parametrize(
    "path",
    [
        *("MEMORY.md", "memory/people.md", "memory/2026-13-45.md", "memory/2026-02-30.md"),
        *("2026-03-09/a.md", "memory/x2026-03-09.md", "memory/2026-03-09.txt", "2026-3-9.md"),
    ],
)
def test_any_other_note_has_none(path: str) -> None:
    """The date of the last change does not count either: undated notes are meant to stay valid."""
    assert date_in_name(path) is None
    changed = FileStat(1_700_000_000 * 10**9, 1, 1)
    assert ageing_date(FileKey("memory", path), changed, notes="memory") is None


def test_a_transcript_has_the_date_of_its_last_change() -> None:
    noon = datetime.datetime(2026, 3, 9, 12)
    stat = FileStat(int(noon.timestamp()) * 10**9, 1, 1)
    key = FileKey("sessions", "sessions/2020-01-01.md")
    assert ageing_date(key, stat, notes="memory") == datetime.date(2026, 3, 9)
