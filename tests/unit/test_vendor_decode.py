"""Parsing of vectors from answers: whatever a server sends, texts get their own vectors or none."""

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.embed.provider import RetryableError, unit_rows
from memoryd.embed.vendors.api import Api
from memoryd.embed.vendors.decode import in_order, matrix
from memoryd.embed.vendors.factory import APIS

DIMS = 4
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VECTORS = st.lists(st.lists(FLOATS, min_size=DIMS, max_size=DIMS), min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["data", "embedding", "embeddings", "values", "index", "usage", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
NAMES = sorted(APIS)
INDEXED = ("openai", "voyage", "mistral")


def body(name: str, rows: list[Any]) -> dict[str, Any]:
    """Return a vendor's answer with these vectors, in this order."""
    if name == "gemini":
        return {"embeddings": [{"values": row} for row in rows]}
    if name == "ollama":
        return {"embeddings": rows, "prompt_eval_count": 3}
    return {"data": [{"embedding": row, "index": index} for index, row in enumerate(rows)]}


def in_base64(row: list[float]) -> str:
    return base64.b64encode(np.array(row, "<f4").tobytes()).decode()


def read_or_refused(api: Api, raw: bytes, count: int) -> None:
    """Parse an answer, which may only fail with the one error."""
    try:
        answer = api.read(raw, count)
    except RetryableError:
        return
    assert answer.rows.shape[0] == count
    assert answer.rows.shape[1] > 0
    assert answer.rows.dtype == np.float32


# Arbitrary answers


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(answer=JSON, count=st.integers(1, 4))
def test_any_json_is_vectors_or_a_retryable_error(name: str, answer: Any, count: int) -> None:
    read_or_refused(APIS[name](), json.dumps(answer).encode(), count)


ROWS = st.lists(
    JSON
    | st.lists(st.none() | st.floats() | st.integers(), max_size=DIMS)
    | st.binary(max_size=17).map(lambda raw: base64.b64encode(raw).decode()),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(rows=ROWS)
def test_any_vectors_are_taken_or_refused_by_the_one_error(name: str, rows: list[Any]) -> None:
    read_or_refused(APIS[name](), json.dumps(body(name, rows)).encode(), len(rows))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_refused_by_the_one_error(name: str, raw: bytes) -> None:
    with pytest.raises(RetryableError):
        APIS[name]().read(raw, 1)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(data=st.data())
def test_an_answer_that_is_cut_off_anywhere_is_refused(name: str, data: st.DataObject) -> None:
    raw = json.dumps(body(name, [[1.5, -2.0], [0.5, math.nan]])).encode()
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(RetryableError):
        APIS[name]().read(raw[:cut], 2)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "nothing"),
        (b" \n", "nothing"),
        (b"<html></html>", "an HTML page"),
        (b"\n <!doctype html>", "an HTML page"),
        (b'{"data": 3}', "no vectors"),
        (b"[" * 100_000, "no vectors"),
        (b"[NaN" * 10_000, "no vectors"),
        (b'{"data": [{"embedding": null}]}', "no vectors"),
        (b'{"data": [{"embedding": [true, false]}]}', "no vectors"),
        (b'{"data": [{"embedding": [' + b"9" * 400 + b"]}]}", "no vectors"),
        (b'{"data": [{"embedding": [NaN, ' + b"9" * 5_000 + b"]}]}", "no vectors"),
    ],
)
def test_what_came_instead_of_vectors_is_told(raw: bytes, what: str) -> None:
    with pytest.raises(RetryableError, match=f"^openai answered with {what}\\.$") as caught:
        APIS["openai"]().read(raw, 1)
    assert caught.value.answered


# Values


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(rows=VECTORS)
def test_numbers_arrive_as_they_were_sent(name: str, rows: list[list[float]]) -> None:
    answer = APIS[name]().read(json.dumps(body(name, rows)).encode(), len(rows))
    assert np.array_equal(answer.rows, np.array(rows, np.float32))


@given(rows=VECTORS, as_text=st.lists(st.booleans(), min_size=6, max_size=6))
def test_base64_says_the_same_as_floats(rows: list[list[float]], as_text: list[bool]) -> None:
    mixed = [in_base64(row) if text else row for row, text in zip(rows, as_text, strict=False)]
    found = matrix("v", mixed, len(rows))
    assert np.array_equal(found, np.array(rows, np.float32))
    assert found.flags.writeable


