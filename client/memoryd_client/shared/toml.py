"""Reads TOML that anybody may have written: all that can be wrong with it is a `ValueError`."""

import re
import tomllib
from typing import Any

MAX_BYTES = 1024 * 1024
_MAX_PARTS = 32
_PART = re.compile(r"""[\w-]++|"(?:\\.|[^"\\\n])*+"?|'[^'\n]*+'?""")
_KEY = re.compile(
    rf"(?:{_PART.pattern})(?:[ \t]*+\.[ \t]*+(?:{_PART.pattern})){{0,{_MAX_PARTS}}}|[^\w\"'-]++",
    re.ASCII,
)
"""Keys, values that look the same, and what is between them: all of a text, in one pass."""


def loads(data: bytes) -> dict[str, Any]:
    """Return the document. Raises `ValueError`, whose text says what is wrong."""
    if len(data) > MAX_BYTES:
        raise ValueError("larger than 1 MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    # What `tomllib` keeps of a key grows with the square of its parts: 100 KB fill any memory.
    if any(_parts(found[0]) > _MAX_PARTS for found in _KEY.finditer(text)):
        raise ValueError(f"not valid TOML for us: a key has more than {_MAX_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("not valid TOML for us: it is nested too deeply") from None
    except ValueError as error:  # of a number with thousands of digits, a plain one
        raise ValueError(f"not valid TOML: {error}") from error


def _parts(key: str) -> int:
    return len(_PART.findall(key)) if key.count(".") >= _MAX_PARTS else 0
