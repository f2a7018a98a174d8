"""Readings of a process over time, and whether they grow. Linux only."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.daemon import anonymous_bytes, resident_bytes


class Reading(NamedTuple):
    """Resources of a process at one moment; `tasks` counts asyncio tasks.

    `anonymous_mib` is the resident memory without mapped pages of files, `index_mib` the size of
    the index without its free pages.
    """

    at_s: float
    resident_mib: float
    anonymous_mib: float
    descriptors: int
    threads: int
    tasks: int
    wal_mib: float
    index_mib: float


class Growth(NamedTuple):
    """Change of a reading from the first to the last moment, by a line through all of them.

    The line is Theil's and Sen's: the median of the slopes of all pairs, which single high or low
    readings don't move. `noise` is the standard deviation of the readings from the line.
    """

    first: float
    change: float
    noise: float

    @property
    def bound(self) -> float:
        """The change above which a reading grows: more than noise and more than 2 %."""
        return max(2 * self.noise, 0.02 * self.first)

    @property
    def is_flat(self) -> bool:
        """True if the reading does not grow measurably."""
        return self.change <= self.bound


def read(pid: int, database: Path, at_s: float, tasks: int) -> Reading:
    """Return the resources of a process and its index now."""
    folder = f"/proc/{pid}"
    wal = Path(f"{database}-wal")
    return Reading(
        at_s,
        resident_bytes(pid) / 2**20,
        anonymous_bytes(pid) / 2**20,
        len(os.listdir(f"{folder}/fd")),
        len(os.listdir(f"{folder}/task")),
        tasks,
        wal.stat().st_size / 2**20 if wal.exists() else 0.0,
        _used_bytes(database) / 2**20,
    )


def warm(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings of the second half of the time.

    A warm-up slows down, as caches fill and the allocator reaches its usual size. A leak grows as
    fast in the second half as in the first.
    """
    half_s = (readings[0].at_s + readings[-1].at_s) / 2
    return [reading for reading in readings if reading.at_s >= half_s]


def growth(at_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the growth of at least two values over time."""
    x, y = np.asarray(at_s, float), np.asarray(values, float)
    first, second = np.triu_indices(len(x), k=1)
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first])))
    start = float(np.median(y - slope * x))
    off = y - (start + slope * x)
    noise = 1.4826 * float(np.median(np.abs(off - np.median(off))))
    return Growth(start + slope * float(x[0]), slope * float(x[-1] - x[0]), noise)


def _used_bytes(database: Path) -> int:
    """Return the used bytes by the header, as of the last checkpoint. See SQLite's file format."""
    with database.open("rb") as file:
        header = file.read(100)
    size, pages, free = (int.from_bytes(header[a:b]) for a, b in ((16, 18), (28, 32), (36, 40)))
    return size * (pages - free)
