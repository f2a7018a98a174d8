"""The decay of notes with age."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.messages import NO_FACTS, FileFacts, FileKey, FileStat
from memoryd.search.ageing import age_factor, ageing_date

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


NOON = datetime.datetime(2026, 3, 9, 12)
CHANGED = FileStat(int(NOON.timestamp()) * 10**9, 1, 1)
NOTE, SESSION = FileKey("memory", "memory/a.md"), FileKey("sessions", "sessions/a.jsonl")


@pytest.mark.parametrize("key", [NOTE, SESSION])
@pytest.mark.parametrize("days", ["2020-05-17", "2020-05-11/2020-05-17"])
def test_a_file_ages_from_its_last_day(key: FileKey, days: str) -> None:
    day = datetime.date(2020, 5, 17)
    assert ageing_date(key, CHANGED, FileFacts(date=days), notes="memory") == day


def test_without_a_date_a_note_never_ages() -> None:
    """The date of the last change does not count: undated notes are meant to stay valid."""
    assert ageing_date(NOTE, CHANGED, NO_FACTS, notes="memory") is None


def test_without_a_date_a_transcript_ages_from_its_last_change() -> None:
    assert ageing_date(SESSION, CHANGED, NO_FACTS, notes="memory") == NOON.date()
