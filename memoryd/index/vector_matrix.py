"""All vectors of one index in memory, searched exactly.

One matrix product over 100,000 × 512 floats takes about 6 ms on one core and sqlite-vec's own scan
hundreds, because reading from SQLite is slow. The matrix is read from disk once, when the index is
opened, and follows each transaction from then on.

A chunk that was embedded in windows has several vectors. A search compares their mean first, then
each window of the best chunks. Windows are stored as 8-bit numbers with a scale each.
"""

import threading
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import numpy.ma  # `np.isin` loads it where ids lie far apart: in the middle of a search
from numpy.typing import NDArray

from memoryd.index.cache import mean_vector
from memoryd.index.driver import Connection, CorruptIndexError, one_value
from memoryd.index.statements import MatrixRow

_LOAD_ROWS = 2_000
_GROWTH = 1.25
_LEAST_ROWS = 256
_LEAST_RESCORED, _MOST_RESCORED = 400, 2_000
_RESCORED_SHARE = 0.05
"""Share of the chunks whose windows are compared. It includes the best chunk by windows in 98 of
100 questions and 0.93 of the best twenty; no test set lost an answer by it."""
BEST_WINDOW_WEIGHT = 0.7
"""Weight of the best window against the mean, which favours chunks that are about the question."""

Vector = NDArray[np.float32]


class _Windows(NamedTuple):
    """Vectors of one chunk: 8-bit numbers, shape (windows, dims), and the scale of each row."""

    numbers: NDArray[np.int8]
    scales: NDArray[np.float32]


