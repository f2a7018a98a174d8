"""Vectors in memory, compared with a naive search."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from memoryd.index import quantize
from memoryd.index.highest import within_reach
from memoryd.index.statements import MatrixRow
from memoryd.index.vector_matrix import VectorMatrix, _is_in
from memoryd.index.window_vectors import BEST_WINDOW_WEIGHT

DIMS = 4
NEVER = 1_000_000
TEXT = "0" * 64
"""Hash of a text."""
ROUNDED = 0.003
"""Maximum error of a cosine of vectors with few numbers."""


def unit(seed: int) -> NDArray[np.float32]:
    vector = np.random.default_rng(seed).normal(size=DIMS).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def stored(row_id: int, vectors: NDArray[np.float32], file_id: int = 1) -> MatrixRow:
    dims = vectors.shape[-1]
    return MatrixRow(row_id, file_id, quantize.encode(vectors.astype("<f4").tobytes(), dims, TEXT))


def row(row_id: int, file_id: int = 1, seed: int | None = None) -> MatrixRow:
    return several(row_id, [row_id if seed is None else seed], file_id)


def test_the_nearest_come_first() -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply((), [row(n) for n in range(50)])
    best, score = next(iter(matrix.search(unit(17), 5).cosines.items()))
    assert best == 17
    assert score == pytest.approx(1.0, abs=ROUNDED)
    scores = list(matrix.search(unit(17), 50).cosines.values())
    assert scores == sorted(scores, reverse=True)


def test_an_empty_matrix_and_no_places_find_nothing() -> None:
    matrix = VectorMatrix(DIMS)
    assert matrix.search(unit(1), 5).cosines == {}
    matrix.apply((), [row(1)])
    assert matrix.search(unit(1), 0).cosines == {}
    assert matrix.search(unit(1), 5, file_ids=[]).cosines == {}


def test_fewer_rows_than_asked_for_are_all_of_them() -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply((), [row(1), row(2)])
    assert matrix.search(unit(1), 10).cosines.keys() == {1, 2}


def test_a_large_neighbour_does_not_starve_a_small_file() -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply((), [row(n, file_id=1, seed=0) for n in range(2000)])
    matrix.apply((), [row(5000 + n, file_id=2, seed=n) for n in range(1, 4)])
    found = matrix.search(unit(0), 3, file_ids={2}).cosines
    assert found.keys() == {5001, 5002, 5003}


def test_a_row_that_is_not_there_is_not_missed() -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply([NEVER], [row(1)])
    assert len(matrix) == 1


def test_a_row_that_is_added_again_is_replaced() -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply((), [row(1, seed=1)])
    matrix.apply((), [row(1, file_id=9, seed=2)])
    assert matrix.search(unit(2), 5, file_ids={9}).cosines == {1: pytest.approx(1.0, abs=ROUNDED)}
    assert len(matrix) == 1


def test_it_grows_past_its_capacity_and_forgets_nothing() -> None:
    matrix = VectorMatrix(DIMS, capacity=1)
    matrix.apply((), [row(n, file_id=n) for n in range(3000)])
    assert len(matrix) == 3000
    for n in (0, 255, 256, 1000, 2999):
        found = matrix.search(unit(n), 1, file_ids={n}, also=[n, 7, NEVER])
        assert found.cosines == {n: pytest.approx(1.0, abs=ROUNDED)}
        assert found.others == {7: pytest.approx(float(unit(7) @ unit(n)), abs=ROUNDED)}


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 8)),
            st.lists(
                st.tuples(
                    st.integers(0, 8),
                    st.integers(1, 3),
                    st.lists(st.integers(0, 99), min_size=1, max_size=3),
                )
            ),
        ),
        max_size=12,
    )
)
def test_after_any_changes_it_finds_what_a_plain_search_finds(
    changes: list[tuple[set[int], list[tuple[int, int, list[int]]]]],
) -> None:
    matrix, model = VectorMatrix(DIMS), dict[int, tuple[int, list[int]]]()
    query = unit(1000)
    for removed, added in changes:
        matrix.apply(removed, [several(row_id, seeds, file_id) for row_id, file_id, seeds in added])
        for row_id in removed:
            model.pop(row_id, None)
        model.update({row_id: (file_id, seeds) for row_id, file_id, seeds in added})
        assert matrix.search(query, 100).cosines.keys() == model.keys()
    assert len(matrix) == len(model)
    for wanted in (None, {1}, {2, 3}):
        cosines = {
            row_id: pytest.approx(expected(query, seeds), abs=0.02)
            for row_id, (file_id, seeds) in model.items()
            if wanted is None or file_id in wanted
        }
        assert matrix.search(query, 100, file_ids=wanted).cosines == cosines
        others = matrix.search(query, 1, file_ids=wanted, also=range(9)).others
        assert len(others) == max(0, len(model) - (len(cosines) > 0))


# Several vectors of one chunk


def several(row_id: int, seeds: list[int], file_id: int = 1) -> MatrixRow:
    return stored(row_id, np.stack([unit(seed) for seed in seeds]), file_id)


def expected(query: NDArray[np.float32], seeds: list[int]) -> float:
    rows = np.stack([unit(seed) for seed in seeds])
    mean = rows.mean(axis=0)
    mean /= np.linalg.norm(mean)
    best = float((rows @ query).max())
    share = BEST_WINDOW_WEIGHT if len(seeds) > 1 else 1.0
    return share * best + (1 - share) * float(mean @ query)


@given(
    st.dictionaries(
        st.integers(1, 30), st.lists(st.integers(0, 99), min_size=1, max_size=4), min_size=1
    ),
    st.integers(0, 99),
    st.sets(st.integers(1, 30)),
)
def test_the_best_window_counts_and_the_mean_a_little(
    chunks: dict[int, list[int]], seed: int, removed: set[int]
) -> None:
    matrix = VectorMatrix(DIMS)
    matrix.apply((), [several(row_id, seeds) for row_id, seeds in chunks.items()])
    matrix.apply(removed, [])
    left = {row_id: seeds for row_id, seeds in chunks.items() if row_id not in removed}
    query = unit(seed)
    nearest = matrix.search(query, 100)
    found = nearest.cosines
    assert found.keys() == left.keys()
    assert nearest.windows.keys() == found.keys()
    for row_id, seeds in left.items():
        assert found[row_id] == pytest.approx(expected(query, seeds), abs=0.02)
    assert matrix.cosines(query, [*left, NEVER]) == pytest.approx(found, abs=1e-5)
    for row_id, seeds in left.items():
        cosines = [float(unit(s) @ query) for s in seeds]
        assert matrix.window_cosines(query, [row_id])[row_id] == pytest.approx(cosines, abs=0.02)
        assert nearest.windows[row_id] == pytest.approx(cosines, abs=0.02)


def test_a_chunk_with_one_window_about_the_question_is_found_among_many() -> None:
    matrix = VectorMatrix(DIMS)
    rng = np.random.default_rng(3)
    matrix.apply((), [several(n, [int(s) for s in rng.integers(0, 500, 4)]) for n in range(3_000)])
    matrix.apply((), [several(9_999, [777, 3, 4, 5])])
    rows = matrix.search(unit(777), 5).cosines
    best = max(rows, key=lambda row_id: max(matrix.window_cosines(unit(777), [row_id])[row_id]))
    assert max(matrix.window_cosines(unit(777), [best])[best]) > 0.95


@pytest.mark.parametrize("embedding", [b"", bytes(3), bytes(4), bytes(20)])
def test_what_can_be_no_vector_is_an_error_and_no_noise(embedding: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        VectorMatrix(2).apply((), [MatrixRow(1, 1, embedding)])


def test_no_search_waits_for_a_module() -> None:
    """Searches once imported a module after hours, when the ids of files were far apart."""
    searches = """
