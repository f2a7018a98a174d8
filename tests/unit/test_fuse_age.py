"""The decay of notes with age."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.config.settings import QuerySettings
from memoryd.index.catalog import FileRow
from memoryd.messages import FileKey, FileStat
from memoryd.search.ageing import age_factor, age_of
from memoryd.search.chunk_cache import StoredFile
from memoryd.search.ranking import Ranking

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


@pytest.mark.parametrize("days", ["2020-05-17", "2020-05-11/2020-05-17"])
def test_a_file_ages_from_its_last_day(days: str) -> None:
    day = datetime.date(2020, 5, 17)
    assert age_of(days, TODAY, 30.0, 0.1) == (day, age_factor(day, TODAY, 30.0, 0.1))


def test_no_day_has_no_age() -> None:
    assert age_of("some day", TODAY, 30.0, 0.1) is None


NOON = datetime.datetime(2026, 3, 9, 12)


@pytest.mark.parametrize(
    ("source", "dates", "day"),
    [
        ("memory", "2020-05-17", datetime.date(2020, 5, 17)),
        ("memory", "", None),
        ("sessions", "2020-05-17", datetime.date(2020, 5, 17)),
        ("sessions", "", NOON.date()),
    ],
)
def test_without_a_date_a_transcript_ages_from_its_last_change_and_a_note_never(
    source: str, dates: str, day: datetime.date | None
) -> None:
    key, stat = FileKey(source, "a.md"), FileStat(int(NOON.timestamp()) * 10**9, 1, 1)
    ranking = Ranking(QuerySettings(), {key: FileRow(1, "", stat, 1)}, None)
    age = ranking.age_of(StoredFile.of(*key, "", dates, None, "{}"), TODAY)
    assert (None if age is None else age[0]) == day