@pytest.mark.parametrize("text", ["", "A", "AAAA", "AAAAAAAA", "é", "not base64!", "AAAAAA==\n"])
def test_base64_that_is_no_vector_is_refused(text: str) -> None:
    with pytest.raises(
        RetryableError, match=r"v returned (?:a vector that can't be decoded|empty vectors)"
    ):
        matrix("v", [text], 1)


BAD = st.sampled_from([None, math.nan, math.inf, -math.inf, 1e300])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(data=st.data(), rows=VECTORS)
def test_a_number_that_is_none_hurts_its_own_row_alone(
    name: str, data: st.DataObject, rows: list[list[float]]
) -> None:
    sent: list[list[float | None]] = [[1.0, *row[1:]] for row in rows]  # a direction for each
    bad = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    for index in bad:
        sent[index][data.draw(st.integers(0, DIMS - 1))] = data.draw(BAD)
    answer = APIS[name]().read(json.dumps(body(name, sent)).encode(), len(rows))
    units, good = unit_rows(answer.rows, count=len(rows), dims=DIMS)
    assert {index for index, fine in enumerate(good) if not fine} == bad
    assert np.isfinite(units).all()
    for index in set(range(len(rows))) - bad:
        assert np.array_equal(answer.rows[index][1:], np.array(rows[index][1:], np.float32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [[None, None], [0, None], [None, 1.5], [math.nan, None]])
def test_null_in_any_company_is_a_bad_row(name: str, row: list[float | None]) -> None:
    answer = APIS[name]().read(json.dumps(body(name, [row, [1, 2]])).encode(), 2)
    assert np.isnan(answer.rows[0]).any()
    assert answer.rows[1].tolist() == [1.0, 2.0]


def test_whole_numbers_are_numbers() -> None:
    assert matrix("v", [[1, 0], [0, 1]], 2).dtype == np.float32


# Shapes


@pytest.mark.parametrize(("given_", "count"), [(1, 2), (3, 2), (0, 1)])
def test_a_wrong_count_is_refused(given_: int, count: int) -> None:
    with pytest.raises(RetryableError, match=f"v returned {given_} vectors for {count} texts"):
        matrix("v", [[1.0]] * given_, count)


@pytest.mark.parametrize(
    ("vectors", "why"),
    [
        ([[1.0], [1.0, 2.0]], "vectors of different lengths"),
        ([[1.0], ""], "vectors of different lengths"),
        ([[], []], "empty vectors"),
    ],
)
def test_vectors_of_different_lengths_or_none_are_refused(
    vectors: list[list[float] | str], why: str
) -> None:
    with pytest.raises(RetryableError, match=f"v returned {why}"):
        matrix("v", vectors, len(vectors))


# Order


@given(data=st.data(), count=st.integers(1, 8))
def test_any_order_is_put_right_by_index(data: st.DataObject, count: int) -> None:
    order = data.draw(st.permutations(range(count)))
    assert in_order("v", [f"vector {index}" for index in order], order) == [
        f"vector {index}" for index in range(count)
    ]


@pytest.mark.parametrize("name", INDEXED)
@settings(max_examples=30)
@given(data=st.data(), count=st.integers(1, 8))
def test_an_answer_in_any_order_is_read_in_that_of_the_texts(
    name: str, data: st.DataObject, count: int
) -> None:
    items = body(name, [[float(index), 1.0] for index in range(count)])["data"]
    shuffled = data.draw(st.permutations(items))
    answer = APIS[name]().read(json.dumps({"data": shuffled}).encode(), count)
    assert answer.rows[:, 0].tolist() == [float(index) for index in range(count)]


@given(st.lists(st.none() | st.integers(-2, 5), min_size=1, max_size=5))
def test_indexes_that_are_no_permutation_are_refused(indexes: list[int | None]) -> None:
    vectors = [f"vector {place}" for place in range(len(indexes))]
    if all(index is None for index in indexes):
        assert in_order("v", vectors, indexes) == vectors
    elif sorted(-1 if i is None else i for i in indexes) == list(range(len(indexes))):
        found = in_order("v", vectors, indexes)
        assert [found[index or 0] for index in indexes] == vectors
    else:
        with pytest.raises(RetryableError, match="v returned vectors with wrong indexes"):
            in_order("v", vectors, indexes)
