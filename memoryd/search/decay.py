"""Newer notes before older ones that say the same. Pure.

The reference's: score x 0.5 ^ (age / half-life), age from the date in a note's name. Notes without
one never age; with a floor, old exact answers stay above weak recent ones.
"""

import datetime
import math
import re

from memoryd.messages import FileKey, FileStat

_DATED_NAME = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})[^/]*\.md$")


def date_in_name(path: str) -> datetime.date | None:
    """Return the date that a note's name begins with."""
    if match := _DATED_NAME.search(path):
        try:
            return datetime.date.fromisoformat(match[1])
        except ValueError:
            return None  # 2026-13-45 is no date
    return None


def dated(key: FileKey, stat: FileStat, *, notes: str) -> datetime.date | None:
    """Return the date that a file ages from: a note's own, a transcript's last change, or None."""
    if key.source == notes:
        return date_in_name(key.path)
    return datetime.datetime.fromtimestamp(stat.mtime_ns / 1e9).date()


def factor(
    date: datetime.date, today: datetime.date, *, half_life_days: float, floor: float
) -> float:
    """Return what age leaves of something of this date; of tomorrow, all."""
    age_days = max(0, (today - date).days)
    return max(floor, math.pow(0.5, age_days / half_life_days))
