"""Dates of numbers alone: `2026-03-23`, `23.3.2026`, `3/23/2026`, `3月23日`, `2026-W13`. Pure."""

import datetime
import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

from memoryd.text import periods
from memoryd.text.periods import Date, Period

SOON_DAYS = 14
"""A date without a year may also be one of the next days; else it is the latest."""
FIRST_YEAR = 1900
_PREPOSITION = (
    r"(?:on|by|since|until|am|vom|zum|bis|ab|seit|den|der|dem|le|du|el|del|il|dal|em|dia|op|på|"
    r"från|fra|od|do|dne|dnia|w dniu|с|от|на|до|від|pe|ngày|στις)"
)
_CJK_NUMBER = "(?:[0-9]{1,2}|[一二三四五六七八九十]{1,3})"
_HAS_NUMBER = re.compile("[0-9一二三四五六七八九十]")
_CJK_DIGITS = {char: number for number, char in enumerate("一二三四五六七八九", start=1)}
_YEARS_AGO = {"去年": 1, "昨年": 1, "작년": 1, "지난해": 1, "今年": 0, "올해": 0, "前年": 2}


class CountedFrom(IntEnum):
    """Start of counting: none for a full date, else an unnamed year, or the present day."""

    FULL = 0
    WITHOUT_YEAR = 1
    RELATIVE = 2
    WEEKDAY = 3


class DateInText(NamedTuple):
    """A date in a text: its place and what it may mean; one without a year may mean two days."""

    start: int
    end: int
    periods: tuple[Period, ...]
    kind: CountedFrom


def numeric_dates(text: str, today: Date) -> Iterator[DateInText]:
    """Yield the dates that consist of numbers; a place may be found twice."""
    if not _HAS_NUMBER.search(text):
        return
    for pattern, read in _READERS:
        for match in pattern.finditer(text):
            try:
                meant = read(match, today)
            except ValueError:
                continue  # there is no such day
            if meant:
                named = match.groupdict()
                full = bool(named.get("y") or named.get("ago"))
                kind = CountedFrom.FULL if full else CountedFrom.WITHOUT_YEAR
                yield DateInText(match.start(), match.end(), tuple(dict.fromkeys(meant)), kind)


def dates_without_year(month: int, day: int, today: Date) -> list[Period]:
    """Return the latest such day, and the coming one if it is near. Raises `ValueError`."""
    days = _in_years(month, day, range(today.year + 1, today.year - 9, -1))
    if not days:
        raise ValueError("no such day")
    soon = today + datetime.timedelta(days=SOON_DAYS)
    latest = next(date for date in days if date <= today)
    return [periods.day(date) for date in days if latest <= date <= soon]


def months_without_year(number: int, today: Date) -> list[Period]:
    """Return the latest such month; the present one counts. Raises `ValueError`."""
    return [periods.month(today.year - (number > today.month), number)]


def _in_years(month: int, day: int, years: range) -> list[Date]:
    found = []
    for year in years:
        try:
            found.append(Date(year, month, day))
        except ValueError:
            continue
    return found


def full_year(text: str, today: Date) -> int:
    """Return a year; one of two digits is of this century if it is near. Raises `ValueError`."""
    year = int(text)
    if len(text) == 2:
        year += 2000
        if not today.year - 20 <= year <= today.year + 1:
            raise ValueError("too far away to be meant")
    if not FIRST_YEAR <= year <= 2199:
        raise ValueError("no year of a note")
    return year


def _year_month_day(match: re.Match[str], today: Date) -> list[Period]:
    year, month, day = match["y"], match["m"], match["d"]
    return [periods.day(Date(full_year(year, today), int(month), int(day)))]


def _compact(match: re.Match[str], today: Date) -> list[Period]:
    found = _year_month_day(match, today)
    return found if 2000 <= found[0].first.year <= today.year + 1 else []


def _week(match: re.Match[str], today: Date) -> list[Period]:
    year = int(match["y"]) if match["y"] else today.year
    monday = Date.fromisocalendar(year, int(match["w"]), 1)
    if not match["y"] and monday > today:
        monday = Date.fromisocalendar(year - 1, int(match["w"]), 1)
    weekday = match.groupdict().get("wd")
    if weekday:
        return [periods.day(Date.fromisocalendar(year, int(match["w"]), int(weekday)))]
    return [periods.week(monday)]


def _month(match: re.Match[str], today: Date) -> list[Period]:
    return [periods.month(full_year(match["y"], today), int(match["m"]))]


def _day_month_year(match: re.Match[str], today: Date) -> list[Period]:
    year = full_year(match["y"], today)
    return [periods.day(Date(year, int(match["m"]), int(match["d"])))]


def _two_ways(match: re.Match[str], today: Date) -> list[Period]:
    """`3/4/2026` is March 4 in America and 3 April elsewhere."""
    year = full_year(match["y"], today)
    days = [(int(match["a"]), int(match["b"])), (int(match["b"]), int(match["a"]))]
    return [periods.day(date) for m, d in days for date in _in_years(m, d, range(year, year + 1))]


