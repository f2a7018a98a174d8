"""Citations, as results have them and as compilers and editors write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd_client.shared.citation import Citation, read_citation


@pytest.mark.parametrize(
    ("text", "citation"),
    [
        ("memory/a.md#L3-L7", ("memory/a.md", 3, 7)),
        ("memory/a.md#L3", ("memory/a.md", 3, 3)),
        ("a b.md#L3-7", ("a b.md", 3, 7)),
        ("memory/a.md:3-7", ("memory/a.md", 3, 7)),
        ("memory/a.md:3", ("memory/a.md", 3, 3)),
        ("memory/a.md:3:14", ("memory/a.md", 3, 3)),
        ("memory/a.md", None),
        ("memory/a.md#L0", None),
        ("memory/a.md#L7-L3", None),
        ("memory/a.md#heading", None),
        ("#L3", None),
        ("", None),
    ],
)
def test_lines_of_a_path(text: str, citation: Citation | None) -> None:
    assert read_citation(text) == citation


@given(st.text(min_size=1), st.integers(1, 9_999), st.integers(0, 99))
def test_what_results_write_is_read_back(path: str, first: int, more: int) -> None:
    lines = f"#L{first}" + (f"-L{first + more}" if more else "")
    assert read_citation(path + lines) == (path, first, first + more)
