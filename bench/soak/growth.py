"""Readings of a process over time, and whether they grow. Linux only."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.daemon import resident_bytes


class Reading(NamedTuple):
    """What a process takes at one moment; `tasks` are its asyncio tasks."""

    at_s: float
    resident_mib: float
    descriptors: int
    threads: int
    tasks: int
    wal_mib: float
    index_mib: float


class Growth(NamedTuple):
    """How a reading changed from the first to the last moment, by a line through all of them.

    The line is Theil's and Sen's: the median of the slopes of all pairs, which single high or low
    readings don't move. `noise` is what the readings lie off the line, as a standard deviation.
    """

    first: float
    change: float
    noise: float

    @property
    def bound(self) -> float:
        """What a change must be above, to be told from noise and to be more than 2 %."""
        return max(2 * self.noise, 0.02 * self.first)

    @property
    def is_flat(self) -> bool:
        """Say whether nothing grows, as far as can be told."""
        return self.change <= self.bound


def read(pid: int, database: Path, at_s: float, tasks: int) -> Reading:
    """Return what a process and its index take now."""
    folder = f"/proc/{pid}"
    wal = Path(f"{database}-wal")
    return Reading(
        at_s,
        resident_bytes(pid) / 2**20,
        len(os.listdir(f"{folder}/fd")),
        len(os.listdir(f"{folder}/task")),
        tasks,
        wal.stat().st_size / 2**20 if wal.exists() else 0.0,
        database.stat().st_size / 2**20,
    )


def growth(at_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return how values changed over time; at least two of them."""
    x, y = np.asarray(at_s, float), np.asarray(values, float)
    first, second = np.triu_indices(len(x), k=1)
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first])))
    start = float(np.median(y - slope * x))
    off = y - (start + slope * x)
    noise = 1.4826 * float(np.median(np.abs(off - np.median(off))))
    return Growth(start + slope * float(x[0]), slope * float(x[-1] - x[0]), noise)
