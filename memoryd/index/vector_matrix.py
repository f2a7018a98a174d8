"""All vectors of one index in memory, searched exactly.

A search compares the query with 8 bits of each number, and the best candidates with all 12 that are
kept (`quantize`). 100,000 × 512 numbers take 76 MiB and 2 ms. A matrix of float32 takes 195 MiB and
16 ms: the memory's speed is the limit. The vectors are read from disk once, when the index is
opened, and follow each transaction from then on.

A chunk that was embedded in windows has several vectors. A search compares their mean first, then
each window of the best chunks. Windows have 8 bits a number.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.index.highest import highest, within_reach
from memoryd.index.quantize import (
    Vector,
    Vectors8,
    Vectors12,
    count_vectors,
    dot_8_bits,
    exact_dot_8_bits,
    exact_dot_12_bits,
    from_8_bits,
    in_12_bits,
    parse_several,
    parse_single,
    products_at,
    query_in_8_bits,
    rest_bytes,
)
from memoryd.index.statements import MatrixRow
from memoryd.index.window_vectors import Positions, WindowVectors, grown

_DENSE = 6
"""Numbers between the wanted ids, for each id, up to which a table of all is quicker."""
_GROWTH, _LEAST_ROWS = 1.25, 256
_LEAST_RESCORED, _MOST_RESCORED = 400, 2_000
_RESCORED_SHARE = 0.05
"""Share of the chunks whose windows are compared. It includes the best chunk by windows in 98 of
100 questions and 0.93 of the best twenty; no test set lost an answer by it."""

_EXACT_FACTOR = 2
"""Rows of the chosen files, for each that is asked for, up to which a first pass gains nothing."""
_COPIED_SHARE = 0.25
"""Share of the rows up to which copying those of the chosen files is quicker than comparing all."""

_Ids = NDArray[np.int64]
_Order = NDArray[np.int32]


class Nearest(NamedTuple):
    """Cosines by row: of the nearest, best first, and of others that were asked for.

    `windows` are the cosines of the windows of all these and perhaps more rows. A row without
    windows has one.
    """

    cosines: dict[int, float]
    others: dict[int, float]
    windows: dict[int, list[float]]


class VectorMatrix:
    """Unit vectors by chunk row, so that the cosine is the dot product.

    Thread-safe: the threads of readers and writer call it under a lock.
    """

    def __init__(self, dims: int, *, capacity: int = 0) -> None:
        self.dims = dims
        self._lock = threading.Lock()
        self._count = 0
        self._order: _Order | dict[int, int] | None = None
        capacity = max(capacity, _LEAST_ROWS)
        self._numbers = np.empty((capacity, dims), np.int8)
        self._rests = np.empty((capacity, rest_bytes(dims)), np.uint8)
        self._scales = np.empty(capacity, np.float32)
        self._row_ids = np.empty(capacity, np.int64)
        self._file_ids = np.empty(capacity, np.int64)
        self._windows = WindowVectors(dims, capacity)

    def __len__(self) -> int:
        return self._count

    def apply(self, removed: Iterable[int], added: Iterable[MatrixRow]) -> None:
        """Remove and add rows. Removing an unknown row does nothing.

        Non-numbers of a corrupt index raise nothing here; `is_finite` and the checker find them.
        Raises ValueError for bytes that are no embedding.
        """
        with self._lock, np.errstate(all="ignore"):
            if (ids := set(removed)) and (at := self._find(ids)).size:
                self._remove(at)
            if rows := {row.row_id: row for row in added}:
                self._load(*zip(*rows.values(), strict=True))
            self._windows.compact()

    def is_finite(self) -> bool:
        """Return whether all vectors are finite numbers."""
        with self._lock:
            return bool(np.isfinite(self._scales[: self._count]).all())

    def search(
        self,
        query: Vector,
        k: int,
        *,
        file_ids: Collection[int] | None = None,
        without: Collection[int] = (),
        also: Collection[int] = (),
    ) -> Nearest:
        """Return the k nearest rows, and others in `also`.

        `query` has shape (dims,) and length 1. With `file_ids` only rows of those files are
        candidates, and never the rows in `without`: the filter comes before the cut, so that others
        can't crowd them out.
        """
        with self._lock:
            count = self._count
            rows = None if file_ids is None else _is_in(self._file_ids[:count], _array(file_ids))
            if without:
                allowed = ~_is_in(self._row_ids[:count], _array(without))
                rows = allowed if rows is None else rows & allowed
            at = self._candidates(query, k, rows)
            near, ids = len(at), self._row_ids[at].tolist()
            if others := set(also).difference(ids):
                at = np.concatenate([at, self._find(others)])
                ids = self._row_ids[at].tolist()
            scores, windows = self._exact(query, at)
            best = (-scores[:near]).argsort(kind="stable")[:k]
            values = scores.tolist()
            exact = dict(zip(ids, values, strict=True))
            nearest = {row: exact[row] for row in map(ids.__getitem__, best.tolist())}
            asked = {row: exact[row] for row in also if row in exact and row not in nearest}
            return Nearest(nearest, asked, self._of_windows(at, ids, values, windows))

    def _candidates(self, query: Vector, k: int, rows: NDArray[np.bool_] | None) -> Positions:
        """Return the positions of these rows that may be among the k nearest; None: of all."""
        count = self._count
        at = None if rows is None else rows.nonzero()[0]
        if at is not None and len(at) <= _EXACT_FACTOR * k:
            return at
        dot = partial(dot_8_bits, query_in_8_bits(query))
        vectors = Vectors8(self._numbers[:count], self._scales[:count])
        if at is None:
            scores = dot(vectors)
        elif len(at) < _COPIED_SHARE * count:
            scores = products_at(at, vectors, dot)
        else:
            scores = dot(vectors)[at]
        if self._windows.rows:
            share = int(_RESCORED_SHARE * len(scores))
            most = max(k, min(max(_LEAST_RESCORED, share), _MOST_RESCORED))
            if at is None and count <= most:
                scores = self._windows.mixed_of_all(scores, dot)
            else:
                best = highest(scores, most)
                at = best if at is None else at[best]
                scores, _ = self._windows.mixed(at, scores[best], dot)
        reach = within_reach(scores, k)
        return reach if at is None else at[reach]

    def cosines(self, query: Vector, row_ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of the rows that have a vector, as `search` computes them."""
        with self._lock:
            at = self._find(set(row_ids))
            scores, _ = self._exact(query, at)
            return dict(zip(self._row_ids[at].tolist(), scores.tolist(), strict=True))

    def window_cosines(self, query: Vector, row_ids: Collection[int]) -> dict[int, list[float]]:
        """Return the cosines of the windows of rows in order, one for a row without windows."""
        with self._lock:
            at = self._find(row_ids)
            scores, windows = self._exact(query, at)
            return self._of_windows(at, self._row_ids[at].tolist(), scores.tolist(), windows)

    def _of_windows(
        self, at: Positions, row_ids: list[int], scores: list[float], windows: Vector
    ) -> dict[int, list[float]]:
        """Return the cosines of the windows of the rows at these positions, by row.

        `windows` are those of all rows, one after the other; a row without has its score.
        """
        cosines, sizes = windows.tolist(), self._windows.counts[at].tolist()
        rows = zip(row_ids, scores, sizes, accumulate(sizes), strict=True)
        return {
            row: cosines[end - size : end] if size else [score] for row, score, size, end in rows
        }

    def _find(self, row_ids: Collection[int]) -> Positions:
        """Return the positions of those rows that there are, in any order.

        A dictionary of 400 rows takes 35 KiB, one of 100,000 takes 11 MiB. The rows are almost in
        the order of their ids, so sorting them takes 0.2 ms.
        """
        ids = self._row_ids[: self._count]
        if self._order is None and self._count <= _LEAST_RESCORED:
            self._order = {row: at for at, row in enumerate(ids.tolist())}
        elif self._order is None:
            self._order = np.argsort(ids, kind="stable").astype(np.int32)
        if isinstance(self._order, dict):
            return _array([self._order[row] for row in row_ids if row in self._order])
        wanted = _array(row_ids)
        found = np.searchsorted(ids, wanted, sorter=self._order)
        inside = found < self._count
        at = self._order[found[inside]].astype(np.int64)
        return np.asarray(at[ids[at] == wanted[inside]])

    def _exact(self, query: Vector, at: Positions) -> tuple[Vector, Vector]:
        """Return the scores of the rows at these positions, with all bits, and of their windows."""
        numbers, rests = self._numbers.take(at, axis=0), self._rests.take(at, axis=0)
        rows = Vectors12(numbers, rests, self._scales[at])
        means = exact_dot_12_bits(query, rows)
        return self._windows.mixed(at, means, partial(exact_dot_8_bits, query))

    def load(
        self, row_ids: Sequence[int], file_ids: Sequence[int], embeddings: Sequence[bytes]
    ) -> None:
        """Add rows with different ids. Raises ValueError for bytes that are no embedding."""
        with self._lock, np.errstate(all="ignore"):
            self._load(row_ids, file_ids, embeddings)

    def _load(
        self, row_ids: Sequence[int], file_ids: Sequence[int], embeddings: Sequence[bytes]
    ) -> None:
        sizes = np.fromiter(map(len, embeddings), np.int64, len(embeddings))
        for size in sorted(set(sizes.tolist())):  # `np.unique` loads `numpy.ma`, 1 MiB
            of_size = np.flatnonzero(sizes == size)
            at = self._take_positions(np.array(row_ids)[of_size], np.array(file_ids)[of_size])
            chosen = [embeddings[i] for i in of_size.tolist()]
            self._put(at, chosen, count_vectors(size, self.dims))

    def _put(self, at: slice, embeddings: Sequence[bytes], count: int) -> None:
        """Set the vectors at these positions, from embeddings of `count` vectors."""
        if count == 1:
            vectors = parse_single(embeddings, self.dims)
        else:
            windows = parse_several(embeddings, self.dims, count)
            means = from_8_bits(windows).reshape(-1, count, self.dims).mean(axis=1)
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            vectors = in_12_bits(means)
            self._windows.add(at, windows, count)
        self._numbers[at], self._rests[at], self._scales[at] = vectors

    def _take_positions(self, row_ids: _Ids, file_ids: _Ids) -> slice:
        """Return positions for rows, without windows, in place of their former ones."""
        # The ids of new rows are the highest, and no look-up has to sort them all.
        may_be_known = row_ids.min() <= self._row_ids[: self._count].max(initial=0)
        if may_be_known and (former := self._find(row_ids.tolist())).size:
            self._remove(former)
        at = slice(self._count, self._count + len(row_ids))
        self._count = at.stop
        if self._count > len(self._scales):
            capacity = max(int(len(self._scales) * _GROWTH), self._count)
            for name in _COLUMNS:
                setattr(self, name, grown(getattr(self, name), capacity))
            self._windows.grow(capacity)
        self._row_ids[at], self._file_ids[at] = row_ids, file_ids
        self._order = None
        return at

    def _remove(self, at: Positions) -> None:
        """Remove the rows at these positions; the last ones take their positions."""
        left = self._count - len(at)
        last = np.arange(left, self._count)
        last, holes = last[~_is_in(last, at)], at[at < left]
        for name in _COLUMNS:
            column = getattr(self, name)
            column[holes] = column[last]
        self._windows.remove(at, holes, last)
        self._count, self._order = left, None


_COLUMNS = "_numbers", "_rests", "_scales", "_row_ids", "_file_ids"


def _array(ids: Collection[int]) -> _Ids:
    return np.fromiter(ids, dtype=np.int64, count=len(ids))


def _is_in(ids: _Ids, wanted: _Ids) -> NDArray[np.bool_]:
    """Return which of the ids are wanted.

    `np.isin` takes three times as long, and loads `numpy.ma` (1 MiB) for few.
    """
    if not len(wanted):
        return np.zeros(len(ids), np.bool_)
    before = wanted.min() - 1
    size = wanted.max() - before + 2
    if size <= _DENSE * (len(ids) + len(wanted)):
        table = np.zeros(size, np.bool_)
        table[wanted - before] = True
        return np.asarray(table.take(ids - before, mode="clip"))  # false at both ends
    ordered = np.sort(wanted)
    return np.asarray(ordered.take(np.searchsorted(ordered, ids), mode="clip") == ids)