import sys
import subprocess
import sys

import numpy as np
from memoryd.index.vector_matrix import VectorMatrix
from memoryd.index.quantize import encode
from memoryd.index.statements import MatrixRow
vector = np.ones(4, "<f4") / 2
stored = encode(vector.tobytes(), 4, "")
matrix = VectorMatrix(4)
matrix.apply((), [MatrixRow(n, 10**6 * n, stored) for n in range(500)])
before = set(sys.modules)
assert len(matrix.search(vector, 500, file_ids=range(0, 10**9, 2 * 10**6)).cosines) == 250
assert set(sys.modules) == before, set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-c", searches], check=True, timeout=60)


# Vectors as small integers


@given(st.integers(1, 40), st.integers(0, 99))
def test_twelve_bits_keep_a_vector_to_a_four_thousandth_of_its_largest_number(
    dims: int, seed: int
) -> None:
    vectors = np.random.default_rng(seed).normal(size=(3, dims)).astype(np.float32)
    for exact, error in (
        (quantize.from_12_bits(quantize.in_12_bits(vectors)), 1 / 4_000),
        (quantize.from_8_bits(quantize.in_8_bits(vectors)), 1 / 250),
    ):
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        assert np.all(np.abs(exact - vectors) <= error * largest)


def test_a_vector_of_zeros_stays_one() -> None:
    zeros = np.zeros((2, 5), np.float32)
    assert not quantize.from_12_bits(quantize.in_12_bits(zeros)).any()
    assert not quantize.from_8_bits(quantize.in_8_bits(zeros)).any()


