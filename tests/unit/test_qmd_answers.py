"""Readers of QMD's output: whatever it prints, results or one error."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.backends.backend import BackendError
from memoryd.backends.qmd.answers import (
    Counts,
    FoundPlace,
    read_answer,
    read_counts,
    read_printed,
)

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
FOUND = FoundPlace("qmd://notes/a b%20c.md", 42, 0.93)
PRINTED = json.dumps([{"docid": "#a1b2c3", "score": 0.93, "file": FOUND.file, "line": 42}])


@pytest.mark.parametrize(
    "before", ["", "[llama] loading…\n", "\x1b[?25l[1]\n[2/3] half [\n", "[]\n"]
)
@pytest.mark.parametrize("after", ["", "\n", "\nzsh: abort\n[x] bye\n", "\n[]\n"])
def test_noise_around_the_results_is_left_out(before: str, after: str) -> None:
    pretty = json.dumps(json.loads(PRINTED), indent=2)
    assert read_printed(before + PRINTED + after, "noise") == [FOUND]
    assert read_printed(before + pretty + after, "noise") == [FOUND]


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        ("[]", ""),
        ("[]\n", "Warning: 2 documents need embeddings."),
        ("No results found.\n", ""),
        ("", "[qmd] warn: no results found"),
        ("qmd: No results found", ""),
    ],
)
def test_no_results_are_told_from_a_failure(stdout: str, stderr: str) -> None:
    assert read_printed(stdout, stderr) == []


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ("", "", "and nothing else"),
        ("<html>", "", "<html>"),
        ("", "Error: database is locked", "database is locked"),
        ('[{"file": "qmd://cut', "", "cut"),
        ("No results found.\nError", "", "Error"),
        ("[1, 2]", "", "[1, 2]"),
        ("x" * 5_000, "", "x" * 120),
        ("[\n" * 50_000, "", "["),
    ],
)
def test_a_failure_is_told_with_its_output(stdout: str, stderr: str, said: str) -> None:
    with pytest.raises(BackendError, match="qmd printed no results") as raised:
        read_printed(stdout, stderr)
    assert said in raised.value.message


def test_an_answer_has_encoded_paths() -> None:
    body = json.dumps({"results": [{"file": "qmd://notes/a%20b.md", "line": 1, "score": 1}]})
    assert read_answer(body.encode()) == [FoundPlace("qmd://notes/a b.md", 1, 1.0)]


@pytest.mark.parametrize(
    ("found", "place"),
    [
        ({"file": "f", "line": 0, "score": 2}, FoundPlace("f", None, 1.0)),
        ({"file": "f", "line": True, "score": float("nan")}, FoundPlace("f", None, 0.0)),
        ({"file": "f", "line": 1.5, "score": -1}, FoundPlace("f", None, 0.0)),
        ({"file": "f", "line": "3", "score": "x"}, FoundPlace("f", None, 0.0)),
        ({"file": "f", "line": 10**400, "score": 10**400}, FoundPlace("f", None, 1.0)),
    ],
)
def test_odd_numbers_are_dropped(found: dict[str, object], place: FoundPlace) -> None:
    assert read_answer(json.dumps({"results": [found, {"line": 1}, 7]}).encode()) == [place]


def test_counts_are_read_from_the_status() -> None:
    printed = "Documents\n  Total:    1,200 files indexed\n  Vectors:  7 embedded\n  Pending:  2 n"
    assert read_counts(printed) == Counts(1_200, 7)
    assert read_counts("nonsense\n  Total:  , files indexed") == Counts(None, None)


@given(st.text() | ANY_JSON.map(json.dumps), st.text())
def test_any_output_is_results_or_one_error(stdout: str, stderr: str) -> None:
    try:
        places = read_printed(stdout, stderr)
    except BackendError:
        return
    assert all(0 <= place.score <= 1 and (place.line or 1) > 0 for place in places)


@given(st.binary() | ANY_JSON.map(lambda value: json.dumps({"results": value}).encode()))
def test_any_answer_is_results_or_one_error(body: bytes) -> None:
    try:
        places = read_answer(body)
    except BackendError:
        return
    assert all(0 <= place.score <= 1 and (place.line or 1) > 0 for place in places)


def test_qmd_is_imported_only_for_it_and_without_an_http_library() -> None:
    code = """
import sys, memoryd.app, memoryd.pipeline
print(any(name.startswith("memoryd.backends.qmd") for name in sys.modules))
import memoryd.backends.qmd.backend
print({"aiohttp", "http.client", "urllib.request"} & set(sys.modules))
"""
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "set()"]
