"""Data in notes that are no text, and text that looks like them."""

import base64
import hashlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.no_text import KEPT_CHARS, data_in

BYTES = random.Random(5).randbytes(6_000)
BASE64 = base64.b64encode(BYTES).decode()
MIME = base64.encodebytes(BYTES).decode().splitlines()
PEM = ["-----BEGIN CERTIFICATE-----", *MIME[:20], "-----END CERTIFICATE-----"]
SHAPES = [{"id": n, "opacity": 100, "points": [[n, 2.5], [0, -7]]} for n in range(200)]
JSON = json.dumps(SHAPES, indent=2).splitlines()
MINIFIED = "".join(f"function a{n}(b){{return b.c[{n}]?d(b,{n}):null}};" for n in range(99))


def left(*lines: str, drawing: bool = False) -> list[str]:
    """Return the lines that stay, with a text that surrounds them."""
    found, remark = data_in(["before", *lines, "after"], 0, drawing=drawing)
    assert (remark is None) == (not found)
    read = [found.get(n, line) for n, line in enumerate(["before", *lines, "after"])]
    kept = [line for line in read if line is not None]
    assert (kept[0], kept[-1]) == ("before", "after") or drawing
    return kept[1:-1] if not drawing else kept


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([f"![a](data:image/png;base64,{BASE64}) text"], ["![a](data:image/png;base64,…) text"]),
        ([f"key {BASE64} of Ana"], [f"key {BASE64[:KEPT_CHARS]}… of Ana"]),
        (MIME, []),
        (PEM, [PEM[0], PEM[-1]]),
        (["```js", MINIFIED, "```"], ["```js", "```"]),
        (["```json", *JSON, "```"], ["```json", *JSON[:5], "```"]),
        ([json.dumps(SHAPES)], []),
    ],
)
def test_data_are_left_out(lines: list[str], kept: list[str]) -> None:
    assert left(*lines) == kept


def test_a_drawing_is_left_out_and_its_texts_stay() -> None:
    lines = [
        "# Text Elements",
        "boiler ^a1",
        "%%",
        "## Drawing",
        "```compressed-json",
        "N4Kg",
        "```",
    ]
    assert left(*lines, drawing=True) == ["before", "# Text Elements", "boiler ^a1", "%%"]
    assert left(*lines) == lines


URL = "https://example.org/" + "/".join(f"a-long-part-of-a-path/{n}?q=Value{n}" for n in range(60))
DIGESTS = [base64.b64encode(hashlib.sha512(bytes([n])).digest()).decode() for n in range(9)]
TABLE = ["| a | b | c |", "| --- | --- | --- |", *(f"| {n} | {n * n} | x{n} |" for n in range(900))]
SETTINGS = json.dumps({"name": "memo", "deps": ["a", "b"]}, indent=2).splitlines()
HASHES = [hashlib.sha256(bytes([n])).hexdigest() for n in range(200)]


@pytest.mark.parametrize(
    "lines",
    [
        ["今天天气很好,我们去公园散步,吃了冰淇淋。" * 400],
        ["Ein sehr langer Absatz mit Wörtern, wie man ihn schreibt. " * 200],
        [URL],
        HASHES,
        ["".join(HASHES)],
        [f"{name}  file-{n}.bin" for n, name in enumerate(HASHES)],
        [f"sha512-{digest}" for digest in DIGESTS],
        TABLE,
        ["A certificate begins with -----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"],
        ["```json", *SETTINGS, "```"],
        ["[a](http://x/y)" * 300],
        [f'"Quoted line {n} of a long talk," she said again' for n in range(300)],
        [f"- [{n}] item number {n}" for n in range(900)],
        ["x" * 5_000],
        ["def f(x):", "    return {'a': x, 'b': [1, 2, 3]}"] * 400,
        [f"averyLongCamelCaseIdentifierNumber{'OfTheSystem' * 20}"],
        [f"[[2026-03-{n}]]" for n in range(900)],
        [f"91234{n:04}" for n in range(1_500)],
        [f'["{n}", "a"](b)' for n in range(900)],
        ["-----", "=====", "", "> quote"],
    ],
)
def test_text_stays(lines: list[str]) -> None:
    assert left(*lines) == lines


@given(st.lists(st.text(max_size=300), max_size=30), st.booleans())
def test_nothing_fails_and_indices_are_lines(lines: list[str], drawing: bool) -> None:
    found, remark = data_in(lines, 0, drawing=drawing)
    assert all(0 <= number < len(lines) for number in found)
    assert (remark is None) == (not found)
