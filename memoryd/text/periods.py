"""Periods of days: a day, a week, a month, or any run of days. Pure."""

import datetime
from functools import lru_cache
from typing import NamedTuple

Date = datetime.date
_DAY = datetime.timedelta(days=1)
REMEMBERED_PERIODS = 1_024
"""Dates of files whose periods are cached: a search reads that of each candidate."""


class Period(NamedTuple):
    """The days from `first` to `last`, both inclusive."""

    first: Date
    last: Date

    @property
    def days(self) -> int:
        """Return the number of days."""
        return (self.last - self.first).days + 1

    def meets(self, other: "Period") -> bool:
        """Return whether the periods have a day in common."""
        return self.first <= other.last and other.first <= self.last

    def within(self, other: "Period") -> bool:
        """Return whether all days are days of the other period."""
        return other.first <= self.first and self.last <= other.last

    def a_year_before(self) -> "Period | None":
        """Return the same month or days of the year before; None for 29 February."""
        year = self.first.year - 1
        try:
            if self == month(self.first.year, self.first.month):
                return month(year, self.first.month)
            return Period(self.first.replace(year=year), self.last.replace(year=year))
        except ValueError:
            return None

    def __str__(self) -> str:
        """Return `2026-03-23`, or `2026-03-23/2026-03-29` as in ISO 8601."""
        first = self.first.isoformat()
        return first if self.first == self.last else f"{first}/{self.last.isoformat()}"


def day(date: Date) -> Period:
    """Return a day as a period."""
    return Period(date, date)


def week(date: Date) -> Period:
    """Return the ISO week, from Monday to Sunday, of a day."""
    monday = date - date.weekday() * _DAY
    return Period(monday, monday + 6 * _DAY)


def month(year: int, number: int) -> Period:
    """Return a month. Raises `ValueError` for one that does not exist."""
    first = Date(year, number, 1)
    return Period(first, first.replace(day=_last_day(year, number)))


def months_before(date: Date, number: int) -> Date:
    """Return the same day of a month before, or that month's last day."""
    year, index = divmod(date.year * 12 + date.month - 1 - number, 12)
    return Date(year, index + 1, min(date.day, _last_day(year, index + 1)))


def _last_day(year: int, month: int) -> int:
    return 31 if month == 12 else (Date(year, month + 1, 1) - _DAY).day


@lru_cache(maxsize=REMEMBERED_PERIODS)
def read_period(text: str) -> Period | None:
    """Return the period that `str` wrote; None for "" and anything else."""
    first, _, last = text.partition("/")
    try:
        found = Period(Date.fromisoformat(first), Date.fromisoformat(last or first))
    except ValueError:
        return None
    return found if found.first <= found.last else None
