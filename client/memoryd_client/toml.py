"""Reads TOML that anybody may have written: all that can be wrong with it is a `ValueError`."""

import re
import tomllib
from typing import Any

MAX_BYTES = 1024 * 1024
_MAX_PARTS = 32
_PART = r"""(?:[\w-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{_MAX_PARTS}}}")
"""What `tomllib` keeps of a key grows with the square of its parts: 100 KB fill any memory."""


def loads(data: bytes) -> dict[str, Any]:
    """Return the document. Raises `ValueError`, whose text says what is wrong."""
    if len(data) > MAX_BYTES:
        raise ValueError("larger than 1 MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    if _LONG_KEY.search(text):
        raise ValueError(f"not valid TOML for us: a key has more than {_MAX_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("not valid TOML for us: it is nested too deeply") from None
    except ValueError as error:  # of a number with thousands of digits, a plain one
        raise ValueError(f"not valid TOML: {error}") from error
