"""Dates of notes: in their names, and in the properties of their front matter. Pure."""

import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from memoryd.text import periods
from memoryd.text.dates import find_dates
from memoryd.text.periods import Date, Period

PROPERTIES = (
    *("date", "day", "created", "date created", "date-created", "created_at", "created-at"),
    *("updated", "date modified", "date-modified", "updated_at", "updated-at", "modified"),
    *("lastmod", "last-modified"),
)
"""Properties that have a note's date, the first one that is there counts."""
MOST_CHARS = 200
_YEAR = r"(?<!\d)(?P<y>(?:19|20|21)\d\d)"
_YEAR_DIGITS = re.compile(r"(?:19|20|21)\d\d")
_DAY = (
    # An id made of the time, 202603231430, begins with the day.
    re.compile(_YEAR + r"(?P<m>\d\d)(?P<d>\d\d)(?:[T_-]?\d{4}(?:\d\d)?)?(?!\d)"),
    re.compile(_YEAR + r"(?P<s>[-_.])(?P<m>\d\d?)(?P=s)(?P<d>\d\d?)(?!\d)"),
    re.compile(r"(?<!\d)(?P<d>\d\d?)(?P<s>[-_.])(?P<m>\d\d?)(?P=s)(?P<y>(?:19|20|21)\d\d)(?!\d)"),
)
_WEEK = re.compile(_YEAR + r"[-_ ]?W(?P<w>\d\d)(?:-(?P<d>[1-7]))?(?!\d)", re.IGNORECASE)
_MONTH = re.compile(_YEAR + r"[-_.](?P<m>\d\d)(?![-_.]?\d)")
_FOLDERS = re.compile(
    r"(?:^|/)(?P<y>(?:19|20|21)\d\d)[/_-](?P<m>\d\d?)(?:[ _-][^/\d][^/]*)?/"
    r"(?:[^/]*/)?(?P<d>\d\d?)(?:[^\d/][^/]*)?(?:/[^/]*)?$"
)
_HAS_YEAR = re.compile(r"(?<!\d)(?:19|20|21)\d\d(?!\d)")
_ANY = Date(2000, 1, 1)
"""A day for the search of a date in words, of which only one with its year counts."""


def period_of_name(path: str) -> Period | None:
    """Return the day, week or month in the name of a note or in the folders above it."""
    if _YEAR_DIGITS.search(path) is None:  # most names
        return None
    pure = PurePosixPath(path)
    stem, folder = pure.name.removesuffix(".md")[:MOST_CHARS], pure.parent.name[:MOST_CHARS]
    found = _of_part(stem)
    if found is None or found.days > 1:
        found = _of_folders(f"{pure.parent}/{stem}") or found
    return found or _in_words(stem) or _of_part(folder, whole=True)


def period_of_properties(properties: Mapping[str, Sequence[str]]) -> Period | None:
    """Return the date of a note's front matter."""
    for name in PROPERTIES:
        for value in properties.get(name, ()):
            head = value.strip()[:MOST_CHARS]
            if found := _of_part(head) or _in_words(head):
                return found
    return None


def _of_part(text: str, *, whole: bool = False) -> Period | None:
    """Return the first date of a name; `whole`: the name must be that date."""
    for pattern in _DAY:
        for match in pattern.finditer(text):
            if not whole or match[0] == text:
                year, month, day = (int(match[group]) for group in "ymd")
                if found := _day(year, month, day):
                    return found
                if match.re is _DAY[2] and (found := _day(year, day, month)):
                    return found
    named = _WEEK.search(text) or _MONTH.search(text)
    if named is None or (whole and named[0] != text):
        return None
    try:
        if named.re is _MONTH:
            return periods.month(int(named["y"]), int(named["m"]))
        date = Date.fromisocalendar(int(named["y"]), int(named["w"]), int(named["d"] or 1))
    except ValueError:
        return None
    return periods.day(date) if named["d"] else periods.week(date)


def _of_folders(path: str) -> Period | None:
    match = _FOLDERS.search(path)
    return None if match is None else _day(int(match["y"]), int(match["m"]), int(match["d"]))


def _in_words(text: str) -> Period | None:
    """Return a date such as `23 March 2026`, whose year is named."""
    if not _HAS_YEAR.search(text):
        return None
    for words in find_dates(text, _ANY).words:
        for year in re.findall(r"(?<!\d)\d{4}(?!\d)", words):
            found = find_dates(words, Date(int(year), 12, 31)).periods if int(year) else ()
            if found and str(found[0].first.year) == year:
                return found[0]
    return None


def _day(year: int, month: int, day: int) -> Period | None:
    try:
        return periods.day(datetime.date(year, month, day))
    except ValueError:
        return None