@pytest.mark.parametrize("dims", [1, 7, 64, 129, 512])
def test_the_first_pass_is_the_product_of_the_8_bit_numbers(dims: int) -> None:
    rng = np.random.default_rng(dims)
    vectors = quantize.in_8_bits(rng.normal(size=(50, dims)).astype(np.float32))
    query = rng.normal(size=dims).astype(np.float32)
    quantized, [plain] = quantize.query_in_8_bits(query), quantize.in_8_bits(query[np.newaxis])[0]
    assert quantized.numbers.tolist() == plain.tolist()
    expected = quantize.from_8_bits(vectors) @ (quantized.numbers * np.float32(quantized.scale))
    assert quantize.dot_8_bits(quantized, vectors) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("dims", [1, 7, 64, 512])
def test_exact_products_are_those_of_the_vectors(dims: int) -> None:
    rng = np.random.default_rng(dims)
    vectors = rng.normal(size=(50, dims)).astype(np.float32)
    query = rng.normal(size=dims).astype(np.float32)
    of_8, of_12 = quantize.in_8_bits(vectors), quantize.in_12_bits(vectors)
    for products, of_query in (
        (quantize.exact_dot_8_bits(query, of_8), quantize.from_8_bits(of_8) @ query),
        (quantize.exact_dot_12_bits(query, of_12), quantize.from_12_bits(of_12) @ query),
    ):
        assert products == pytest.approx(of_query, rel=1e-4, abs=1e-4)


def test_the_best_of_many_random_vectors_are_those_of_float32() -> None:
    """Random vectors are the hard case: the cosines of many differ little."""
    dims, k = 256, 24
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(25_000, dims)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    matrix = VectorMatrix(dims)
    matrix.apply((), [stored(n, v, file_id=n % 10) for n, v in enumerate(vectors)])
    shared = shared_of_file = 0
    for query in vectors[:50] * 0.6 + vectors[50:100] * 0.8:
        cosines = vectors @ query
        found = matrix.search(query, k).cosines
        shared += len(found.keys() & set(np.argsort(-cosines)[:k].tolist()))
        assert all(abs(cosines[row] - score) < 5e-4 for row, score in found.items())
        of_file = matrix.search(query, k, file_ids=[7]).cosines.keys()
        shared_of_file += len(of_file & set((7 + 10 * np.argsort(-cosines[7::10])[:k]).tolist()))
    assert shared / (50 * k) > 0.995
    assert shared_of_file / (50 * k) > 0.995


@given(st.integers(0, 300), st.integers(0, 60), st.integers(0, 99))
def test_what_may_be_among_the_best_is_within_reach(count: int, k: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=count, scale=0.1).astype(np.float32)
    ordered = sorted(scores.tolist(), reverse=True)
    least = ordered[min(k, count) - 1] - 2 * 0.006 if k and count else math.inf
    expected = [score for score in ordered if score >= least][: 4 * k + 32]
    found = within_reach(scores, k)
    assert sorted(scores[found].tolist(), reverse=True) == expected
    many = np.concatenate([scores, np.full(4_001, -1, np.float32)])
    if k < count:
        assert sorted(within_reach(many, k).tolist()) == sorted(found.tolist())


@given(
    st.lists(st.integers(0, 2**40), max_size=30),
    st.lists(st.integers(0, 40) | st.integers(0, 2**40)),
)
def test_wanted_ids_are_found_as_by_numpy(ids: list[int], wanted: list[int]) -> None:
    ids += wanted[:5]
    found = _is_in(np.array(ids, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [each in wanted for each in ids]
