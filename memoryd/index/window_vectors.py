"""Vectors of the windows of chunks, beside the matrix of their means.

Windows have 8 bits a number. They stand one after the other in the order in which they came.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryd.index.quantize import Vector, Vectors8, products_at

BEST_WINDOW_WEIGHT = 0.7
"""Weight of the best window against the mean, which favours chunks that are about the question."""
_GROWTH, _LEAST_WINDOWS = 1.25, 256

Positions = NDArray[np.int64]
Dot = Callable[[Vectors8], Vector]
"""Returns the products of vectors with a query."""
_Number = TypeVar("_Number", bound=np.generic)


class WindowVectors:
    """Vectors of windows, by the position of their row in a matrix with room for `capacity` rows.

    `counts` are the windows of each position, and `rows` is the number of rows that have some.
    Removed windows stay until they are as many as the others.
    """

    def __init__(self, dims: int, capacity: int) -> None:
        self.counts = np.zeros(capacity, np.int32)
        self.rows = 0
        self._first = np.zeros(capacity, np.int32)
        self._numbers = np.empty((0, dims), np.int8)
        self._scales = np.empty(0, np.float32)
        self._used = self._removed = 0
        self._layout: tuple[Positions, Positions] | None = None

    def grow(self, capacity: int) -> None:
        """Make room for so many rows."""
        self.counts, self._first = grown(self.counts, capacity), grown(self._first, capacity)

    def add(self, at: slice, windows: Vectors8, count: int) -> None:
        """Give `count` windows to each of these positions, which have none."""
        first, self._used = self._used, self._used + len(windows.scales)
        if self._used > len(self._scales):
            capacity = max(_LEAST_WINDOWS, int(self._used * _GROWTH))
            self._numbers = grown(self._numbers, capacity)
            self._scales = grown(self._scales, capacity)
        self._numbers[first : self._used], self._scales[first : self._used] = windows
        self._first[at] = np.arange(first, self._used, count)
        self.counts[at] = count
        self.rows += at.stop - at.start
        self._layout = None

    def remove(self, at: Positions, holes: Positions, last: Positions) -> None:
        """Remove the rows at these positions. The `last` rows of the matrix move to the `holes`."""
        sizes = self.counts[at]
        self._removed += int(sizes.sum())
        self.rows -= int(np.count_nonzero(sizes))
        self.counts[at] = 0
        self._first[holes], self.counts[holes] = self._first[last], self.counts[last]
        self.counts[last] = 0
        self._layout = None

    def compact(self) -> None:
        """Drop the removed windows if they are many."""
        if self._removed > max(_LEAST_WINDOWS, self._used // 2):
            self._drop_removed()

    def _drop_removed(self) -> None:
        at = self.counts.nonzero()[0]
        places, starts = self._places(at)
        self._numbers, self._scales = self._numbers[places], self._scales[places]
        self._first[at] = starts
        self._used, self._removed, self._layout = len(places), 0, None

    def mixed_of_all(self, means: Vector, dot: Dot) -> Vector:
        """Return the scores of all rows of the matrix, as `mixed` does.

        The layout of the windows is kept until the next change: 16 bytes a row.
        """
        if self._layout is None:
            if self._removed:
                self._drop_removed()
            rows = self.counts.nonzero()[0]
            rows = rows[self._first[rows].argsort()]
            self._layout = rows, self._first[rows].astype(np.int64)
        rows, starts = self._layout
        cosines = dot(Vectors8(self._numbers[: self._used], self._scales[: self._used]))
        return _mix(means, rows, np.maximum.reduceat(cosines, starts))

    def mixed(self, at: Positions, means: Vector, dot: Dot) -> tuple[Vector, Vector]:
        """Return the scores of the rows at these positions: best window and mean, mixed.

        `dot` returns the products of windows with the query, which are returned, too.
        """
        several = self.counts[at].nonzero()[0]
        if not len(several):
            return means, means[:0]
        places, starts = self._places(at[several])
        cosines = self._products(places, dot)
        return _mix(means, several, np.maximum.reduceat(cosines, starts)), cosines

    def _products(self, places: Positions, dot: Dot) -> Vector:
        """Return what `dot` returns for the windows at these places.

        They are not copied if they are all from some place on.
        """
        first = places[0] if len(places) else 0
        used = slice(first, self._used)
        if len(places) == self._used - first and (places == np.arange(first, self._used)).all():
            return dot(Vectors8(self._numbers[used], self._scales[used]))
        return products_at(places, Vectors8(self._numbers, self._scales), dot)

    def _places(self, at: Positions) -> tuple[Positions, Positions]:
        """Return the places of all windows of the rows at these positions.

        Also returns the position of each row's first one among them.
        """
        sizes = self.counts[at].astype(np.int64)
        ends = sizes.cumsum()
        starts = ends - sizes
        shifts = (self._first[at] - starts).repeat(sizes)
        return np.asarray(shifts + np.arange(len(shifts))), starts


def _mix(means: Vector, at: Positions, best: Vector) -> Vector:
    """Return the means, mixed with the best windows of those at these positions."""
    scores = means.copy()
    scores[at] = BEST_WINDOW_WEIGHT * best + (1 - BEST_WINDOW_WEIGHT) * means[at]
    return scores


def grown(old: NDArray[_Number], capacity: int) -> NDArray[_Number]:
    """Return a longer array with the same beginning, else zeros."""
    new = np.zeros((capacity, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new