class VectorMatrix:
    """Unit vectors by chunk row, so that the cosine is the dot product.

    Thread-safe: the threads of readers and writer call it under a lock.
    """

    def __init__(self, dims: int, *, capacity: int = 0) -> None:
        self.dims = dims
        self._lock = threading.Lock()
        self._position: dict[int, int] = {}
        self._vectors = np.empty((max(capacity, _LEAST_ROWS), dims), dtype=np.float32)
        self._row_ids = np.empty(len(self._vectors), dtype=np.int64)
        self._file_ids = np.empty(len(self._vectors), dtype=np.int64)
        self._windows: dict[int, _Windows] = {}

    def __len__(self) -> int:
        return len(self._position)

    def apply(self, removed: Iterable[int], added: Iterable[MatrixRow]) -> None:
        """Remove and add rows. Removing an unknown row does nothing.

        Non-numbers of a corrupt index raise nothing here; `is_finite` and the checker find them.
        """
        with self._lock, np.errstate(all="ignore"):
            for row_id in removed:
                self._remove(row_id)
            for row in added:
                self._add(row)

    def is_finite(self) -> bool:
        """Return whether all vectors are finite numbers."""
        with self._lock:
            return bool(np.isfinite(self._vectors[: len(self._position)]).all())

    def search(
        self,
        query: Vector,
        k: int,
        *,
        file_ids: Collection[int] | None = None,
        without: Collection[int] = (),
    ) -> list[tuple[int, float]]:
        """Return the k nearest rows as (row_id, cosine), best first.

        `query` has shape (dims,) and length 1. With `file_ids` only rows of those files are
        candidates, and never the rows in `without`: the filter comes before the cut, so that others
        can't crowd them out.
        """
        with self._lock:
            count = len(self._position)
            scores = self._vectors[:count] @ query
            rows = np.arange(count)
            if file_ids is not None:
                rows = rows[np.isin(self._file_ids[:count], _array(file_ids))]
            if without:
                rows = rows[~np.isin(self._row_ids[rows], _array(without))]
            if len(rows) < count:
                scores = scores[rows]
            if self._windows:
                share = int(_RESCORED_SHARE * len(rows))
                rescored = max(k, min(max(_LEAST_RESCORED, share), _MOST_RESCORED))
                best = _best(scores, rescored)
                rows = rows[best]
                scores = self._by_windows(query, rows, scores[best])
            best = _best(scores, k)
            best = best[np.argsort(-scores[best], kind="stable")]
            ids = self._row_ids[rows[best]]
            return [(int(i), float(s)) for i, s in zip(ids, scores[best], strict=True)]

    def cosines(self, query: Vector, row_ids: Iterable[int]) -> dict[int, float]:
        """Return the cosines of the rows that have a vector, as `search` computes them."""
        with self._lock:
            known = [row for row in row_ids if row in self._position]
            if not known:
                return {}
            rows = np.array([self._position[row] for row in known])
            scores = self._by_windows(query, rows, self._vectors[rows] @ query)
            return {row: float(score) for row, score in zip(known, scores, strict=True)}

    def window_cosines(self, query: Vector, row_id: int) -> list[float]:
        """Return the cosines of a row's windows in order, one cosine for a row without windows."""
        with self._lock:
            if (windows := self._windows.get(row_id)) is not None:
                return [float(score) for score in (windows.numbers @ query) * windows.scales]
            position = self._position.get(row_id)
            return [] if position is None else [float(self._vectors[position] @ query)]

    def _by_windows(self, query: Vector, rows: NDArray[np.int64], means: Vector) -> Vector:
        """Return the scores of the rows at these positions: best window and mean, mixed."""
        found = [self._windows.get(int(row)) for row in self._row_ids[rows]]
        several = np.array([windows is not None for windows in found])
        there = [windows for windows in found if windows is not None]
        if not there:
            return means
        sizes = np.array([len(windows.scales) for windows in there])
        numbers = np.concatenate([windows.numbers for windows in there]).astype(np.float32)
        cosines = (numbers @ query) * np.concatenate([windows.scales for windows in there])
        best = np.maximum.reduceat(cosines, np.cumsum(sizes) - sizes)
        scores = means.copy()
        mixed = BEST_WINDOW_WEIGHT * best + (1 - BEST_WINDOW_WEIGHT) * means[several]
        scores[several] = mixed
        return scores

    def _add(self, row: MatrixRow) -> None:
        position = self._position.get(row.row_id, len(self._position))
        if position == len(self._vectors):
            self._grow()
        vectors = np.frombuffer(row.embedding, dtype="<f4").reshape(-1, self.dims)
        self._windows.pop(row.row_id, None)
        self._vectors[position] = np.frombuffer(mean_vector(row.embedding, self.dims), "<f4")
        if len(vectors) > 1:
            self._windows[row.row_id] = _in_8_bits(vectors)
        self._row_ids[position] = row.row_id
        self._file_ids[position] = row.file_id
        self._position[row.row_id] = position

    def _remove(self, row_id: int) -> None:
        position = self._position.pop(row_id, None)
        self._windows.pop(row_id, None)
        if position is None:
            return
        last = len(self._position)
        if position != last:
            self._vectors[position] = self._vectors[last]
            self._row_ids[position] = self._row_ids[last]
            self._file_ids[position] = self._file_ids[last]
            self._position[int(self._row_ids[last])] = position

    def _grow(self) -> None:
        capacity = int(len(self._vectors) * _GROWTH) + 1
        count = len(self._vectors)
        for name in ("_vectors", "_row_ids", "_file_ids"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[:count] = old
            setattr(self, name, new)


def load_vectors(connection: Connection, dims: int) -> VectorMatrix:
    """Read the vectors of all chunks."""
    total = one_value(connection, "SELECT count(*) FROM chunks WHERE vector_id IS NOT NULL")
    matrix = VectorMatrix(dims, capacity=total + total // 8)
    cursor = connection.execute(
        "SELECT row_id, file_id, embedding FROM chunks JOIN embedding_cache USING (vector_id)"
    )
    while batch := cursor.fetchmany(_LOAD_ROWS):
        try:
            matrix.apply((), (MatrixRow(*row) for row in batch))
        except (ValueError, TypeError) as error:
            raise CorruptIndexError(f"a vector doesn't have {dims} numbers") from error
    if not matrix.is_finite():
        raise CorruptIndexError("a vector contains a value that is not a finite number")
    return matrix


def _array(ids: Collection[int]) -> NDArray[np.int64]:
    return np.fromiter(ids, dtype=np.int64, count=len(ids))


def _best(scores: Vector, k: int) -> NDArray[np.int64]:
    """Return the positions of the k highest scores, in no order."""
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, np.int64)
    return np.argpartition(scores, len(scores) - k)[len(scores) - k :]


def _in_8_bits(vectors: NDArray[np.float32]) -> _Windows:
    scales = (np.abs(vectors).max(axis=1) / 127).astype(np.float32)
    scales[scales == 0] = 1.0
    numbers = np.rint(vectors / scales[:, np.newaxis]).astype(np.int8)
    return _Windows(numbers, scales)
