"""TOML of any kind is read, or it is said what is wrong with it, in no time."""

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
        (b"a" + b".a" * 100_000 + b" = 1", "a key has more than 32 parts"),
        (b"[a" + b" . 'a'" * 40 + b"]", "a key has more than 32 parts"),
        (b'"\\""' + b'."\\""' * 40 + b" = 1", "a key has more than 32 parts"),
        (b"#" * 2**20 + b"#", "larger than 1 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_told(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        toml.loads(data)


def test_a_list_of_many_files_is_no_long_key() -> None:
    files = [f"notes/v1.2.{number}.md" for number in range(1_000)]
    assert toml.loads(f"a = {files}".encode()) == {"a": files}
