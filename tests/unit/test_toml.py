"""Parsing of TOML, and messages about its errors."""

import pytest

from memoryd_client.shared import toml


def test_a_document_is_read() -> None:
    data = "[defaults]\nworkspace = '~/Überblick'\na.\"b.c\".d = 1\r\n".encode()
    expected = {"defaults": {"workspace": "~/Überblick", "a": {"b.c": {"d": 1}}}}
    assert toml.loads(data) == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a = ", "not valid TOML: Invalid value"),
        (b"a = '\xff'", "not UTF-8: invalid start byte at byte 5"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"1" * 5_000, "not valid TOML: Exceeds the limit"),
        (b"#" * 2**20 + b"#", "larger than 1 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        toml.loads(data)