def _day_month(match: re.Match[str], today: Date) -> list[Period]:
    return dates_without_year(int(match["m"]), int(match["d"]), today)


def _two_ways_without_year(match: re.Match[str], today: Date) -> list[Period]:
    a, b = int(match["a"]), int(match["b"])
    ways = [(a, b), (b, a)] if a != b else [(a, b)]
    return [p for m, d in ways if m <= 12 for p in dates_without_year(m, d, today)]


def _asian(match: re.Match[str], today: Date) -> list[Period]:
    month, day = _cjk(match["m"]), match["d"]
    year = None
    if match["y"]:
        year = full_year(match["y"], today)
    elif match["ago"]:
        year = today.year - _YEARS_AGO[match["ago"]]
    if year is None:
        if day is None:
            return months_without_year(month, today)
        return dates_without_year(month, _cjk(day), today)
    return [
        periods.month(year, month) if day is None else periods.day(Date(year, month, _cjk(day)))
    ]


def _cjk(text: str) -> int:
    if text.isdigit():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    return (_CJK_DIGITS.get(tens, 1) * 10 if ten else 0) + _CJK_DIGITS.get(ones, 0)


_Reader = Callable[[re.Match[str], Date], list[Period]]
_END = r"(?!\w|[-./:]\d)"
_AGO = "|".join(_YEARS_AGO)
_READERS: list[tuple[re.Pattern[str], _Reader]] = [
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        # A time may follow a day, but what comes before it must not make it a version or an id.
        (
            rf"(?<![\w-])(?P<y>\d{{4}})(?P<s>[-/._])(?P<m>\d{{2}})(?P=s)(?P<d>\d{{2}})"
            rf"(?=T\d{{2}}|(?<=\d){_END})",
            _year_month_day,
        ),
        (
            rf"(?<![\w-])(?P<y>\d{{4}})(?P<s>[-/])(?P<m>\d{{1,2}})(?P=s)(?P<d>\d{{1,2}}){_END}",
            _year_month_day,
        ),
        (r"(?<![\w.])(?P<y>\d{4})\. (?P<m>\d{1,2})\. (?P<d>\d{1,2})\.?(?!\d)", _year_month_day),
        (r"(?<![\w.+/-])(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?![\w-]|\.\d)", _compact),
        (rf"(?<![\w-])(?P<y>\d{{4}})-?W(?P<w>\d{{2}})(?:-(?P<wd>[1-7]))?{_END}", _week),
        (rf"(?<!\w)(?:KW|CW) ?(?P<w>\d{{1,2}})(?:[ /]+(?P<y>\d{{4}}))?{_END}", _week),
        (rf"(?<![\w./:-])(?P<y>\d{{4}})[-/](?P<m>\d{{2}}){_END}", _month),
        (
            rf"(?<![\w.,:/-])(?P<d>\d{{1,2}})\. ?(?P<m>\d{{1,2}})\. ?(?P<y>\d{{4}}){_END}",
            _day_month_year,
        ),
        (rf"(?<![\w.,:/-])(?P<d>\d{{2}})\.(?P<m>\d{{2}})\.(?P<y>\d{{2}}){_END}", _day_month_year),
        (rf"(?<![\w./:-])(?P<a>\d{{1,2}})-(?P<b>\d{{1,2}})-(?P<y>\d{{4}}){_END}", _two_ways),
        (
            rf"(?<![\w./:-])(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})/(?P<y>\d{{4}}|\d{{2}}){_END}",
            _two_ways,
        ),
        (r"(?<![\w.,:/-])(?P<d>\d{2})\.(?P<m>\d{2})\.(?![\w.])", _day_month),
        (rf"\b{_PREPOSITION} (?P<d>\d{{1,2}})\. ?(?P<m>\d{{1,2}})\.(?![\w.])", _day_month),
        (r"\b(?:am|vom|zum) (?P<d>\d{1,2})\.(?P<m>\d{2})(?![\w.,%€$])", _day_month),
        (rf"\b{_PREPOSITION} (?P<a>\d{{1,2}})/(?P<b>\d{{1,2}}){_END}", _two_ways_without_year),
        (
            rf"(?:(?P<y>\d{{4}})\s*年\s*|(?P<ago>{_AGO})的?\s*)?(?<![0-9一二三四五六七八九十])"
            rf"(?P<m>{_CJK_NUMBER})\s*月(?:份)?(?:\s*(?P<d>{_CJK_NUMBER})\s*[日号號](?!线))?",
            _asian,
        ),
        (
            rf"(?:(?P<y>\d{{4}})\s*년\s*|(?P<ago>{_AGO})\s*)?(?<!\d)"
            r"(?P<m>\d{1,2})\s*월(?!요일)(?:\s*(?P<d>\d{1,2})\s*일(?! ?(?:간|동안)))?",
            _asian,
        ),
        (
            r"(?:\bngày )?(?:\b(?P<d>\d{1,2}) )?\btháng (?P<m>\d{1,2})(?!\d)"
            r"(?:(?:,| năm)? (?P<y>\d{4}))?(?P<ago>(?!))?",
            _asian,
        ),
    )
]
